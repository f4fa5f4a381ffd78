# For the cases that drive a real gdb; sourced behind lib.bash.
need gdb gcc
# compile NAME [FLAG...] <SOURCE: a program of the case's own, recorded later.
compile() {
  cat >"$T/$1.c"
  gcc -g -O0 -o "$T/$1" "$T/$1.c" "${@:2}"
}
# recorded NAME STATUS [ARG...]: records $T/NAME; output in $T/NAME.out.
recorded() {
  local name=$1 want=$2 got=0
  shift 2
  # The shell in between says "Segmentation fault" to nobody.
  bash -c '"$@"; exit $?' - "$BACKSTEP" record -q -o "$T/rec-$name" "$T/$name" "$@" >"$T/$name.out" 2>"$T/$name.err" ||
    got=$?
  [ "$got" = "$want" ] || fail "$name ended with $got when recorded"
}
# in_gdb NAME COMMAND...: a batch of gdb commands on the recording; what it printed is in $T/gdb.
in_gdb() {
  local name=$1 arguments=() command
  shift
  for command; do arguments+=(-ex "$command"); done
  # shellcheck disable=SC2086  # AT: options, as words
  timeout "$PATIENCE" "$BACKSTEP" replay -q ${AT:-} "$T/rec-$name" -nx -batch -ex 'set width 0' "${arguments[@]}" >"$T/gdb" 2>&1 ||
    { got=$?; cat "$T/gdb" >&2; fail "gdb ended with $got"; }
}
# printed PATTERN: … and it said so. not_printed: it did not. times N PATTERN: on so many lines.
printed() { grep -Eq -- "$1" "$T/gdb" || { cat "$T/gdb" >&2; fail "gdb did not print '$1'"; }; }
not_printed() { if grep -Eq -- "$1" "$T/gdb"; then cat "$T/gdb" >&2; fail "gdb printed '$1'"; fi; }
times() {
  local n
  n=$(grep -Ec -- "$2" "$T/gdb" || true)
  [ "$n" = "$1" ] || { cat "$T/gdb" >&2; fail "gdb printed '$2' $n times instead of $1"; }
}
server=
end_server_too() {
  local ended=$?
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  cleanup $ended
}
trap end_server_too EXIT
# serve NAME [OPTION...]: a server for the recording; port in $port. It ends with the case.
serve() {
  rm -f "$T/serve"  # of the one before, whose port would be found at once
  local name=$1
  shift
  "$BACKSTEP" replay --serve 0 "$@" "$T/rec-$name" 2>"$T/serve" &
  server=$!
  comes has_port || fail "no server: $(cat "$T/serve")"
}
has_port() {
  port=$(sed -n 's/.* at 127\.0\.0\.1:\([0-9]*\);.*/\1/p' "$T/serve" 2>/dev/null || true)
  [ -n "$port" ]
}
rsp() { "$PYTHON" -B "$SRC/tests/cases/rsp.py" "$port" "$@" || fail "rsp $*"; }
stop_server() {
  kill "$server" 2>/dev/null || true
  wait "$server" 2>/dev/null || true
  server=
}
