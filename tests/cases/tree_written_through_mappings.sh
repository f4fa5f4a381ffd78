#!/usr/bin/env bash
# What a process writes through a mapping does not change the times of a file on tmpfs: who maps it later must find it in its
# replay all the same.
source "$(dirname "$0")/lib.bash"
[ "$(stat -f -c %T /dev/shm 2>/dev/null)" = tmpfs ] || skip "/dev/shm is not a tmpfs here"
shm=$(mktemp /dev/shm/backstep-test.XXXXXX)
trap 'rm -f "$shm"; cleanup' EXIT
head -c 8192 /dev/zero >"$shm"
cat >map.py <<'PY'
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
shown = mmap.mmap(fd, 8192)
print(sys.argv[2], bytes(shown[:8]), bytes(shown[5000:5004]))
shown[:len(sys.argv[2])] = sys.argv[2].encode()
shown[5000:5004] = sys.argv[2][:4].encode()
private = mmap.mmap(fd, 8192, mmap.MAP_PRIVATE)
print(bytes(private[:8]))
PY
sleep 4 # files that were touched just now are not trusted anyway
NATIVE=no record_tree written sh -c "for word in firstone secondone thirdone; do $PYTHON $T/map.py $shm \$word; done"
grep -q "^thirdone b'secondon' b'seco'" written.out || { cat written.out written.err; fail "the program did not see what was written"; }
ok
