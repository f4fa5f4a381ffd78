// Tables on their way into a recording: nothing that is damaged or a stranger's is taken in.
#include "recording/parcel.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "base/error.h"
#include "recording/backlinks.h"
#include "temp_dir.h"

namespace backstep::recording {
namespace {

constexpr ParcelIdentity kOurs{3, 0x1234, 0x5678};

Parcel two_windows() {
  Contents c;
  c.ranges = {{0x1000, 0x3000}};
  c.code = {{0x401000, 0x401010}};
  c.pages.push_back({0x7000, {1, 2, 3}});
  Parcel parcel;
  parcel.windows.push_back({{10, 1, 0x401000, 20, 2, 0x401008}, c.pack()});
  parcel.windows.push_back({{20, 2, 0x401008, 35, 4, 0x401000}, {}});
  return parcel;
}

std::string bytes_in(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void put_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(Parcel, ComesBackAsItWasWritten) {
  const test::TempDir dir;
  const std::string path = dir.path() + "/tables";
  two_windows().write(path, kOurs);
  const Parcel back = Parcel::read(path, kOurs);
  ASSERT_EQ(back.windows.size(), 2u);
  EXPECT_EQ(back.windows[0].packed, two_windows().windows[0].packed);
  EXPECT_EQ(back.windows[0].bounds.to_pc, 0x401008u);
  EXPECT_TRUE(back.windows[1].packed.empty());
  EXPECT_EQ(back.windows[1].bounds.to_tick, 35u);
}

TEST(Parcel, CarriesTraces) {
  const test::TempDir dir;
  const std::string path = dir.path() + "/traces";
  Backlinks links;
  links.words.push_back({0x7000, {12, 1, 0x401004, 1}, 5});
  Parcel parcel;
  parcel.level = 3;
  parcel.windows.push_back(
      {{10, 1, 0x401000, 20, 2, 0x401008}, {}, {{5, links.pack(), {1, 2, 3}}, {0, Backlinks().pack(), {4}}}});
  parcel.windows.push_back({{20, 2, 0x401008, 35, 4, 0x401000}, {}, {}});
  parcel.write(path, kOurs);
  const Parcel back = Parcel::read(path, kOurs);
  EXPECT_EQ(back.level, 3);
  ASSERT_EQ(back.windows.size(), 2u);
  ASSERT_EQ(back.windows[0].parts.size(), 2u);
  EXPECT_EQ(back.windows[0].parts[0].count, 5u);
  EXPECT_EQ(back.windows[0].parts[0].links, links.pack());
  EXPECT_EQ(back.windows[0].parts[0].stores, (std::vector<uint8_t>{1, 2, 3}));
  EXPECT_EQ(back.windows[0].parts[1].stores, std::vector<uint8_t>{4});
  EXPECT_TRUE(back.windows[1].parts.empty());
  // Level 2 has no stores, and last stores are those of a trace.
  parcel.level = 2;
  parcel.write(path, kOurs);
  EXPECT_THROW(Parcel::read(path, kOurs), Error);
  parcel.level = 3;
  parcel.windows[0].parts[0].links = {1, 2, 3};
  parcel.write(path, kOurs);
  EXPECT_THROW(Parcel::read(path, kOurs), Error);
}

TEST(Parcel, IsRefusedIfAnyBitIsOther) {
  const test::TempDir dir;
  const std::string path = dir.path() + "/tables";
  two_windows().write(path, kOurs);
  const std::string good = bytes_in(path);
  for (size_t i = 0; i < good.size(); i++) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1 << i % 8);
    put_bytes(path, bad);
    EXPECT_THROW(Parcel::read(path, kOurs), Error) << "byte " << i;
  }
  for (size_t n = 0; n < good.size(); n++) {
    put_bytes(path, good.substr(0, n));
    EXPECT_THROW(Parcel::read(path, kOurs), Error) << n << " bytes of it";
  }
  put_bytes(path, good + "x");
  EXPECT_THROW(Parcel::read(path, kOurs), Error);
}

TEST(Parcel, IsRefusedIfItIsOfAnotherRecordingProcessOrBuild) {
  const test::TempDir dir;
  const std::string path = dir.path() + "/tables";
  two_windows().write(path, kOurs);
  EXPECT_THROW(Parcel::read(path, {4, kOurs.log, kOurs.build}), Error);
  EXPECT_THROW(Parcel::read(path, {3, kOurs.log + 1, kOurs.build}), Error);
  EXPECT_THROW(Parcel::read(path, {3, kOurs.log, kOurs.build + 1}), Error);
  EXPECT_THROW(Parcel::read(dir.path() + "/nothing", kOurs), Error);
}

TEST(Parcel, IsRefusedIfItsWindowsDoNotFollowEachOther) {
  const test::TempDir dir;
  const std::string path = dir.path() + "/tables";
  Parcel parcel = two_windows();
  parcel.windows[1].bounds.from_tick = 21;
  parcel.write(path, kOurs);
  EXPECT_THROW(Parcel::read(path, kOurs), Error);
  parcel = two_windows();
  parcel.windows[0].packed.push_back(0);  // a table that makes no sense
  parcel.write(path, kOurs);
  EXPECT_THROW(Parcel::read(path, kOurs), Error);
}

}  // namespace
}  // namespace backstep::recording
