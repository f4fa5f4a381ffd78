// Commands and helpers of ours for gdb: first in gdb's own language, for a gdb without Python, then better
// ones in Python.
#include "serve/gdb_script.h"

namespace backstep::serve {

// gdb commands of ours. `goto` & co. move the server and then take a step that does not move: gdb learns by
// its stop where it is.
const std::string_view kGdbScript = R"GDB(
set confirm off
define backstep-connect
  target extended-remote $arg0
end
document backstep-connect
Backstep: connects gdb with the replay, at the start of a session.
end
define goto
  if $argc == 1
    monitor --next goto $arg0
  end
  if $argc == 2
    monitor --next goto $arg0 $arg1
  end
  if $argc == 3
    monitor --next goto $arg0 $arg1 $arg2
  end
  if $argc == 0 || $argc > 3
    echo goto @TICK[:0xPC] | event N | start | end | N% | output TEXT | input TEXT | TIME | next KIND | previous KIND | BOOKMARK\n    echo queries (goto current backward store where addr=&x) go with `monitor goto` in a gdb without Python\n
  else
    stepi
  end
end
document goto
Go to any moment of the recording: @TICK:0xPC, @TICK, event N, start, end, N%, output TEXT, input TEXT, or a bookmark.
end
define when
  monitor when
end
document when
Print the present: control point, event, share of the run.
end
define last-write
  if $argc == 1
    eval "monitor --next last-write %lu %lu", (unsigned long)&($arg0), (unsigned long)sizeof($arg0)
    stepi
    backtrace
  else
    echo last-write EXPRESSION: a variable or other lvalue, without spaces\n
  end
end
document last-write
Go back to the last write to an expression's memory, whether it changed that or not: last-write EXPRESSION.
end
define last-change
  if $argc == 1
    eval "monitor --next last-change %lu %lu", (unsigned long)&($arg0), (unsigned long)sizeof($arg0)
    stepi
    backtrace
  else
    echo last-change EXPRESSION: a variable or other lvalue, without spaces\n
  end
end
document last-change
Go back to the last change of an expression's value: last-change EXPRESSION.
end
define checkpoint
  if $argc == 0
    monitor checkpoint
  else
    monitor checkpoint $arg0
  end
end
document checkpoint
Keep the present moment; `restart N` returns to it at once, `info checkpoints` lists them.
end
define info-checkpoints
  monitor checkpoints
end
document info-checkpoints
List the checkpoints.
end
define restart
  if $argc == 1
    monitor --next restart $arg0
    stepi
  else
    echo restart N: the number of a checkpoint\n
  end
end
document restart
Return to a checkpoint: restart N.
end
define bookmark
  if $argc == 1
    monitor bookmark $arg0
  else
    echo bookmark NAME\n
  end
end
document bookmark
Keep the present moment under a name, in the recording: bookmark NAME. `goto NAME` returns to it.
end
define process
  if $argc == 0
    monitor process
  end
  if $argc == 1
    monitor process $arg0
  end
  if $argc == 2
    monitor process $arg0 $arg1
  end
end
document process
List the processes of the recording, or choose one: process #N|PID [start|end].
end
define bookmarks
  monitor bookmarks
end
document bookmarks
List the bookmarks of the recording.
end
define backstep
  help backstep
end
document backstep
Backstep: a recorded run, in which all of gdb's commands go in both directions.

reverse-continue, reverse-step, reverse-next, reverse-finish   back, also to breakpoints and watchpoints
goto MOMENT                 @TICK:0xPC, event N, start, end, 50%, output TEXT, input TEXT, next signal, a bookmark ...
last-write X, last-change X  back to the store that made X what it is
why X                       where the value of X came from
when                        which moment this is
count EVENT, log EVENT TEXT  of the whole run
checkpoint, restart N, bookmark NAME, bookmarks   moments to come back to
process                     the processes of the recording
monitor help                all of it; each of these has a `help` of its own
end
define hook-quit
  set confirm off
end
document hook-quit
Backstep: a recording is there again tomorrow, so nothing is asked.
end
python
import gdb
import re

class BackstepMove(gdb.Command):
    """As the commands above; in addition gdb looks at which libraries there are at that moment."""

