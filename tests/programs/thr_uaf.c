// Use after free between threads: one frees and allocates again what others still read. The heap stays intact (they only
// read), but what they see depends on who was when where.
#include "thr.h"

struct Item {
  uint64_t number, check;
  char text[48];
};
static struct Item* volatile current;
static atomic_int stop;
static int rounds = 3000;

static void* reader(void* argument) {
  uint64_t digest = 1, stale = 0, reads = 0;
  while (!stop) {
    struct Item* item = current;
    uint64_t number = *(volatile uint64_t*)&item->number;
    compute(reads % 5);
    uint64_t check = *(volatile uint64_t*)&item->check;
    if (check != ~number) {
      stale++;
      digest = digest_of(digest, number ^ check);
    }
    digest = digest_of(digest, number);
    if (++reads % 128 == 0) sched_yield();
  }
  printf("reader: %lu reads, %lu stale, digest %lx\n", reads, stale, digest);
  return 0;
}

static struct Item* make(uint64_t number) {
  struct Item* item = malloc(sizeof *item);
  CHECK(item);
  item->number = number;
  item->check = ~number;
  memset(item->text, (int)number, sizeof item->text);
  return item;
}

int main(int argc, char** argv) {
  if (argc > 1) rounds = atoi(argv[1]);
  current = make(0);
  pthread_t threads[2] = {start(reader, 0), start(reader, 0)};
  for (int i = 1; i < rounds; i++) {
    struct Item* old = current;
    struct Item* item = make((uint64_t)i);
    current = item;
    free(old);  // too early: a reader may have it
    char* garbage = malloc(sizeof *item);
    memset(garbage, i, sizeof *item);
    if (i % 200 == 0) sched_yield();
    free(garbage);
  }
  stop = 1;
  join(threads[0]), join(threads[1]);
  return 0;
}
