// AES, carry-less multiplication and SHA instructions, against known answers.
#include <immintrin.h>
#include <stdint.h>

#include "check.h"

#define ROUND(i, rcon) \
  key[i + 1] = expand(key[i], _mm_shuffle_epi32(_mm_aeskeygenassist_si128(key[i], rcon), 0xff))

static __m128i expand(__m128i key, __m128i last) {
  key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
  key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
  key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
  return _mm_xor_si128(key, last);
}

int main(void) {
  // FIPS-197 appendix C.1.
  unsigned char text[16], secret[16], out[16];
  for (int i = 0; i < 16; i++) text[i] = (unsigned char)(i * 0x11), secret[i] = (unsigned char)i;
  const unsigned char want[16] = {0x69, 0xc4, 0xe0, 0xd8, 0x6a, 0x7b, 0x04, 0x30,
                                  0xd8, 0xcd, 0xb7, 0x80, 0x70, 0xb4, 0xc5, 0x5a};
  __m128i key[11];
  key[0] = _mm_loadu_si128((void*)secret);
  ROUND(0, 0x01);
  ROUND(1, 0x02);
  ROUND(2, 0x04);
  ROUND(3, 0x08);
  ROUND(4, 0x10);
  ROUND(5, 0x20);
  ROUND(6, 0x40);
  ROUND(7, 0x80);
  ROUND(8, 0x1b);
  ROUND(9, 0x36);
  __m128i state = _mm_xor_si128(_mm_loadu_si128((void*)text), key[0]);
  for (int i = 1; i < 10; i++) state = _mm_aesenc_si128(state, key[i]);
  state = _mm_aesenclast_si128(state, key[10]);
  _mm_storeu_si128((void*)out, state);
  CHECK(memcmp(out, want, 16) == 0);
  state = _mm_xor_si128(state, key[10]);
  for (int i = 9; i > 0; i--) state = _mm_aesdec_si128(state, _mm_aesimc_si128(key[i]));
  state = _mm_aesdeclast_si128(state, key[0]);
  _mm_storeu_si128((void*)out, state);
  CHECK(memcmp(out, text, 16) == 0);

  uint64_t a = next_number(), b = next_number(), low = 0, high = 0;
  for (int i = 0; i < 64; i++)
    if (b >> i & 1) low ^= a << i, high ^= i ? a >> (64 - i) : 0;
  __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long)a), _mm_cvtsi64_si128((long)b), 0);
  CHECK((uint64_t)_mm_cvtsi128_si64(product) == low && (uint64_t)_mm_extract_epi64(product, 1) == high);
  printf("crypto right\n");
}
