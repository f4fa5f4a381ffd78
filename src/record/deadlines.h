// Times as the guest gives them, and as we keep them: nanoseconds of the monotonic clock.
#pragma once
#include <cstdint>
#include <ctime>

#include "record/turns.h"

namespace backstep::recorder {

inline constexpr int64_t kSecond = 1'000'000'000;

struct Timespec {
  int64_t seconds, nanoseconds;
  bool valid() const { return seconds >= 0 && nanoseconds >= 0 && nanoseconds < kSecond; }
  int64_t ns() const { return seconds > INT64_MAX / kSecond - 1 ? kNever : seconds * kSecond + nanoseconds; }
};

inline int64_t clock_ns(int clock) {
  timespec ts{};
  clock_gettime(clock, &ts);
  return ts.tv_sec * kSecond + ts.tv_nsec;
}

// A time from now, or a point in time of some clock, on the monotonic one.
inline int64_t deadline_of(const Timespec& time, int clock, bool absolute) {
  const int64_t now = monotonic_ns();
  auto later = [&](int64_t by) { return by > kNever - now ? kNever : now + by; };
  if (!absolute) return later(time.ns());
  if (clock == CLOCK_MONOTONIC) return time.ns();
  const int64_t left = time.ns() == kNever ? kNever : time.ns() - clock_ns(clock);
  return left <= 0 ? now : later(left);
}

}  // namespace backstep::recorder
