# What the cases have in common; sourced, not run. A case is one behaviour: it works in a temporary folder of
# its own with its own library of recordings, prints OK at the end, and fails with a sentence.
#
# From the environment: BACKSTEP (the program), BUILD (build folder, test programs in $BUILD/programs), SRC.
set -euo pipefail
: "${BACKSTEP:?is the program to test}" "${BUILD:?is the build folder}" "${SRC:?is the source folder}"

P=$BUILD/programs
T=$(mktemp -d "${TMPDIR:-/tmp}/backstep-test.XXXXXX")
export BACKSTEP_DIR=$T/recordings LC_ALL=C
# Seconds until something counts as hanging: nothing comes near it, however busy the machine is. A case that is about time
# waits for what shows that it is time.
export PATIENCE=600
# Python of the system, not of a version manager in the PATH: the same everywhere, and no shell scripts around.
PYTHON=$([ -x /usr/bin/python3 ] && echo /usr/bin/python3 || command -v python3)
# With KEEP set, the folder of a case that failed stays, with the recordings in it.
cleanup() {  # [STATUS of the case]
  local ended=${1:-$?}
  cd /
  if [ -n "${KEEP:-}" ] && [ $ended != 0 ] && [ $ended != 77 ]; then
    echo "kept: $T" >&2
    return
  fi
  chmod -R u+rwX "$T" 2>/dev/null || true
  # Who compresses the log of the last recording may make a file at that moment.
  rm -rf "$T" 2>/dev/null || { sleep 0.2; rm -rf "$T"; }
}
trap cleanup EXIT
cd "$T"

say() { printf '%s\n' "$*" >&2; }
fail() {
  say "FAILED: $*"
  exit 1
}
ok() {
  echo OK
  exit 0
}
skip() {
  echo "SKIP: $*"
  exit 77
}
# have PROGRAM: is it there? need PROGRAM...: the case fails without them.
have() { command -v "$1" >/dev/null 2>&1; }
need() { for program; do have "$program" || fail "$program is not installed (apt-get install it)"; done; }

