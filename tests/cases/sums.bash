# A sum that goes wrong at the seventh step, recorded as `one`, and as `two` with other numbers; sourced behind lib.bash.
cat >sums.c <<'C'
#include <stdio.h>
#include <stdlib.h>
long total;
__attribute__((noinline)) void add(int n) {
  total += n;
  if (n == 7) total = -1;
}
int main(int argc, char** argv) {
  for (int i = 1; i <= 10; i++) add(i * (argc > 1 ? atoi(argv[1]) : 1));
  printf("%ld\n", total);
}
C
gcc -g -o sums sums.c
"$BACKSTEP" record -q -o one ./sums >/dev/null
"$BACKSTEP" record -q -o two ./sums 2 >/dev/null
