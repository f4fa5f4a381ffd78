// The order of events among processes, as it stands in the log.
#include <gtest/gtest.h>

#include "recording/codec.h"

namespace backstep::recording {
namespace {

TEST(Order, NumbersComeBackWhateverWasBefore) {
  const Order orders[] = {{5, 0}, {0, 6}, {7, 9}, {0, 8}, {1ull << 40, 0}, {3, 1ull << 50}, {0, 4}};
  uint8_t bytes[256];
  uint8_t* end = bytes;
  uint64_t last = 4;
  for (const Order& order : orders) end = put_order(end, order, last);
  Cursor c{bytes, end};
  last = 4;
  for (const Order& order : orders) {
    const Order back = c.order(last);
    EXPECT_EQ(back.given, order.given);
    EXPECT_EQ(back.got, order.got);
  }
  EXPECT_TRUE(c.ok);
  EXPECT_EQ(c.p, end);
}

TEST(Order, TheNextNumberTakesOneByte) {
  uint8_t bytes[32];
  uint64_t last = 1'000'000;
  EXPECT_EQ(put_order(bytes, {1'000'001, 0}, last), bytes + 1);
  EXPECT_EQ(put_order(bytes, {0, 1'000'009}, last), bytes + 1);
}

TEST(Order, AnOrderOfNoKindIsDamage) {
  const uint8_t bytes[] = {0};
  Cursor c{bytes, bytes + 1};
  uint64_t last = 0;
  c.order(last);
  EXPECT_FALSE(c.ok);
}

}  // namespace
}  // namespace backstep::recording
