#include <gtest/gtest.h>

#include "trace/table.h"

namespace backstep::trace {
namespace {

Question question(std::vector<std::pair<Op, Value>> said) {
  Question q;
  q.table = find_table("stores");
  for (auto& [op, value] : said)
    q.constraints.push_back({*q.table->column("tick"), op, true, false, {value}});
  return q;
}

std::pair<int64_t, int64_t> range(std::vector<std::pair<Op, Value>> said) {
  const auto r = question(std::move(said)).range("tick");
  return {r.low.value_or(-1), r.high.value_or(-1)};
}

using Ends = std::pair<int64_t, int64_t>;

TEST(SqlQuestion, EndsOfARangeAreIncluded) {
  EXPECT_EQ(range({{Op::Greater, int64_t{5}}, {Op::Less, int64_t{9}}}), Ends(6, 8));
  EXPECT_EQ(range({{Op::GreaterEqual, int64_t{5}}, {Op::LessEqual, int64_t{9}}}), Ends(5, 9));
  EXPECT_EQ(range({{Op::Equal, int64_t{7}}}), Ends(7, 7));
  EXPECT_EQ(range({{Op::Greater, int64_t{5}}, {Op::Greater, int64_t{7}}}), Ends(8, -1));
}

TEST(SqlQuestion, NumbersMayBeBetweenIntegers) {
  EXPECT_EQ(range({{Op::Greater, 5.5}, {Op::Less, 9.5}}), Ends(6, 9));
  EXPECT_EQ(range({{Op::GreaterEqual, 5.0}, {Op::Less, 9.0}}), Ends(5, 8));
  EXPECT_TRUE(question({{Op::Equal, 5.5}}).range("tick").empty());
}

TEST(SqlQuestion, WhatIsNoNumberIsNoEnd) {
  EXPECT_EQ(range({{Op::Less, std::string("x")}, {Op::Greater, Value()}}), Ends(-1, -1));
  EXPECT_EQ(range({{Op::Less, std::string("9")}}), Ends(-1, 8));
  EXPECT_EQ(range({{Op::Greater, 1e300}}), Ends(-1, -1));
  EXPECT_EQ(range({{Op::Greater, INT64_MAX}}), Ends(-1, -1));
}

TEST(SqlQuestion, OneOfTheNeedsIsEnough) {
  Question q = question({});
  EXPECT_FALSE(q.table->can_answer(q));
  q.constraints.push_back({*q.table->column("addr"), Op::Equal, true, false, {int64_t{8}}});
  EXPECT_TRUE(q.table->can_answer(q));
  EXPECT_EQ(q.table->needs_text(), "name or addr or function or tick");
  EXPECT_TRUE(q.table->can_answer(question({{Op::Greater, int64_t{5}}})));
}

TEST(SqlQuestion, ColumnsThatAreNamedAreThere) {
  for (const Table& t : tables()) {
    for (const auto& order : t.orders)
      for (const char* c : order) EXPECT_TRUE(t.column(c)) << t.name << "." << c;
    for (const auto& all : t.needs)
      for (const char* c : all) EXPECT_TRUE(t.column(c)) << t.name << "." << c;
  }
}

}  // namespace
}  // namespace backstep::trace
