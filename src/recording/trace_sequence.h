// Which block comes next, guessed from the last two: what followed them the last time. Encoder and decoder of
// a chunk (trace_chunk.cc) guess the same, so only the surprises are kept.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace backstep::recording {

class SequenceGuess {
 public:
  // What is expected; 0: nothing. May be set to what came instead.
  uint32_t& next() { return table_[(last_ * 0x9e37'79b1u ^ before_ * 0x85eb'ca6bu) >> (32 - kBits)]; }
  void follow(uint32_t number) {
    before_ = last_;
    last_ = number;
  }

 private:
  static constexpr unsigned kBits = 15;
  std::vector<uint32_t> table_ = std::vector<uint32_t>(size_t{1} << kBits);
  uint32_t last_ = 0, before_ = 0;
};

}  // namespace backstep::recording
