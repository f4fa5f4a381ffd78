// Checkpoint files: what is written is read again, pages are shared, and whatever is wrong is noticed.
#include "recording/checkpoint_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "recording/checkpoint_series.h"
#include "recording/format.h"
#include "temp_dir.h"

namespace backstep::recording {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

Bytes page_of(uint8_t value) {
  Bytes page(kPageSize, value);
  for (size_t i = 0; i < page.size(); i += 64) page[i] = static_cast<uint8_t>(i / 64 * value);
  return page;
}

class CheckpointFiles : public testing::Test {
 protected:
  void SetUp() override { make_log(1234); }

  void make_log(uint64_t pid) const {
    FileHeader header{};
    header.header_size = sizeof header;
    header.process = 1;
    header.pid = pid;
    ChunkHeader chunk{};
    std::ofstream out(recording().log_path(1), std::ios::binary);
    out.write(reinterpret_cast<const char*>(&header), sizeof header);
    out.write(reinterpret_cast<const char*>(&chunk), sizeof chunk);
  }
  Recording recording() const { return Recording(dir_.path()); }

  // Pages at 0x1000 * (index + 1), one for each value.
  static void write(CheckpointFolder& folder, uint64_t number, uint64_t earlier, const Bytes& values) {
    auto lock = folder.lock(false);
    ASSERT_TRUE(lock);
    CheckpointWriter writer(folder, number, earlier);
    for (size_t i = 0; i < values.size(); i++) writer.page(0, kPageSize * (i + 1), page_of(values[i]).data());
    const Bytes state{1, 2, 3};
    Written written;
    written.tick = 5;
    written.ranges = {{0x1000, 0x3000}};
    writer.finish(number * 100, 7, 0x400000, Maker::Replay, state, written);
  }

  test::TempDir dir_;
};

TEST_F(CheckpointFiles, WhatIsWrittenIsReadAgain) {
  CheckpointFolder folder(recording(), 1);
  Bytes values(100);
  for (size_t i = 0; i < values.size(); i++) values[i] = static_cast<uint8_t>(i + 1);
  write(folder, 1, 0, values);
  CheckpointFile file(folder.path(1), folder.log_identity());
  EXPECT_EQ(file.header().tick, 100u);
  EXPECT_EQ(file.header().pages, 100u);
  EXPECT_EQ(Bytes(file.state().begin(), file.state().end()), (Bytes{1, 2, 3}));
  ASSERT_EQ(file.runs().size(), 1u);
  EXPECT_EQ(file.runs()[0].count, 100u);
  for (size_t i = 0; i < values.size(); i++)
    EXPECT_EQ(std::memcmp(file.page(i), page_of(values[i]).data(), kPageSize), 0) << i;
  ASSERT_TRUE(file.written());
  EXPECT_EQ(file.written()->ranges[0].end, 0x3000u);
  EXPECT_NO_THROW(file.verify());
}

TEST_F(CheckpointFiles, APageIsWrittenOnce) {
  CheckpointFolder folder(recording(), 1);
  write(folder, 1, 0, {1, 2, 3, 4});
  write(folder, 2, 1, {1, 9, 3, 4});
  write(folder, 3, 2, {1, 9, 3, 5, 6});
  EXPECT_EQ(folder.open(2).header().stored_pages, 1u);
  EXPECT_EQ(folder.open(3).header().stored_pages, 2u);
  Bytes seen;
  for (const PageRun& run : folder.open(3).runs())
    for (uint64_t i = 0; i < run.count; i++) seen.push_back(folder.open(run.file).page(run.index + i)[1]);
  EXPECT_EQ(seen, (Bytes{1, 9, 3, 5, 6}));
  EXPECT_EQ(folder.free_number(), 4u);
}

TEST_F(CheckpointFiles, ListIsInTheOrderOfTimeAndTellsWhatIsWrong) {
  CheckpointFolder folder(recording(), 1);
  write(folder, 2, 0, {1});
  write(folder, 1, 0, {1});
  fs::copy_file(folder.path(1), folder.path(3));
  std::ofstream(folder.path(4)) << "nonsense";
  std::vector<std::string> notes;
  auto list = folder.list(&notes);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].number, 1u);
  EXPECT_EQ(notes.size(), 2u);
}

