#!/usr/bin/env bash
# vim (the small build, and the big one, which starts a thread for the time limits of its searches) and less under a
# pseudo-terminal: typed at, they do what they do natively, and the recording replays.
source "$(dirname "$0")/lib.bash"
need vim.tiny vim.basic less
seq 1 500 >numbers
cat >typist.py <<'PY'
# typist.py KEYS COMMAND...: runs the command on a terminal of 80x24, types the keys one by one, waits for the end.
import fcntl, os, pty, select, struct, sys, termios, time
keys = sys.argv[1].encode().decode("unicode_escape").encode("latin1")
pid, fd = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm"
    os.execvp(sys.argv[2], sys.argv[2:])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
deadline, next_key, screen = time.time() + 60, time.time() + 2.5, b""
while time.time() < deadline:
    ready, _, _ = select.select([fd], [], [], 0.1)
    if ready:
        try:
            data = os.read(fd, 65536)
        except OSError:
            break
        if not data:
            break
        screen += data
    if keys and time.time() > next_key:
        os.write(fd, keys[:1])
        keys, next_key = keys[1:], time.time() + 0.12
sys.stdout.buffer.write(screen)
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status) if not os.WIFSIGNALED(status) else 128 + os.WTERMSIG(status))
PY
replay() {
  for _ in 1 2 3; do
    expect 0 "$BACKSTEP" replay --autopilot "$1"
    grep -aq "$2" out || fail "the replay of $1 does not show its screen"
  done
}
cp numbers edited
expect 0 "$PYTHON" typist.py 'ihello \x1b:wq\r' "$BACKSTEP" record -q -o "$T/vim.rec" vim.tiny -u NONE -i NONE -n edited
[ "$(head -n 1 edited)" = "hello 1" ] || { head -n 3 edited; fail "vim did not write the file"; }
replay vim.rec edited  # its status line
[ "$(head -n 1 edited)" = "hello 1" ] || fail "the replay touched the file"
cp numbers edited
expect 0 "$PYTHON" typist.py ':syntax on\r:set hlsearch\r/33\rn:%s/77/seven/g\rihello \x1b:wq\r' \
  "$BACKSTEP" record -q -o "$T/big.rec" vim.basic -i NONE -n edited
! grep -aq E1286 out || fail "vim could not start its thread"
grep -q '^hello ' edited || fail "vim did not write the file"
grep -qx seven edited || fail "vim did not replace"
"$BACKSTEP" dump -k clone big.rec >clones
grep -q CLONE_THREAD clones || fail "this vim starts no thread: the case is of no use"
replay big.rec edited
expect 0 "$PYTHON" typist.py '  /333\rq' "$BACKSTEP" record -q -o "$T/less.rec" less numbers
grep -aq 333 out || fail "less did not find the line"
replay less.rec 333
ok
