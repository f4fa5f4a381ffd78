// A write barrier, as garbage collectors make: pages are protected, the handler notes the page, unprotects it
// and returns, and the store happens. Stores of many kinds, also ones that touch two protected pages.
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>

#include "check.h"

enum { kPages = 32 };
static char* heap;
static unsigned dirty[kPages], faults;

static void on_fault(int signo, siginfo_t* info, void* context) {
  (void)signo, (void)context;
  long page = ((char*)info->si_addr - heap) / 4096;
  CHECK(page >= 0 && page < kPages && info->si_code == SEGV_ACCERR);
  dirty[page]++;
  faults++;
  CHECK(mprotect(heap + page * 4096, 4096, PROT_READ | PROT_WRITE) == 0);
}

int main(void) {
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGSEGV, &action, 0) == 0);
  heap = mmap(0, kPages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(heap != MAP_FAILED);
  uint64_t digest = 0;
  for (int round = 0; round < 40; round++) {
    CHECK(mprotect(heap, kPages * 4096, PROT_READ) == 0);
    for (int i = 0; i < 30; i++) {
      uint64_t where = next_number() % (kPages * 4096 - 64);
      if (i % 5 == 0) where = (where & ~4095ul) | 4092;
      if (where > kPages * 4096 - 64) where -= 4096;
      char* at = heap + where;
      switch (i % 6) {
        case 0:
          *(uint64_t*)at += where;
          break;
        case 1:
          __atomic_fetch_add((uint32_t*)((uintptr_t)at & ~3ul), 7, __ATOMIC_SEQ_CST);
          break;
        case 2:
          memset(at, round, 60);
          break;
        case 3:
          __asm__ volatile("movdqu %%xmm0, (%0)" ::"r"(at) : "memory");
          break;
        case 4:
          __asm__ volatile("mov %0, %%rcx; push %%rbx; xchg %%bl, (%%rcx); pop %%rbx" ::"r"(at)
                           : "rcx", "memory");
          *at = (char)i;
          break;
        default: {
          void* di = at;
          long n = 7;
          __asm__ volatile("rep stosq" : "+D"(di), "+c"(n) : "a"(where) : "memory");
        }
      }
    }
  }
  for (int i = 0; i < kPages; i++) digest = digest * 31 + dirty[i];
  printf("barrier right: %u faults, digest %lu\n", faults, digest);
}
