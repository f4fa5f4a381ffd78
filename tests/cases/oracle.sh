#!/usr/bin/env bash
# Ticks and control points agree with an independent oracle that single-steps the program natively by ptrace
# (tests/oracle/oracle.cc; what is compared, and why only that, is in tests/oracle/README.md).
source "$(dirname "$0")/lib.bash"
oracle=$BUILD/oracle
[ -x "$oracle" ] || fail "the oracle was not built"
"$oracle" -- /bin/true >out 2>err || skip "ptrace is not permitted here: $(cat err)"

# agree NAME OPTIONS: system calls and signals in the region that the oracle counts.
agree() {
  local name=$1
  shift
  "$oracle" --syscalls --signals "$@" -- "$P/$name" >"$name.oracle" || fail "the oracle cannot run $name"
  rm -rf "$name.rec"
  status "$BACKSTEP" record -q -o "$name.rec" -- "$P/$name" >/dev/null 2>&1
  "$BACKSTEP" dump --json "$name.rec" >"$name.json"
  "$PYTHON" - "$name" "$name.oracle" "$name.json" "$@" <<'PY' || fail "$name: the oracle counts otherwise"
import json, sys
name, oracle_file, dump_file, *options = sys.argv[1:]
markers, fixed = "--markers" in options, "--markers" not in options
# Both sides as lists of (what, number, tick, pc).
oracle, total = [], None
for line in open(oracle_file):
    word, *rest = line.split()
    if word in ("syscall", "signal"):
        oracle.append((word, int(rest[0]), int(rest[1]), int(rest[2], 16)))
    elif word == "total":
        total = int(rest[0])
    elif word == "marker" and rest[0] == "0" and markers:
        oracle.append(("syscall", 9999, 0, 0))
ours, end = [], None
for line in open(dump_file):
    event = json.loads(line)
    if event["kind"] == "syscall":
        ours.append(("syscall", event["nr"], event["tick"], event["pc"]))
    elif event["kind"] == "signal":
        ours.append(("signal", event["signo"], event["tick"], event["pc"]))
    elif event["kind"] == "end":
        end = event["tick"]
if markers:
    # From the first marker, relative to it; to the last, because leaving main depends on start-up again.
    first = next(i for i, e in enumerate(ours) if e[1] == 9999)
    base = ours[first][2]
    ours = [(w, n, t - base, pc) for w, n, t, pc in ours[first:]]
    def last(events): return max(i for i, e in enumerate(events) if e[1] == 9999) + 1
    ours, oracle = ours[:last(ours)], oracle[:last(oracle)]
elif end != total:
    sys.exit(f"{name}: {end} ticks in all, the oracle says {total}")
if len(ours) != len(oracle):
    print(f"{name}: {len(ours)} events, the oracle has {len(oracle)}")
for a, b in zip(ours, oracle):
    # The event of exit_group may be missing on our side (End stands for it); addresses of fixed programs only.
    if a[:3] != b[:3] or (fixed and a[3] not in (b[3], b[3] + 2)):
        sys.exit(f"{name}: we say {a}, the oracle says {b}")
if len(ours) not in (len(oracle), len(oracle) - 1):
    sys.exit(f"{name}: another number of events")
print(f"{name}: {len(ours)} control points agree, up to tick {ours[-1][2]}")
PY
}
agree ticks_asm
agree ticks_nostdlib
agree isa_loops
# With libc in it: between the markers only, with the same string functions chosen on both sides (Backstep hides
# AVX-512, so libc would pick others), and without lazy binding.
export LD_BIND_NOW=1
export GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ,-AVX512CD,-AVX2,-AVX_Fast_Unaligned_Load,-ERMS,-FSRM,-RTM
agree ticks_libc --markers
agree ticks_libc_static --markers
agree ticks_exceptions --markers
if [ -x "$P/ticks_fortran" ]; then agree ticks_fortran --markers; fi
ok
