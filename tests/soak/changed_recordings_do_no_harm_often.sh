#!/usr/bin/env bash
# Twenty minutes of tests/cases/changed_recordings_do_no_harm.sh, with seeds of the day, and every command for each.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/../cases/lib.bash"
first=${FIRST:-$(($(date +%Y%m%d) * 100000))}
end=$((SECONDS + ${SOAK_SECONDS:-1200}))
while [ $SECONDS -lt $end ]; do
  ALL=1 FIRST=$first COUNT=50 bash "$SRC/tests/cases/changed_recordings_do_no_harm.sh" || fail "from seed $first on"
  first=$((first + 50))
done
ok
