// What CLOCK_REALTIME and CLOCK_MONOTONIC say at one moment.
#pragma once
#include <time.h>

#include <cstdint>

namespace backstep::recording {

struct ClockPair {
  uint64_t wall_ns = 0, monotonic_ns = 0;
};

// `now` reads a clock, in nanoseconds. Between two readings the thread may have lost its processor, for many
// milliseconds on a busy machine; who compares the clocks of hosts by such a pair would take one for changed.
// So the wall clock is read between two readings of the other one, again if these are far apart.
template <typename Now>
ClockPair read_clock_pair(Now&& now) {
  constexpr int kMostTries = 8;
  constexpr uint64_t kClose = 1'000;
  ClockPair best;
  uint64_t apart = UINT64_MAX;
  for (int i = 0; i < kMostTries && apart > kClose; i++) {
    const uint64_t before = now(CLOCK_MONOTONIC);
    const uint64_t wall = now(CLOCK_REALTIME);
    const uint64_t between = now(CLOCK_MONOTONIC) - before;
    if (between >= apart) continue;
    apart = between;
    best = {wall, before + between / 2};
  }
  return best;
}

}  // namespace backstep::recording
