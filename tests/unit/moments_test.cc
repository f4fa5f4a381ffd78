// The grammar of moments, as `goto`, --from and --to take it.
#include "timeline/moments.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "temp_dir.h"

namespace backstep::timeline {
namespace {

class Moments : public testing::Test {
 protected:
  MomentName parse(const std::string& text) { return parse_moment(text, recording_); }
  test::TempDir dir_;
  recording::Recording recording_{dir_.path()};
};

TEST_F(Moments, HaveTheirForms) {
  EXPECT_EQ(parse("start").kind, MomentName::Start);
  EXPECT_EQ(parse(" end ").kind, MomentName::End);
  EXPECT_EQ(parse("event 106").event, 106u);
  EXPECT_EQ(parse("event:106").event, 106u);
  EXPECT_EQ(parse("42%").percent, 42);
  EXPECT_EQ(parse("@48211:0x401136").point, (ControlPoint{48211, 0x401136}));
  EXPECT_EQ(parse("@48211").point, (ControlPoint{48211, 0}));
  EXPECT_EQ(parse("48211").point, (ControlPoint{48211, 0}));
  EXPECT_EQ(parse("48,211").point, (ControlPoint{48211, 0}));
  EXPECT_EQ(parse("@010").point.tick, 10u);
}

TEST_F(Moments, WhatIsNoneIsSaid) {
  for (const char* wrong : {"", "event", "event x", "101%", "x%", "@", "@x", "@1:zz", "12x", "nobody"})
    EXPECT_THROW(parse(wrong), Error) << wrong;
}

TEST_F(Moments, BookmarksAreChecked) {
  std::ofstream(bookmarks_path(recording_))
      << R"({"good": {"at": "@7:0x10", "process": 3}, "odd": 5, "bad": {"at": 7}, "worse": {"at": "x"},
             "wrong": {"at": "@1", "process": "x"}})";
  EXPECT_EQ(parse("good").point, (ControlPoint{7, 0x10}));
  EXPECT_EQ(parse("good").process, 3u);
  for (const char* wrong : {"odd", "bad", "worse", "wrong"}) EXPECT_THROW(parse(wrong), Error) << wrong;
}

}  // namespace
}  // namespace backstep::timeline
