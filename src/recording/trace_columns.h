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

// Zstandard, with the size as it was in front. Throws Error.
std::vector<uint8_t> squeeze(std::span<const uint8_t> raw, int level);
std::vector<uint8_t> unsqueeze(std::span<const uint8_t> packed, uint64_t most);

}  // namespace backstep::recording
