"""Python snippets in the past: what `backstep probe --python --at PLACE CODE` runs.

    python3 -m backstep.probe [--process N] [--from MOMENT] [--to MOMENT] [--tag] [--json] RECORDING PLACE CODE [PLACE CODE]…

This process reads the state of the recorded program through a session; nothing of it is in the program, so there is nothing
that code here could do to the run. Whenever the run comes to PLACE, the session stands there and CODE is executed. Names in it
that Python does not know are variables of the program, read when the code begins:

    n                   an int, a float, a string, a dict (a structure), a list …
    value("s->name")    any expression that `backstep log` takes
    s                   the session (backstep.Session): s.stack(), s.locals(), s.memory(…), s.registers()
    at, thread, hit     where the run is
    log(x)              one JSON value, a line of --json
    mark("name")        a bookmark
    stop("why")         ends it here
    at_end(f)           f() is called at the end

What the code assigns is there the next time, in all snippets.
"""
import argparse
import builtins
import json
import sys
import traceback
import types
from typing import Any, Callable, Dict, List, Set

import backstep


class Stop(Exception):
    """Ends the run of all snippets."""


def names_of(code: types.CodeType) -> Set[str]:
    """All global names that code mentions, inner functions included."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= names_of(constant)
    return names


class Snippets:
    def __init__(self, session: backstep.Session, tag: bool, as_json: bool):
        self.session, self.tag, self.as_json = session, tag, as_json
        self.failed = False
        self.begun_line = False
        self.hit: Any = None
        self.ends: List[Callable[[], Any]] = []
        self.stopped = ""
        self.end = ""
        self.ours: Dict[str, Any] = {
            "__builtins__": builtins, "__name__": "__probe__", "s": session, "value": session.value, "log": self.log,
            "mark": lambda name: session.bookmark(name, "by debug code"), "stop": self.stop, "stack": session.stack,
            "at_end": self.ends.append, "print": self.print}
        self.scope = dict(self.ours)
        self.unknown: Dict[str, Set[str]] = {}

    def stop(self, why: str = "") -> None:
        raise Stop(why)

    def log(self, what: Any) -> None:
        self.line({"log": what}, json.dumps(what))

    def print(self, *values: Any, sep: str = " ", end: str = "\n", file: Any = None, flush: bool = False) -> None:
        if file not in (None, sys.stdout):
            return builtins.print(*values, sep=sep, end=end, file=file, flush=flush)
        text = (" " if sep is None else sep).join(str(v) for v in values) + ("\n" if end is None else end)
        if self.as_json:
            return self.line({"output": text}, "")
        for part in text.splitlines(True):
            tag = f"{self.hit.at:<26}  {self.hit.thread}  " if self.tag and self.hit and not self.begun_line else ""
            sys.stdout.write(tag + part)
            self.begun_line = not part.endswith("\n")
        return None

    def line(self, what: Dict[str, Any], text: str) -> None:
        if self.as_json:
            where = {"at": self.hit.at, "tick": self.hit.tick, "pc": self.hit.pc, "thread": self.hit.thread} if self.hit else {}
            builtins.print(json.dumps({**where, **what}))
        else:
            self.print(text)

    def add(self, place: str, text: str) -> None:
        title = f"--at {place}"
        code = compile(text, title, "exec")
        wanted = sorted(n for n in names_of(code) if n not in self.ours and not hasattr(builtins, n))
        unknown = self.unknown.setdefault(title, set())

        def run(hit: backstep.Hit) -> bool:
            if hit.at == self.end:  # which does not count
                return True
            self.hit = hit
            self.scope.update(at=hit.at, thread=hit.thread, hit=hit)
            fetched = []
            for name in wanted:
                if name in unknown or (name in self.scope and name not in self.of_program):
                    continue
                try:
                    self.scope[name] = self.session.value(name)
                    fetched.append(name)
                except backstep.Cancelled:
                    raise
                except backstep.Error:
                    unknown.add(name)
            before = {name: self.scope[name] for name in fetched}
            self.of_program = set(fetched)
            try:
                exec(code, self.scope)
            except Stop as end:
                self.stopped = str(end) or "stop"
                return True
            except Exception as error:  # the user's own code: its line is what matters
                self.complain(title, text, error)
            # What the code has assigned is its own from here on.
            self.of_program = {n for n in fetched if self.scope.get(n) is before[n]}
            for name in self.of_program:
                self.scope.pop(name, None)
            self.of_program = set()
            return False

        self.of_program: Set[str] = set()
        self.session.create_event(place, action=run)

    def complain(self, title: str, text: str, error: Exception) -> None:
        self.failed = True
        number = 0
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename == title:
                number = frame.lineno or 0
        sentence = f"{type(error).__name__}: {error}"
        if self.as_json:
            return self.line({"failure": sentence, "code": title, "line": number}, "")
        at = f" (at {self.hit.at}, thread {self.hit.thread})" if self.hit else ""
        sys.stdout.flush()
        builtins.print(f"backstep: {title}:{number}: {sentence}{at}", file=sys.stderr)
        return None

    def finish(self) -> None:
        for end in self.ends:
            try:
                end()
            except Exception as error:
                self.complain("at_end", "", error)


def main() -> int:
    parser = argparse.ArgumentParser(prog="backstep.probe")
    parser.add_argument("--process")
    parser.add_argument("--from", dest="start", default="")
    parser.add_argument("--to", dest="end", default="")
    parser.add_argument("--tag", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("recording")
    parser.add_argument("snippets", nargs="+", metavar="PLACE CODE")
    options = parser.parse_args()
    try:
        with backstep.open(options.recording, process=options.process) as session:
            session.on_note = lambda text: builtins.print(f"backstep: {text}", file=sys.stderr)
            end = session.goto(options.end).at if options.end and options.end != "end" else ""
            session.goto(options.start or "start")
            snippets = Snippets(session, options.tag, options.json)
            for place, code in zip(options.snippets[::2], options.snippets[1::2]):
                try:
                    snippets.add(place, code)
                except SyntaxError as error:
                    builtins.print(f"backstep: --at {place}:{error.lineno}: {error.msg}\n  {(error.text or '').rstrip()}",
                                   file=sys.stderr)
                    return 1
            if end:
                session.create_event(end)
                snippets.end = end
            session.run()
            if snippets.stopped:
                builtins.print(f"backstep: stopped at {session.now().at}: {snippets.stopped}", file=sys.stderr)
            snippets.finish()
            return 1 if snippets.failed else 0
    except backstep.Error as error:
        builtins.print(f"backstep: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
