// A little compiler: random arithmetic expressions become machine code, with loops, calls between generated
// functions and calls back into C; each result is compared with an interpreter. Code memory is reused.
#include <stdint.h>
#include <sys/mman.h>

#include "check.h"

enum { kCapacity = 1 << 16 };
static unsigned char *code, *at;

static void bytes(const char* text, int n) {
  memcpy(at, text, (size_t)n);
  at += n;
}
static void imm32(uint32_t value) {
  memcpy(at, &value, 4);
  at += 4;
}

static uint64_t helper(uint64_t x) {
  return x * 2862933555777941757u + 3037000493u;
}

// Compiles and interprets the same random expression of the argument (rdi); the result is in rax.
static uint64_t expression(int depth, uint64_t argument) {
  if (depth == 0 || next_number() % 8 == 0) {
    if (next_number() % 2) {
      bytes("\x48\x89\xf8", 3);  // mov rax, rdi
      return argument;
    }
    uint32_t value = (uint32_t)next_number() & 0x7fffffff;
    bytes("\xb8", 1);  // mov eax, imm32
    imm32(value);
    return value;
  }
  uint64_t left = expression(depth - 1, argument);
  bytes("\x50", 1);  // push rax
  uint64_t right = expression(depth - 1, argument);
  bytes("\x48\x89\xc1\x58", 4);  // mov rcx, rax; pop rax
  switch (next_number() % 6) {
    case 0:
      bytes("\x48\x01\xc8", 3);  // add rax, rcx
      return left + right;
    case 1:
      bytes("\x48\x29\xc8", 3);  // sub rax, rcx
      return left - right;
    case 2:
      bytes("\x48\x0f\xaf\xc1", 4);  // imul rax, rcx
      return left * right;
    case 3:
      bytes("\x48\xd3\xc0", 3);  // rol rax, cl
      return left << (right & 63) | left >> (-right & 63);
    case 4:  // rax < rcx ? rcx : rax, with a branch
      bytes("\x48\x39\xc8\x73\x03\x48\x89\xc8", 8);
      return left < right ? right : left;
    default: {  // call helper(rax + rcx), stack kept aligned by hand
      uint64_t target = (uint64_t)helper;
      bytes("\x57\x48\x8d\x3c\x08\x53\x48\x89\xe3\x48\x83\xe4\xf0\x48\xb8", 15);
      memcpy(at, &target, 8);
      at += 8;
      bytes("\xff\xd0\x48\x89\xdc\x5b\x5f", 7);  // call rax; mov rsp, rbx; pop rbx; pop rdi
      return helper(left + right);
    }
  }
}

int main(void) {
  code = mmap(0, kCapacity, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(code != MAP_FAILED);
  uint64_t digest = 0, functions = 0, bytes_made = 0;
  at = code;
  for (int i = 0; i < 1500; i++) {
    if (at + 20000 > code + kCapacity) at = code;  // throw the old code away
    unsigned char* start = at;
    uint64_t argument = next_number();
    uint64_t want = expression(6, argument);
    bytes("\xc3", 1);
    for (int j = 0; j < 4; j++) CHECK(((uint64_t(*)(uint64_t))(void*)start)(argument) == want);
    digest = digest * 31 + want;
    functions++;
    bytes_made += (uint64_t)(at - start);
  }
  printf("jit right: %lu functions, %lu bytes, digest %lu\n", functions, bytes_made, digest);
}
