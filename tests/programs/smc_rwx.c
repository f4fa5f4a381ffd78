// Self-modifying code on a page that is writable and executable all the time: rewritten between calls,
// modifying the instruction right behind the store, a loop that patches its own immediate, code that writes
// data into its own page, a store that spans two code pages, and a function that overwrites its caller.
#include <stdint.h>
#include <sys/mman.h>

#include "check.h"

typedef uint64_t (*Function)(uint64_t);
static unsigned char* code;

static unsigned char* put(unsigned char* at, const void* bytes, size_t size) {
  memcpy(at, bytes, size);
  return at + size;
}

int main(void) {
  code = mmap(0, 4 * 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(code != MAP_FAILED);

  // mov eax, imm32; ret: a new immediate before each call, by byte, word and long stores.
  put(code, "\xb8\0\0\0\0\xc3", 6);
  for (uint32_t i = 0; i < 2000; i++) {
    if (i % 3 == 0)
      code[1] = (unsigned char)i;
    else if (i % 3 == 1)
      *(uint16_t*)(code + 2) = (uint16_t)i;
    else
      *(volatile uint32_t*)(code + 1) = i;
    uint32_t want;
    memcpy(&want, code + 1, 4);
    CHECK(((Function)(void*)code)(0) == want);
  }
  // The opcode changes: add/sub/xor/and eax, edi.
  put(code, "\x89\xf0\x01\xf8\xc3", 5);  // mov eax, esi; op eax, edi; ret
  unsigned char ops[4] = {0x01, 0x29, 0x31, 0x21};
  for (int i = 0; i < 400; i++) {
    code[2] = ops[i % 4];
    uint32_t x = (uint32_t)next_number(), y = (uint32_t)next_number();
    uint32_t got = ((uint32_t(*)(uint32_t, uint32_t))(void*)code)(x, y);
    uint32_t want = i % 4 == 0 ? y + x : i % 4 == 1 ? y - x : i % 4 == 2 ? (y ^ x) : (y & x);
    CHECK(got == want);
  }

  // The very next instruction: movb $imm, next+1(%rip); next: mov al, 0; ret. rdi is the new immediate.
  unsigned char* at = code + 256;
  unsigned char next[] = {0x31, 0xc0,                    // xor eax,eax
                          0x40, 0x88, 0x3d, 1, 0, 0, 0,  // mov [rip+1], dil
                          0xb0, 0x00,                    // mov al, imm8   <- patched just before
                          0xc3};
  put(at, next, sizeof next);
  for (int i = 0; i < 300; i++) CHECK(((Function)(void*)at)((unsigned)i & 255) == ((unsigned)i & 255));

  // A loop that increments its own immediate: xor eax,eax; L: add eax, imm32(1); inc dword [L+1]; dec edi;
  // jnz L; ret
  at = code + 512;
  unsigned char loop[] = {0x31, 0xc0, 0x05, 1,    0,    0,    0,    0xff, 0x05,
                          0xf6, 0xff, 0xff, 0xff, 0xff, 0xcf, 0x75, 0xf1, 0xc3};
  put(at, loop, sizeof loop);
  CHECK(((Function)(void*)at)(100) == 5050);
  put(at, loop, sizeof loop);
  CHECK(((Function)(void*)at)(10) == 55);

  // Data next to code on the same page: a counter written on each call, thousands of times.
  at = code + 1024;
  unsigned char counter[] = {0x48, 0xff, 0x05, 0x09, 0, 0, 0,  // inc qword [rip+9]
                             0x48, 0x8b, 0x05, 0x02, 0, 0, 0,  // mov rax,[rip+2]
                             0xc3, 0x90, 0,    0,    0, 0, 0, 0, 0, 0};
  put(at, counter, sizeof counter);
  for (uint64_t i = 1; i <= 20000; i++) CHECK(((Function)(void*)at)(0) == i);

  // One store that changes two pages: mov eax, imm32 with the immediate over the page end.
  at = code + 2 * 4096 - 3;
  put(at, "\xb8\0\0\0\0\xc3", 6);
  for (uint32_t i = 0; i < 300; i++) {
    *(volatile uint32_t*)(at + 1) = i * 0x01030507;
    CHECK(((Function)(void*)at)(0) == i * 0x01030507u);
  }

  // A callee overwrites the instruction that its caller returns to.
  at = code + 3 * 4096;
  unsigned char caller[] = {0xe8, 0x06, 0,    0,    0,        // call +6
                            0xb8, 1,    0,    0,    0, 0xc3,  // mov eax,1 ; ret      <- patched while away
                            0x48, 0x8b, 0x04, 0x24,           // mov rax,[rsp]
                            0x40, 0x88, 0x78, 0x01,           // mov [rax+1], dil
                            0xc3};
  put(at, caller, sizeof caller);
  for (uint64_t i = 0; i < 200; i++) CHECK(((Function)(void*)at)(i) == i);

  // Vector, string and atomic stores change code as well.
  at = code + 3 * 4096 + 256;
  for (int i = 0; i < 60; i++) {
    unsigned char image[16] = {0xb8, (unsigned char)i, 0, 0, 0, 0xc3};
    if (i % 3 == 0) {
      __asm__ volatile("movdqu (%0), %%xmm0; movdqu %%xmm0, (%1)" ::"r"(image), "r"(at) : "memory", "xmm0");
    } else if (i % 3 == 1) {
      void *s = image, *d = at;
      long n = 16;
      __asm__ volatile("rep movsb" : "+S"(s), "+D"(d), "+c"(n)::"memory");
    } else {
      __atomic_exchange_n((uint64_t*)at, *(uint64_t*)image, __ATOMIC_SEQ_CST);
    }
    CHECK(((Function)(void*)at)(0) == (unsigned)i);
  }
  printf("rwx right\n");
}
