// Code that a linear disassembler gets wrong: jumps into the middle of instructions, two instruction streams
// that overlap, instructions over a page end (also into a page that is replaced meanwhile), a branch and its
// target in one block, calls to the next instruction, 15-byte instructions, redundant prefixes.
#include <stdint.h>
#include <sys/mman.h>

#include "check.h"

typedef uint64_t (*Function)(uint64_t);

int main(void) {
  // mov eax, imm32 whose immediate is itself code: 04 05 eb 00 = add al,5 ; jmp +0.
  uint64_t first, second;
  __asm__ volatile(
      "xor %%eax, %%eax\n jmp 1f+1\n"
      "1: .byte 0xb8, 0x04, 0x05, 0xeb, 0x00\n"  // entered at +1: add al,5; jmp next
      "mov %%rax, %0\n"
      "xor %%eax, %%eax\n jmp 2f\n"
      "2: .byte 0xb8, 0x04, 0x05, 0xeb, 0x00\n"  // entered at 0: mov eax, 0x00eb0504
      "mov %%rax, %1\n"
      : "=r"(first), "=r"(second)
      :
      : "rax", "cc");
  CHECK(first == 5 && second == 0xeb0504);

  // The same bytes run in both readings, many times, in one loop; jump over a lock prefix half of the time.
  uint64_t cell = 0;
  __asm__ volatile(
      "mov $1000, %%ecx\n"
      "1: test $1, %%cl\n jz 3f\n 2: .byte 0xf0\n 3: incq %0\n dec %%ecx\n jnz 1b\n"
      : "+m"(cell)
      :
      : "rcx", "cc");
  CHECK(cell == 1000);

  // eb ff c0: jmp -1 lands in its own last byte: ff c0 = inc eax.
  uint64_t counted;
  __asm__ volatile("mov $41, %%eax\n .byte 0xeb, 0xff, 0xc0\n mov %%rax, %0" : "=r"(counted)::"rax", "cc");
  CHECK(counted == 42);

  // A page-crossing function at every alignment.
  unsigned char* code =
      mmap(0, 3 * 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(code != MAP_FAILED);
  // movabs rax, imm64 ; lea rax,[rax+rdi*2+imm32] ; ret
  unsigned char body[] = {0x48, 0xb8, 1,    0,    0,    0,    0,    0,    0,   0x10,
                          0x48, 0x8d, 0x84, 0x78, 0x44, 0x33, 0x22, 0x11, 0xc3};
  for (unsigned back = 0; back <= sizeof body; back++) {
    unsigned char* at = code + 4096 - back;
    memcpy(at, body, sizeof body);
    for (int i = 0; i < 3; i++)
      CHECK(((Function)(void*)at)(7 + i) == 0x1000000000000001 + 0x11223344 + 2 * (7 + (uint64_t)i));
    memset(at, 0xcc, sizeof body);
  }
  // The second half of a page-crossing instruction changes: mov eax, imm32 ; ret with the immediate behind.
  unsigned char* at = code + 4096 - 2;
  at[0] = 0xb8, at[5] = 0xc3;
  for (uint32_t i = 0; i < 50; i++) {
    uint32_t value = i * 0x01010101;
    memcpy(at + 1, &value, 4);
    CHECK(((Function)(void*)at)(0) == value);
  }
  // ... and now the whole second page is another one.
  unsigned char* other = mmap(code + 4096, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  CHECK(other == code + 4096);
  memcpy(other, "\x22\x33\x44\xc3", 4);
  at[1] = 0x11;
  CHECK(((Function)(void*)at)(0) == 0x44332211);

  // Fifteen bytes, prefixes without meaning, call to the next instruction.
  uint64_t sum;
  __asm__ volatile(
      "xor %%eax, %%eax\n"
      ".byte 0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0xff,0xc0\n"  // inc ax, 15
                                                                                            // bytes
      ".byte 0x2e,0x3e,0x26,0x36,0xff,0xc0\n"  // inc eax, segment prefixes
      ".byte 0x48,0x40,0xff,0xc0\n"            // REX.W overridden by a second REX
      "lea -128(%%rsp), %%rsp\n call 1f\n 1: pop %%rcx\n lea 128(%%rsp), %%rsp\n"
      "mov %%rax, %0\n"
      : "=r"(sum)
      :
      : "rax", "rcx", "cc", "memory");
  CHECK(sum == 3);
  printf("overlap right\n");
}