TEST_F(CheckpointFiles, AnotherRecordingsAreNotUsed) {
  {
    CheckpointFolder folder(recording(), 1);
    write(folder, 1, 0, {1});
  }
  make_log(1235);
  CheckpointFolder folder(recording(), 1);
  std::vector<std::string> notes;
  EXPECT_TRUE(folder.list(&notes).empty());
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("another recording"), std::string::npos);
}

TEST_F(CheckpointFiles, EveryFlippedByteIsNoticed) {
  CheckpointFolder folder(recording(), 1);
  write(folder, 1, 0, {1, 2, 3});
  std::ifstream in(folder.path(1), std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  for (size_t i = 0; i < good.size(); i++) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x40);
    std::ofstream(folder.path(1), std::ios::binary) << bad;
    EXPECT_THROW(CheckpointFile(folder.path(1), folder.log_identity()).verify(), Error) << "byte " << i;
  }
  for (size_t n = 0; n < good.size(); n += 7) {
    std::ofstream(folder.path(1), std::ios::binary) << good.substr(0, n);
    EXPECT_THROW(CheckpointFile(folder.path(1), folder.log_identity()).verify(), Error) << "cut at " << n;
  }
}

TEST_F(CheckpointFiles, OneWritesAtATimeAndLeftoversAreCleared) {
  CheckpointFolder folder(recording(), 1);
  {
    auto lock = folder.lock(false);
    ASSERT_TRUE(lock);
    EXPECT_FALSE(folder.lock(false));
    std::ofstream(folder.dir() + "/.new-1") << "half";
  }
  EXPECT_TRUE(folder.lock(false));
  EXPECT_FALSE(fs::exists(folder.dir() + "/.new-1"));
  write(folder, 1, 0, {1});
  EXPECT_EQ(CheckpointFolder::count(recording()), 1u);
  const uint64_t disk = CheckpointFolder::disk(recording());
  EXPECT_GT(disk, 0u);
  EXPECT_EQ(CheckpointFolder::remove(recording()), disk);
  EXPECT_FALSE(fs::exists(folder.dir()));
}

TEST_F(CheckpointFiles, SeriesAreThinnedOutAndWhatIsLeftIsWhole) {
  constexpr uint64_t kMost = 400 << 10;
  constexpr size_t kPages = 12;
  CheckpointSeries series(recording(), 1, 0.5, kMost);
  // Pages that cannot be compressed: one of them never changes, the others in turn.
  auto page_at = [](uint64_t round, size_t index) {
    Bytes page(kPageSize);
    uint64_t seed = index == 0 ? 1 : (round + kPages - index) / kPages * kPages + index;
    for (uint8_t& byte : page)
      byte = static_cast<uint8_t>((seed = seed * 6364136223846793005ul + 99991) >> 56);
    return page;
  };
  std::map<uint64_t, uint64_t> round_of;  // by number of the file
  for (uint64_t round = 1; round <= 200; round++) {
    const bool made = series.make(kPages, [&](CheckpointWriter& writer) {
      for (size_t i = 0; i < kPages; i++) writer.page(0, kPageSize * (i + 1), page_at(round, i).data());
      writer.finish(round, 1, 0x400000, Maker::Record, Bytes{1}, std::nullopt);
    });
    ASSERT_TRUE(made || round > 1) << "the disk is nearly full";
    if (made) round_of[series.numbers().back()] = round;
  }
  EXPECT_LE(CheckpointFolder::disk(recording()), kMost);
  EXPECT_GT(series.distance(0), 0.5);  // twice as far apart, and again
  CheckpointFolder folder(recording(), 1);
  const auto left = folder.list(nullptr);
  ASSERT_EQ(left.size(), series.numbers().size());
  ASSERT_GE(left.size(), 4u);
  for (const auto& entry : left) {
    EXPECT_EQ(entry.header.maker, static_cast<uint64_t>(Maker::Record));
    size_t index = 0;
    for (const PageRun& run : folder.open(entry.number).runs())
      for (uint64_t i = 0; i < run.count; i++, index++)
        EXPECT_EQ(std::memcmp(folder.open(run.file).page(run.index + i),
                              page_at(round_of[entry.number], index).data(), kPageSize),
                  0);
    EXPECT_EQ(index, kPages);
  }
}

}  // namespace
}  // namespace backstep::recording
