// Thread-local storage: static (initialised, zero, aligned), of a library that is loaded while the threads run, and
// keys with destructors. Every thread has its own, at its own address, and sees the initial values.
#include <dlfcn.h>

#include "thr.h"

enum { kThreads = 8 };
static __thread long initialised = 42;
static __thread long zero[100];
static __thread char aligned[256] __attribute__((aligned(256)));
static pthread_key_t key;
static pthread_barrier_t barrier;
static atomic_long destroyed;
static atomic_int destructor_rounds;
static long (*lib_next)(void);
static char* (*lib_text)(void);
static void* addresses[kThreads][3];

static void destructor(void* value) {
  destroyed += (long)value;
  // A destructor that sets its key again is called again, up to PTHREAD_DESTRUCTOR_ITERATIONS times.
  if ((long)value == 1000 && ++destructor_rounds < 3) pthread_setspecific(key, value);
}

static void* thread(void* argument) {
  long me = (long)argument;
  CHECK(initialised == 42 && zero[99] == 0 && pthread_getspecific(key) == 0);
  CHECK((uintptr_t)aligned % 256 == 0);
  OK0(pthread_setspecific(key, (void*)(me == 3 ? 1000 : me)));
  pthread_barrier_wait(&barrier);  // main loads the library
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < 500; i++) {
    initialised += me;
    zero[i % 100] += me;
    if (i % 100 == 0) sched_yield();
    CHECK(lib_next() == 101 + i);
  }
  CHECK(!strcmp(lib_text(), "block"));
  lib_text()[0] = (char)('0' + me);
  addresses[me][0] = &initialised, addresses[me][1] = zero, addresses[me][2] = lib_text();
  pthread_barrier_wait(&barrier);
  CHECK(initialised == 42 + 500 * me && zero[7] == 5 * me && lib_text()[0] == '0' + me);
  CHECK(errno == 0);
  errno = (int)me;
  pthread_barrier_wait(&barrier);
  CHECK(errno == me);
  return (void*)initialised;
}

int main(void) {
  pthread_t threads[kThreads];
  OK0(pthread_key_create(&key, destructor));
  pthread_barrier_init(&barrier, 0, kThreads + 1);
  for (long i = 0; i < kThreads; i++) threads[i] = start(thread, (void*)i);
  pthread_barrier_wait(&barrier);
  void* lib = dlopen(THR_TLS_LIB, RTLD_NOW);
  if (!lib) fprintf(stderr, "%s\n", dlerror());
  CHECK(lib);
  lib_next = (long (*)(void))dlsym(lib, "lib_next");
  lib_text = (char* (*)(void))dlsym(lib, "lib_text");
  CHECK(lib_next && lib_text);
  for (int i = 0; i < 3; i++) pthread_barrier_wait(&barrier);
  long sum = 0;
  for (int i = 0; i < kThreads; i++) sum += join(threads[i]);
  for (int i = 0; i < kThreads; i++)
    for (int k = 0; k < i; k++)
      for (int n = 0; n < 3; n++) CHECK(addresses[i][n] != addresses[k][n]);
  CHECK(initialised == 42 && lib_next() == 101);
  printf("sum %ld, destroyed %ld in %d rounds\n", sum, destroyed, destructor_rounds);
  return 0;
}
