// Columns of numbers, packed: what is the same each time, or grows by the same each time, takes nearly no
// room. Of the traces of windows (trace_chunk.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "recording/codec.h"

namespace backstep::recording {

class ColumnPacker {
 public:
  // `count` numbers, `stride` words from each other.
  void add(const uint64_t* first, size_t stride, size_t count);
  void number(uint64_t v);
  void bytes(std::span<const uint8_t> b) { out.insert(out.end(), b.begin(), b.end()); }
  std::vector<uint8_t> out;
};

// The next column of `in`. False, and `in.ok` is false: there are not so many numbers.
bool read_column(Cursor& in, uint64_t* first, size_t stride, size_t count);

// Rows of as many numbers each, as they come: of each piece of them one column behind the other, so that
// nothing but a piece has to be at hand.
class RowPacker {
 public:
  explicit RowPacker(size_t columns) : columns_(columns) {}

  // Where the next row is to be written to.
  uint64_t* row() {
    if (next_ == end_) [[unlikely]]
      make_room();
    uint64_t* const at = next_;
    next_ += columns_;
    return at;
  }
  // What all rows have become, with its size in front; then there are none.
  void finish(ColumnPacker& out);

 private:
  void make_room();
  void pack_rows();
  uint64_t* first_row() { return rows_.data() + 2 * columns_; }

  size_t columns_;
  std::vector<uint64_t> rows_;  // the last two of the piece before, then those of this one
  uint64_t *next_ = nullptr, *end_ = nullptr;
  bool begun_ = false;  // there was a piece before
  ColumnPacker packed_;
};

// The same rows again.
class RowReader {
 public:
  // The next ones of `in`, `count` of them. If they make no sense `in.ok` is false, now or after next().
  RowReader(Cursor& in, size_t columns, size_t count);

  // Null: they make no sense.
  const uint64_t* next() {
    if (next_ == end_) [[unlikely]]
      if (!read_rows()) return nullptr;
    const uint64_t* const at = next_;
    next_ += columns_;
    return at;
  }
  // All rows were read, and there is nothing else.
  bool at_end() const { return left_ == 0 && next_ == end_ && in_.ok && in_.p == in_.end; }

 private:
  bool read_rows();

  Cursor in_;
  size_t columns_, left_;
  std::vector<uint64_t> rows_;
  const uint64_t *next_ = nullptr, *end_ = nullptr;
  struct Last {
    uint64_t before = 0, last = 0;
  };
  std::vector<Last> lasts_;  // of each column; empty: nothing was read yet
};

// Zstandard, with the size as it was in front. Throws Error.
std::vector<uint8_t> squeeze(std::span<const uint8_t> raw, int level);
std::vector<uint8_t> unsqueeze(std::span<const uint8_t> packed, uint64_t most);

}  // namespace backstep::recording
