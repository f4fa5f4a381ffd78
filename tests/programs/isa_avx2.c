// AVX, AVX2, FMA and F16C used without asking CPUID: 256-bit lanes, gathers, masked moves, permutes, three
// operands with memory, upper halves over calls, vzeroupper.
#include <immintrin.h>
#include <math.h>
#include <stdint.h>

#include "check.h"

static __attribute__((noinline)) int busy(int n) {
  return n < 2 ? n : busy(n - 1) + busy(n - 2);
}

int main(void) {
  int32_t table[64], index[8] = {3, 60, 7, 7, 0, 33, 12, 63}, out[8];
  for (int i = 0; i < 64; i++) table[i] = (int32_t)next_number();
  __m256i gathered = _mm256_i32gather_epi32(table, _mm256_loadu_si256((void*)index), 4);
  _mm256_storeu_si256((void*)out, gathered);
  for (int i = 0; i < 8; i++) CHECK(out[i] == table[index[i]]);
  _mm256_storeu_si256((void*)out,
                      _mm256_permutevar8x32_epi32(gathered, _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0)));
  for (int i = 0; i < 8; i++) CHECK(out[i] == table[index[7 - i]]);
  __m256i mask = _mm256_setr_epi32(-1, 0, -1, 0, 0, 0, 0, -1);
  memset(out, 0, sizeof out);
  _mm256_maskstore_epi32(out, mask, gathered);
  CHECK(out[0] == table[3] && out[1] == 0 && out[7] == table[63]);
  _mm256_storeu_si256((void*)out, _mm256_srlv_epi32(gathered, _mm256_setr_epi32(0, 1, 2, 3, 4, 31, 32, 33)));
  CHECK(out[6] == 0 && out[7] == 0 && (uint32_t)out[1] == (uint32_t)table[60] >> 1);

  double x[4] = {1, 2, 3, 4}, y[4] = {0.1, 0.2, 0.3, 0.4}, z[4];
  _mm256_storeu_pd(z, _mm256_fmadd_pd(_mm256_loadu_pd(x), _mm256_loadu_pd(y), _mm256_set1_pd(-0.1)));
  for (int i = 0; i < 4; i++) CHECK(z[i] == fma(x[i], y[i], -0.1));
  __m128i half = _mm256_cvtps_ph(_mm256_set1_ps(1.0009765625f), 0);
  CHECK((_mm_cvtsi128_si32(half) & 0xffff) == 0x3c01);
  CHECK(_mm256_testz_si256(mask, _mm256_andnot_si256(mask, mask)));

  // Upper halves of all sixteen registers must survive calls, loops and a system call.
  uint64_t before[16 * 4], after[16 * 4];
  for (int i = 0; i < 64; i++) before[i] = next_number();
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define LOAD(n) "vmovdqu " #n "*32(%[in]), %%ymm" #n "\n"
#define STORE(n) "vmovdqu %%ymm" #n ", " #n "*32(%[out])\n"
  __asm__ volatile(EACH(LOAD) "mov $39, %%eax\n syscall\n mov $100, %%ecx\n 1: call 2f\n loop 1b\n jmp 3f\n 2: ret\n 3:\n" EACH(STORE)
                   :
                   : [in] "r"(before), [out] "r"(after)
                   : "memory", "rax", "rcx", "r11", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                     "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
  CHECK(memcmp(before, after, sizeof before) == 0);
  __m256 sum = _mm256_setzero_ps();
  for (int i = 0; i < 100; i++) sum = _mm256_add_ps(sum, _mm256_set1_ps((float)busy(i % 10)));
  _mm256_zeroupper();
  printf("avx2 right, %.1f\n", (double)_mm256_cvtss_f32(sum));
}
