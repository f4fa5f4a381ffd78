// Timer signals every 100 us into several threads at once: a loop of two instructions, libc, vector code, system calls
// about to be made, and the handler itself. Each thread has its own timer; the handler digests the registers of the place
// that it interrupted and what the other threads have got to, so the output depends on every landing and every switch.
//   thr_async [LANDINGS]
#include <ucontext.h>

#include "thr.h"

enum { kThreads = 5 };
static long target = 100;
static volatile uint64_t progress[kThreads];
static __thread volatile uint64_t digest = 1, landings;
static __thread volatile int inside;
static __thread timer_t timer;

static void handler(int signo, siginfo_t* info, void* context) {
  ucontext_t* uc = context;
  for (int i = 0; i <= REG_EFL; i++) digest = digest_of(digest, (uint64_t)uc->uc_mcontext.gregs[i]);
  unsigned char* vector = (unsigned char*)uc->uc_mcontext.fpregs;
  for (int i = 160; i < 416; i++) digest = digest_of(digest, vector[i]);
  for (int i = 0; i < kThreads; i++) digest = digest_of(digest, progress[i]);
  digest = digest_of(digest, (uint64_t)inside);
  landings++;
  // On a slow day the next signal is there before this one is handled, and nothing else would ever run.
  if (landings >= (uint64_t)target) timer_settime(timer, 0, &(struct itimerspec){{0, 0}, {0, 0}}, 0);
  // Every few landings it stays, open for the next one.
  if (landings % 8 == 0 && landings < (uint64_t)target && !inside) {
    sigset_t set;
    inside = 1;
    uint64_t until = landings + 1;
    sigemptyset(&set);
    sigaddset(&set, signo);
    pthread_sigmask(SIG_UNBLOCK, &set, 0);
    while (landings < until) progress[0]++;
    pthread_sigmask(SIG_BLOCK, &set, 0);
    inside = 0;
  }
}
static int compare(const void* a, const void* b) { return *(const int*)a - *(const int*)b; }

static void* thread(void* argument) {
  int me = (int)(long)argument;
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN};
  event._sigev_un._tid = my_tid();
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  struct itimerspec time = {{0, 100000}, {0, 100000}};
  CHECK(timer_settime(timer, 0, &time, 0) == 0);
  int numbers[512];
  char text[200];
  double sum = 0;
  while (landings < (uint64_t)target) {
    switch (me) {
      case 0: {
        uint64_t n = 5000;
        __asm__ volatile("1: dec %0\n jnz 1b" : "+r"(n)::"cc");
        break;
      }
      case 1:
        for (int i = 0; i < 512; i++) numbers[i] = (int)((unsigned)i * 2654435761u >> 8);
        qsort(numbers, 512, sizeof numbers[0], compare);
        break;
      case 2:
        for (int i = 1; i < 500; i++) sum += 1.0 / (i * (double)i);
        break;
      case 3:
        for (int i = 0; i < 20; i++) getppid();
        break;
      case 4:
        for (int i = 0; i < 5; i++) snprintf(text, sizeof text, "%d %s %f", i, "text", sum);
        free(malloc(landings % 1000 + 1));
        break;
    }
    progress[me]++;
  }
  CHECK(timer_delete(timer) == 0);
  return (void*)digest;
}

int main(int argc, char** argv) {
  if (argc > 1) target = atol(argv[1]);
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
  CHECK(sigaction(SIGRTMIN, &action, 0) == 0);
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; i++) threads[i] = start(thread, (void*)i);
  for (int i = 0; i < kThreads; i++) printf("thread %d digest %lx\n", i, (uint64_t)join(threads[i]));
  return 0;
}
