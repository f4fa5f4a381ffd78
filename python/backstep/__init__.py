"""Ask a recording of Backstep from Python.

    import backstep
    with backstep.open("parser-3") as s:
        print(s.count("call malloc"))
        for hit in s.log("parse.c:42", "n", "s->name"):
            print(hit.at, hit.thread, hit.values["n"])
        s.goto("end")
        for frame in s.stack():
            print(frame.function, frame.file, frame.line)

A session is a process of its own (`backstep session`), which this module starts and talks to (docs/session-protocol.md), so
nothing of the recorded program is ever in yours. What goes wrong is an Error with the sentence that the command line prints.
"""
from __future__ import annotations

import json
import os
import subprocess
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Union

__all__ = ["open", "Session", "Error", "Cancelled", "Moment", "Hit", "Call", "Syscall", "Frame", "Value", "Thread", "Bookmark", "Table", "Event", "Verdict", "Processes"]
__version__ = "0.1.0"

CANCELLED = -32001

# Which processes a question is about: None is that of the session, else their numbers, or "all". A process whose program
# does not know what is asked for is left out. Answers come process by process, in the order in which these were born.
Processes = Union[None, str, List[int]]


class Error(Exception):
    """Something could not be done; the text is a sentence that says why."""

    def __init__(self, message: str, code: int = 0):
        super().__init__(message)
        self.code = code


class Cancelled(Error):
    """What was under way was cancelled."""


@dataclass
class Frame:
    """One function on a stack. `inlined`: it is part of the code of the next one."""

    pc: int
    function: Optional[str] = None
    file: Optional[str] = None
    line: Optional[int] = None
    inlined: bool = False


@dataclass
class Moment:
    """Where the session is, and why it is there."""

    at: str
    tick: int
    pc: int
    thread: int
    tid: int
    event: int = 0
    function: Optional[str] = None
    file: Optional[str] = None
    line: Optional[int] = None
    why: Optional[str] = None
    signal: Optional[int] = None


@dataclass
class Hit:
    """A match of an event. `values` are what the expressions were there, `texts` the same as people read them; `process` and
    `pid`: of which process, if several were asked."""

    at: str
    tick: int
    pc: int
    thread: int
    values: Dict[str, Any]
    texts: Dict[str, str]
    stack: List[Frame] = field(default_factory=list)
    stack_complete: bool = True
    process: Optional[int] = None
    pid: Optional[int] = None
    function: Optional[str] = None  # of query(): where it is
    file: Optional[str] = None
    line: Optional[int] = None


@dataclass
class Verdict:
    """What became of an assertion. `checks`: how often there was something to look at; `first`: the first violation, a
    dictionary with `at`, `thread`, `function`, `file`, `line`, `words` and `values`."""

    assertion: str
    line: int
    holds: bool
    checks: int
    violations: int
    failures: int = 0
    first: Optional[Dict[str, Any]] = None


@dataclass
class Call:
    """One call of a function. `end`: 'returned', 'jumped' (a tail call) or 'unknown'; `ticks`: how long it took; `tree`: what
    it called, as dictionaries with `function`, `count`, `ticks` and `calls`, if that was asked for."""

    at: str
    tick: int
    thread: int
    function: str
    args: List[Dict[str, Any]]
    ret: Any
    end: str
    caller: Frame
    left: Optional[str] = None
    ticks: Optional[int] = None
    tree: Optional[List[Dict[str, Any]]] = None
    process: Optional[int] = None
    pid: Optional[int] = None


@dataclass
class Syscall:
    """One system call. `args`: its arguments by their names in the table; `raw`: as they were in the registers (None: not in
    the log); `ret`: -1 if it failed, then `error` has the name and `errno` the number; `text`: as strace would show it."""

    at: str
    tick: int
    event: int
    process: int
    pid: int
    thread: int
    name: str
    nr: int
    args: Dict[str, Any]
    raw: List[Optional[int]]
    ret: Optional[int]
    text: str
    error: Optional[str] = None
    errno: Optional[int] = None
    inexact: bool = False
    denied: bool = False


