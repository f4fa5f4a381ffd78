/* A small warehouse: reads orders, one per line, and keeps stock.
 *
 *   receive QUANTITY NAME      goods come in; an unknown item is entered
 *   ship QUANTITY NAME         goods go out
 *   report                     prints the stock
 *
 * It has a bug. Most of the time it works; with examples/demo/orders.txt it dies of SIGSEGV, long after and far
 * from the line that is wrong: an ordinary debugger shows where it died, and the cause is gone by then.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BUCKETS 16

struct item {
  char name[24];
  struct item* next; /* in the same bucket */
  long quantity;
  time_t last_change;
};

static struct item* buckets[BUCKETS];
static unsigned long lookups;

static unsigned hash(const char* name) {
  unsigned h = 5381;
  while (*name) h = h * 33 + (unsigned char)*name++;
  return h % BUCKETS;
}

static struct item* find(const char* name) {
  lookups++;
  for (struct item* i = buckets[hash(name)]; i != NULL; i = i->next)
    if (strcmp(i->name, name) == 0) return i;
  return NULL;
}

static struct item* enter(const char* name) {
  struct item* i = calloc(1, sizeof *i);
  if (i == NULL) {
    perror("inventory");
    exit(1);
  }
  i->next = buckets[hash(name)];
  buckets[hash(name)] = i;
  strcpy(i->name, name);
  return i;
}

static void receive(const char* name, long quantity) {
  struct item* i = find(name);
  if (i == NULL) i = enter(name);
  i->quantity += quantity;
  i->last_change = time(NULL);
}

static void ship(const char* name, long quantity) {
  struct item* i = find(name);
  if (i == NULL) {
    printf("unknown item: %s\n", name);
  } else if (i->quantity < quantity) {
    printf("only %ld of %s in stock\n", i->quantity, name);
  } else {
    i->quantity -= quantity;
    i->last_change = time(NULL);
    printf("shipped %ld of %s\n", quantity, name);
  }
}

static void report(void) {
  long items = 0, pieces = 0;
  for (int b = 0; b < BUCKETS; b++)
    for (struct item* i = buckets[b]; i != NULL; i = i->next) {
      items++;
      pieces += i->quantity;
    }
  printf("%ld items, %ld pieces, %lu lookups\n", items, pieces, lookups);
}

int main(int argc, char** argv) {
  FILE* orders = argc > 1 ? fopen(argv[1], "r") : stdin;
  if (orders == NULL) {
    perror(argv[1]);
    return 1;
  }
  setvbuf(stdout, NULL, _IOLBF, 0); /* show each order as it is done */
  char line[256], word[16], name[128];
  long quantity;
  while (fgets(line, sizeof line, orders) != NULL) {
    if (sscanf(line, "receive %ld %127[^\n]", &quantity, name) == 2)
      receive(name, quantity);
    else if (sscanf(line, "ship %ld %127[^\n]", &quantity, name) == 2)
      ship(name, quantity);
    else if (sscanf(line, "%15s", word) == 1 && strcmp(word, "report") == 0)
      report();
  }
  report();
  return 0;
}
