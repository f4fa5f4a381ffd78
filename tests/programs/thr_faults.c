// Faults in threads that are handled there: SIGSEGV at a known address, on that thread's alternate stack, left with
// siglongjmp or by making the page accessible; division by zero; stack overflow of a thread.
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "thr.h"

enum { kThreads = 4, kRounds = 50 };
static __thread sigjmp_buf place;
static __thread char *page, *stack;
static __thread int faults, stage;

static void handler(int signo, siginfo_t* info, void* context) {
  char here;
  if (&here < stack || &here >= stack + 65536) _exit(3);
  faults++;
  if (signo == SIGFPE) siglongjmp(place, 2);
  if (stage == 2) siglongjmp(place, 3);
  if (info->si_addr != page + 8) _exit(4);
  if (stage == 1) {
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
    return;
  }
  siglongjmp(place, 1);
}
static __attribute__((noinline)) long deeper(long n, volatile char* before) {
  volatile char space[4096];
  space[n % 4096] = before ? before[0] : 1;
  return deeper(n + 1, space) + space[7];
}
static void* thread(void* argument) {
  stack = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(stack != MAP_FAILED && page != MAP_FAILED);
  CHECK(sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = 65536}, 0) == 0);
  for (volatile int i = 0; i < kRounds; i++) {
    stage = 0;
    if (sigsetjmp(place, 1) == 0) {
      page[8] = 1;
      CHECK(!"cannot be");
    }
    stage = 1;
    page[8] = (char)i;  // the handler lets it through
    CHECK(page[8] == (char)i && mprotect(page, 4096, PROT_NONE) == 0);
    volatile int zero = 0;
    if (sigsetjmp(place, 1) == 0) zero = i / zero;
    if (i % 10 == 0) sched_yield();
  }
  stage = 2;
  if (sigsetjmp(place, 1) == 0) deeper(0, 0);
  return (void*)(long)faults;
}

int main(void) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  CHECK(sigaction(SIGSEGV, &action, 0) == 0 && sigaction(SIGFPE, &action, 0) == 0);
  pthread_t threads[kThreads];
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  for (int i = 0; i < kThreads; i++) OK0(pthread_create(&threads[i], &attributes, thread, 0));
  for (int i = 0; i < kThreads; i++) printf("%ld faults\n", join(threads[i]));
  return 0;
}
