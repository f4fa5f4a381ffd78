// Prints what a fault handler can see: signal, code, address, all registers of the ucontext relative to known
// values, fault error code, the signal mask, and whether the extended state is where the magic numbers say.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/ucontext.h>

#include "check.h"

extern char print_site[], print_after[];
void* saved_stack;

static void on_fault(int signo, siginfo_t* info, void* context) {
  ucontext_t* uc = context;
  greg_t* regs = uc->uc_mcontext.gregs;
  static const char* names[] = {"r8",  "r9",  "r10", "r11", "r12",    "r13",     "r14", "r15",
                                "rdi", "rsi", "rbp", "rbx", "rdx",    "rax",     "rcx", "rsp",
                                "rip", "efl", "cs",  "err", "trapno", "oldmask", "cr2"};
  printf("signal %d code %d address %#lx\n", signo, info->si_code, (unsigned long)info->si_addr);
  for (int i = 0; i < 23; i++) {
    uint64_t value = (uint64_t)regs[i];
    if (i == REG_RIP)
      printf("rip is the instruction: %d\n", value == (uint64_t)print_site);
    else if (i == REG_RSP)
      printf("rsp aligned to 16: %d, above the frame: %d\n", value % 16 == 0, value > (uint64_t)&uc);
    else if (i == REG_CSGSFS)
      printf("cs %lx\n", value & 0xffff);
    else if (i == REG_EFL)
      printf("efl %lx\n", value & ~0x10000ul);
    else
      printf("%s %lx\n", names[i], value);
  }
  for (int signal_number = 1; signal_number < 65; signal_number++)
    if (sigismember(&uc->uc_sigmask, signal_number)) printf("masked %d\n", signal_number);
  uint32_t* software = (uint32_t*)((char*)uc->uc_mcontext.fpregs + 464);
  if (software[0] == 0x46505853) {
    uint32_t magic2;
    memcpy(&magic2, (char*)uc->uc_mcontext.fpregs + software[1] - 4, 4);
    CHECK(magic2 == 0x46505845);
    printf("extended state present\n");
  }
  regs[REG_RIP] = (greg_t)print_after;
}

int main(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGRTMIN);
  sigprocmask(SIG_BLOCK, &set, 0);
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  sigaddset(&action.sa_mask, SIGUSR2);
  CHECK(sigaction(SIGSEGV, &action, 0) == 0);
  __asm__ volatile(
      "push %%rbp\n push %%rbx\n mov %%rsp, saved_stack(%%rip)\n and $-64, %%rsp\n"
      "mov $1, %%eax\n mov $2, %%ebx\n mov $0x7003, %%ecx\n mov $4, %%edx\n mov $5, %%esi\n mov $6, %%edi\n"
      "mov $7, %%ebp\n mov $8, %%r8d\n mov $9, %%r9d\n mov $10, %%r10d\n mov $11, %%r11d\n mov $12, %%r12d\n"
      "mov $13, %%r13d\n mov $14, %%r14d\n mov $15, %%r15d\n cmp $3, %%eax\n"
      ".globl print_site\n print_site: addq $5, (%%rcx)\n ud2\n"
      ".globl print_after\n print_after: mov saved_stack(%%rip), %%rsp\n pop %%rbx\n pop %%rbp\n" ::
          : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory",
            "cc");
  printf("print right\n");
}