    def __init__(self, name, text, line):
        self.__doc__ = text + "\nA command of Backstep: see `help backstep`."
        self.line = line
        super().__init__(name, gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        backstep_needs_process()
        gdb.write(backstep_try(self.line(argument)))
        if backstep_moved():
            backstep_settle()

def backstep_try(line):
    """What the server says to a command that may move; if it has moved gdb is to learn of it by backstep_settle()."""
    return gdb.execute("monitor --try " + line, False, True)

def backstep_moved():
    return gdb.execute("monitor moved?", False, True).strip() == "yes"

class BackstepConnect(gdb.Command):
    """Connects gdb with the replay, at the start of a session: without gdb's own words about that, which are many.
A command of Backstep: see `help backstep`."""

    def __init__(self):
        super().__init__("backstep-connect", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        import os
        log = os.memfd_create("backstep-gdb-said")
        # Not by a string, nor by `set logging`: neither has what is printed at a stop.
        gdb.flush(gdb.STDOUT)
        gdb.flush(gdb.STDERR)
        kept = [os.dup(1), os.dup(2)]
        os.dup2(log, 1)
        os.dup2(log, 2)
        try:
            gdb.execute("target extended-remote " + argument)
        finally:
            gdb.flush(gdb.STDOUT)
            gdb.flush(gdb.STDERR)
            for number, copy in enumerate(kept, 1):
                os.dup2(copy, number)
                os.close(copy)
            os.lseek(log, 0, os.SEEK_SET)
            with open(log, errors="replace") as said:
                for line in said:
                    if line.startswith(("warning:", "backstep:")) and "transfers from remote targets" not in line:
                        gdb.write(line)

BackstepConnect()

def backstep_needs_process():
    if not gdb.selected_inferior().pid:
        raise gdb.GdbError("no process of the recording is attached; `process` lists them, `process #1`, `attach PID` or `run` shows one")

def backstep_settle(libraries=True):
    """gdb sees where the server has gone to: by a step that does not move."""
    for quiet in ("maintenance flush register-cache", "maintenance flush dcache") + ("sharedlibrary",) * libraries:
        gdb.execute(quiet, False, True)
    backstep_refresh_watches()
    gdb.execute("stepi")

def backstep_refresh_watches():
    """gdb compares a watched expression with the value that it had at the last stop. Where we have moved it is another one,
    which gdb reads when the watchpoint is enabled anew. (One on a local variable whose frame is not there gdb deletes with
    its next step in any case.)"""
    kinds = gdb.BP_WATCHPOINT, gdb.BP_HARDWARE_WATCHPOINT, gdb.BP_READ_WATCHPOINT, gdb.BP_ACCESS_WATCHPOINT
    for point in gdb.breakpoints():
        if point.is_valid() and point.type in kinds and point.enabled:
            try:
                point.enabled = False
                point.enabled = True
            except gdb.error as error:
                gdb.write("backstep: watchpoint %d: %s\n" % (point.number, error))

def backstep_changed(event):
    """The user has changed memory or registers: that is in a copy, and the server says so."""
    gdb.execute("monitor changed")

def backstep_stopped(event):
    """The user sees a stop: a Ctrl-C from before it is not meant for what comes next. (gdb goes on by itself from many
    stops that the user never sees; there it is.)"""
    try:
        gdb.execute("monitor stopped", False, True)
    except gdb.error:
        pass
    # Other threads have gone on as they did, and gdb was not told of what they changed.
    if gdb.parameter("scheduler-locking") in ("on", "step"):
        backstep_refresh_watches()

gdb.events.stop.connect(backstep_stopped)
gdb.events.memory_changed.connect(backstep_changed)
gdb.events.register_changed.connect(backstep_changed)

class BackstepConditions:
    """Conditions of watchpoints go to the replaying process, if they can be evaluated there: then the many changes that
    do not matter cost no stop. gdb still evaluates its own at those that are left. Breakpoints need no help: the
    protocol has conditions for them."""

    OPERATIONS = {name: (code, size) for code, size, names in (
        (0x02, 0, "add sub mul div_signed div_unsigned rem_signed rem_unsigned lsh rsh_signed rsh_unsigned"),
        (0x0e, 0, "log_not bit_and bit_or bit_xor bit_not equal less_signed less_unsigned"),
        (0x16, 1, "ext"), (0x17, 0, "ref8 ref16 ref32 ref64"), (0x20, 2, "if_goto goto"), (0x22, 1, "const8"),
        (0x23, 2, "const16"), (0x24, 4, "const32"), (0x25, 8, "const64"), (0x27, 0, "end dup pop"),
        (0x2a, 1, "zero_ext"), (0x2b, 0, "swap"), (0x32, 1, "pick"), (0x33, 0, "rot"))
        for code, name in enumerate(names.split(), code)}

    def __init__(self):
        self.compiled = {}  # (number, condition) -> bytecode, None: only gdb can
        self.sent = {}  # (address, length) -> bytecodes
        self.sending = False
        for event in (gdb.events.breakpoint_created, gdb.events.breakpoint_modified, gdb.events.breakpoint_deleted):
            event.connect(self.changed)

    def compile(self, condition):
        code = b""
        for line in gdb.execute("maintenance agent-eval " + condition, False, True).splitlines():
            words = line.split()
            if len(words) < 2 or not words[0].isdigit():
                continue
            if int(words[0]) != len(code) or words[1] not in self.OPERATIONS:
                return None  # registers: they would be those of some frame
            number, size = self.OPERATIONS[words[1]]
            code += bytes([number])
            if size:
                code += (int(words[2]) & (1 << 8 * size) - 1).to_bytes(size, "big")
        return code.hex() or None

    def of(self, point):
        """(address, length), bytecode or None."""
        place = gdb.parse_and_eval("&(" + point.expression.removeprefix("-location ") + ")")
        key = (point.number, point.condition)
        if point.condition and key not in self.compiled:
            try:
                self.compiled[key] = self.compile(point.condition)
            except gdb.error:
                self.compiled[key] = None
        return (int(place), place.dereference().type.sizeof), self.compiled.get(key)

    def changed(self, point):
        kinds = gdb.BP_HARDWARE_WATCHPOINT, gdb.BP_READ_WATCHPOINT, gdb.BP_ACCESS_WATCHPOINT
        if point.type not in kinds:
            return
        wanted = {}
        for other in gdb.breakpoints():
            if other.type not in kinds or not other.is_valid() or not other.enabled:
                continue
            try:
                place, code = self.of(other)
            except (gdb.error, AttributeError):
                continue
            wanted.setdefault(place, []).append(code)
        wanted = {place: codes for place, codes in wanted.items() if None not in codes}
        for place in set(self.sent) - set(wanted):
            wanted[place] = []
        for place, codes in wanted.items():
            if self.sent.get(place, []) != codes:
                self.sending = True
                try:
                    gdb.execute("monitor watch-condition %x %x %s" % (*place, " ".join(codes)), False, True)
                except gdb.error:
                    return
                finally:
                    self.sending = False
                self.sent[place] = codes

backstep_conditions = BackstepConditions()

def backstep_watched(point):
    """A watchpoint through a pointer that is bad is silent in gdb."""
    if point.type not in (gdb.BP_HARDWARE_WATCHPOINT, gdb.BP_READ_WATCHPOINT, gdb.BP_ACCESS_WATCHPOINT):
        return
    try:
        gdb.parse_and_eval(point.expression.replace("-location ", "", 1)).fetch_lazy()
    except gdb.MemoryError as error:
        gdb.write("backstep: watchpoint %d: %s now; it is met if there is memory at some time, and it changes\n"
                  % (point.number, str(error).lower()))
    except gdb.error:
        pass

gdb.events.breakpoint_created.connect(backstep_watched)

class BackstepLast(gdb.Command):
    """Who wrote there last: the thread, the line, the stack; and what, in the variable's type."""

    def __init__(self, name, what, text):
        self.__doc__ = text + "\nA command of Backstep: see `help backstep`."
        self.name = name
        self.what = what
        super().__init__(name, gdb.COMMAND_RUNNING)

    def value(self, place):
        try:
            return place.dereference().format_string()
        except gdb.error as error:
            return "(%s)" % error

    def invoke(self, argument, from_tty):
        if not argument:
            raise gdb.GdbError(self.name + " EXPRESSION: a variable or another expression with a place in memory")
        backstep_needs_process()
        try:
            place = gdb.parse_and_eval("&(" + argument + ")")
            size = place.dereference().type.sizeof
        except gdb.error as error:
            raise gdb.GdbError("%s %s: %s (it takes a variable or another expression with a place in memory)" %
                               (self.name, argument, error))
        after = self.value(place)
        text = backstep_try("%s %d %d" % (self.name, int(place), size))
        found = re.match(r"last .* at (@\S+), in front of the (.*) that made it", text)
        if not found:
            gdb.write(text)
            if backstep_moved():
                backstep_settle()
            return
        backstep_settle()
        thread = gdb.selected_thread()
        frame = gdb.selected_frame()
        line = frame.find_sal()
        where = frame.name() or "??"
        if line.symtab:
            where += " (%s:%d)" % (line.symtab.filename, line.line)
        gdb.write('last %s of %s: thread %d "%s" in %s\n' % (self.what, argument, thread.num, thread.name, where))
        gdb.write("  at %s, in front of the %s that made it\n" % found.groups())
        gdb.write("  before: %s\n  after:  %s\n" % (self.value(place), after))
        gdb.execute("backtrace")

BackstepMove("goto", "Go to any moment of the recording:\n"
             "@TICK:0xPC, @TICK, event N, start, end, N%, output TEXT, input TEXT, a time of the day (14:03:22.5),\n"
             "a time from the start on (+1.5s), next KIND, previous KIND (signal, fork, exec, thread, turn,\n"
             "output, call NAME, quantum), or the name of a bookmark; or where something happens for the n-th time:\n"
             "goto current|first|last forward|backward func_enter|func_exit|block_entry|line|store|load|syscall|signal\n"
             "[COUNT] [where CONDITION], as in: goto current backward store 2 where addr=&total and func=<parse>.",
             lambda argument: "goto " + argument)
BackstepMove("step-quantum", "To the start of the next quantum (all that is executed during one tick).",
             lambda argument: "goto next quantum")
BackstepMove("reverse-step-quantum", "To the start of this quantum, or of the one before.",
             lambda argument: "goto previous quantum")
BackstepMove("event", "To the next match of an event: event call f if $arg0 > 3, event file.c:12, event write x then call g ...\n"
             "'backstep events' in a shell has the grammar.", lambda argument: "event " + argument)
BackstepMove("reverse-event", "To the last match of an event before here: reverse-event SPEC.",
             lambda argument: "reverse-event " + argument)
BackstepMove("restart", "Return to a checkpoint: restart N.", lambda argument: "restart " + argument)
BackstepLast("last-write", "write", "Go back to the last write to an expression's memory, whether it changed that or\n"
             "not, and say which thread, line and stack it was: last-write EXPRESSION.")
BackstepLast("last-change", "change", "Go back to the last change of an expression's value, and say which thread, line\n"
             "and stack it was: last-change EXPRESSION.")

class BackstepWhy(gdb.Command):
    """Where a value came from: why EXPRESSION.
The last store to it, what that was computed from, and so on, back to constants, arguments and bytes that were read.
EXPRESSION is a variable, memory (*p, s->name), a register ($rax) or ADDRESS:SIZE; no calls, no history variables.
A command of Backstep: see `help backstep`."""

    def __init__(self):
        super().__init__("why", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        backstep_needs_process()
        level, frame = 0, gdb.newest_frame()
        while frame and frame != gdb.selected_frame():
            level += frame.type() != gdb.INLINE_FRAME
            frame = frame.older()
        options = "--frame=%d " % level if level else ""
        gdb.execute("monitor why %s--thread=%d %s" % (options, gdb.selected_thread().ptid[1], argument))

BackstepWhy()

def backstep_name_process():
    """`monitor` is about the selected inferior. gdb tells the server which that is when it reads something, and else not."""
    if not backstep_conditions.sending and sum(1 for i in gdb.inferiors() if i.pid) > 1 and gdb.selected_thread():
        gdb.execute("maintenance flush register-cache", False, True)
        gdb.parse_and_eval("$pc").fetch_lazy()

gdb.execute("define hook-monitor\npython backstep_name_process()\nend")

def backstep_name_thread():
    """The protocol's step back does not say which thread is to step; gdb means the selected one."""
    if gdb.selected_thread() and len(gdb.selected_inferior().threads()) > 1:
        gdb.execute("monitor steps-back %d" % gdb.selected_thread().ptid[1], False, True)

for name in "stepi", "nexti", "step", "next", "finish":
    gdb.execute("define hook-reverse-%s\npython backstep_name_thread()\nend" % name)

class BackstepProcess(gdb.Command):
    """The processes of the recording.
process                         list them; * is the present one
process #N | PID                change over to one, where this session has left it; else at its beginning
process #N | PID start | end    ... at its first or last moment
Each process is an inferior of gdb's (`info inferiors`, `inferior 1` goes back); #N are numbers of logs: a process has
one for every program that it executed."""

    def __init__(self):
        super().__init__("process", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        text = gdb.execute("monitor process " + argument, False, True)
        gdb.write(text)
        found = re.match(r"process #\d+, pid (\d+), .*: (.*)$", text)
        if not found:
            return
        pid, how = int(found[1]), found[2]
        there = [i for i in gdb.inferiors() if i.pid == pid]
        if there and there[0] != gdb.selected_inferior():
            gdb.execute("inferior %d" % there[0].num)
        if how.endswith("shows it") and there:
            backstep_settle(False)
            gdb.execute("monitor settled", False, True)
        elif not there:
            free = [i for i in gdb.inferiors() if not i.pid]
            if not free:
                gdb.execute("add-inferior", False, True)
                free = [i for i in gdb.inferiors() if not i.pid]
            if free[-1] != gdb.selected_inferior():
                gdb.execute("inferior %d" % free[-1].num, False, True)
            gdb.execute("attach %d" % pid)

BackstepProcess()

class BackstepTell(gdb.Command):
    """gdb's own words for checkpoints."""

    def __init__(self, name, text, line):
        self.__doc__ = text + "\nA command of Backstep: see `help backstep`."
        self.line = line
        super().__init__(name, gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        gdb.execute("monitor " + self.line + (" " + argument if argument else ""))

BackstepTell("count", "How often an event matches in the whole run: count call f if $arg0 > 3.", "count")
BackstepTell("log", "A line for each match of an event: log SPEC \"TEXT {EXPRESSION}\", log last 5 SPEC \"TEXT\".", "log")
BackstepTell("info checkpoints", "List the checkpoints of this session.", "checkpoints")
BackstepTell("delete checkpoint", "Drop a checkpoint: delete checkpoint N.", "delete")
end
set confirm on
set tcp connect-timeout 30
set remotetimeout 100000
)GDB";

}  // namespace backstep::serve
