// FS and GS: rdfsbase/wrfsbase/rdgsbase/wrgsbase and arch_prctl, in every combination, loads, stores, calls
// and string sources through gs:, and the thread pointer of libc put away and brought back. Selector reads.
#include <asm/prctl.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

static uint64_t block_a[64], block_b[64];

static long arch(int code, void* address) {
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "0"(SYS_arch_prctl), "D"(code), "S"(address)
                   : "rcx", "r11", "memory");
  return result;
}

static __attribute__((noinline)) int callee(int x) {
  return x * 3;
}

int main(void) {
  for (int i = 0; i < 64; i++) block_a[i] = 1000 + i, block_b[i] = 2000 + i;
  uint64_t value, base;
  CHECK(arch(ARCH_SET_GS, block_a) == 0);
  __asm__ volatile("mov %%gs:8, %0" : "=r"(value));
  CHECK(value == 1001);
  __asm__ volatile("rdgsbase %0" : "=r"(base));
  CHECK(base == (uint64_t)block_a);
  __asm__ volatile("wrgsbase %0" ::"r"(block_b));
  CHECK(arch(ARCH_GET_GS, &base) == 0 && base == (uint64_t)block_b);
  __asm__ volatile("addq $5, %%gs:(%0)" ::"r"(16l) : "memory");
  CHECK(block_b[2] == 2007);
  block_b[10] = (uint64_t)callee;
  int result;
  __asm__ volatile("mov $14, %%edi; call *%%gs:80"
                   : "=a"(result)::"rdi", "rsi", "rcx", "rdx", "r8", "r9", "r10", "r11", "memory", "cc");
  CHECK(result == 42);
  __asm__ volatile("movdqu %%gs:24, %%xmm5; movq %%xmm5, %0" : "=r"(value)::"xmm5");
  CHECK(value == 2003);
  __asm__ volatile(
      "lea 8(%1), %%rsi; mov $2, %%ecx; lea %2, %%rdi; rep movsq %%gs:(%%rsi), (%%rdi); mov %3, %0"
      : "=r"(value)
      : "r"(0l), "m"(block_a[20]), "m"(block_a[21])
      : "rsi", "rdi", "rcx", "memory");
  CHECK(block_a[20] == 2001 && block_a[21] == 2007);
  // 32-bit address size adds the base after truncation.
  __asm__ volatile("movabs $0xffffffff00000020, %%rax; mov %%gs:(%%eax), %0" : "=r"(value)::"rax");
  CHECK(value == 2004);
  // Locked instruction and lea (which ignores the segment) through gs.
  __asm__ volatile("mov $3, %%eax; lock xadd %%rax, %%gs:40; mov %%rax, %0"
                   : "=r"(value)::"rax", "cc", "memory");
  CHECK(value == 2005 && block_b[5] == 2008);
  __asm__ volatile("lea %%gs:48, %0" : "=r"(value));
  CHECK(value == 48);

  // Change the thread pointer for a moment; nothing here may touch TLS or the stack protector.
  uint64_t thread, seen, after;
  __asm__ volatile("rdfsbase %0" : "=r"(thread));
  __asm__ volatile("wrfsbase %3\n mov %%fs:56, %1\n rdfsbase %2\n wrfsbase %4\n"
                   : "=m"(base), "=&r"(seen), "=&r"(after)
                   : "r"(block_a), "r"(thread));
  CHECK(seen == 1007 && after == (uint64_t)block_a);
  long r1 = arch(ARCH_SET_FS, block_b);
  __asm__ volatile("mov %%fs:8, %0" : "=r"(seen));
  long r2 = arch(ARCH_SET_FS, (void*)thread);
  CHECK(r1 == 0 && r2 == 0 && seen == 2001);
  uint32_t half;
  __asm__ volatile("rdfsbase %0" : "=r"(half));
  CHECK(half == (uint32_t)thread);
  CHECK(arch(ARCH_SET_GS, (void*)0x8000000000000000) < 0);

  uint16_t cs, ss, fs, gs;
  __asm__("mov %%cs, %0; mov %%ss, %1; mov %%fs, %2; mov %%gs, %3" : "=r"(cs), "=r"(ss), "=r"(fs), "=r"(gs));
  printf("segments right: cs %x ss %x fs %x gs %x\n", cs, ss, fs, gs);
}
