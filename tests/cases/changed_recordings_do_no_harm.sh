#!/usr/bin/env bash
# A stranger's recording: fields of its files are changed and the checksums made anew. Whatever reads it ends with an answer, a clear
# error or a divergence report; nothing crashes or hangs, and nothing outside of the recording changes.
# ./run soak does it with other seeds, and for longer.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
export MUTATE=$BUILD/mutate_recording
"$BACKSTEP" record -q -o mixed "$P/mixed" >/dev/null
"$BACKSTEP" checkpoints --make --every 0.003 mixed >/dev/null
"$BACKSTEP" trace --level 3 mixed >/dev/null
"$BACKSTEP" record -q -o live "$P/mem_live" >/dev/null
mkdir work
state() { find mixed live "$BACKSTEP_DIR" -type f -printf '%p %s %T@\n' | grep -v '/lock ' | sort; }
state >before
(cd work && "$PYTHON" "$SRC/tests/fuzz/changed_recordings.py" "${FIRST:-1}" "${COUNT:-15}" "$T/mixed" "$T/live") >found || fail "$(cat found)"
state >after
same before after "files outside of the changed recording"
ok
