# For cases that run debug modules made by hand; behind lib.bash.
need g++ nm
# make_module NAME.cc PROGRAM: a module whose code may use the program's functions and variables, if it is not
# position-independent.
make_module() {
  local names=() name address type
  if [ $# -gt 1 ]; then
    while read -r address type name; do
      case $type in [TtDdBbRr]) names+=("-Wl,--defsym,program_$name=0x$address") ;; esac
    done < <(nm "$2" | grep -E ' (inner|outer|shared|say|keep|many|count_up|callback|crash|wait_for|leave)$')
  fi
  g++ -std=c++17 -O1 -g -fno-omit-frame-pointer -static -no-pie -Wl,-Ttext-segment=0x48000000 -I"$SRC/src" \
    -I"$SRC/tests/cases" "${names[@]}" "$1" -o "${1%.cc}" || fail "the module $1 cannot be made"
}
# address FILE NAME: of a symbol, as 0x…
address() { nm "$1" | awk -v n="$2" '$3 == n { print "0x" $1; found = 1 } END { exit !found }' || fail "no $2 in $1"; }
# probed ARGUMENTS...: stdout in out, the rest in err.
probed() { expect 0 "$BUILD/probed" "$@"; }
