"""Drives gdb's machine interface (MI) as IDEs do: `mi.py WHAT PROGRAM COMMAND...` starts COMMAND, an MI speaker, and plays a
session with it."""
import os
import re
import select
import subprocess
import sys
import time


class Mi:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.token = 1000
        self.buffer = b""
        self.records = []  # asynchronous ones, not yet asked for
        self.console = ""
        self.all = []

    def line(self, seconds=int(os.environ["PATIENCE"])):
        end = time.time() + seconds
        while b"\n" not in self.buffer:
            if not select.select([self.process.stdout], [], [], max(0, end - time.time()))[0]:
                raise TimeoutError("nothing more from gdb; so far:\n" + "\n".join(self.all[-40:]))
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                raise EOFError("gdb has ended:\n" + "\n".join(self.all[-40:]))
            self.buffer += more
        line, self.buffer = self.buffer.split(b"\n", 1)
        line = line.decode(errors="replace").rstrip("\r")
        self.all.append(line)
        return line

    def take(self, line):
        if line.startswith("~"):
            self.console += line[2:-1].encode().decode("unicode_escape")
        elif line[:1] in "*=":
            self.records.append(line)

    def ask(self, command, result="done"):
        """One command; its result record."""
        self.token += 1
        self.console = ""
        self.process.stdin.write(b"%d%s\n" % (self.token, command.encode()))
        self.process.stdin.flush()
        while True:
            line = self.line()
            if line.startswith("%d^" % self.token):
                answer = line[len(str(self.token)):]
                assert answer.startswith("^" + result), "%s: %s" % (command, answer)
                return answer
            self.take(line)

    def stopped(self):
        while True:
            for i, record in enumerate(self.records):
                if record.startswith("*stopped"):
                    del self.records[:i + 1]
                    return record
            self.take(self.line())

    def move(self, command):
        self.records = []
        self.ask(command, "running")
        return self.stopped()

    def value(self, expression):
        return re.search(r'value="((?:[^"\\]|\\.)*)"', self.ask("-data-evaluate-expression " + expression))[1]

    def quit(self):
        self.ask("-gdb-exit", "exit")
        assert self.process.wait(20) == 0


def frame(record):
    return re.search(r'func="([^"]*)"', record)[1], int(re.search(r'line="(\d+)"', record)[1])


def tour(mi, program):
    """What an IDE does with a recording: breakpoints, variables, stacks, all ways of going, both ways."""
    answer = mi.ask("-break-insert add")
    assert 'func="add"' in answer, answer
    stop = mi.move("-exec-continue")
    assert 'reason="breakpoint-hit"' in stop and frame(stop)[0] == "add", stop
    assert mi.value("i") == "0"
    for _ in range(3):
        stop = mi.move("-exec-continue")
    assert mi.value("i") == "3", stop
    stop = mi.move("-exec-continue --reverse")
    assert 'reason="breakpoint-hit"' in stop and mi.value("i") == "2", stop
    stack = mi.ask("-stack-list-frames")
    assert re.findall(r'func="(\w+)"', stack) == ["add", "main"], stack
    assert re.search(r'name="i",[^}]*value="2"', mi.ask("-stack-list-variables --simple-values"))
    assert "number=" in mi.ask("-data-list-register-values x 0 16")
    # A variable object keeps up with time in both directions.
    mi.ask('-var-create total * "total"')
    total = lambda: int(re.search(r'value="(-?\d+)"', mi.ask("-var-evaluate-expression total"))[1])
    before = total()
    stop = mi.move("-exec-finish")
    assert 'reason="function-finished"' in stop, stop
    assert 'name="total"' in mi.ask("-var-update *") and total() == before + 2
    stop = mi.move("-exec-finish --reverse") if frame(stop)[0] == "add" else mi.move("-exec-step --reverse")
    while frame(stop)[0] != "add":
        stop = mi.move("-exec-step --reverse")
    stop = mi.move("-exec-continue --reverse")
    mi.ask("-var-update *")
    assert mi.value("i") == "2" and total() == before, (mi.value("i"), total(), before)
    mi.ask("-break-delete 1")
    stop = mi.move("-exec-finish --reverse")
    assert frame(stop)[0] == "main", stop
    line = frame(stop)[1]
    stop = mi.move("-exec-next")
    stop = mi.move("-exec-next --reverse")
    assert frame(stop) == ("main", line), stop
    here = mi.value("$pc")
    mi.move("-exec-step-instruction")
    assert mi.value("$pc") != here
    mi.move("-exec-step-instruction --reverse")
    assert mi.value("$pc") == here
    # Watchpoints, to the end and back.
    mi.ask("-break-watch total")
    stop = mi.move("-exec-continue")
    assert 'reason="watchpoint-trigger"' in stop, stop
    stop = mi.move("-exec-continue --reverse")
    assert 'reason="watchpoint-trigger"' in stop, stop
    mi.ask("-break-delete")
    stop = mi.move("-exec-continue")
    assert "_exit" in stop and mi.value("total") == "45", stop  # gdb gives no reason for the end of history
    stop = mi.move('-interpreter-exec console "goto start"')
    assert 'func="_start"' in stop, stop
    assert 'target-id="Thread' in mi.ask("-thread-info")
    mi.ask('-interpreter-exec console "when"')
    stop = mi.move("-exec-continue --reverse")
    assert 'func="_start"' in stop, stop
    mi.quit()


