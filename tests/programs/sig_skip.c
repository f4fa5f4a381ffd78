// Handlers that step over the faulting instruction by moving RIP: SIGFPE, SIGILL, SIGTRAP (int3, already
// past it), SIGSEGV and SIGBUS; si_code and si_addr of each are printed.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/ucontext.h>
#include <unistd.h>

#include "check.h"

static int skip, seen_signal, seen_code;
static void* seen_address;
static uint64_t seen_rip;

static void on_signal(int signo, siginfo_t* info, void* context) {
  seen_signal = signo;
  seen_code = info->si_code;
  seen_address = info->si_addr;
  seen_rip = (uint64_t)((ucontext_t*)context)->uc_mcontext.gregs[REG_RIP];
  ((ucontext_t*)context)->uc_mcontext.gregs[REG_RIP] += skip;
}

#define TRY(name, length, code)                                                           \
  do {                                                                                    \
    uint64_t site;                                                                        \
    skip = length;                                                                        \
    seen_signal = 0;                                                                      \
    __asm__ volatile("lea 1f(%%rip), %0\n 1: " code "\n"                                  \
                     : "=&r"(site)::"rax", "rcx", "rdx", "cc", "memory");                 \
    printf("%-12s signal %d code %d rip %+ld address %s\n", name, seen_signal, seen_code, \
           (long)(seen_rip - site),                                                       \
           seen_address == (void*)site ? "of the instruction"                             \
           : seen_address              ? "other"                                          \
                                       : "0");                                                         \
  } while (0)

int main(void) {
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
  for (int signo = 1; signo < 32; signo++)
    if (signo != SIGKILL && signo != SIGSTOP) CHECK(sigaction(signo, &action, 0) == 0);
  for (int i = 0; i < 3; i++) {
    TRY("ud2", 2, "ud2");
    TRY("div", 2, "xor %%ecx, %%ecx; idiv %%ecx");
    TRY("hlt", 1, "hlt");
    TRY("int3", 0, "int3");
    TRY("int 0x99", 2, ".byte 0xcd, 0x99");
    TRY("push es", 1, ".byte 0x06");
    TRY("lock mov", 3, ".byte 0xf0, 0x89, 0xc8");
    TRY("cli", 1, "cli");
    TRY("mov cr0", 3, "mov %%cr0, %%rax");
    TRY("rdmsr", 2, "rdmsr");
    TRY("wbinvd", 2, "wbinvd");
    TRY("null load", 2, "xor %%eax, %%eax; mov (%%rax), %%eax");
  }
  int fd = open("skip.dat", O_CREAT | O_TRUNC | O_RDWR, 0600);
  CHECK(fd >= 0 && unlink("skip.dat") == 0 && ftruncate(fd, 4096) == 0);
  char* map = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(map != MAP_FAILED);
  skip = 2;
  __asm__ volatile(".byte 0x88, 0x00" ::"a"(map + 5000) : "memory");  // mov [rax], al
  CHECK(seen_signal == SIGBUS && seen_code == BUS_ADRERR && seen_address == map + 5000);
  __asm__ volatile(".byte 0x88, 0x00" ::"a"(16l) : "memory");
  CHECK(seen_signal == SIGSEGV && seen_code == SEGV_MAPERR && seen_address == (void*)16);
  __asm__ volatile(".byte 0x88, 0x00" ::"a"(0x8000000000000000) : "memory");
  CHECK(seen_signal == SIGSEGV && seen_code == SI_KERNEL && seen_address == 0);
  __asm__ volatile(".byte 0x88, 0x00" ::"a"(main) : "memory");
  CHECK(seen_signal == SIGSEGV && seen_code == SEGV_ACCERR && seen_address == (void*)main);
  printf("skip right\n");
}
