# A list of three nodes that is made one by one, recorded as `recording`; sourced behind lib.bash.
cat >list.c <<'C'
#include <stdlib.h>
struct node { long value; struct node* next; };
struct node* list;
__attribute__((noinline)) void add(long value) {
  struct node* n = malloc(sizeof *n);
  n->value = value;
  n->next = list;
  list = n;
}
int main(void) {
  for (long i = 1; i < 4; i++) add(i);
  return 0;
}
C
gcc -g -O1 -o list list.c
"$BACKSTEP" record -q -o "$T/recording" ./list
