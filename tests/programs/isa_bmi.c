// BMI1, BMI2, ADX, popcnt/lzcnt/tzcnt, movbe, double shifts, bit tests with register index into memory,
// bsf/bsr with zero, mul/div of every width: results and flags against plain C.
#include <immintrin.h>
#include <stdint.h>

#include "check.h"

static uint64_t slow_pdep(uint64_t source, uint64_t mask) {
  uint64_t result = 0;
  for (int bit = 0, used = 0; bit < 64; bit++)
    if (mask >> bit & 1) result |= (source >> used++ & 1) << bit;
  return result;
}

int main(void) {
  uint64_t digest = 0;
  for (int i = 0; i < 500; i++) {
    uint64_t a = next_number(), b = next_number();
    CHECK(_pdep_u64(a, b) == slow_pdep(a, b));
    CHECK(_pext_u64(slow_pdep(a, b), b) ==
          (a & (_mm_popcnt_u64(b) == 64 ? ~0ul : (1ul << _mm_popcnt_u64(b)) - 1)));
    CHECK(_andn_u64(a, b) == (~a & b) && _blsr_u64(a) == (a & (a - 1)) && _blsi_u64(a) == (a & -a));
    CHECK(_bextr_u64(a, 7, 13) == (a >> 7 & 0x1fff) && _bzhi_u64(a, 20) == (a & 0xfffff));
    unsigned long long high, low = _mulx_u64(a, b, &high);
    CHECK((((unsigned __int128)high << 64) | low) == (unsigned __int128)a * b);
    uint64_t rotated, shifted;
    __asm__("rorx $13, %1, %0" : "=r"(rotated) : "r"(a));
    __asm__("shlx %2, %1, %0" : "=r"(shifted) : "r"(a), "r"(b));
    CHECK(rotated == (a >> 13 | a << 51) && shifted == a << (b & 63));
    uint64_t swapped;
    __asm__("movbe %1, %0" : "=r"(swapped) : "m"(a));
    CHECK(swapped == __builtin_bswap64(a));
    uint64_t doubled = a;
    __asm__("shld %%cl, %1, %0" : "+r"(doubled) : "r"(b), "c"(i) : "cc");
    CHECK((i & 63) == 0 ? doubled == a : doubled == (a << (i & 63) | b >> (64 - (i & 63))));
    digest = digest * 31 + __builtin_ctzll(a | 1ul << 63) + _lzcnt_u64(b) + _tzcnt_u64(a);
  }
  CHECK(_lzcnt_u64(0) == 64 && _tzcnt_u32(0) == 32);

  // adcx and adox run two carry chains through one loop; jrcxz and lea leave flags alone.
  uint64_t x[4] = {~0ul, ~0ul, 5, 0}, y[4] = {1, 0, ~0ul, 0}, sum[4];
  __asm__ volatile(
      "xor %%eax, %%eax\n mov (%[x]), %%rax\n adcx (%[y]), %%rax\n mov %%rax, (%[s])\n"
      "mov 8(%[x]), %%rax\n adcx 8(%[y]), %%rax\n mov %%rax, 8(%[s])\n"
      "mov 16(%[x]), %%rax\n adcx 16(%[y]), %%rax\n mov %%rax, 16(%[s])\n"
      "mov 24(%[x]), %%rax\n adcx 24(%[y]), %%rax\n mov %%rax, 24(%[s])\n"
      :
      : [x] "r"(x), [y] "r"(y), [s] "r"(sum)
      : "rax", "cc", "memory");
  CHECK(sum[0] == 0 && sum[1] == 0 && sum[2] == 5 && sum[3] == 1);

  // bts with a register index reaches far outside its operand, negative indexes too.
  uint64_t bits[8] = {0};
  int64_t indexes[3] = {200, -100, 0};
  for (int i = 0; i < 3; i++)
    __asm__ volatile("btsq %1, (%0)" ::"r"(bits + 4), "r"(indexes[i]) : "cc", "memory");
  CHECK(bits[7] == 1ul << 8 && bits[2] == 1ul << 28 && bits[4] == 1);
  unsigned char was;
  __asm__ volatile("lock btcq %2, (%1); setc %0" : "=q"(was) : "r"(bits + 4), "r"(200l) : "cc", "memory");
  CHECK(was == 1 && bits[7] == 0);

  uint8_t quotient, remainder;
  __asm__("divb %2; mov %%ah, %1"
          : "=&a"(quotient), "=q"(remainder)
          : "q"((uint8_t)7), "0"((uint16_t)1000)
          : "cc");
  CHECK(quotient == 142 && remainder == 6);
  uint64_t high, low;
  __asm__("divq %4" : "=a"(low), "=d"(high) : "0"(0x123456789abcdef0), "1"(0x1ul), "r"(0x200000001ul) : "cc");
  CHECK((unsigned __int128)low * 0x200000001ul + high == ((unsigned __int128)1 << 64 | 0x123456789abcdef0));
  printf("bmi right, digest %lu\n", digest);
}
