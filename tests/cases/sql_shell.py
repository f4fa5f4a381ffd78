"""The shell of `backstep sql` at a terminal.  sql_shell.py BACKSTEP RECORDING STATE

RECORDING: of a program in which `step` is called once at the beginning and again only after a very long time. STATE: an empty
folder for the history of lines.
"""
import os
import pty
import re
import select
import signal
import sys
import termios
import time

backstep, recording, state = sys.argv[1:]
PATIENCE = float(os.environ["PATIENCE"])


class Terminal:
    def __init__(self):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(XDG_STATE_HOME=state, TERM="vt100", LC_ALL="C.UTF-8")
            os.execv(backstep, [backstep, "sql", recording])
        self.text = ""

    def type(self, text):
        os.write(self.fd, text.encode())

    def expect(self, pattern):
        """Waits until it is there, and takes it and what is before it."""
        end = time.monotonic() + PATIENCE
        while True:
            found = re.search(pattern, self.text)
            if found:
                before, self.text = self.text[:found.end()], self.text[found.end():]
                return before
            left = end - time.monotonic()
            assert left > 0 and select.select([self.fd], [], [], left)[0], f"no {pattern!r} in {self.text!r}"
            try:
                self.text += os.read(self.fd, 65536).decode(errors="replace")
            except OSError:
                raise AssertionError(f"it ended without {pattern!r}: {self.text!r}") from None

    def end(self):
        until = time.monotonic() + PATIENCE
        while True:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
            assert time.monotonic() < until, f"it does not end: {self.text!r}"
            select.select([self.fd], [], [], 0.01)


t = Terminal()
t.expect("sql> ")
t.type("SELECT 40 + 2\n")
t.expect(r"\.\.> ")
t.type("AS answer;\n")
t.expect("answer\r\n +42\r\n")
t.expect("sql> ")
t.type("SELECT nonsense;\n")
t.expect("there is no column 'nonsense'")
t.expect("sql> ")
# Completion: of tables, columns, functions and commands.
t.type("SELECT count(*) FROM sysc\t;\n")
t.expect(r"count\(\*\)\r\n +\d+\r\n")
t.expect("sql> ")
t.type("SELECT symb\t(0) IS NULL AS unknown;\n")
t.expect("unknown\r\n +1\r\n")
t.expect("sql> ")
t.type(".tab\t\n")
t.expect("executed +each time")
t.expect("sql> ")
t.type("SELECT 'still ' || 'here';\n")
t.expect("still here\r\n")
t.expect("sql> ")
# Ctrl-C drops the line, and only that.
t.type("SELECT 'dropped'\x03")
t.expect(r"\^C")
t.expect("sql> ")
# Who sees the prompt can type: keys are the editor's from then on, no signal and no end of a file.
for _ in range(200):
    t.type("\n")
    t.expect("sql> ")
    assert not termios.tcgetattr(t.fd)[3] & (termios.ICANON | termios.ISIG), "keys go to the terminal behind a prompt"
t.type(".mode json\nSELECT 1 AS one;\n")
t.expect('{"one":1}')
t.expect("sql> ")
t.type("\x04")
assert t.end() == 0
history = os.path.join(state, "backstep", "sql-history")
assert os.stat(history).st_mode & 0o777 == 0o600, oct(os.stat(history).st_mode)
assert "nonsense" in open(history).read()
# The next one remembers.
t = Terminal()
t.expect("sql> ")
t.type("\x10")
t.expect("SELECT 1 AS one")
t.type("\n")
t.expect("one\r\n")
t.expect("sql> ")
t.type(".quit\n")
assert t.end() == 0
