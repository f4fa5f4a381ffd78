#!/usr/bin/env bash
# --no-follow and --follow choose what is recorded; LD_PRELOAD and the like are for the program, not for the recorder.
source "$(dirname "$0")/lib.bash"
names() { "$BACKSTEP" ps --json "$1" | "$PYTHON" -c '
import json, sys
print(*[p["born"] + ":" + p["argv"][0] for p in json.load(sys.stdin)])'; }
command='echo begin; echo text | tr a-z A-Z; seq 3 | cat; exit 4'

RECORD_OPTIONS=--no-follow OUTPUT=same TREE_OUTPUT=no record_tree alone bash -c "$command"
[ "$(names alone)" = start:bash ] || fail "--no-follow recorded $(names alone)"
"$BACKSTEP" info alone | seen 'not recorded' || fail "info does not say that children were not recorded"
# Children that are spawned (vfork) are children as well.
RECORD_OPTIONS=--no-follow OUTPUT=same TREE_OUTPUT=no record_tree spawns "$P/tree_spawn"
[ "$(names spawns | wc -w)" = 1 ] || fail "--no-follow recorded what was spawned: $(names spawns)"
"$BACKSTEP" info spawns | seen 'the program started .* which was not recorded' || fail "info does not say that what was spawned was not recorded"
RECORD_OPTIONS=--no-follow OUTPUT=same record_tree execs bash -c 'echo one; exec bash -c "echo two; exec echo three"'
[ "$(names execs)" = "start:bash exec:bash exec:echo" ] || fail "--no-follow does not follow the first process: $(names execs)"

for pattern in tr '*/tr' 't[r]' '/*/t?'; do
  rm -rf some
  expect 4 "$BACKSTEP" record -q -o some --follow="$pattern" bash -c "$command"
  printf 'begin\nTEXT\n1\n2\n3\n' | cmp -s - out || fail "--follow=$pattern changes the output"
  tree_ended some
  names some | seen exec:tr || fail "--follow=$pattern does not record tr: $(names some)"
  names some | seen exec:cat && fail "--follow=$pattern records cat, too: $(names some)"
  replay_tree some 1
done

# A library for the program only; a bad one is a complaint of the program's loader, as always.
printf '#include <unistd.h>\n__attribute__((constructor)) static void hello(void) { (void)!write(1, "preloaded\\n", 10); }\n' >pre.c
gcc -shared -fPIC -o pre.so pre.c
OUTPUT=same record_tree preload bash -c "LD_PRELOAD=$T/pre.so sh -c '/bin/true; exec /bin/true'"
[ "$(grep -c preloaded preload.out)" = 3 ] || fail "the library was loaded $(grep -c preloaded preload.out) times"
OUTPUT=same record_tree path bash -c 'LD_LIBRARY_PATH=/no/such/folder LD_PRELOAD=/no/such.so /bin/echo fine'
OUTPUT=same record_tree empty env -i sh -c 'exec env -i /bin/echo "no environment"'
ok
