#!/usr/bin/env bash
# What a process writes through a mapping does not change the times of a file on tmpfs: who maps it later must find it in its
# replay all the same.
source "$(dirname "$0")/lib.bash"
[ "$(stat -f -c %T /dev/shm 2>/dev/null)" = tmpfs ] || skip "/dev/shm is not a tmpfs here"
shm=$(mktemp /dev/shm/backstep-test.XXXXXX)
trap 'cleanup; rm -f "$shm"' EXIT
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

# Likewise if the writers are strangers that have gone, and if it is mapped privately, by the same process and by a later one.
cat >look.py <<'PY'
import mmap, os, sys, time
def private():
    fd = os.open(sys.argv[1], os.O_RDONLY)
    print(bytes(mmap.mmap(fd, 8192, mmap.MAP_PRIVATE, mmap.PROT_READ)[:8]), flush=True)
    os.close(fd)
private()
open(sys.argv[2] + ".asked", "w").close()
while not os.path.exists(sys.argv[2] + ".done"): time.sleep(0.05)
private()
PY
cat >stranger.sh <<EOF
for turn in one two; do
  while [ ! -e $T/\$turn.asked ]; do sleep 0.05; done
  $PYTHON $T/map.py $shm stranger\$turn >/dev/null
  $PYTHON $T/map.py $shm \${turn}stranger >/dev/null
  touch $T/\$turn.done
done
EOF
bash stranger.sh &
stranger=$!
NATIVE=no record_tree looked sh -c "for turn in one two; do $PYTHON $T/look.py $shm $T/\$turn; done"
wait $stranger
printf "b'%s'\n" thirdone onestran onestran twostran | cmp - looked.out || { cat looked.out looked.err; fail "a private mapping showed what had been there before"; }
ok