# comes COMMAND...: waits until it succeeds; false if that never is.
comes() {
  local end=$((SECONDS + PATIENCE))
  until "$@"; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.05
  done
}
# has_ended PID: or is a zombie.
has_ended() { ! grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status" 2>/dev/null; }

# seen [OPTION] PATTERN: is it on stdin? Reads all of it: grep -q stops at the first match, which kills who writes.
seen() { grep "$@" >/dev/null; }

# status COMMAND...: the exit status, never ending the script.
status() {
  local s=0
  "$@" || s=$?
  echo $s
}
# expect STATUS COMMAND...: output of the command in $T/out and $T/err.
expect() {
  local want=$1 got=0
  shift
  "$@" >"$T/out" 2>"$T/err" || got=$?
  [ "$got" = "$want" ] || { cat "$T/out" "$T/err" >&2; fail "'$*' ended with $got instead of $want"; }
}
# says PATTERN: the last `expect` said so on stderr.
says() { grep -Eqi -- "$1" "$T/err" || { cat "$T/err" >&2; fail "no word of '$1' on stderr"; }; }

# field NAME <JSON: a.b.c of a JSON document.
field() {
  "$PYTHON" -c '
import json, sys
value = json.load(sys.stdin)
for part in sys.argv[1].split("."):
    value = value[int(part)] if isinstance(value, list) else value[part]
print(json.dumps(value) if isinstance(value, (dict, list)) else value)' "$1"
}
ticks_of() { "$BACKSTEP" info --json "$1" | field log.ticks; }

same() { cmp -s "$1" "$2" || { { diff "$1" "$2" | head -n 20 | cut -c 1-300; } >&2 || true; fail "$3"; }; }

# in_fresh_folder NAME OUT ERR COMMAND...: runs it in an empty folder (the same path each time), after the
# function `prepare` if the case has one; stdin from $STDIN, else empty. Status in $ended. With LIMIT, what takes longer
# than that many seconds is ended (status 124): a case whose subject is that nothing hangs says so in a sentence.
in_fresh_folder() {
  local folder=$T/folder.$1 out=$2 err=$3
  shift 3
  rm -rf "$folder"
  mkdir "$folder"
  ended=0
  (
    cd "$folder"
    if declare -F prepare >/dev/null; then prepare; fi
    # shellcheck disable=SC2086
    exec ${LIMIT:+timeout --foreground -k 5 $LIMIT} "$@" <"${STDIN:-/dev/null}" >"$out" 2>"$err"
  ) || ended=$?
}

# record_replay NAME COMMAND...: the heart of most cases.
#   runs natively                  exit status (NATIVE=no: not run)
#   records                        same status; same output if OUTPUT=same
#   replays $REPLAYS times (3)     stdout, stderr as recorded, exact, complete, same ticks every time
# The recording stays in $T/NAME. RECORD_OPTIONS and REPLAY_OPTIONS are given to backstep.
record_replay() {
  local name=$1 native_status=
  shift
  local out=$T/$name.out err=$T/$name.err
  if [ "${NATIVE:-yes}" = yes ]; then
    in_fresh_folder "$name" "$out.native" "$err.native" "$@"
    native_status=$ended
  fi
  rm -rf "${T:?}/$name"
  # shellcheck disable=SC2086  # options are words
  in_fresh_folder "$name" "$out" "$err" "$BACKSTEP" record -q ${RECORD_OPTIONS:-} -o "$T/$name" -- "$@"
  [ -z "$native_status" ] || [ "$ended" = "$native_status" ] ||
    { tail -n 5 "$out" "$err" >&2; fail "$name: status $ended when recorded, $native_status natively"; }
  if [ "${OUTPUT:-}" = same ]; then
    same "$out.native" "$out" "$name: output differs from the native run"
    same "$err.native" "$err" "$name: stderr differs from the native run"
  fi
  replay_again "$name" "${REPLAYS:-3}" "${REPLAY_OPTIONS:-}"
}

# replay_again NAME TIMES [OPTIONS]: of what record_replay made.
replay_again() {
  local name=$1 times=$2 options=${3:-} out=$T/$1.out err=$T/$1.err i got ticks
  ticks=$(ticks_of "$T/$name")
  for ((i = 1; i <= times; i++)); do
    mkdir -p "$T/elsewhere"
    got=0
    # shellcheck disable=SC2086
    (cd "$T/elsewhere" && exec ${LIMIT:+timeout --foreground -k 5 $LIMIT} \
      "$BACKSTEP" replay --autopilot --json $options "$T/$name" \
      </dev/null >"$out.replay" 2>"$err.replay") || got=$?
    [ $got = 0 ] || { tail -n 15 "$err.replay" >&2; fail "$name: replay $i $options ended with $got"; }
    # The last line of stderr is the report, the rest is the program's.
    tail -n 1 "$err.replay" | sed 's/^.*{"complete"/{"complete"/' >"$T/report"
    "$PYTHON" - "$err.replay" <<'PY'
import sys
data = open(sys.argv[1], "rb").read()
open(sys.argv[1], "wb").write(data[:data.rindex(b'{"complete"')])
PY
    same "$out" "$out.replay" "$name: replay $i $options has other output"
    same "$err" "$err.replay" "$name: replay $i $options has other output on stderr"
    [ "$(field exact <"$T/report")" = True ] || fail "$name: replay $i $options was not exact: $(cat "$T/report")"
    [ "$(field complete <"$T/report")" = True ] || fail "$name: replay $i $options was not complete"
    got=$(field processes.0.ticks <"$T/report")
    [ "$got" = "$ticks" ] || fail "$name: replay $i $options counted $got ticks, the recording has $ticks"
    rmdir "$T/elsewhere" || fail "$name: replay left files behind"
  done
}

# program NAME [ARG...]: record_replay of a test program.
program() {
  [ -x "$P/$1" ] || fail "the test program $1 was not built"
  record_replay "$1" "$P/$1" "${@:2}"
}
# same_program: likewise, and the output must be what it is natively.
same_program() { OUTPUT=same program "$@"; }

# replay_tree NAME TIMES [OPTION...]: replays every process of $T/NAME, see replay_tree.py; with what record_tree
# recorded, the output is compared, too. The number of logs is in $logs.
replay_tree() {
  local name=$1 times=$2 output=()
  shift 2
  [ ! -e "$T/$name.out" ] || [ "${TREE_OUTPUT:-}" = no ] || output=(--output "$T/$name.out")
  logs=$("$PYTHON" "$SRC/tests/cases/replay_tree.py" "$BACKSTEP" "$T/$name" "$times" "${output[@]}" "$@") ||
    fail "$name: not every process replays exactly"
}

# tree_ended NAME: waits until no process of the recording runs any more; the first one may end before others.
tree_ended() {
  tree_runs_no_more() {
    "$BACKSTEP" ps --json "$T/$1" | "$PYTHON" -c '
import json, sys
def runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
sys.exit(any(p["end"] is None and runs(p["pid"]) for p in json.load(sys.stdin)))'
  }
  comes tree_runs_no_more "$1" || { "$BACKSTEP" ps "$T/$1" >&2; fail "$1: processes have not ended"; }
}

# record_tree NAME COMMAND...: like record_replay, for all processes; each is replayed $REPLAYS times (2).
# TREE_OPTIONS are given to replay_tree.
record_tree() {
  local name=$1
  REPLAYS=0 record_replay "$@"
  tree_ended "$name"
  # shellcheck disable=SC2086  # options are words
  replay_tree "$name" "${REPLAYS:-2}" ${TREE_OPTIONS:-}
}

# many_recordings COUNT [RECORD-OPTION...] -- COMMAND...: COUNT recordings, each replayed three times; see
# many_recordings.py. Its report is in $T/report; $outcomes is the number of different ones.
many_recordings() {
  local count=$1
  shift
  "$PYTHON" "$SRC/tests/cases/many_recordings.py" "$count" 3 "$T/many" "$@" >"$T/report" ||
    fail "$count recordings of ${*: -1}"
  cat "$T/report" >&2
  # shellcheck disable=SC2034  # for the case
  outcomes=$(sed -n '1s/ .*//p' "$T/report")
}

# For the damage cases: copies a recording ($T/$1 to $T/$2), and the path of its log.
damage() { "$PYTHON" "$SRC/tests/cases/damage.py" "$@"; }
copy_recording() {
  rm -rf "${T:?}/$2"
  cp -r "$T/$1" "$T/$2"
}
log_of() { echo "$T/$1/process-1.log"; }
# honest NAME WHAT: a replay of the damaged recording must not pass it over. Either it ends with status 3 and a
# sentence, or (0 is for intact recordings only) never. It must not crash or hang, nor invent output.
honest() {
  local got=0
  timeout "$PATIENCE" "$BACKSTEP" replay --autopilot "$T/$1" </dev/null >"$T/out" 2>"$T/err" || got=$?
  [ $got = 3 ] || { tail -n 5 "$T/err" >&2; fail "$2: replay ended with $got instead of 3"; }
  grep -Eqi 'damage|diverge|cut off|checksum|differ|missing|version|not a backstep|ends|ended|empty' "$T/err" ||
    { cat "$T/err" >&2; fail "$2: no sentence about it"; }
}
