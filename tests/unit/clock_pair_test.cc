#include "recording/clock_pair.h"

#include <gtest/gtest.h>

namespace backstep::recording {
namespace {

constexpr uint64_t kOffset = 1'700'000'000'000'000'000;

// Who is interrupted between two readings reads again.
TEST(ClockPair, IsOfOneMoment) {
  for (int interrupted = 0; interrupted < 3; interrupted++) {
    uint64_t time = 5'000'000;
    int readings = 0;
    const ClockPair pair = read_clock_pair([&](clockid_t clock) {
      time += readings++ == interrupted ? 30'000'000 : 20;
      return clock == CLOCK_REALTIME ? time + kOffset : time;
    });
    const auto error = static_cast<int64_t>(pair.wall_ns - pair.monotonic_ns - kOffset);
    EXPECT_LE(error, 500);
    EXPECT_GE(error, -500);
  }
}

// Where it always is, the closest ones are taken, and it ends.
TEST(ClockPair, TakesTheClosest) {
  uint64_t time = 5'000'000, step = 900'000;
  const ClockPair pair = read_clock_pair([&](clockid_t clock) {
    time += step -= 10'000;
    return clock == CLOCK_REALTIME ? time + kOffset : time;
  });
  const auto error = static_cast<int64_t>(pair.wall_ns - pair.monotonic_ns - kOffset);
  EXPECT_LE(error, 700'000);
  EXPECT_GE(error, -700'000);
}

}  // namespace
}  // namespace backstep::recording
