// For programs whose ticks are compared with the oracle's (tests/oracle): marker() executes system call 9999,
// which no kernel has; both sides report their tick count there. run_between_markers() runs a function
// between two markers on a stack of its own, at a page offset that is the same everywhere: string functions
// choose their path by the alignment of what they get, and the kernel's stack starts where environment and
// auxiliary vector leave it, which is not the same natively and under Backstep.
#pragma once

static inline void marker(void) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "0"(9999l) : "rcx", "r11", "memory");
}

static __attribute__((aligned(4096))) char marker_stack[1 << 20];

static __attribute__((noinline, unused)) void run_between_markers(void (*function)(void)) {
  register void (*kept)(void) __asm__("r12") = function;
  __asm__ volatile(
      "mov %%rsp, %%rbx\n mov %[top], %%rsp\n"
      "mov $9999, %%eax\n syscall\n call *%[function]\n mov $9999, %%eax\n syscall\n"
      "mov %%rbx, %%rsp\n"
      :
      : [top] "r"(marker_stack + sizeof marker_stack - 4096), [function] "r"(kept)
      : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc", "xmm0", "xmm1",
        "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",
        "xmm14", "xmm15");
}
