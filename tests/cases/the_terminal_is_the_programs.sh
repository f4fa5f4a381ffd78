#!/usr/bin/env bash
# On a terminal: the program finds it (isatty, size, modes), ctrl-C goes to the program and not to us, the modes
# are its own; a replay does not touch the modes of the terminal it runs on.
source "$(dirname "$0")/lib.bash"
cat >typist.py <<'PY'
import fcntl, os, pty, select, struct, sys, termios, time
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 111, 0, 0))
screen, sent, deadline = b"", False, time.time() + 30
while time.time() < deadline:
    if select.select([fd], [], [], 0.1)[0]:
        try:
            data = os.read(fd, 65536)
        except OSError:
            break
        screen += data
    if b"ready" in screen and not sent and sys.argv[1]:
        os.write(fd, sys.argv[1].encode().decode("unicode_escape").encode("latin1"))
        sent = True
sys.stdout.buffer.write(screen)
try:
    echo = termios.tcgetattr(fd)[3] & termios.ECHO != 0
    sys.stderr.write(f"echo {echo}\n")
except termios.error:
    pass
_, status = os.waitpid(pid, 0)
sys.exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
PY
cat >program.py <<'PY'
import os, signal, sys, termios, time
print(os.isatty(0), os.isatty(1), os.get_terminal_size() is not None, os.ttyname(0)[:5])
mode = termios.tcgetattr(0)
mode[3] &= ~termios.ECHO
termios.tcsetattr(0, termios.TCSANOW, mode)
try:
    print("ready", flush=True)
    time.sleep(20)
    print("slept on")
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(6)
PY
expect 6 "$PYTHON" typist.py '\x03' "$BACKSTEP" record -q -o "$T/rec" "$PYTHON" -S program.py
grep -q 'True True True /dev/' out || { cat out; fail "the program does not find its terminal"; }
grep -q interrupted out || { cat out; fail "ctrl-C did not reach the program"; }
expect 0 "$BACKSTEP" replay --autopilot rec
grep -q interrupted out || { cat out; fail "the replay does not show the interruption"; }
expect 0 "$PYTHON" typist.py '' "$BACKSTEP" replay --autopilot rec
# Default action: ctrl-C ends the program, and the status says so.
expect 130 "$PYTHON" typist.py '\x03' "$BACKSTEP" record -q -o "$T/rec2" bash -c 'echo ready; read -r -t 20; echo no'
ok
