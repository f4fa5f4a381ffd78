#!/usr/bin/env bash
# Files of /proc that we write ourselves are opened as the program asked for, and take the lowest free descriptor.
source "$(dirname "$0")/lib.bash"
cat >look.py <<'PY'
import fcntl, os, stat
for name in "status", "stat", "statm", "maps", "smaps", "auxv", "cmdline", "environ", "limits":
    for flags in os.O_RDONLY, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC:
        fd = os.open(f"/proc/self/{name}", flags)
        got = fcntl.fcntl(fd, fcntl.F_GETFL)
        print(name, fd, got & os.O_ACCMODE == os.O_RDONLY, bool(got & os.O_NONBLOCK), stat.filemode(os.fstat(fd).st_mode)[0])
        copy = os.dup(fd)
        os.lseek(copy, 0, os.SEEK_SET)
        try:
            os.write(fd, b"x")
            print("written")
        except OSError as e:
            print(e.strerror, len(os.read(copy, 10)))
        os.close(copy)
        os.close(fd)
PY
OUTPUT=same record_replay proc "$PYTHON" "$T/look.py"
ok
