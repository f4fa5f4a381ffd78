// What a thread knows of itself: its number, name, CPU time, stack. And what others know of it.
#include <sys/prctl.h>
#include <sys/resource.h>

#include "thr.h"

enum { kThreads = 4 };
static pthread_barrier_t barrier;
static pid_t tids[kThreads];
static int64_t idle_time, busy_time;

static void* named(void* argument) {
  long me = (long)argument;
  char name[16];
  tids[me] = my_tid();
  CHECK(tids[me] == gettid() && getpid() != tids[me]);
  OK0(pthread_getname_np(pthread_self(), name, sizeof name));
  CHECK(!strcmp(name, "main name"));  // inherited
  snprintf(name, sizeof name, "thread-%ld", me);
  OK0(pthread_setname_np(pthread_self(), name));
  char again[16] = "";
  CHECK(prctl(PR_GET_NAME, again) == 0 && !strcmp(again, name));
  CHECK(pthread_setname_np(pthread_self(), "much too long a name") == ERANGE);
  pthread_barrier_wait(&barrier);
  // Main gives us another one.
  pthread_barrier_wait(&barrier);
  CHECK(prctl(PR_GET_NAME, again) == 0);
  snprintf(name, sizeof name, "renamed-%ld", me);
  CHECK(!strcmp(again, name));
  return 0;
}

static void* knows_stack(void* argument) {
  pthread_attr_t attributes;
  void* base;
  size_t size;
  char here;
  OK0(pthread_getattr_np(pthread_self(), &attributes));
  OK0(pthread_attr_getstack(&attributes, &base, &size));
  CHECK(&here > (char*)base && &here < (char*)base + size);
  pthread_attr_destroy(&attributes);
  return 0;
}

static atomic_int leave, looked;
static void* idle(void* argument) {
  while (!leave) sleep_us(2000);
  idle_time = now_ns(CLOCK_THREAD_CPUTIME_ID);
  return 0;
}
static void* busy(void* argument) {
  int64_t last = now_ns(CLOCK_THREAD_CPUTIME_ID), now = last;
  while (now < 30000000) {
    compute(10000);
    now = now_ns(CLOCK_THREAD_CPUTIME_ID);
    CHECK(now >= last);
    last = now;
  }
  busy_time = now;
  while (!looked) sched_yield();  // a thread's clock is gone with it
  struct rusage usage;
  CHECK(getrusage(RUSAGE_THREAD, &usage) == 0);
  return 0;
}

int main(void) {
  OK0(pthread_setname_np(pthread_self(), "main name"));
  pthread_barrier_init(&barrier, 0, kThreads + 1);
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; i++) threads[i] = start(named, (void*)i);
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < kThreads; i++) {
    char name[16];
    OK0(pthread_getname_np(threads[i], name, sizeof name));
    puts(name);
    snprintf(name, sizeof name, "renamed-%d", i);
    OK0(pthread_setname_np(threads[i], name));
    for (int k = 0; k < i; k++) CHECK(tids[i] != tids[k] && !pthread_equal(threads[i], threads[k]));
  }
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < kThreads; i++) join(threads[i]);
  char name[16];
  OK0(pthread_getname_np(pthread_self(), name, sizeof name));
  puts(name);
  join(start(knows_stack, 0));
  knows_stack(0);
  said("stacks");

  threads[0] = start(idle, 0), threads[1] = start(busy, 0);
  clockid_t clock;
  OK0(pthread_getcpuclockid(threads[1], &clock));
  int64_t first = now_ns(clock);
  CHECK(first >= 0);
  looked = 1;
  join(threads[1]);
  leave = 1;
  join(threads[0]);
  CHECK(busy_time >= 30000000 && idle_time > 0 && idle_time < busy_time);
  CHECK(now_ns(CLOCK_PROCESS_CPUTIME_ID) >= busy_time);
  said("CPU time");
  return 0;
}
