// SSE to SSE4.2 on every lane type, checked against scalar code: arithmetic, shuffles, conversions, string
// compares with implicit length, mxcsr rounding, non-temporal stores, unaligned and page-crossing operands.
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <sys/mman.h>

#include "check.h"

int main(void) {
  float f[4] = {1.5f, -2.25f, 3.75f, 100}, g[4];
  __m128 v = _mm_loadu_ps(f);
  _mm_storeu_ps(g, _mm_sqrt_ps(_mm_mul_ps(v, v)));
  for (int i = 0; i < 4; i++) CHECK(g[i] == fabsf(f[i]));
  CHECK(_mm_movemask_ps(v) == 2);

  unsigned char bytes[32], out[16];
  for (int i = 0; i < 32; i++) bytes[i] = next_number();
  __m128i a = _mm_loadu_si128((void*)bytes), b = _mm_loadu_si128((void*)(bytes + 16));
  _mm_storeu_si128((void*)out, _mm_subs_epu8(a, b));
  for (int i = 0; i < 16; i++) CHECK(out[i] == (bytes[i] > bytes[16 + i] ? bytes[i] - bytes[16 + i] : 0));
  __m128i reverse = _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  _mm_storeu_si128((void*)out, _mm_shuffle_epi8(a, reverse));
  for (int i = 0; i < 16; i++) CHECK(out[i] == bytes[15 - i]);
  _mm_storeu_si128((void*)out, _mm_alignr_epi8(b, a, 5));
  for (int i = 0; i < 16; i++) CHECK(out[i] == bytes[i + 5]);
  long sad = 0;
  for (int i = 0; i < 8; i++) sad += abs(bytes[i] - bytes[16 + i]);
  CHECK(_mm_cvtsi128_si64(_mm_sad_epu8(a, b)) == sad);
  CHECK(_mm_extract_epi32(_mm_blend_epi16(a, b, 0xc0), 3) == _mm_extract_epi32(b, 3));

  uint32_t crc = 0;
  for (int i = 0; i < 32; i++) crc = _mm_crc32_u8(crc, bytes[i]);
  uint64_t wide = 0;
  for (int i = 0; i < 32; i += 8) {
    uint64_t chunk;
    memcpy(&chunk, bytes + i, 8);
    wide = _mm_crc32_u64(wide, chunk);
  }
  CHECK(crc == (uint32_t)wide);
  __m128i text = _mm_loadu_si128((const void*)"hello, world!!!"),
          set = _mm_setr_epi8(',', '!', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
  CHECK(_mm_cmpistri(set, text, _SIDD_CMP_EQUAL_ANY) == 5);
  CHECK(_mm_cmpestri(set, 2, text, 5, _SIDD_CMP_EQUAL_ANY) == 16);

  // mxcsr: rounding, and flush to zero.
  unsigned old = _mm_getcsr();
  for (int mode = 0; mode < 4; mode++) {
    _mm_setcsr((old & ~0x6000u) | (unsigned)mode << 13);
    volatile float x = 2.5f;
    int want[4] = {2, 2, 3, 2};
    CHECK(_mm_cvtss_si32(_mm_set_ss(x)) == want[mode]);
  }
  _mm_setcsr(old | 0x8000);
  volatile float tiny = 1e-38f, hundred = 100;
  CHECK(tiny / hundred == 0);
  _mm_setcsr(old);
  CHECK(tiny / hundred != 0);

  double d[2] = {1e10, -7.75};
  __m128d w = _mm_loadu_pd(d);
  CHECK(_mm_cvttsd_si64(w) == 10000000000 && _mm_cvtsd_si32(_mm_unpackhi_pd(w, w)) == -8);
  CHECK(_mm_cvtsd_f64(_mm_floor_sd(w, _mm_unpackhi_pd(w, w))) == -8);
  CHECK(_mm_cvtsd_f64(_mm_dp_pd(w, w, 0x31)) == 1e20 + 7.75 * 7.75);
  CHECK(_mm_comilt_sd(_mm_unpackhi_pd(w, w), w));

  // Operands over the end of a page, and streaming stores.
  char* pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED);
  for (int i = 0; i < 17; i++) {
    _mm_storeu_si128((void*)(pages + 4096 - i), a);
    CHECK(memcmp(pages + 4096 - i, bytes, 16) == 0);
  }
  _mm_stream_si128((void*)pages, b);
  _mm_stream_si64((void*)(pages + 64), 0x1122334455667788);
  _mm_maskmoveu_si128(a, _mm_setr_epi8(-1, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1), pages + 128);
  _mm_sfence();
  CHECK(memcmp(pages, bytes + 16, 16) == 0 && pages[128] == (char)bytes[0] && pages[129] == 0);
  CHECK((unsigned char)pages[143] == bytes[15]);
  printf("sse right, crc %08x\n", crc);
}
