#!/usr/bin/env bash
# Debug code reads and writes files of the user's in a recording that was made here. In one that comes from elsewhere its replay
# may open nothing but the recording; code is compiled, loaded, printed and called back all the same, and what is refused is said.
source "$(dirname "$0")/lib.bash"
need g++
mkdir "$T/recordings"
cat >program.c <<'C'
#include <stdio.h>
static volatile int sum;
__attribute__((noinline)) void inner(int i) {
  sum += i;
  sum++;
}
int main(void) {
  for (int i = 0; i < 5; i++) inner(i);
  return 0;
}
C
gcc -g -O1 -o program program.c
expect 0 "$BACKSTEP" record -q -o "$T/recordings/own" ./program
cp -r "$T/recordings/own" "$T/recordings/copy"
code="static int calls;
if (!calls++) backstep::on_return(\"inner\", [] { puts(\"back\"); });
if (FILE *f = fopen(\"$T/written\", \"a\")) fprintf(f, \"%d\\n\", i), fclose(f);
struct tm now; time_t t = 0; localtime_r(&t, &now);
printf(\"%d\\n\", i);"
expect 0 "$BACKSTEP" probe --at inner "$code" own
diff <(printf '%s\n' 0 back 1 back 2 back 3 back 4 back) out >&2 || fail "in our own recording"
diff <(seq 0 4) written >&2 || fail "what was written to a file"
rm written
expect 1 "$BACKSTEP" probe --at inner "$code" copy
diff <(printf '%s\n' 0 back 1 back 2 back 3 back 4 back) out >&2 || fail "in a recording from elsewhere"
[ ! -e written ] || fail "debug code in a recording from elsewhere has written to a file"
[ "$(grep -c 'it opens .*/written.: the recording comes from elsewhere' err)" = 1 ] || fail "it is not said why: $(cat err)"
# Ways into what is ours.
expect 0 "$BACKSTEP" probe --at inner 'const char *names[] = {"/proc/self/mem", "/proc/self/clear_refs", "/proc/thread-self/mem"};
  for (const char *name : names) if (fopen(name, "r+")) printf("%s can be written to\n", name);' own
[ ! -s out ] || fail "$(cat out)"
ok
