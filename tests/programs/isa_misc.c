// The rest of the user instruction set that compilers seldom emit: xlat, enter/leave with nesting, pushf/popf
// (every flag a user may change: also AC, ID, DF), lahf/sahf, high byte registers, 16-bit push/pop, push/pop
// of memory through rsp, pop rsp, xchg rsp, cmov with a faulting-free operand, bswap16, movsx family, lea
// with 32-bit address size, ret imm16, call through rsp-relative memory, retf/lretq, iretq, loads by moffs.
#include <stdint.h>
#include <sys/mman.h>

#include "check.h"

uint64_t global_cell = 0x0123456789abcdef;

int main(void) {
  unsigned char table[256];
  for (int i = 0; i < 256; i++) table[i] = (unsigned char)(255 - i);
  uint64_t rax = 0xffffffffffffff10;
  __asm__("xlatb" : "+a"(rax) : "b"(table) : "memory");
  CHECK(rax == 0xffffffffffffffef);

  uint64_t depth, frame_ok;
  __asm__ volatile(
      "mov %%rsp, %%rcx; push %%rbp; mov %%rsp, %%rbp; mov %%rsp, %%rdx; enter $32, $3; mov %%rdx, %0; sub "
      "%%rsp, %0;"
      "mov %%rbp, %%rax; sub -24(%%rbp), %%rax; mov %%rax, %1; leave; leave; sub %%rsp, %%rcx; add %%rcx, %1"
      : "=&r"(depth), "=&r"(frame_ok)
      :
      : "rax", "rcx", "rdx", "memory");
  CHECK(depth == 8 + 8 * 3 + 32 && frame_ok == 0);

  // Flags that user code may set, and what pushf gives back.
  const uint64_t may[] = {0x001, 0x004, 0x010, 0x040, 0x080, 0x800, 0x400, 0x200000};
  for (unsigned i = 0; i < sizeof may / sizeof *may; i++) {
    uint64_t got;
    __asm__ volatile(
        "lea -256(%%rsp), %%rsp; pushfq; mov (%%rsp), %%rax; or %1, %%rax; push %%rax; popfq; pushfq; pop "
        "%0; popfq; lea 256(%%rsp), %%rsp"
        : "=&r"(got)
        : "r"(may[i])
        : "rax", "cc", "memory");
    CHECK((got & may[i]) == may[i] && (got & 0x202) == 0x202);
  }
  uint16_t pushed16;
  __asm__ volatile("lea -256(%%rsp), %%rsp; stc; pushfw; popw %0; lea 256(%%rsp), %%rsp"
                   : "=r"(pushed16)::"cc", "memory");
  CHECK(pushed16 & 1);
  uint64_t ah;
  __asm__("mov $0xd500, %%eax; sahf; mov $0, %%eax; lahf" : "=a"(ah)::"cc");
  CHECK((ah >> 8 & 0xd5) == 0xd5);

  uint64_t high = 0x1122334455667788, mixed = 0;
  __asm__("mov %%ah, %%bl; add %%al, %%ah; xchg %%al, %%ah" : "+a"(high), "+b"(mixed)::"cc");
  CHECK(high == 0x11223344556688ff && mixed == 0x77);

  // Stack oddities.
  uint64_t popped, through;
  uint64_t cell[2] = {0x55, 0};
  __asm__ volatile(
      "lea -256(%%rsp), %%rsp\n push $-2\n popq 8(%[cell])\n pushq (%[cell])\n pop %[p]\n"
      "push %%rsp\n pop %[t]\n sub %%rsp, %[t]\n"  // push rsp pushes the old value
      "mov %%rsp, %%rcx\n push %%rcx\n pop %%rsp\n sub %%rsp, %%rcx\n add %%rcx, %[t]\n"
      "pushq $0x1234\n pushq (%%rsp)\n popq (%%rsp)\n pop %%rcx\n sub $0x1234, %%rcx\n add %%rcx, %[t]\n"
      "pushw $7\n popw %%cx\n movzwl %%cx, %%ecx\n sub $7, %%rcx\n add %%rcx, %[t]\n"
      "mov %%rsp, %%rcx\n xchg %%rcx, %%rsp\n xchg %%rsp, %%rcx\n lea 256(%%rsp), %%rsp\n"
      : [p] "=&r"(popped), [t] "=&r"(through)
      : [cell] "r"(cell)
      : "rcx", "cc", "memory");
  CHECK(popped == 0x55 && cell[1] == (uint64_t)-2 && through == 0);

  // Calls and returns of the rarer forms. lretq and iretq stay in the same code segment.
  uint64_t sum = 0;
  __asm__ volatile(
      "lea -256(%%rsp), %%rsp\n"
      "push $11\n push $22\n call 1f\n jmp 2f\n"
      "1: mov 8(%%rsp), %%rax\n add 16(%%rsp), %%rax\n ret $16\n"
      "2: add %%rax, %0\n"
      "lea 3f(%%rip), %%rax\n push %%rax\n call *(%%rsp)\n pop %%rax\n jmp 4f\n"
      "3: addq $100, %0\n ret\n"
      "4: mov %%cs, %%eax\n push %%rax\n lea 5f(%%rip), %%rax\n push %%rax\n lretq\n ud2\n"
      "5: addq $1000, %0\n"
      "mov %%rsp, %%rcx\n mov %%ss, %%eax\n push %%rax\n push %%rcx\n pushfq\n mov %%cs, %%eax\n push %%rax\n"
      "lea 6f(%%rip), %%rax\n push %%rax\n iretq\n ud2\n"
      "6: addq $10000, %0\n sub %%rsp, %%rcx\n add %%rcx, %0\n"
      "lea 7f(%%rip), %%rax\n push %%rax\n ret\n ud2\n"  // ret used as an indirect jump
      "7: call 8f\n 8: pop %%rax\n lea 8b(%%rip), %%rcx\n sub %%rcx, %%rax\n add %%rax, %0\n"  // call used to
                                                                                               // read rip
      "lea 256(%%rsp), %%rsp\n"
      : "+r"(sum)
      :
      : "rax", "rcx", "cc", "memory");
  CHECK(sum == 33 + 100 + 1000 + 10000);

  uint64_t moffs;
  __asm__("movabs global_cell, %0" : "=a"(moffs));
  CHECK(moffs == 0x0123456789abcdef);
  uint64_t address;
  __asm__("lea 0x10(%k1, %k2, 4), %0" : "=r"(address) : "r"(0xfffffffffffffff0), "r"(0x10ul));
  CHECK(address == 0x40);
  uint32_t low = 0xdeadbeef;
  uint64_t sign, cleared = ~0ul;
  __asm__("movslq %1, %0" : "=r"(sign) : "r"(low));
  __asm__("cmp %%eax, %%eax; cmovne %1, %k0"
          : "+r"(cleared)
          : "r"(low)
          : "cc");  // not taken still clears bits 32-63
  CHECK(sign == 0xffffffffdeadbeef && cleared == 0xffffffff);
  uint64_t al = 0x80;
  __asm__("cbtw; cwtl; cltq; cqto" : "+a"(al)::"rdx");
  CHECK(al == 0xffffffffffffff80);
  // Shifts by zero and by cl=0 leave flags alone.
  unsigned char kept;
  __asm__ volatile("stc; mov $0, %%cl; shl %%cl, %%rax; setc %0" : "=q"(kept) : : "rcx", "rax", "cc");
  CHECK(kept == 1);
  __asm__ volatile("stc; mov $32, %%cl; sar %%cl, %%eax; setc %0" : "=q"(kept) : : "rcx", "rax", "cc");
  CHECK(kept == 1);
  // rcl/rcr through carry, das-less decimal, and multi-byte nops with prefixes.
  uint64_t rotated = 1;
  __asm__ volatile(
      "stc; rcr $3, %0; .byte 0x66,0x66,0x2e,0x0f,0x1f,0x84,0,0,0,0,0; nopw 0x200(%%rax,%%rax); pause; "
      "endbr64"
      : "+r"(rotated)
      :
      : "cc");
  CHECK(rotated == 0x6000000000000000);
  printf("misc right\n");
}
