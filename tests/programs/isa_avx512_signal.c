// AVX-512 state over a signal handler for a synchronous fault: the interrupted code finds zmm16-31 and the
// masks as it left them, although the handler used them itself.
#include <immintrin.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>

#include "check.h"

static char* page;
static uint64_t before[16 * 8], after[16 * 8];

static void on_fault(int signo, siginfo_t* info, void* context) {
  (void)signo, (void)context;
  CHECK(info->si_addr == page);
  __asm__ volatile(
      "vpternlogd $255, %%zmm31, %%zmm31, %%zmm31\n vmovdqa64 %%zmm31, %%zmm16\n vmovdqa64 %%zmm31, %%zmm30\n"
      "kxnorw %%k3, %%k3, %%k3\n vpternlogd $255, %%zmm1, %%zmm1, %%zmm1\n" ::
          : "xmm1", "xmm16", "xmm30", "xmm31", "k3");
  CHECK(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
}

#define HIGH(X) \
  X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)
#define LOAD(n) "vmovdqu64 (" #n "-16)*64(%[in]), %%zmm" #n "\n"
#define STORE(n) "vmovdqu64 %%zmm" #n ", (" #n "-16)*64(%[out])\n"

int main(void) {
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGSEGV, &action, 0) == 0);
  page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  for (int i = 0; i < 128; i++) before[i] = next_number();
  unsigned mask = 0;
  __asm__ volatile(
      HIGH(LOAD) "mov $0x1234, %%eax\n kmovw %%eax, %%k3\n movb $7, (%[page])\n kmovw %%k3, %[mask]\n" HIGH(
          STORE)
      : [mask] "=&r"(mask)
      : [in] "r"(before), [out] "r"(after), [page] "r"(page)
      : "memory", "rax", "k3", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23",
        "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31");
  CHECK(memcmp(before, after, sizeof before) == 0 && mask == 0x1234 && *page == 7);
  printf("avx512 survives a handler\n");
}
