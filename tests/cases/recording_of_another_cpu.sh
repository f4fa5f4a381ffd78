#!/usr/bin/env bash
# A recording whose program was shown CPU features that this machine lacks is refused with a sentence; one made with
# --cpu=x86-64-v2 shows fewer features to the program than the machine has, and replays.
source "$(dirname "$0")/lib.bash"
record_replay plain "$P/hello"
cp -r plain other
"$PYTHON" - other/manifest.json <<'PY'
import json, sys
manifest = json.load(open(sys.argv[1]))
shown = manifest["cpu"]["shown"]
lacking = [w for w in shown if w.startswith("7.")][0]
shown[lacking] |= 1 << 16  # AVX-512: never shown
json.dump(manifest, open(sys.argv[1], "w"))
PY
damage sign other/manifest.json
expect 1 "$BACKSTEP" replay --autopilot other
says 'lacks'
says 'cpuid 7'
[ ! -s out ] || fail "it ran all the same"
RECORD_OPTIONS=--cpu=x86-64-v2 record_replay old "$P/isa_nondeterministic"
[ "$("$BACKSTEP" info --json old | field cpu.level)" = x86-64-v2 ] || fail "the level is not the one asked for"
expect 2 "$BACKSTEP" record --cpu=pentium "$P/hello"
ok
