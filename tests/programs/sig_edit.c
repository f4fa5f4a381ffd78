// Handlers that edit the ucontext and return: other registers, another RIP, flags, vector registers through
// the fpstate; the interrupted code must continue with exactly that state.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <sys/ucontext.h>

#include "check.h"

extern char edit_skip[];

static void on_fault(int signo, siginfo_t* info, void* context) {
  ucontext_t* uc = context;
  greg_t* regs = uc->uc_mcontext.gregs;
  CHECK(signo == SIGSEGV && info->si_addr == (void*)0x30);
  CHECK(regs[REG_RBX] == 0x1111 && regs[REG_R13] == 0x2222 && regs[REG_RCX] == 0x30);
  CHECK((regs[REG_EFL] & 0x8d5) == 0x811);
  CHECK(uc->uc_mcontext.fpregs->_xmm[7].element[0] == 0x77777777);
  CHECK(regs[REG_TRAPNO] == 14 && regs[REG_CR2] == 0x30);
  regs[REG_RBX] = 0x3333;
  regs[REG_R13] = 0x4444;
  regs[REG_R11] = 0x5555;
  regs[REG_RIP] = (greg_t)edit_skip;
  regs[REG_EFL] = (regs[REG_EFL] & ~0x8d5) | 0x40;
  uc->uc_mcontext.fpregs->_xmm[7].element[0] = 0x88888888;
}

int main(void) {
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGSEGV, &action, 0) == 0);
  for (int i = 0; i < 100; i++) {
    uint64_t rbx, r13, r11, vector;
    unsigned char carry, zero, overflow;
    __asm__ volatile(
        "mov $0x1111, %%ebx\n mov $0x2222, %%r13d\n mov $0x30, %%ecx\n mov $0x77777777, %%eax\n movd %%eax, "
        "%%xmm7\n"
        "mov $0x80000000, %%eax\n add %%eax, %%eax\n"  // CF=1 OF=1 ZF=1 PF=1
        "mov $0x40000000, %%eax\n lea 1(%%rax), %%rax\n"
        "mov $0x80, %%al\n sub $0x7f, %%al\n stc\n"  // OF=1, CF=1, ZF=0, SF=0, PF=0
        "mov (%%rcx), %%rdx\n ud2\n"
        ".globl edit_skip\n edit_skip:\n"
        "setc %4\n setz %5\n seto %6\n mov %%rbx, %0\n mov %%r13, %1\n mov %%r11, %2\n movq %%xmm7, %3\n"
        : "=m"(rbx), "=m"(r13), "=m"(r11), "=m"(vector), "=m"(carry), "=m"(zero), "=m"(overflow)
        :
        : "rax", "rbx", "rcx", "rdx", "r11", "r13", "xmm7", "cc", "memory");
    CHECK(rbx == 0x3333 && r13 == 0x4444 && r11 == 0x5555 && (uint32_t)vector == 0x88888888);
    CHECK(!carry && zero && !overflow);
  }
  printf("edit right\n");
}
