// Times of the day and distances, as they are typed to `goto`.
#include "timeline/times.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

namespace backstep::timeline {
namespace {

constexpr int64_t kMs = 1'000'000, kSecond = 1000 * kMs;
// 2026-03-04 14:03:20.250 UTC
constexpr int64_t kStart = 1'772'633'000 * kSecond + 250 * kMs;

class Times : public testing::Test {
 protected:
  void SetUp() override {
    setenv("TZ", "UTC", 1);
    tzset();
  }
};

TEST_F(Times, DistancesCountFromTheStart) {
  EXPECT_EQ(parse_time("+1.5s", kStart), kStart + 1500 * kMs);
  EXPECT_EQ(parse_time("+200ms", kStart), kStart + 200 * kMs);
  EXPECT_EQ(parse_time("+2m", kStart), kStart + 120 * kSecond);
  EXPECT_EQ(parse_time("+7", kStart), kStart + 7 * kSecond);
  for (const char* wrong : {"+", "+x", "+1h", "+-1s", "+1e300s", "+1 s"})
    EXPECT_FALSE(parse_time(wrong, kStart)) << wrong;
}

TEST_F(Times, TimesOfTheDayAreOnTheDayOfTheStart) {
  EXPECT_EQ(parse_time("14:03:22.5", kStart), kStart + 2250 * kMs);
  EXPECT_EQ(parse_time("14:03:20", kStart), kStart - 250 * kMs);
  EXPECT_EQ(parse_time("14:04", kStart), kStart - 250 * kMs + 40 * kSecond);
  EXPECT_EQ(time_text(*parse_time("14:03:22.5", kStart)), "14:03:22.500");
  for (const char* wrong : {"14", "25:00", "14:61", "14:03:", "14:03:99", "14:03:2x", "14:03x", "a:b"})
    EXPECT_FALSE(parse_time(wrong, kStart)) << wrong;
}

TEST_F(Times, WhatWasBeforeTheStartIsTomorrow) {
  EXPECT_EQ(parse_time("00:10", kStart),
            kStart - 250 * kMs - 200 * kSecond + (10 * 3600 + 10 * 60) * kSecond);
}

}  // namespace
}  // namespace backstep::timeline
