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

// Of a whole piece, whose length compilers know and make vectors of, and of the rest of a column. Clones for
// what the processor has.
#define BACKSTEP_VECTORS [[gnu::target_clones("avx512f", "avx2", "default")]]

// `v` has the two numbers in front of the piece as well, at v[-2] and v[-1]. All bits that are in errors.
template <class F>
[[gnu::always_inline]] inline uint64_t errors_by(F error, size_t n, uint64_t* __restrict errors) {
  uint64_t all = 0;
  if (n == kPiece) {
    for (size_t i = 0; i < kPiece; i++) all |= errors[i] = error(static_cast<ptrdiff_t>(i));
  } else {
    for (size_t i = 0; i < n; i++) all |= errors[i] = error(static_cast<ptrdiff_t>(i));
  }
  return all;
}
BACKSTEP_VECTORS uint64_t same_errors(const uint64_t* __restrict v, size_t n, uint64_t* __restrict errors) {
  return errors_by([v](ptrdiff_t i) { return folded(v[i] - v[i - 1]); }, n, errors);
}
BACKSTEP_VECTORS uint64_t step_errors(const uint64_t* __restrict v, size_t n, uint64_t* __restrict errors) {
  return errors_by([v](ptrdiff_t i) { return folded(v[i] - 2 * v[i - 1] + v[i - 2]); }, n, errors);
}
BACKSTEP_VECTORS uint64_t all_bits(const uint64_t* __restrict v, size_t n, uint64_t* __restrict errors) {
  return errors_by([v](ptrdiff_t i) { return v[i]; }, n, errors);
}

// Bytes of the same weight of all of them.
BACKSTEP_VECTORS void bytes_of_weight(const uint64_t* __restrict v, size_t n, unsigned shift,
                                      uint8_t* __restrict out) {
  if (n == kPiece) {
    for (size_t i = 0; i < kPiece; i++) out[i] = static_cast<uint8_t>(v[i] >> shift);
  } else {
    for (size_t i = 0; i < n; i++) out[i] = static_cast<uint8_t>(v[i] >> shift);
  }
}
BACKSTEP_VECTORS void add_bytes(const uint8_t* __restrict bytes, size_t n, unsigned shift,
                                uint64_t* __restrict v) {
  if (n == kPiece) {
    for (size_t i = 0; i < kPiece; i++) v[i] |= uint64_t{bytes[i]} << shift;
  } else {
    for (size_t i = 0; i < n; i++) v[i] |= uint64_t{bytes[i]} << shift;
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

void pack_piece(std::vector<uint8_t>& out, const uint64_t* v, size_t n) {
  uint64_t errors[kPiece];
  const Guess guess = best_guess(v, n);
  const uint64_t all = guess == Same   ? same_errors(v, n, errors)
                       : guess == Step ? step_errors(v, n, errors)
                                       : all_bits(v, n, errors);
  const unsigned width = bytes_in(all);
  const size_t at = out.size();
  out.resize(at + 1 + width * n);
  uint8_t* p = out.data() + at;
  *p++ = static_cast<uint8_t>(guess << 4 | width);
  for (unsigned w = 0; w < width; w++, p += n) bytes_of_weight(errors, n, 8 * w, p);
}

// The next piece of a column goes to `v`, `stride` words from each other. `before`, `last`: the numbers in
// front of it, and then its own last ones.
bool read_piece(Cursor& in, uint64_t* v, size_t stride, size_t n, uint64_t& before, uint64_t& last) {
  const uint8_t head = in.u8();
  const unsigned width = head & 15, guess = head >> 4;
  const uint8_t* p = width <= 8 && guess <= Step ? in.bytes(width * n) : nullptr;
  if (!p || !in.ok) return in.ok = false;
  uint64_t errors[kPiece] = {};
  for (unsigned w = 0; w < width; w++, p += n) add_bytes(p, n, 8 * w, errors);
  uint64_t a = before, b = last;
  auto all = [&](auto number) {
    for (size_t i = 0; i < n; i++) {
      const uint64_t fresh = number(errors[i]);
      v[i * stride] = fresh;
      a = b, b = fresh;
    }
  };
  if (guess == Zero) {
    all([](uint64_t e) { return e; });
  } else if (guess == Same) {
    all([&](uint64_t e) { return b + unfolded(e); });
  } else {
    all([&](uint64_t e) { return 2 * b - a + unfolded(e); });
  }
  before = a, last = b;
  return true;
}

}  // namespace

void ColumnPacker::number(uint64_t v) {
  uint8_t bytes[10];
  const uint8_t* end = put_varint(bytes, v);
  out.insert(out.end(), bytes, bytes + (end - bytes));
}

void ColumnPacker::add(const uint64_t* first, size_t stride, size_t count) {
  uint64_t values[kPiece + 2];
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
    pack_piece(out, v, n);
    values[0] = n > 1 ? v[n - 2] : values[1];
    values[1] = v[n - 1];
  }
}

