#!/usr/bin/env bash
# Locks on a file (fcntl) go when their process closes any descriptor of it: we must not close one when the program maps it.
source "$(dirname "$0")/lib.bash"
cat >locks.py <<'PY'
import fcntl, mmap, os, subprocess, sys
path = sys.argv[1]
if len(sys.argv) > 2:
    f = open(path, "r+b")
    try:
        fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("lost")
    except OSError:
        print("kept")
    sys.exit()
with open(path, "wb") as f: f.write(b"x" * 8192)
def ask(when): print(when, subprocess.run([sys.executable, __file__, path, "ask"], stdout=subprocess.PIPE).stdout.decode().strip())
f = open(path, "r+b")
fcntl.lockf(f, fcntl.LOCK_EX)
ask("locked")
private = mmap.mmap(f.fileno(), 8192, mmap.MAP_PRIVATE)
ask("private")
shared = mmap.mmap(f.fileno(), 8192)
ask("shared")
again = mmap.mmap(f.fileno(), 8192, mmap.MAP_SHARED, mmap.PROT_READ)
ask("again")
shared[0:4] = b"text"
f.seek(100)
f.write(b"written")
f.flush()
os.ftruncate(f.fileno(), 4096)
ask("written")
print(fcntl.fcntl(f, fcntl.F_GETOWN), f.tell())
# One that can only be read, mapped shared: who may write it is asked for.
old = open("/etc/passwd", "rb")
fcntl.lockf(old, fcntl.LOCK_SH)
passwords = mmap.mmap(old.fileno(), 100, mmap.MAP_SHARED, mmap.PROT_READ)
print(fcntl.fcntl(old, fcntl.F_GETOWN), fcntl.fcntl(old, fcntl.F_GETLEASE) == fcntl.F_UNLCK)
PY
for file in "$T/disk" /dev/shm/backstep-test.$$; do
  touch "$file" 2>/dev/null || continue
  OUTPUT=same record_tree followed "$PYTHON" "$T/locks.py" "$file"
  OUTPUT=same RECORD_OPTIONS=--no-follow record_tree alone "$PYTHON" "$T/locks.py" "$file"
  rm "$file"
  if grep lost followed.out alone.out; then fail "a lock was lost"; fi
done
ok
