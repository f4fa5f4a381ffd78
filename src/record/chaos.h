// The choices of chaos mode (`record --chaos`): a stream of numbers from a seed. Same seed, same choices;
// what comes of them also depends on what the world does in between.
#pragma once
#include <cstdint>
#include <optional>

#include "engine/context.h"

namespace backstep::recorder {

class Chaos {
 public:
  explicit Chaos(std::optional<uint64_t> seed) : on_(seed.has_value()), state_(seed.value_or(0)) {}

  bool on() const { return on_; }
  uint64_t below(uint64_t n) { return next() % n; }
  bool one_in(uint64_t n) { return on_ && below(n) == 0; }

  // How long a thread may run: anything from a handful of ticks to a million, and short ones often enough to
  // cut a critical sequence into pieces.
  Tick budget() {
    const uint64_t magnitude = one_in(2) ? below(7) : below(20);
    return 1 + below(1ull << (magnitude + 1));
  }

 private:
  uint64_t next() {  // splitmix64
    uint64_t z = state_ += 0x9e37'79b9'7f4a'7c15;
    z = (z ^ z >> 30) * 0xbf58'476d'1ce4'e5b9;
    z = (z ^ z >> 27) * 0x94d0'49bb'1331'11eb;
    return z ^ z >> 31;
  }

  bool on_;
  uint64_t state_;
};

}  // namespace backstep::recorder
