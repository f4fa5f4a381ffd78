/* What `./run bench --probe` puts a region into: a function that is called as often as the argument says. */
#include <stdio.h>
#include <stdlib.h>
long total;
__attribute__((noinline)) static void step(int i, int j) {
  total += i ^ j; /* HERE */
  __asm__ volatile("" : : "r"(i), "r"(j));
}
int main(int argc, char **argv) {
  const long n = argc > 1 ? atol(argv[1]) : 1000;
  for (long i = 0; i < n; i++) step((int)i, (int)(n - i));
  if (total == 1) {
    puts("by chance"); /* NEVER */
    puts("one");
  }
  printf("%ld\n", total);
  return 0;
}
