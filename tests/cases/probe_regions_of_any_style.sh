#!/usr/bin/env bash
# Regions in sources as others write them: brackets in lines of their own, names of functions at the beginning of a line, functions
# that were inlined everywhere, headers, which are compiled as part of a source that includes them.
source "$(dirname "$0")/lib.bash"
need g++
mkdir "$T/recordings" "$T/was"
cat >list.h <<'C'
#ifdef LIST_IMPLEMENTATION
static int
list_sum (const int *from,
          int count)
{
  int sum = 0;
  for (int i = 0; i < count; i++)
  {
    sum += from[i];
  }
  return sum;
}
#endif
C
cat >gnu.c <<'C'
#include <stdio.h>
#define LIST_IMPLEMENTATION
#include "list.h"

static volatile int total;

static void
add (int n)
{
  total += n;
}

int
main (int argc,
      char **argv)
{
  int values[] = {argc, 20, 300};
  for (int i = 1; i <= 3; i++)
    add (list_sum (values, i * argc));
  printf ("%d\n", total);
  return 0;
}
C
cat >allman.cc <<'CC'
#include <cstdio>
struct Counter
{
  int hits;
  __attribute__((noipa))
  Counter(int start)
    : hits(start)
  {
    hits++;
  }
  template <class T> __attribute__((noipa)) T
  twice(T by) const
  {
    std::puts("twice");
    return by * 2;
  }
  int out();
};
int
Counter::out()
{
  auto doubled = [&]
    (int n)
  {
    return n * 2 + hits;
  };
  return doubled(hits);
}
int main()
{
  Counter c(4);
  printf("%d %d\n", c.twice(3), c.out());
  return 0;
}
CC
cp gnu.c allman.cc list.h was
for flags in -O0 -O2; do
  cp was/* .
  gcc -g $flags -o gnu gnu.c
  g++ -g $flags -o allman allman.cc
  for program in gnu allman; do expect 0 "$BACKSTEP" record -q -o "$T/recordings/$program$flags" ./$program; done
  "$PYTHON" - <<'PY'
def put(source, *edits):
    text = open(source).read()
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, f"  BACKSTEP_BEGIN\n    printf({new});\n  BACKSTEP_END\n" + old)
    open(source, "w").write("#include <backstep/debug.h>\n#ifdef BACKSTEP_PROBE\n#include <stdio.h>\n#endif\n" + text)
put("list.h", ("    sum += from", '"value %d\\n", from[i]'))
put("gnu.c", ("  total += n;", '"add %d to %d\\n", n, total'), ('  printf ("%d', '"main %d\\n", total'))
put("allman.cc", ("    hits++;", '"Counter %d\\n", start'), ("    std::puts", '"twice %d of %d\\n", by, hits'),
    ('  printf("%d %d', '"main\\n"'))
PY
  expect 0 "$BACKSTEP" probe gnu.c "gnu$flags" -- $flags
  printf 'value 1\nadd 1 to 0\nvalue 1\nvalue 20\nadd 21 to 1\nvalue 1\nvalue 20\nvalue 300\nadd 321 to 22\nmain 343\n' >wanted
  diff wanted out >&2 || { cat err >&2; fail "$flags: C"; }
  expect 0 "$BACKSTEP" probe list.h "gnu$flags" -- $flags
  diff wanted out >&2 || { cat err >&2; fail "$flags: a header"; }
  grep -q "'list.h' is compiled as part of '.*/gnu.c'" err || fail "$flags: no word of the source: $(cat err)"
  expect 0 "$BACKSTEP" probe allman.cc "allman$flags" -- $flags
  [ "$(sort out)" = $'Counter 4\nmain\ntwice 3 of 5' ] || { cat out err >&2; fail "$flags: C++"; }
done
say "a lambda"
"$PYTHON" - <<'PY'
text = open("was/allman.cc").read()
open("allman.cc", "w").write("#include <backstep/debug.h>\n" + text.replace("    return n * 2", '  BACKSTEP_BEGIN n++; BACKSTEP_END\n    return n * 2'))
PY
expect 1 "$BACKSTEP" probe allman.cc allman-O0 -- -O0
grep -q "allman.cc:26: a debug region cannot stand in a lambda.* --at allman.cc:27 " err || fail "$(cat err)"
expect 0 "$BACKSTEP" probe --at allman.cc:25 'printf("doubled %d of %d\n", n, (int)hits);' allman-O0
[ "$(cat out)" = "doubled 5 of 5" ] || { cat out err >&2; fail "a snippet in a lambda"; }
say "files of debug code that have templates in common with the program, regions between an inlined function and the next"
cat >common.cc <<'CC'
#include <cstdio>
#include <vector>
template <class T> struct Many {
  std::vector<T> all;
  volatile T last = 0;
  void add(T value)
  {
    last = value;
    all.push_back(value);
    all.push_back(value + 1);
  }
};
static int walk(const std::vector<int> &all, int depth)
{
  puts("walk");
  int sum = depth;
  for (int n : all) sum += n;
  return sum;
}
int main(int argc, char **)
{
  Many<int> many;
  many.add(argc);
  many.add(argc * 10);
  printf("%d\n", walk(many.all, 1));
  return 0;
}
CC
g++ -g -O2 -o common common.cc
expect 0 "$BACKSTEP" record -q -o "$T/recordings/common" ./common
sed -i '1i #include <backstep/debug.h>\nvoid seen(int);
s|^    last = value;|BACKSTEP_BEGIN\nseen(value);\nBACKSTEP_END\n&|
s|^  puts("walk")|BACKSTEP_BEGIN\nseen(-depth);\nBACKSTEP_END\n&|' common.cc
cat >extra.cc <<'CC'
#include <cstdio>
#include <vector>
static std::vector<int> values;
void seen(int n) {
  values.push_back(n);
  for (int value : values) printf("%d ", value);
  puts("");
}
CC
expect 0 "$BACKSTEP" probe common.cc extra.cc common -- -O2 -std=c++17
printf '1 \n1 10 \n1 10 -1 \n' >wanted
diff wanted out >&2 || { cat err >&2; fail "templates in common"; }
say "a header that nobody includes"
echo 'void other(void) { BACKSTEP_BEGIN other(); BACKSTEP_END }' >other.h
sed -i '1i #if 0' other.h && echo '#endif' >>other.h
expect 1 "$BACKSTEP" probe other.h gnu-O2
grep -q "give backstep probe the source that includes it" err || fail "$(cat err)"
ok
