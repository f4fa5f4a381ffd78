// A column is cut into pieces of 512 numbers. Of each piece it is said how the next number is guessed (it is
// 0; the one before; the one before plus the last step), and only what is wrong with the guess is kept: its
// lowest bytes first, one behind the other, then the next ones. (In front of the column stand the first
// number and the first step, so that there is something to guess from.) Bytes of the same weight resemble
// each other, so zstd, which comes behind this, has little to do and does it well. Of a piece whose guesses
// are all right one byte is left.
#include "recording/trace_columns.h"

#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"

namespace backstep::recording {
namespace {

constexpr size_t kPiece = 512;
enum Guess : uint8_t { Zero, Same, Step };

uint64_t folded(uint64_t difference) {  // small if it is little more or less than 0
  return difference << 1 ^ (0 - (difference >> 63));
}
uint64_t unfolded(uint64_t v) {
  return v >> 1 ^ (0 - (v & 1));
}
unsigned bytes_in(uint64_t v) {
  return (static_cast<unsigned>(std::bit_width(v)) + 7) / 8;
}

// `v` has the two numbers in front of the piece as well, at v[-2] and v[-1].
void errors_of(Guess guess, const uint64_t* v, size_t n, uint64_t* errors) {
  switch (guess) {
    case Zero:
      std::memcpy(errors, v, n * sizeof *v);
      break;
    case Same:
      for (size_t i = 0; i < n; i++) errors[i] = folded(v[i] - v[static_cast<ptrdiff_t>(i) - 1]);
      break;
    case Step:
      for (size_t i = 0; i < n; i++) {
        const auto at = static_cast<ptrdiff_t>(i);
        errors[i] = folded(v[i] - 2 * v[at - 1] + v[at - 2]);
      }
      break;
  }
}

// The guess that leaves the fewest bytes of some of the numbers.
Guess best_guess(const uint64_t* v, size_t n) {
  unsigned left[3] = {};
  const size_t every = std::max<size_t>(1, n / 24);
  for (size_t i = 0; i < n; i += every) {
    const auto at = static_cast<ptrdiff_t>(i);
    left[Zero] += bytes_in(v[i]);
    left[Same] += bytes_in(folded(v[i] - v[at - 1]));
    left[Step] += bytes_in(folded(v[i] - 2 * v[at - 1] + v[at - 2]));
  }
  const unsigned least = std::min({left[Zero], left[Same], left[Step]});
  return least == left[Zero] ? Zero : least == left[Same] ? Same : Step;
}

}  // namespace

void ColumnPacker::number(uint64_t v) {
  uint8_t bytes[10];
  const uint8_t* end = put_varint(bytes, v);
  out.insert(out.end(), bytes, bytes + (end - bytes));
}

void ColumnPacker::add(const uint64_t* first, size_t stride, size_t count) {
  uint64_t values[kPiece + 2], errors[kPiece];
  if (count == 0) return;
  // So that the first guess is right, too: as if all had begun before.
  const uint64_t step = count > 1 ? first[stride] - first[0] : 0;
  number(first[0]);
  number(folded(step));
  values[0] = first[0] - 2 * step, values[1] = first[0] - step;
  for (size_t done = 0; done < count; done += kPiece) {
    const size_t n = std::min(kPiece, count - done);
    uint64_t* v = values + 2;
    for (size_t i = 0; i < n; i++) v[i] = first[(done + i) * stride];
    const Guess guess = best_guess(v, n);
    errors_of(guess, v, n, errors);
    uint64_t all = 0;
    for (size_t i = 0; i < n; i++) all |= errors[i];
    const unsigned width = bytes_in(all);
    const size_t at = out.size();
    out.resize(at + 1 + width * n);
    uint8_t* p = out.data() + at;
    *p++ = static_cast<uint8_t>(guess << 4 | width);
    for (unsigned w = 0; w < width; w++, p += n)
      for (size_t i = 0; i < n; i++) p[i] = static_cast<uint8_t>(errors[i] >> 8 * w);
    values[0] = n > 1 ? v[n - 2] : values[1];
    values[1] = v[n - 1];
  }
}

bool read_column(Cursor& in, uint64_t* first, size_t stride, size_t count) {
  if (count == 0) return in.ok;
  const uint64_t start = in.varint(), step = unfolded(in.varint());
  uint64_t before = start - 2 * step, last = start - step, errors[kPiece];
  for (size_t done = 0; done < count; done += kPiece) {
    const size_t n = std::min(kPiece, count - done);
    const uint8_t head = in.u8();
    const unsigned width = head & 15, guess = head >> 4;
    const uint8_t* p = width <= 8 && guess <= Step ? in.bytes(width * n) : nullptr;
    if (!p || !in.ok) return in.ok = false;
    std::memset(errors, 0, n * sizeof *errors);
    for (unsigned w = 0; w < width; w++, p += n)
      for (size_t i = 0; i < n; i++) errors[i] |= uint64_t{p[i]} << 8 * w;
    for (size_t i = 0; i < n; i++) {
      const uint64_t v = guess == Zero   ? errors[i]
                         : guess == Same ? last + unfolded(errors[i])
                                         : 2 * last - before + unfolded(errors[i]);
      first[(done + i) * stride] = v;
      before = last, last = v;
    }
  }
  return true;
}

std::vector<uint8_t> squeeze(std::span<const uint8_t> raw, int level) {
  uint8_t head[10];
  const auto size = static_cast<size_t>(put_varint(head, raw.size()) - head);
  std::vector<uint8_t> packed(size + ZSTD_compressBound(raw.size()));
  std::memcpy(packed.data(), head, size);
  const size_t n = ZSTD_compress(packed.data() + size, packed.size() - size, raw.data(), raw.size(), level);
  if (ZSTD_isError(n)) throw Error(fmt::format("cannot compress a trace: {}", ZSTD_getErrorName(n)));
  packed.resize(size + n);
  return packed;
}

std::vector<uint8_t> unsqueeze(std::span<const uint8_t> packed, uint64_t most) {
  Cursor in{packed.data(), packed.data() + packed.size()};
  const uint64_t size = in.varint();
  if (!in.ok || size > most) throw Error("a trace is damaged: its size makes no sense");
  std::vector<uint8_t> raw(size);
  if (ZSTD_decompress(raw.data(), raw.size(), in.p, static_cast<size_t>(in.end - in.p)) != size)
    throw Error("a trace is damaged: it cannot be decompressed");
  return raw;
}

}  // namespace backstep::recording
