#!/usr/bin/env bash
# Debug regions in a program's source, put there after the recording: they see its variables, static functions and globals, use
# debug-only globals, and find their places though lines have moved. In an ordinary build nothing becomes of them. (The
# modules are run natively here, in gdb.)
source "$(dirname "$0")/lib.bash"
mkdir "$T/recordings" debug
cat >calc.c <<'C'
#include <stdio.h>
static int total;
struct pair { int n, m; };
static int square(int x) { return x * x; }
static int add(struct pair *p, int n) {
  int k = n * 2;
  for (int i = 0; i < 2; i++) {
    total += square(k) + p->n;
  }
  return total;
}
int main(int argc, char **argv) {
  struct pair p = {argc, 5};
  int n = add(&p, 3) + add(&p, 4);
  return n == 0;
}
C
cat >boxes.cc <<'CC'
#include <string>
namespace box {
template <class T> struct Box {
  T value;
  __attribute__((noinline)) T swap(T other) {
    T before = value;
    value = other;
    return before;
  }
};
static int count = 4;
struct Counter { int hits = 0; void hit(int &by); private: int secret = 9; };
void Counter::hit(int &by) {
  hits += by;
  count++;
}
}
int main() {
  box::Box<int> a{1};
  box::Box<std::string> b{"one"};
  a.swap(2);
  b.swap("two");
  box::Counter c;
  int by = 3;
  c.hit(by);
  return box::count == 0;
}
CC
"$PYTHON" - <<'PY'
def put(source, edits):
    text = open(source).read()
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    open("debug/" + source, "w").write("#include <backstep/debug.h>\n" + text)
put("calc.c", [("static int add(", """BACKSTEP_GLOBAL
static int shown;
static void show(const char *what, int n) { printf("%d. %s %d\\n", ++shown, what, n); fflush(stdout); }
BACKSTEP_GLOBAL_END
static int add("""), ("    total += square", """    BACKSTEP_BEGIN
      static int calls;
      struct pair copy = *p;
      for (int j = 0; j < 1; j++) show("k", k + copy.n);
      printf("%d %d %d %d %d\\n", ++calls, i, total, square(n), p->m);
      fflush(stdout);
    BACKSTEP_END
    total += square""")])
put("boxes.cc", [("    value = other;", """    rdb_begin
      static std::string all;
      printf("%d %s\\n", (int)sizeof(before), (all += "x").c_str()); fflush(stdout);
    rdb_end
    value = other;"""), ("  hits += by;", """  BACKSTEP_BEGIN
    auto twice = [&](int x) { return x * 2; };
    seen[by]++;
    printf("%d %d %d %d %zu\\n", hits, by, twice(secret), count, seen.size());
    fflush(stdout);
  BACKSTEP_END
  hits += by;"""), ("namespace box {", """#ifdef BACKSTEP_PROBE
#include <cstdio>
#include <map>
#endif
BACKSTEP_GLOBAL std::map<int, int> seen; BACKSTEP_GLOBAL_END
namespace box {""")])
PY
run() {  # PROGRAM SOURCE
  expect 0 "$BACKSTEP" probe --compile --json --output module "$2" "$1" -- -Wall
  cp out report
  PROBE_MODULE=module PROBE_REPORT=report PROBE_OUT=printed timeout "$PATIENCE" \
    gdb -batch -nx -x "$SRC/tests/cases/probe_native.py" "./$1" >gdb.log 2>&1 || { cat gdb.log >&2; fail "gdb"; }
  grep -q "Error\|error" gdb.log && { cat gdb.log >&2; fail "the module does not run"; }
  return 0
}
same_code() {  # A B
  for section in .text .rodata .data; do
    objcopy -O binary -j $section "$1" a.bin 2>objcopy.log && objcopy -O binary -j $section "$2" b.bin 2>objcopy.log
    cmp a.bin b.bin >&2 || fail "$section of $2 is not as without debug regions"
  done
}
for level in -O0 -O2; do
  gcc -g $level -no-pie -o calc calc.c
  gcc -g $level -no-pie -Wall -Wextra -Werror -Wno-unused -I"$SRC/include" -o calc_regions debug/calc.c
  same_code calc calc_regions
  g++ -g $level -no-pie -o boxes boxes.cc
  g++ -g $level -no-pie -Wall -Wextra -Werror -Wno-unused -I"$SRC/include" -o boxes_regions debug/boxes.cc
  same_code boxes boxes_regions
done
gcc -g -O0 -no-pie -o calc calc.c
expect 0 "$BACKSTEP" record -q -o "$T/recordings/calc" ./calc
run calc debug/calc.c
cat >wanted <<'EOT'
1. k 7
1 0 0 9 5
2. k 7
2 1 37 9 5
3. k 9
3 0 74 16 5
4. k 9
4 1 139 16 5
EOT
sed -i '/^$/d' printed
diff wanted printed >&2 || fail "what the regions in C print"
g++ -g -O0 -no-pie -o boxes boxes.cc
expect 0 "$BACKSTEP" record -q -o "$T/recordings/boxes" ./boxes
run boxes debug/boxes.cc
printf '4 x\n32 x\n0 3 18 4 1\n' >wanted
diff wanted printed >&2 || fail "what the regions in C++ print"
# A source that is not that of the program any more.
sed 's/int k = n \* 2;/int k = n;\n  k += n;\n  if (k > 3)\n    k++;\n  while (k < 0)\n    k += 3;/' debug/calc.c >changed.c && mv changed.c debug/calc.c
expect 1 "$BACKSTEP" probe --compile debug/calc.c calc -- -Wall
grep -q "'add' was changed since the program was built" err || fail "the changed function is not noticed: $(cat err)"
ok
