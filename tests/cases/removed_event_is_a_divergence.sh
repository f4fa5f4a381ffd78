#!/usr/bin/env bash
# One event taken out of the log, checksums put right: replay notices at the next one and says what it expected.
source "$(dirname "$0")/lib.bash"
record_replay hello "$P/hello"
record_replay tsc "$P/isa_nondeterministic"
for name in hello tsc; do
  removed=0
  while read -r number kind _; do
    case $kind in syscall | instr) ;; *) continue ;; esac
    removed=$((removed + 1))
    [ $removed -le 40 ] || [ $((removed % 11)) = 0 ] || continue
    copy_recording $name bad
    damage remove "$(log_of bad)" "$number"
    honest bad "$name without event $number ($kind)"
  done < <(damage events "$(log_of $name)")
  [ $removed -gt 20 ] || fail "too few events tried"
done
grep -Eqi 'diverge' err || { cat err; fail "the word divergence is missing"; }
ok
