#!/usr/bin/env bash
# What people use all day: true, ls, cat, sort, grep, sed, awk, find.
source "$(dirname "$0")/lib.bash"
need grep sed awk find sort
mkdir -p tree
"$PYTHON" - <<'PY'
import os, random
random.seed(1)
for i in range(40):
    os.makedirs(f"tree/d{i % 7}/e{i % 3}", exist_ok=True)
    with open(f"tree/d{i % 7}/e{i % 3}/f{i}", "w") as f:
        for _ in range(300):
            f.write(" ".join(str(random.randrange(10 ** 6)) for _ in range(5)) + "\n")
PY
cat tree/*/*/* >all
export OUTPUT=same
record_replay true /bin/true
record_replay false /bin/false
record_replay echo /bin/echo -n "hello"
record_replay ls /bin/ls -lAR "$T/tree"
record_replay cat /bin/cat "$T/all" "$T/missing"
record_replay sort sort -n -k 3 "$T/all"
record_replay grep grep -E '(12|7+3)[0-9]*4$' -r "$T/tree"
record_replay grepc grep -c 99 "$T/all"
record_replay sed sed -n 's/\([0-9]*\) \([0-9]*\)/\2-\1/gp' "$T/all"
record_replay awk awk '{s[$1 % 100] += $2} END {for (k in s) n += s[k]; print n, length(s)}' "$T/all"
record_replay find find "$T/tree" -name 'f*1' -size +1k -printf '%p %s %m\n'
record_replay wc wc "$T/all"
record_replay head head -c 1000 "$T/all"
record_replay sum sha256sum "$T/all"
OUTPUT='' record_replay date date
OUTPUT='' record_replay id id
OUTPUT='' record_replay maps cat /proc/self/maps /proc/self/cmdline
grep -q '/cat' "$T/maps.out" || fail "/proc/self/maps does not show the program"
if grep -q backstep "$T/maps.out" && [[ $T != *backstep* ]]; then fail "/proc/self/maps shows backstep"; fi
STDIN=$T/all record_replay tr tr 0-9 a-j
ok