def processes(mi, program):
    """Stops at forks, spawns and execve, both ways, have their reasons."""
    for kind in "fork", "vfork", "exec":
        mi.ask('-interpreter-exec console "catch %s"' % kind)
    forwards = []
    while True:
        stop = mi.move("-exec-continue")
        if "reason=" not in stop:
            break
        forwards.append(re.search(r'reason="(\w+)"', stop)[1])
        if forwards[-1] == "exec":
            assert 'new-exec="%s"' % program in stop and 'func="_start"' in stop, stop
        else:
            assert re.search(r'newpid="\d+"', stop), stop
    assert forwards == ["fork", "vfork", "vfork", "exec", "exec"], forwards
    backwards = []
    for _ in forwards:
        stop = mi.move("-exec-continue --reverse")
        backwards.append(re.search(r'reason="(\w+)"', stop)[1])
        if backwards[-1] == "exec":
            assert "execve" in stop, stop
    assert backwards == forwards[::-1], backwards
    # Another process is another thread group.
    mi.ask('-interpreter-exec console "process #2"')
    groups = mi.ask("-list-thread-groups")
    assert len(re.findall(r'type="process",pid=', groups)) == 2, groups
    mi.ask("-break-insert in_first")
    stop = mi.move("-exec-continue")
    assert frame(stop)[0] == "in_first" and mi.value("i") == "10", stop
    stop = mi.move("-exec-continue --reverse")
    assert frame(stop)[0] == "in_first" and mi.value("i") == "1", stop
    mi.quit()


def vscode(mi, program, address):
    """The start of VS Code's C++ extension with miDebuggerServerAddress, as it logs it with "engineLogging"."""
    mi.ask("-gdb-set mi-async on")
    mi.ask("-gdb-set print thread-events off")
    mi.ask('-interpreter-exec console "set pagination off"')
    mi.ask("-gdb-set auto-solib-add on")
    mi.ask("-gdb-set breakpoint pending on")
    mi.ask("-enable-pretty-printing")
    mi.ask("-environment-cd " + os.path.dirname(program))
    mi.ask("-file-exec-and-symbols " + program)
    mi.ask("-target-select remote " + address, "connected")
    mi.stopped()
    mi.ask("-break-insert -f main")
    mi.ask("-break-insert -f -c \"i == 7\" loop.c:3")
    mi.ask('-interpreter-exec console "info sharedlibrary"')
    stop = mi.move("-exec-continue")
    assert frame(stop)[0] == "main", stop
    stop = mi.move("-exec-continue")
    assert frame(stop)[0] == "add" and mi.value("i") == "7", stop
    mi.ask("-thread-info")
    mi.ask("-stack-info-depth --thread 1 1000")
    mi.ask("-stack-list-frames --thread 1 0 1000")
    mi.ask("-stack-select-frame 0")
    mi.ask("-stack-list-variables 0")
    mi.ask('-var-create --thread 1 --frame 0 - * "i"')
    # Step, step back (the extension's buttons), pause while it runs.
    line = frame(stop)[1]
    stop = mi.move("-exec-next")
    stop = mi.move("-exec-next --reverse")
    assert frame(stop)[1] == line, stop
    stop = mi.move("-exec-continue --reverse")
    assert frame(stop)[0] == "main", stop
    mi.ask("-break-insert -f -c \"i == -1\" add")
    mi.records = []
    mi.ask("-exec-continue", "running")
    stop = mi.stopped()
    assert frame(stop)[0] == "add" and mi.value("i") == "7", stop
    mi.ask("-target-detach")
    mi.quit()


if __name__ == "__main__":
    what, program, *command = sys.argv[1:]
    if what == "vscode":
        vscode(Mi(command[1:]), program, command[0])
    else:
        globals()[what](Mi(command), program)
