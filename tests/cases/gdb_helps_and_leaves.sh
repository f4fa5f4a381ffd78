#!/usr/bin/env bash
# In gdb `help backstep` and `apropos backstep` say what there is, and `quit` does not ask: nothing is lost.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
need gdb
"$BACKSTEP" record -q -o rec "$P/hello" >/dev/null 2>&1
printf '%s\n' 'help backstep' 'echo apropos:\n' 'apropos backstep' quit |
  timeout "$PATIENCE" "$BACKSTEP" replay rec -nx >said 2>&1 || fail "gdb: $(tail -n 5 said)"
sed "s/^(backstep) //" said >out
for command in goto last-write why when bookmark process; do
  sed '/^apropos:/,$d' out | seen -- "^$command\|, $command" || fail "help backstep does not know $command: $(cat out)"
done
for command in backstep goto last-write why count; do
  sed '1,/apropos:/d' out | seen -- "^$command " || fail "apropos backstep does not find $command: $(cat out)"
done
if seen -i 'anyway' <out; then fail "quit asks: $(tail -n 4 out)"; fi
ok