@dataclass
class Value:
    """What an expression is at the current time; `why`: it has no value, and this is the reason."""

    expression: str
    text: str
    value: Any
    type: Optional[str] = None
    why: Optional[str] = None


@dataclass
class Thread:
    thread: int
    tid: int
    has_turn: bool
    in_call: bool
    pc: int


@dataclass
class Bookmark:
    """A moment with a name, which is kept in the recording; goto() takes the name."""

    name: str
    at: str
    process: int
    note: str = ""


@dataclass
class Checkpoint:
    """A moment that the session can return to at once, with restart(); gone when the session is closed."""

    checkpoint: int
    at: str
    tick: int
    note: str = ""


@dataclass
class Table:
    """The answer to a query: names of columns, and rows of numbers, texts and None. `complete`: there were no more rows."""

    columns: List[str]
    rows: List[List[Any]]
    complete: bool = True

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        """Each row by the names of its columns."""
        return (dict(zip(self.columns, row)) for row in self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def _make(kind: type, data: Dict[str, Any]) -> Any:
    """An object of what the answer has; what a newer program says in addition is left out."""
    known = kind.__dataclass_fields__  # type: ignore[attr-defined]
    return kind(**{k: v for k, v in data.items() if k in known})


def _hit(data: Dict[str, Any]) -> Hit:
    return _make(Hit, {**data, "stack": [_make(Frame, f) for f in data.get("stack", [])]})


def open(recording: str = "", process: Optional[str] = None, program: Optional[str] = None) -> "Session":
    """A session with a recording: a name, a path, or the latest one. `program`: the backstep to use ($BACKSTEP, or that of
    the search path)."""
    return Session(recording, process, program)


@dataclass
class Event:
    """An event that stays in its session: Session.create_event()."""
    session: "Session" = field(repr=False)
    event_id: int
    spec: str
    action: Union[None, str, Callable[[Hit], Any]] = field(default=None, repr=False)
    hits: List[Hit] = field(default_factory=list, repr=False)  # of one whose action is "log"

    def install(self) -> None:
        self.session.install(self)

    def uninstall(self) -> None:
        self.session.uninstall(self)

    def destroy(self) -> None:
        self.session.destroy(self)

    def state(self) -> Dict[str, Any]:
        """`installed`, `spent`, `matches` up to the current time, `times`."""
        return next(e for e in self.session.events() if e["event_id"] == self.event_id)


class Session:
    """A recording that is being asked, at one moment of its history. Use it in a `with`, or close() it."""

    def __init__(self, recording: str = "", process: Optional[str] = None, program: Optional[str] = None):
        command = [program or os.environ.get("BACKSTEP") or "backstep", "session"]
        if process is not None:
            command += ["-p", str(process)]
        if recording:
            command.append(recording)
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=subprocess.PIPE, text=True, encoding="utf-8", bufsize=1)
        except FileNotFoundError:
            raise Error(f"there is no program '{command[0]}': install Backstep, or set BACKSTEP to its path") from None
        self._next = 0
        self._sending = threading.Lock()
        self._under_way: Optional[int] = None  # the request that the session is answering
        self._waiting: Deque[Dict[str, Any]] = deque()  # what it has said of that, and nobody has looked at yet
        self.on_progress: Optional[Callable[[float], None]] = None
        self.on_note: Optional[Callable[[str], None]] = None
        self.on_debug: Optional[Callable[[Dict[str, Any]], None]] = None
        self._events: Dict[int, Event] = {}
        self.version = self.ask("version")["version"]

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Ends the session; its process is gone then."""
        if self._process.poll() is None and self._process.stdin:
            try:
                self._process.stdin.close()
            except OSError:
                pass
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream:
                stream.close()

    # --- the protocol ---

    def _send(self, message: Dict[str, Any]) -> None:
        assert self._process.stdin
        try:
            with self._sending:
                self._process.stdin.write(json.dumps(message) + "\n")
                self._process.stdin.flush()
        except (OSError, ValueError):
            self._gone()

    def _gone(self) -> None:
        said = ""
        if self._process.stderr and not self._process.stderr.closed:
            self._process.wait()
            said = self._process.stderr.read().strip()
        if said.startswith("backstep: "):
            said = said[len("backstep: "):]
        raise Error(said or "the session has ended")

    def _receive(self) -> Dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            self._gone()
        return json.loads(line)

    def _take(self) -> None:
        """One message more of the request under way."""
        message = self._receive()
        self._waiting.append(message)
        if "method" not in message and message.get("id") == self._under_way:
            self._under_way = None

    def _stream(self, method: str, params: Dict[str, Any], kind: str) -> Iterator[Dict[str, Any]]:
        """Notifications of this kind that belong to the request; its result is the generator's. A session answers one
        request after the other, so what is left of the one under way is read first, and kept for whoever asked it."""
        while self._under_way is not None:
            self._take()
        self._next += 1
        request = self._under_way = self._next
        waiting = self._waiting = deque()
        self._send({"jsonrpc": "2.0", "id": request, "method": method,
                    "params": {k: v for k, v in params.items() if v is not None}})
        try:
            while True:
                if not waiting:
                    self._take()
                message = waiting.popleft()
                if "method" in message:
                    if message["params"].get("id") != request:
                        continue
                    if message["method"] == kind:
                        yield message["params"]
                    elif message["method"] == "progress" and self.on_progress:
                        self.on_progress(message["params"]["done"])
                    elif message["method"] == "debug" and self.on_debug:
                        self.on_debug(message["params"])
                    elif message["method"] == "note" and self.on_note:
                        self.on_note(message["params"]["text"])
                elif message.get("id") == request:
                    if "error" in message:
                        error = message["error"]
                        raise (Cancelled if error["code"] == CANCELLED else Error)(error["message"], error["code"])
                    return message["result"]
        finally:
            if self._under_way == request and self._process.poll() is None:  # whoever asked does not want the rest
                self._send({"jsonrpc": "2.0", "method": "cancel", "params": {"id": request}})

    def ask(self, method: str, **params: Any) -> Any:
        """Any method of the protocol, by its name."""
        stream = self._stream(method, params, "")
        while True:
            try:
                next(stream)
            except StopIteration as end:
                return end.value

    def methods(self) -> List[str]:
        """The names of all methods of the protocol."""
        return self.ask("methods")

    def cancel(self) -> None:
        """Ends what is under way, which then raises Cancelled; whatever it has given before counts. Without anything under
        way it does nothing. Any thread may call it, and so may on_progress."""
        request = self._under_way
        if request is not None:
            self._send({"jsonrpc": "2.0", "method": "cancel", "params": {"id": request}})

    # --- about the recording ---

    def info(self) -> Dict[str, Any]:
        return self.ask("info")

    def processes(self) -> List[Dict[str, Any]]:
        return self.ask("processes")

    def use_process(self, process: int) -> Dict[str, Any]:
        """From now on the session is about this process (its number in processes()), at its beginning."""
        return self.ask("process", process=process)

    # --- questions about the run ---

    def count(self, *specs: str, start: Optional[str] = None, end: Optional[str] = None, processes: Processes = None) -> Any:
        """How often an event matches; of several, a list."""
        counts = [c["count"] for c in self.ask("count", specs=list(specs), processes=processes, **{"from": start, "to": end})]
        return counts[0] if len(specs) == 1 else counts

    def count_by_process(self, spec: str, start: Optional[str] = None, end: Optional[str] = None,
                         processes: Processes = "all") -> List[Dict[str, Any]]:
        """How often an event matches in each process that knows it: `process`, `pid`, `count`."""
        return self.ask("count", specs=[spec], processes=processes, **{"from": start, "to": end})[0]["processes"]

    def log(self, spec: str, *values: str, stack: bool = False, limit: Optional[int] = None, last: Optional[int] = None,
            start: Optional[str] = None, end: Optional[str] = None, processes: Processes = None) -> Iterator[Hit]:
        """Each match of an event in the order of time, with the values of expressions there; the first `limit` or `last` ones
        (of each process)."""
        params = {"spec": spec, "values": list(values), "stack": stack, "limit": limit, "last": last, "from": start, "to": end,
                  "processes": processes}
        stream = self._stream("log", params, "hit")
        try:
            for hit in stream:
                yield _hit(hit)
        finally:
            stream.close()  # type: ignore[attr-defined]

    def calls(self, function: str, limit: Optional[int] = None, start: Optional[str] = None,
              end: Optional[str] = None, tree: bool = False, depth: Optional[int] = None,
              system: bool = False, processes: Processes = None) -> Iterator[Call]:
        """Every call of a function, in the order in which they began. `tree`: with what they called, `depth` below each other;
        `system`: what the system's libraries call among themselves, too."""
        params = {"function": function, "limit": limit, "from": start, "to": end, "tree": tree, "depth": depth,
                  "system": system, "processes": processes}
        stream = self._stream("calls", params, "call")
        try:
            for call in stream:
                call["caller"] = _make(Frame, call["caller"])
                yield _make(Call, call)
        finally:
            stream.close()  # type: ignore[attr-defined]

    def syscalls(self, filter: str = "", failed: bool = False, limit: Optional[int] = None, last: Optional[int] = None,
                 start: Optional[str] = None, end: Optional[str] = None, strings: Optional[int] = None,
                 processes: Processes = None) -> Iterator[Syscall]:
        """The system calls, from the log alone: "write if ret < 0". `strings`: bytes of each text, at most (4096)."""
        params = {"filter": filter, "failed": failed, "limit": limit, "last": last, "from": start, "to": end,
                  "strings": strings, "processes": processes}
        stream = self._stream("syscalls", params, "syscall")
        try:
            for call in stream:
                yield _make(Syscall, call)
        finally:
            stream.close()  # type: ignore[attr-defined]

    def syscall_totals(self, filter: str = "", failed: bool = False, start: Optional[str] = None,
                       end: Optional[str] = None, processes: Processes = None) -> List[Dict[str, Any]]:
        """Of each system call, the most frequent first: `name`, `calls`, `errors`, `bytes`, `by_error`."""
        return self.ask("syscalls", filter=filter, failed=failed, summary=True, processes=processes,
                        **{"from": start, "to": end})["totals"]

    def profile(self, period: int = 100_000, lines: bool = False, start: Optional[str] = None,
                end: Optional[str] = None, processes: Processes = None, instructions: bool = False) -> Dict[str, Any]:
        """Where the ticks went, by stacks; with `instructions`: how many each function executed."""
        return self.ask("profile", period=period, lines=lines, instructions=instructions, processes=processes,
                        **{"from": start, "to": end})

    def coverage(self, system: bool = False, start: Optional[str] = None, end: Optional[str] = None,
                 processes: Processes = None) -> List[Dict[str, Any]]:
        return self.ask("coverage", system=system, processes=processes, **{"from": start, "to": end})

    def check(self, assertions: str, start: Optional[str] = None, end: Optional[str] = None,
              processes: Processes = None) -> List[Verdict]:
        """Whether assertions hold: one on each line, or behind each `;` (docs/query.md)."""
        return [_make(Verdict, v) for v in self.ask("assert", assertions=assertions, processes=processes,
                                                    **{"from": start, "to": end})]

    def why(self, expression: str, at: Optional[str] = None, tid: Optional[int] = None, frame: Optional[int] = None,
            depth: Optional[int] = None, width: Optional[int] = None, limit: Optional[int] = None,
            addresses: bool = False, copies: bool = False) -> Dict[str, Any]:
        """Where a value came from, at a moment or now (docs/why.md)."""
        return self.ask("why", expression=expression, at=at, tid=tid, frame=frame, depth=depth, width=width,
                        limit=limit, addresses=addresses, copies=copies)

    def diff(self, other: str, exact: bool = False) -> Dict[str, Any]:
        """Where this recording and another one of the same program part (docs/why.md)."""
        return self.ask("diff", other=other, exact=exact)

    def allocs(self, leaks: bool = True, errors: bool = False, frees: bool = False, uninitialised: bool = False,
               end: Optional[str] = None) -> Dict[str, Any]:
        """The heap at the end of the run, or at the moment `end`: what was not freed, and (`errors`) what was done wrong
        with it; `frees`: only what was freed wrongly; `uninitialised`: `errors` and loads of what nobody has written."""
        return self.ask("allocs", leaks=leaks, errors=errors, frees=frees, uninitialised=uninitialised, to=end)

    def races(self, start: Optional[str] = None, end: Optional[str] = None) -> List[Dict[str, Any]]:
        """Accesses of two threads that nothing orders, one for each pair of lines."""
        return self.ask("races", **{"from": start, "to": end})

    def sql(self, query: str, limit: Optional[int] = None) -> Table:
        """SQL over the recorded history (docs/sql.md): `limit` rows at most, or 10,000."""
        return _make(Table, self.ask("sql", query=query, limit=limit))

    # --- movement ---

    def now(self) -> Moment:
        return _make(Moment, self.ask("now"))

    def goto(self, moment: str) -> Moment:
        """start, end, a tick, @TICK:0xPC, 50%, 14:03:22, event 106, a bookmark."""
        return _make(Moment, self.ask("goto", to=moment))

    def forward(self, *events: str) -> Moment:
        """To the next match of one of the events, or the end."""
        return _make(Moment, self.ask("forward", events=list(events)))

    def backward(self, *events: str) -> Moment:
        """To the last match before now of one of the events, or the start."""
        return _make(Moment, self.ask("backward", events=list(events)))

    def query(self, query: str, *values: str, stack: bool = False, move: bool = True) -> Optional[Hit]:
        """To where something happens for the n-th time: "goto current backward store 2 where addr=&total" (docs/query.md).
        None: there is no such moment, and the session stays where it is."""
        answer = self.ask("query", query=query, values=list(values), stack=stack, move=move)
        if not answer["found"]:
            return None
        hit = answer["hit"]
        hit["stack"] = [_make(Frame, f) for f in hit.get("stack", [])]
        return _make(Hit, hit)

    def step(self, count: int = 1, back: bool = False, tid: Optional[int] = None, by: str = "instruction") -> Moment:
        """Instructions of a thread, forwards or backwards; or by "line" (into functions), "over" (to another line of this
        function), "out" (to the caller) or "quantum" (to another tick)."""
        return _make(Moment, self.ask("step", by=by, count=count, back=back, tid=tid))

    # --- events that stay ---

    def create_event(self, spec: str, *values: str, action: Union[None, str, Callable[[Hit], Any]] = None, times: int = 0,
                     stack: bool = False, install: bool = True) -> Event:
        """An event for run(): without an action it stops there; a function is called with each match, at its moment, may ask
        the session whatever it likes, install other events, and stops the run by returning something true; "log" only
        adds to the event's `hits`, "count" only counts. `times`: it is spent after so many matches, and lives again when
        time goes back before them."""
        kind = action if isinstance(action, str) else "stop"
        answer = self.ask("create_event", spec=spec, values=list(values), action=kind, times=times, stack=stack, install=install)
        event = Event(self, answer["event_id"], spec, action)
        self._events[event.event_id] = event
        return event

    def install(self, event: Event) -> None:
        self.ask("install", event_id=event.event_id)

    def uninstall(self, event: Event) -> None:
        self.ask("uninstall", event_id=event.event_id)

    def destroy(self, event: Event) -> None:
        self.ask("destroy", event_id=event.event_id)
        self._events.pop(event.event_id, None)

    def events(self) -> List[Dict[str, Any]]:
        """The events that were created: `event_id`, `spec`, `installed`, `spent`, `matches`, `times`."""
        return self.ask("events")

    def run(self, back: bool = False) -> Moment:
        """Goes on, forwards or backwards, with all installed events, until one of them stops or the run is over. If several
        match at one moment, all get their action."""
        while True:
            stream = self._stream("run", {"back": back}, "hit")
            try:
                while True:
                    logged = next(stream)
                    self._events[logged["event_id"]].hits.append(_hit(logged))
            except StopIteration as end:
                answer = end.value
            finally:
                stream.close()  # type: ignore[attr-defined]
            stops = not answer["matches"]
            for match in answer["matches"]:
                event = self._events.get(match["event_id"])
                if event is None:  # destroyed by an action just now
                    continue
                if event.action is None or event.action(_hit(match)):  # type: ignore[operator]
                    stops = True
            if stops:
                return _make(Moment, answer)

    # --- debug code: C and C++ of yours, inside of the recorded run ---

    def probe(self, *sources: str, at: Optional[Dict[str, str]] = None, flags: Optional[List[str]] = None,
              parallel: bool = False, start: Optional[str] = None, end: Optional[str] = None) -> Iterator[Dict[str, Any]]:
        """Runs debug code over the run: snippets (`at`: code by place) and debug regions in sources. What it says, in the
        order of time: `at`, `tick`, `pc`, `thread`, and `output`, `errors`, `log`, `mark`, `stop` or `failure`. The session
        does not move."""
        params = {"at": [{"place": p, "code": c} for p, c in (at or {}).items()], "sources": list(sources),
                  "flags": flags, "parallel": parallel, "from": start, "to": end}
        stream = self._stream("probe", params, "debug")
        try:
            yield from stream
        finally:
            stream.close()  # type: ignore[attr-defined]

    def debug(self, *sources: str, at: Optional[Dict[str, str]] = None, flags: Optional[List[str]] = None,
              keep: bool = False) -> List[Dict[str, Any]]:
        """Debug code that runs along from now on, whenever the session goes forward (forward, step, run); what it says is
        told to `on_debug`. Its variables go back in time with the session, unless it is told to `keep` them. Without code:
        there is none any more. The places in the program where it is called."""
        return self.ask("debug", at=[{"place": p, "code": c} for p, c in (at or {}).items()], sources=list(sources),
                        flags=flags, keep=keep)["places"]

    # --- bookmarks ---

    def bookmark(self, name: str, note: str = "") -> Bookmark:
        """Keeps the current time under a name, in the recording; a name that is there already gets this moment."""
        return _make(Bookmark, self.ask("bookmark", name=name, note=note))

    def bookmarks(self) -> List[Bookmark]:
        return [_make(Bookmark, b) for b in self.ask("bookmarks")]

    def remove_bookmark(self, name: str) -> None:
        self.ask("remove_bookmark", name=name)

    # --- checkpoints ---

    def checkpoint(self, note: str = "") -> Checkpoint:
        """Keeps the current time, to return to it at once as long as the session lasts."""
        return _make(Checkpoint, self.ask("checkpoint", note=note))

    def checkpoints(self) -> List[Checkpoint]:
        return [_make(Checkpoint, c) for c in self.ask("checkpoints")]

    def restart(self, checkpoint: Union[int, Checkpoint]) -> Moment:
        """Back (or forwards) to a checkpoint."""
        number = checkpoint.checkpoint if isinstance(checkpoint, Checkpoint) else checkpoint
        return _make(Moment, self.ask("restart", checkpoint=number))

    def remove_checkpoint(self, checkpoint: Union[int, Checkpoint]) -> None:
        number = checkpoint.checkpoint if isinstance(checkpoint, Checkpoint) else checkpoint
        self.ask("remove_checkpoint", checkpoint=number)

    # --- the state at the current time ---

    def stack(self, tid: Optional[int] = None) -> List[Frame]:
        return [_make(Frame, f) for f in self.ask("stack", tid=tid)["frames"]]

    def value(self, expression: str, frame: int = 0, tid: Optional[int] = None) -> Any:
        """What an expression is; None if it has no value here (explain() says why)."""
        return self.explain(expression, frame, tid).value

    def explain(self, expression: str, frame: int = 0, tid: Optional[int] = None) -> Value:
        return _make(Value, self.ask("value", expression=expression, frame=frame, tid=tid))

    def locals(self, frame: int = 0, tid: Optional[int] = None) -> List[Value]:
        return [_make(Value, v) for v in self.ask("locals", frame=frame, tid=tid)]

    def threads(self) -> List[Thread]:
        return [_make(Thread, t) for t in self.ask("threads")]

    def registers(self, tid: Optional[int] = None) -> Dict[str, int]:
        return self.ask("registers", tid=tid)

    def memory(self, address: int, size: int) -> bytes:
        """As many bytes as can be read."""
        return bytes.fromhex(self.ask("memory", address=address, size=size)["bytes"])
