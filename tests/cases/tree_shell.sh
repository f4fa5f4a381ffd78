#!/usr/bin/env bash
# What shells do all day: pipelines, subshells, substitutions, background jobs, traps, here-documents.
source "$(dirname "$0")/lib.bash"
cat >script <<'SH'
echo one | tr a-z A-Z | cat
(echo subshell $BASH_SUBSHELL; exit 3); echo $?
x=$(echo substituted; false) || echo "$x failed with $?"
cat <(echo process) <(echo substitution)
cat <<END
here $((6 * 7))
END
sleep 0.05 & wait $!; echo waited $?
(kill -TERM $BASHPID) & wait $! 2>/dev/null; echo $?
(exit 4) & (exit 4) & wait -n; echo $?; wait
trap 'echo trapped' USR1; kill -USR1 $$; trap - USR1
trap 'echo at exit' EXIT
seq 20000 | head -n 1
set -o pipefail; false | true; echo $?
coproc { read -r line; echo "coproc got $line"; }
echo hello >&"${COPROC[1]}"; read -r answer <&"${COPROC[0]}"; echo "$answer"; wait
for i in 1 2 3; do echo $i; done | while read -r n; do echo "n=$n"; done
exec sh -c 'echo replaced; exit 5'
SH
OUTPUT=same record_tree bash bash "$T/script"
[ "$logs" -gt 20 ] || fail "only $logs logs"
have dash && OUTPUT=same record_tree dash dash -c 'echo a | tr a b; (exit 2); echo $?; x=$(date +%Y); [ ${#x} = 4 ] && echo fine'
ok
