// AVX-512 used without asking CPUID, all thirty-two registers and the mask registers included: what a program
// compiled with -march=native does. Run it only where the CPU has AVX-512 (the test script looks).
// A tick counter that lives in a vector register must not be seen here.
#include <immintrin.h>
#include <stdint.h>
#include <unistd.h>

#include "check.h"

static uint64_t before[32 * 8], after[32 * 8];

#define LOW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define HIGH(X) \
  X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)
#define LOAD(n) "vmovdqu64 " #n "*64(%[in]), %%zmm" #n "\n"
#define STORE(n) "vmovdqu64 %%zmm" #n ", " #n "*64(%[out])\n"
#define CLOBBERS                                                                                         \
  "memory", "rax", "rcx", "rdx", "r11", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",    \
      "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17",    \
      "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", \
      "xmm29", "xmm30", "xmm31"

int main(void) {
  for (int i = 0; i < 256; i++) before[i] = next_number();
  // Every register survives calls, returns, loops, an indirect jump, a system call, rdtsc and cpuid.
  __asm__ volatile(LOW(LOAD) HIGH(LOAD) "mov $1000, %%ecx\n 1: call 2f\n dec %%ecx\n jnz 1b\n jmp 3f\n 2: ret\n 3:\n"
                                        "mov $39, %%eax\n syscall\n rdtsc\n"
                                        "push %%rbx\n xor %%eax, %%eax\n cpuid\n pop %%rbx\n"
                                        "lea 4f(%%rip), %%rax\n jmp *%%rax\n ud2\n 4:\n" LOW(STORE) HIGH(STORE)
                   :
                   : [in] "r"(before), [out] "r"(after)
                   : CLOBBERS);
  CHECK(memcmp(before, after, sizeof before) == 0);

  // A loop whose counter and limit live in xmm30/xmm31, with the same instructions a tick counter would use.
  uint64_t rounds = 0;
  __asm__ volatile(
      "mov $1, %%eax\n vmovq %%rax, %%xmm30\n vpxorq %%xmm31, %%xmm31, %%xmm31\n"
      "1: vpaddq %%xmm30, %%xmm31, %%xmm31\n vmovq %%xmm31, %%rcx\n inc %[rounds]\n cmp $12345, %%rcx\n jb "
      "1b\n"
      "vmovq %%xmm31, %[rounds]\n"
      : [rounds] "+r"(rounds)
      :
      : CLOBBERS);
  CHECK(rounds == 12345);

  // Masks: merging, zeroing, k-registers over a loop, kortest into flags.
  __m512i a = _mm512_loadu_si512(before), b = _mm512_loadu_si512(before + 8);
  __mmask8 greater = _mm512_cmpgt_epu64_mask(a, b);
  uint64_t picked[8];
  _mm512_storeu_si512(picked, _mm512_mask_mov_epi64(a, (__mmask8)~greater, b));
  for (int i = 0; i < 8; i++) CHECK(picked[i] == (before[i] > before[8 + i] ? before[i] : before[8 + i]));
  _mm512_storeu_si512(picked, _mm512_maskz_add_epi64(0x55, a, b));
  for (int i = 0; i < 8; i++) CHECK(picked[i] == (i % 2 ? 0 : before[i] + before[8 + i]));
  unsigned long k = 0;
  __asm__ volatile(
      "mov $0x5a5a, %%eax\n kmovw %%eax, %%k7\n mov $500, %%ecx\n 1: knotw %%k7, %%k7\n loop 1b\n"
      "kortestw %%k7, %%k7\n jz 2f\n kmovw %%k7, %%eax\n mov %%rax, %0\n 2:\n"
      : "+r"(k)
      :
      : "rax", "rcx", "cc", "k7");
  CHECK(k == 0x5a5a);

  // Embedded broadcast and compressed displacement, RIP-relative memory operand, scatter and compress.
  static const uint64_t constant = 0x0101010101010101;
  __asm__ volatile(
      "vmovdqu64 (%[in]), %%zmm31\n vpaddq %[constant]%{1to8%}, %%zmm31, %%zmm31\n vmovdqu64 %%zmm31, "
      "(%[out])\n"
      :
      : [in] "r"(before), [out] "r"(after), [constant] "m"(constant)
      : CLOBBERS);
  for (int i = 0; i < 8; i++) CHECK(after[i] == before[i] + constant);
  memset(after, 0, sizeof after);
  _mm512_i64scatter_epi64(after, _mm512_setr_epi64(9, 1, 77, 3, 30, 5, 60, 7), a, 8);
  CHECK(after[9] == before[0] && after[77] == before[2] && after[7] == before[7]);
  _mm512_mask_compressstoreu_epi64(after + 100, 0xa1, a);
  CHECK(after[100] == before[0] && after[101] == before[5] && after[102] == before[7] && after[103] == 0);
  CHECK(_mm512_reduce_add_epi64(_mm512_set1_epi64(5)) == 40);
  __m512 rounded = _mm512_add_round_ps(_mm512_set1_ps(1), _mm512_set1_ps(1e-10f),
                                       _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
  CHECK(_mm512_cvtss_f32(rounded) > 1);

  // A fault on a vector access after register 31 was used would show a torn state: see isa_avx512_signal.c.
  printf("avx512 right\n");
}
