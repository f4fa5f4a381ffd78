// x87: arithmetic, stack operations, control word, comparison into flags, transcendental functions, packed
// decimal, environment save and restore (fnstenv/fldenv, fnsave/frstor), and mmx aliasing.
#include <math.h>
#include <mmintrin.h>
#include <stdint.h>

#include "check.h"

int main(void) {
  long double x = 1;
  for (int i = 1; i < 40; i++) x = sqrtl(x * i + 0.5L) * 1.25L;
  printf("x87 chain %.15Lf\n", x);
  double angle = 0.7, sine, cosine, atan;
  __asm__("fsincos" : "=t"(cosine), "=u"(sine) : "0"(angle));
  printf("sincos %.12f %.12f\n", sine, cosine);
  CHECK(fabs(sine * sine + cosine * cosine - 1) < 1e-14);
  __asm__("fpatan" : "=t"(atan) : "0"(cosine), "u"(sine) : "st(1)");
  CHECK(fabs(atan - angle) < 1e-14);

  // Rounding mode through the control word.
  uint16_t old_word, word;
  __asm__ volatile("fnstcw %0" : "=m"(old_word));
  int results[4];
  for (int mode = 0; mode < 4; mode++) {
    word = (old_word & ~0xc00) | mode << 10;
    double value = -2.5;
    __asm__ volatile("fldcw %1; fldl %2; fistpl %0" : "=m"(results[mode]) : "m"(word), "m"(value));
  }
  __asm__ volatile("fldcw %0" ::"m"(old_word));
  CHECK(results[0] == -2 && results[1] == -3 && results[2] == -2 && results[3] == -2);

  // Packed decimal and integer loads and stores.
  unsigned char decimal[10];
  int64_t big = -123456789012345678;
  __asm__ volatile("fildq %1; fbstp %0" : "=m"(decimal) : "m"(big));
  CHECK(decimal[0] == 0x78 && decimal[1] == 0x56 && decimal[9] == 0x80);
  int64_t back;
  __asm__ volatile("fbld %1; fistpq %0" : "=m"(back) : "m"(decimal));
  CHECK(back == big);

  // fcomi sets rflags, fcmov uses them.
  unsigned char below;
  double a = 1.5, b = 2.5, picked;
  __asm__ volatile(
      "fldl %3; fldl %2; fcomi %%st(1), %%st; setb %0; fcmovb %%st(1), %%st; fstpl %1; fstp %%st(0)"
      : "=q"(below), "=m"(picked)
      : "m"(a), "m"(b)
      : "cc");
  CHECK(below == 1 && picked == 2.5);

  // The environment, with a value on the stack and a pending-free status.
  struct {
    uint32_t control, status, tag, ip, cs, dp, ds;
  } env;
  __asm__ volatile("fld1; fldpi; fnstenv %0; fldenv %0; fstp %%st(0); fstp %%st(0)" : "=m"(env));
  CHECK((env.control & 0xffff) == old_word && (env.tag & 0xffff) == 0x0fff);
  CHECK((env.status >> 11 & 7) == 6);
  unsigned char saved[108];
  double kept = 0;
  __asm__ volatile("fldl %1; fnsave %0; frstor %0; fstpl %2; fninit; fldcw %3"
                   : "=m"(saved)
                   : "m"(b), "m"(kept), "m"(old_word)
                   : "memory");
  CHECK(kept == 2.5);

  // Denormals and exceptions in the status word.
  double zero = 0, one = 1;
  uint16_t status;
  __asm__ volatile("fnclex; fldl %1; fdivl %2; fnstsw %0; fstp %%st(0); fnclex"
                   : "=a"(status)
                   : "m"(one), "m"(zero));
  CHECK(status & 4);

  __m64 m = _mm_set_pi16(1, 2, 3, 4), n = _mm_set_pi16(10, 20, 30, 40);
  __m64 sum = _mm_add_pi16(m, n);
  uint64_t bits = (uint64_t)_mm_cvtm64_si64(sum);
  _mm_empty();
  CHECK(bits == 0x000b00160021002cull);
  printf("x87 right\n");
}
