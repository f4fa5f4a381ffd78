// What a debug module needs (src/probe/abi.h), for modules that tests write by hand. The places are functions
// PLACE(name); request() is the way to the replay.
#pragma once
#include <cstdio>
#include <cstring>

#include "probe/abi.h"

#define PLACE(name) extern "C" __attribute__((used)) void name(const backstep_registers* r)

static inline long request(long number, const void* a = nullptr, long b = 0, long c = 0, long d = 0) {
  long result;
  register long r10 __asm__("r10") = d;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                   : "rcx", "r11", "memory");
  return result;
}

extern "C" void module_done(void);
__asm__(
    ".text\n.globl module_done\n.type module_done,@function\nmodule_done:\n"
    "movl $0x42530001, %eax\nsyscall\nud2\n.size module_done, .-module_done\n");

extern "C" __attribute__((weak)) void module_finish(const backstep_registers*);

int main() {
  static const backstep_module module = {BACKSTEP_ABI, sizeof module, module_done, module_finish};
  request(BACKSTEP_READY, &module);
}
