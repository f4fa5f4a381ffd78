// Many threads: one after another, in batches, 300 alive at once, detached ones, ones that start others, ones on stacks
// that the program allocated.
#include <semaphore.h>
#include <sys/mman.h>

#include "thr.h"

static void* square(void* argument) { return (void*)((long)argument * (long)argument); }

static pthread_barrier_t barrier;
static void* meet_all(void* argument) {
  volatile char stack[4096];
  memset((char*)stack, (int)(long)argument, sizeof stack);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  for (unsigned i = 0; i < sizeof stack; i++) CHECK(stack[i] == (char)(long)argument);
  return (void*)1l;
}

static sem_t done;
static atomic_long detached_sum;
static void* detached(void* argument) {
  detached_sum += (long)argument;
  sem_post(&done);
  return 0;
}

// A tree: every thread starts two and waits for them.
static void* tree(void* argument) {
  long depth = (long)argument;
  if (depth == 0) return (void*)1l;
  pthread_t left = start(tree, (void*)(depth - 1)), right = start(tree, (void*)(depth - 1));
  long sum = join(left);
  return (void*)(sum + join(right));
}

static char* own_stack;
static void* on_own_stack(void* argument) {
  char here;
  CHECK(&here > own_stack && &here < own_stack + (256 << 10));
  return (void*)7l;
}

int main(void) {
  long sum = 0;
  for (long i = 0; i < 300; i++) sum += join(start(square, (void*)i));
  printf("one by one %ld\n", sum);

  sum = 0;
  for (int batch = 0; batch < 10; batch++) {
    pthread_t threads[30];
    for (long i = 0; i < 30; i++) threads[i] = start(square, (void*)(batch * 30 + i));
    for (int i = 0; i < 30; i++) sum += join(threads[i]);
  }
  printf("batches %ld\n", sum);

  static pthread_t all[300];
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  OK0(pthread_attr_setstacksize(&attributes, 64 << 10));
  pthread_barrier_init(&barrier, 0, 301);
  for (long i = 0; i < 300; i++) OK0(pthread_create(&all[i], &attributes, meet_all, (void*)i));
  pthread_barrier_wait(&barrier);
  puts("300 alive");
  pthread_barrier_wait(&barrier);
  sum = 0;
  for (int i = 0; i < 300; i++) sum += join(all[i]);
  printf("at once %ld\n", sum);

  sem_init(&done, 0, 0);
  OK0(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED));
  for (long i = 0; i < 200; i++) {
    pthread_t thread;
    if (i % 2) {
      OK0(pthread_create(&thread, &attributes, detached, (void*)i));
    } else {
      OK0(pthread_detach(start(detached, (void*)i)));
    }
  }
  for (int i = 0; i < 200; i++) CHECK(sem_wait(&done) == 0);
  printf("detached %ld\n", detached_sum);

  printf("tree %ld\n", (long)tree((void*)6));

  own_stack = mmap(0, 256 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(own_stack != MAP_FAILED);
  pthread_t thread;
  pthread_attr_init(&attributes);
  OK0(pthread_attr_setstack(&attributes, own_stack, 256 << 10));
  OK0(pthread_create(&thread, &attributes, on_own_stack, 0));
  printf("own stack %ld\n", join(thread));
  CHECK(munmap(own_stack, 256 << 10) == 0);

  // Joining what has not ended yet.
  pthread_barrier_destroy(&barrier);
  pthread_barrier_init(&barrier, 0, 2);
  thread = start(meet_all, (void*)1);
  void* result;
  CHECK(pthread_tryjoin_np(thread, &result) == EBUSY);
  struct timespec until = after_us(CLOCK_REALTIME, 2000);
  CHECK(pthread_timedjoin_np(thread, &result, &until) == ETIMEDOUT);
  CHECK(pthread_join(pthread_self(), 0) == EDEADLK);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  printf("joined %ld\n", join(thread));
  return 0;
}
