#!/usr/bin/env bash
# What one debug region declares later regions of the same call of the function can use: values, containers, arrays, static variables
# and references, in C and C++, recursion and threads included. Names of the program stay the program's. A region that has not run in
# this call has no variables yet. Regions in front of calls that were inlined find their places, and flags come from compile_commands.json.
source "$(dirname "$0")/lib.bash"
need g++
mkdir "$T/recordings" c cc
cat >sums.c <<'C'
#include "depth.h"
#include <stdio.h>
static int half(int n) { return n / 2; }
int sum(int n) {
  int result = n;
  if (n > 1) {
    result += sum(half(n));
  }
  result = half(result) + result;
  return result;
}
int main(void) {
  for (int i = 0; i < 3; i++) printf("%d\n", sum(DEPTH + i));
  return 0;
}
C
mkdir include && echo '#define DEPTH 4' >include/depth.h
gcc -g -O0 -Iinclude -o sums sums.c
gcc -g -O1 -Iinclude -o inlined sums.c
expect 0 "$BACKSTEP" record -q -o "$T/recordings/sums" ./sums
expect 0 "$BACKSTEP" record -q -o "$T/recordings/inlined" ./inlined
cat >shapes.cc <<'CC'
#include <cstdio>
#include <string>
#include <thread>
#include <vector>
template <class T> __attribute__((noinline)) T grow(std::vector<T> &all, T by) {
  T last = T();
  for (T &one : all) {
    one = one + by;
    last = one;
  }
  return last;
}
int main() {
  std::vector<int> numbers{1, 2, 3};
  std::vector<std::string> words{"a", "b"};
  std::thread other([&] { grow(words, std::string("x")); });
  other.join();
  printf("%d\n", grow(numbers, 2));
  return words.size() != 2;
}
CC
g++ -g -O0 -pthread -o shapes shapes.cc
expect 0 "$BACKSTEP" record -q -o "$T/recordings/shapes" ./shapes
"$PYTHON" - <<'PY'
import json, os
def put(source, folder, edits):
    text = open(source).read()
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    open(f"{folder}/{source}", "w").write("#include <backstep/debug.h>\n" + text)
put("sums.c", "c", [("  int result = n;\n", """  BACKSTEP_BEGIN
    int result_before = n, *pointer = &result_before;
    static int calls;
    int digits[2] = {n, n + 1};
    long kept = ++calls * 10;
  BACKSTEP_END
  int result = n;
"""), ("    result += sum", """    BACKSTEP_BEGIN
      kept++;
      digits[1] += kept;
    BACKSTEP_END
    result += sum"""), ("  result = half(result)", """  BACKSTEP_BEGIN
    printf("n %d kept %ld calls %d digits %d %d before %d\\n", n, kept, calls, digits[0], digits[1], result_before);
  BACKSTEP_END
  result = half(result)""")])
put("shapes.cc", "cc", [("  T last = T();\n", """  BACKSTEP_BEGIN
    std::vector<std::string> seen;
    auto begun = seen.size();
    const std::string name = "grow";
  BACKSTEP_END
  T last = T();
"""), ("    last = one;\n", """    BACKSTEP_BEGIN
      seen.push_back(name + std::to_string(sizeof(one)));
    BACKSTEP_END
    last = one;
"""), ("  return last;\n", """  BACKSTEP_BEGIN
    printf("%s: %zu, %s %s\\n", name.c_str(), seen.size() - begun, seen.front().c_str(), seen.back().c_str());
  BACKSTEP_END
  return last;
""")])
here = os.getcwd()
json.dump([{"directory": here + "/c", "file": "sums.c", "arguments": ["gcc", "-g", "-O0", "-I../include", "-c", "sums.c"]}],
          open("c/compile_commands.json", "w"))
PY
say "in C"
expect 0 "$BACKSTEP" probe c/sums.c sums
cat >wanted <<'EOT'
n 1 kept 30 calls 3 digits 1 2 before 1
n 2 kept 21 calls 3 digits 2 24 before 2
n 4 kept 11 calls 3 digits 4 16 before 4
n 1 kept 60 calls 6 digits 1 2 before 1
n 2 kept 51 calls 6 digits 2 54 before 2
n 5 kept 41 calls 6 digits 5 47 before 5
n 1 kept 90 calls 9 digits 1 2 before 1
n 3 kept 81 calls 9 digits 3 85 before 3
n 6 kept 71 calls 9 digits 6 78 before 6
EOT
diff wanted out >&2 || { cat err >&2; fail "what the regions in C share"; }
say "in C++"
expect 0 "$BACKSTEP" probe cc/shapes.cc shapes
sed 's/[0-9]*$//; s/grow[0-9][0-9]/growN/g; s/growN */growN /g' out | head -n 1 | grep -q '^grow: 2, growN' && [ "$(sed -n 2p out)" = "grow: 3, grow4 grow4" ] ||
  { cat out err >&2; fail "what the regions in C++ share"; }
say "not yet"
sed -i 's/    BACKSTEP_BEGIN\n      kept++/&/; s/^    int result_before/    int unused, result_before/' c/sums.c
"$PYTHON" - <<'PY'
text = open("c/sums.c").read()
begin = text.index("  BACKSTEP_BEGIN\n    int unused")
end = text.index("  BACKSTEP_END\n", begin) + len("  BACKSTEP_END\n")
region = text[begin:end]
text = text[:begin] + text[end:]
text = text.replace("    result += sum(half(n));\n", region + "    result += sum(half(n));\n", 1)
text = text.replace("    BACKSTEP_BEGIN\n      kept++;\n      digits[1] += kept;\n    BACKSTEP_END\n", "")
open("c/sums.c", "w").write(text)
PY
status=0
"$BACKSTEP" probe c/sums.c sums >out 2>err || status=$?
grep -qE "'(kept|calls|digits|result_before)' was not declared|undeclared|has no value yet|not come to the region" err ||
  { cat out err >&2; fail "a variable of a region that has not run (status $status)"; }
say "a function that was inlined"
expect 0 "$BACKSTEP" probe --at half 'static int times; times++; if (times == 12) printf("half again\n");' inlined
grep -q '^half again$' out || { cat out err >&2; fail "inlined copies of a function: $(cat out err)"; }
ok
