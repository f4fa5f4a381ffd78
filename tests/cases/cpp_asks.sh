#!/usr/bin/env bash
# libbackstep as it is installed: found by pkg-config and by CMake, and its examples, whose answers are those of the program.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
need pkg-config cmake
source "$SRC/tests/cases/sums.bash"
cmake --install "$BUILD" --prefix "$T/usr" >installed || fail "it cannot be installed"
library=$(dirname "$(find usr -name libbackstep.so)")
export PKG_CONFIG_PATH=$T/$library/pkgconfig LD_LIBRARY_PATH=$T/$library
compile() {  # SOURCE PROGRAM
  # shellcheck disable=SC2046  # flags are words
  g++ -std=c++20 -Wall -Wextra -Wpedantic -Werror "$1" -o "$2" $(pkg-config --cflags --libs backstep) || fail "$1 cannot be compiled"
}
E=$SRC/examples/cpp
compile "$E/values.cc" values
compile "$E/invariant.cc" invariant
compile "$SRC/tests/cases/cpp_asks.cc" asks
awk '/^```cpp/ { on = 1; next } /^```/ { on = 0 } on' "$SRC/docs/cpp.md" | sed 's/"inventory-1"/"crash"/' >documented.cc
compile documented.cc documented
{ cmake -S "$E" -B examples -Dbackstep_DIR="$T/$library/cmake/backstep" && cmake --build examples --target compare; } >made 2>&1 ||
  { cat made >&2; fail "find_package(backstep) does not do"; }

./values total one >values.out
"$BACKSTEP" log 'change total' '{$new}' one | awk '{print $1, $NF}' >values.log
[ "$(wc -l <values.log)" = 11 ] || fail "log: $(cat values.log)"
{ echo 'start 0'; cat values.log; } | same - values.out "values.cc has found other values than log"
./invariant sums.c:5 'total >= 0' one >broken && fail "invariant.cc has found nothing"
at=$("$BACKSTEP" log --limit 1 'sums.c:5 if total < 0' '' one | awk '{print $1}')
grep -qF "holds 7 times, and not at $at:" broken || fail "invariant.cc: $(cat broken)"
grep -q '^  main (.*sums.c:9)$' broken || fail "invariant.cc shows no stack: $(cat broken)"
./invariant sums.c:5 'total >= 0' two >held || fail "invariant.cc has found what is not there"
examples/compare one two add main >compared
grep -q '^ *10 *10  add$' compared || fail "compare.cc: $(cat compared)"

gcc -g -o inventory "$SRC/examples/demo/inventory.c"
"$BACKSTEP" record -q -o crash ./inventory "$SRC/examples/demo/orders.txt" >/dev/null && fail "it did not crash"
./documented >documented.out || fail "the example of docs/cpp.md fails"
grep -q '^report:77$' documented.out || fail "the example of docs/cpp.md: $(cat documented.out)"
[ "$(grep -c '^@' documented.out)" = $(($("$BACKSTEP" log inventory.c:55 '' crash | wc -l) + 1)) ] ||
  fail "the example of docs/cpp.md has not all matches"

# Errors are the sentences of the command line.
./asks one >sentences || fail "what libbackstep answers"
says_of() { { "$@" || true; } 2>&1 >/dev/null | sed 's/^backstep: //'; }
{
  says_of "$BACKSTEP" count 'call nothing' one
  says_of "$BACKSTEP" log 'call nothing' '' one
  says_of "$BACKSTEP" count --from nowhere 'call add' one
  says_of "$BACKSTEP" info not-there
  says_of "$BACKSTEP" count -p '#7' 'call add' one
  echo 'the session is closed'
} | same - sentences "libbackstep has other sentences than the command line"

# Which program it starts: the one of the environment, of the search path, and the one that was installed with it.
BACKSTEP=$T/nowhere expect 2 ./values total one
says "there is no program '$T/nowhere': install Backstep, or set BACKSTEP to its path"
mkdir path
printf '#!/bin/sh\necho "backstep: found in the path" >&2\nexit 1\n' >path/backstep
chmod +x path/backstep
PATH=$T/path:$PATH expect 2 ./values total not-there
says "there is no recording 'not-there'"
BACKSTEP='' PATH=$T/path:$PATH expect 2 ./values total one
says 'values: found in the path$'
BACKSTEP='' PATH=$T expect 2 ./values total not-there
says "there is no recording 'not-there'"
rm usr/bin/backstep
BACKSTEP='' PATH=$T expect 2 ./values total one
says "there is no program 'backstep'"
ok