bool read_column(Cursor& in, uint64_t* first, size_t stride, size_t count) {
  if (count == 0) return in.ok;
  const uint64_t start = in.varint(), step = unfolded(in.varint());
  uint64_t before = start - 2 * step, last = start - step;
  for (size_t done = 0; done < count; done += kPiece)
    if (!read_piece(in, first + done * stride, stride, std::min(kPiece, count - done), before, last))
      return false;
  return true;
}

// Most blocks of a program are executed a few times only: they have little room at first.
void RowPacker::make_room() {
  constexpr size_t kFirst = 8, kMore = 4;
  const size_t rows = rows_.empty() ? 0 : rows_.size() / columns_ - 2;
  if (rows == kPiece) {
    pack_rows();
  } else {
    const size_t more = rows ? std::min(kPiece, kMore * rows) : kFirst;
    rows_.resize((more + 2) * columns_);
    next_ = first_row() + rows * columns_;
  }
  end_ = rows_.data() + rows_.size();
}

void RowPacker::pack_rows() {
  uint64_t* const first = first_row();
  const size_t n = static_cast<size_t>(next_ - first) / columns_;
  uint64_t v[kPiece + 2];
  for (size_t c = 0; c < columns_; c++) {
    const uint64_t* const rows = rows_.data() + c;
    for (size_t i = 0; i < n + 2; i++) v[i] = rows[i * columns_];
    if (!begun_) {
      const uint64_t step = n > 1 ? v[3] - v[2] : 0;
      packed_.number(v[2]);
      packed_.number(folded(step));
      v[0] = v[2] - 2 * step, v[1] = v[2] - step;
    }
    pack_piece(packed_.out, v + 2, n);
  }
  if (n == kPiece) std::copy(next_ - 2 * columns_, next_, rows_.data());
  begun_ = true;
  next_ = first;
}

void RowPacker::finish(ColumnPacker& out) {
  if (!rows_.empty() && next_ != first_row()) pack_rows();
  out.number(packed_.out.size());
  out.bytes(packed_.out);
  packed_.out.clear();
  begun_ = false;
}

RowReader::RowReader(Cursor& in, size_t columns, size_t count) : in_(in), columns_(columns), left_(count) {
  const uint64_t size = in.varint();
  const uint8_t* p = in.ok && size <= static_cast<uint64_t>(in.end - in.p) ? in.bytes(size) : nullptr;
  if (!p) {
    in.ok = in_.ok = false;
    return;
  }
  in_ = {p, p + size};
}

bool RowReader::read_rows() {
  if (left_ == 0 || !in_.ok) return in_.ok = false;
  const size_t n = std::min(kPiece, left_);
  const bool first = lasts_.empty();
  lasts_.resize(columns_);
  rows_.resize(n * columns_);
  for (size_t c = 0; c < columns_; c++) {
    Last& l = lasts_[c];
    if (first) {
      const uint64_t start = in_.varint(), step = unfolded(in_.varint());
      l = {start - 2 * step, start - step};
    }
    if (!read_piece(in_, rows_.data() + c, columns_, n, l.before, l.last)) return false;
  }
  left_ -= n;
  next_ = rows_.data(), end_ = next_ + rows_.size();
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
