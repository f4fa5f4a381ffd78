// "Did you mean …?"
#include "base/nearest.h"

#include <gtest/gtest.h>

namespace backstep {
namespace {

TEST(Nearest, FindsTypingMistakesAndPartsOfNames) {
  const std::vector<std::string> names = {"read", "write", "writev", "openat", "newfstatat"};
  EXPECT_EQ(nearest_names("wrtie", names), std::vector<std::string>{"write"});
  EXPECT_EQ(nearest_names("fstatat", names), std::vector<std::string>{"newfstatat"});
  EXPECT_EQ(nearest_names("zzz", names), std::vector<std::string>{});
  EXPECT_EQ(nearest_names("", names), std::vector<std::string>{});
  EXPECT_EQ(did_you_mean("opnat", names), "; did you mean 'openat'?");
  EXPECT_EQ(did_you_mean("writ", names), "; did you mean 'write' or 'writev'?");
  EXPECT_EQ(did_you_mean("nothing", names), "");
}

TEST(Nearest, AreNearIfFewLettersDiffer) {
  EXPECT_EQ(edit_distance("kitten", "sitting", 5), 3u);
  EXPECT_EQ(edit_distance("abc", "acb", 5), 1u);
  EXPECT_EQ(edit_distance("abc", "xyzxyz", 2), 3u);
  EXPECT_EQ(edit_distance("", "", 2), 0u);
}

}  // namespace
}  // namespace backstep
