// A guest that catches its own SIGSEGV and leaves the handler by siglongjmp, hundreds of times, from several
// depths; SIGFPE likewise.
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>

#include "check.h"

static sigjmp_buf back;
static volatile uintptr_t last;

static void on_fault(int signo, siginfo_t* info, void* context) {
  (void)context;
  last = (uintptr_t)info->si_addr;
  siglongjmp(back, signo);
}

static __attribute__((noinline)) int probe(const volatile char* at, int depth) {
  return depth ? probe(at, depth - 1) + 1 : *at;
}

int main(void) {
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGSEGV, &action, 0) == 0 && sigaction(SIGFPE, &action, 0) == 0);
  char* pages = mmap(0, 16 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED);
  for (int i = 0; i < 16; i += 3) CHECK(mprotect(pages + i * 4096, 4096, PROT_NONE) == 0);
  volatile int faults = 0, reads = 0;
  for (volatile int i = 0; i < 640; i++) {
    const char* at = pages + i % 16 * 4096 + i;
    int signo = sigsetjmp(back, 1);
    if (signo == 0) {
      probe(at, i % 5);
      reads++;
      CHECK(i % 16 % 3 != 0);
    } else {
      CHECK(signo == SIGSEGV && last == (uintptr_t)at && i % 16 % 3 == 0);
      faults++;
    }
  }
  volatile int zero = 0, divided = 0;
  for (volatile int i = 0; i < 50; i++) {
    if (sigsetjmp(back, 1) == 0)
      divided = i / zero;
    else
      divided++;
  }
  printf("longjmp right: %d faults, %d reads, %d\n", faults, reads, divided);
}
