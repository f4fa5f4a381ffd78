// A stack without locks and without tags: pop reads head and next, then compares and swaps, and the head may have gone
// and come back in between (ABA). What is lost or found twice in the end depends on the interleaving.
#include "thr.h"

enum { kNodes = 64, kThreads = 4 };
struct Node {
  struct Node* volatile next;
  volatile int taken;
};
static struct Node nodes[kNodes];
static struct Node* volatile head;
static int rounds = 3000;

static struct Node* pop(unsigned delay) {
  for (int tries = 0; tries < 1000; tries++) {
    struct Node* old = head;
    if (!old) return 0;
    struct Node* next = old->next;
    if (delay) compute(delay);
    if (__sync_bool_compare_and_swap(&head, old, next)) return old;
  }
  return 0;
}
static void push(struct Node* node) {
  struct Node* old;
  do {
    old = head;
    node->next = old;
  } while (!__sync_bool_compare_and_swap(&head, old, node));
}

static void* thread(void* argument) {
  uint64_t digest = 1, twice = 0;
  for (int i = 0; i < rounds; i++) {
    struct Node* a = pop((unsigned)(i % 11));
    struct Node* b = pop(0);
    digest = digest_of(digest, (a ? (uint64_t)(a - nodes) : 99) * 128 + (b ? (uint64_t)(b - nodes) : 99));
    if (a && a->taken++) twice++;
    if (b && b->taken++) twice++;
    if (i % 64 == (long)argument) sched_yield();
    if (a) {
      a->taken = 0;
      push(a);
    }
    if (b) {
      b->taken = 0;
      push(b);
    }
  }
  return (void*)digest_of(digest, twice);
}

int main(int argc, char** argv) {
  if (argc > 1) rounds = atoi(argv[1]);
  for (int i = 0; i < kNodes; i++) push(&nodes[i]);
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; i++) threads[i] = start(thread, (void*)i);
  uint64_t digest = 0;
  for (int i = 0; i < kThreads; i++) digest = digest_of(digest, (uint64_t)join(threads[i]));
  int left = 0;
  char seen[kNodes] = {0};
  for (struct Node* node = head; node && !seen[node - nodes]; node = node->next) seen[node - nodes] = 1, left++;
  printf("%d of %d left, digest %lx\n", left, kNodes, digest);
  return 0;
}
