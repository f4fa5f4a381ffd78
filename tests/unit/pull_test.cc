#include "trace/pull.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace backstep::trace {
namespace {

TEST(Pull, GivesAllRowsInTheirOrder) {
  Pull<int> pull([](Pull<int>& p) {
    for (int i = 0; i < 10'000; i++) p.put(i);
  });
  for (int i = 0; i < 10'000; i++) ASSERT_EQ(pull.next(), i);
  EXPECT_EQ(pull.next(), std::nullopt);
  EXPECT_EQ(pull.next(), std::nullopt);
}

TEST(Pull, GivesTheFirstRowBeforeTheSecondIsLookedFor) {
  int made = 0;
  {
    Pull<int> pull([&](Pull<int>& p) {
      do made++;
      while (p.put(made));
    });
    EXPECT_EQ(made, 0);
    EXPECT_EQ(pull.next(), 1);
    EXPECT_EQ(made, 1);
  }
  EXPECT_EQ(made, 1);  // who goes away ends it
}

TEST(Pull, HandsOverWhatThereIsAtAPause) {
  int made = 0;
  Pull<int> pull([&](Pull<int>& p) {
    while (made < 3) {
      p.put(++made);
      p.pause();
    }
  });
  for (int i = 1; i <= 3; i++) {
    EXPECT_EQ(pull.next(), i);
    EXPECT_EQ(made, i);
  }
  EXPECT_EQ(pull.next(), std::nullopt);
}

TEST(Pull, PassesOnWhatTheProducerThrowsBehindItsRows) {
  Pull<int> pull([](Pull<int>& p) {
    p.put(1);
    p.put(2);
    throw std::runtime_error("no");
  });
  EXPECT_EQ(pull.next(), 1);
  EXPECT_EQ(pull.next(), 2);
  EXPECT_THROW(pull.next(), std::runtime_error);
  EXPECT_EQ(pull.next(), std::nullopt);
}

TEST(Pull, OneMayRunInsideOfAnother) {
  Pull<int> outer([](Pull<int>& p) {
    for (int i = 0; i < 3; i++) p.put(i);
  });
  int sum = 0;
  while (auto i = outer.next()) {
    Pull<int> inner([&](Pull<int>& p) {
      for (int k = 0; k <= *i; k++) p.put(k);
    });
    while (auto k = inner.next()) sum += *k;
  }
  EXPECT_EQ(sum, 0 + 1 + 3);
}

TEST(Pull, NothingRunsThatNobodyAskedFor) {
  bool begun = false;
  {
    Pull<int> pull([&](Pull<int>&) { begun = true; });
  }
  EXPECT_FALSE(begun);
}

}  // namespace
}  // namespace backstep::trace
