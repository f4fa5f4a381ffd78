// Long logs: in parts, and packed. Whatever is done to their files, what they say stays the same, or it is
// known that something is missing.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "base/error.h"
#include "recording/checkpoint_file.h"
#include "recording/library.h"
#include "recording/log_packer.h"
#include "recording/log_parts.h"
#include "recording/log_reader.h"
#include "recording/log_writer.h"
#include "recording/tree.h"
#include "temp_dir.h"

namespace backstep::recording {
namespace {

namespace fs = std::filesystem;

// What a reader makes of a log.
struct Read {
  std::vector<std::string> texts;
  std::optional<std::string> damage;
  bool operator==(const Read&) const = default;
};

class LongLog : public ::testing::Test {
 protected:
  test::TempDir dir_;
  Recording recording_{dir_.path()};
  Tree tree_{recording_};
  std::string path_ = recording_.log_path(1);
  int notes_ = 0;
  std::string noise_ = [] {
    std::mt19937 dice(1);
    std::string text(60'000, ' ');
    for (char& c : text) c = "abcdefgh"[dice() % 8];
    return text;
  }();

  void write(LogWriter& writer, uint64_t size) {
    while (writer.size() < size) {
      const std::string text = "note " + std::to_string(notes_) + " ";
      writer.note(text + noise_.substr(static_cast<size_t>(notes_++ % 500) * 100, 3000));
    }
  }
  // Two parts and something of a third one, and an end.
  void write_whole() {
    LogWriter writer(path_, {}, tree_);
    write(writer, 2 * kPartSize + (2 << 20));
    writer.end(EndKind::Exit, 0, 0, 0);
  }
  Read read() const {
    Read r;
    LogReader log(path_);
    for (Event e; log.next(e);) r.texts.push_back(e.kind == EventKind::Note ? e.text : "end");
    r.damage = log.damage();
    return r;
  }
  void flip(const std::string& path, uint64_t at) const {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const auto byte = static_cast<char>(file.get() ^ 0x10);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  }
  uint64_t on_disk() const { return size_with_folders(dir_.path()); }
};

TEST_F(LongLog, IsARowOfFilesAndReadAsOne) {
  write_whole();
  EXPECT_EQ(count_parts(path_), 3u);
  const Read r = read();
  ASSERT_EQ(r.texts.size(), static_cast<size_t>(notes_) + 1);
  for (int i = 0; i < notes_; i++) ASSERT_TRUE(r.texts[i].starts_with("note " + std::to_string(i) + " "));
  EXPECT_EQ(r.texts.back(), "end");
  EXPECT_FALSE(r.damage) << *r.damage;
  uint64_t before = 0;
  LogFile file(path_);
  while (auto chunk = file.next()) {
    EXPECT_EQ(chunk->offset - std::exchange(before, chunk->offset), chunk->index == 0   ? 4096u
                                                                    : chunk->index == 1 ? 64u << 10
                                                                                        : 1u << 20);
  }
}

TEST_F(LongLog, SaysTheSameWhenItIsPacked) {
  write_whole();
  const Read before = read();
  const uint64_t size = on_disk();
  const uint64_t identity = CheckpointFolder(recording_, 1).log_identity();
  EXPECT_GT(pack_logs(recording_, false, true), size / 2);
  EXPECT_LT(on_disk(), size / 2);
  EXPECT_TRUE(read() == before);
  EXPECT_EQ(CheckpointFolder(recording_, 1).log_identity(), identity);
  EXPECT_EQ(pack_logs(recording_, false, true), 0u);  // they are packed
}

TEST_F(LongLog, IsPackedAsFarAsItIsComplete) {
  LogWriter writer(path_, {}, tree_);
  write(writer, 2 * kPartSize + (2 << 20));
  const Read before = read();
  const uint64_t last = fs::file_size(part_path(path_, 3));
  EXPECT_GT(pack_logs(recording_, false, true), kPartSize);
  EXPECT_EQ(fs::file_size(part_path(path_, 3)), last);
  EXPECT_TRUE(read() == before);
  write(writer, 4 * kPartSize);
  writer.end(EndKind::Exit, 0, 0, 0);
  const Read after = read();
  EXPECT_EQ(after.texts.size(), static_cast<size_t>(notes_) + 1);
  EXPECT_FALSE(after.damage) << *after.damage;
}

TEST_F(LongLog, ChunksAreFoundAgain) {
  write_whole();
  for (const bool packed : {false, true}) {
    if (packed) pack_logs(recording_, false, true);
    std::vector<Chunk> chunks;
    LogFile file(path_);
    while (auto chunk = file.next()) chunks.push_back(*chunk);
    ASSERT_GT(chunks.size(), 15u);
    std::vector<std::vector<uint8_t>> contents;
    for (const Chunk& chunk : chunks) {
      const Chunk whole = file.again(chunk);
      contents.emplace_back(whole.events.begin(), whole.events.end());
    }
    for (Chunk& chunk : chunks) chunk.forget_events();
    for (size_t i = chunks.size(); i-- > 0;) {
      const Chunk whole = file.again(chunks[i]);
      ASSERT_TRUE(
          std::equal(whole.events.begin(), whole.events.end(), contents[i].begin(), contents[i].end()));
    }
    LogFile other(path_);
    for (const size_t i : {chunks.size() - 1, size_t{3}, chunks.size() / 2, size_t{0}}) {
      const Chunk& c = chunks[i];
      const auto found = other.seek(c.offset, c.index, c.first_event, c.wall_ns);
      ASSERT_TRUE(found);
      EXPECT_EQ(found->first_event, c.first_event);
      EXPECT_TRUE(
          std::equal(found->events.begin(), found->events.end(), contents[i].begin(), contents[i].end()));
    }
    EXPECT_FALSE(other.seek(chunks[1].offset + 64, 1, 1, 0));
    EXPECT_FALSE(other.seek(1ull << 40, 1, 1, 0));
  }
}

TEST_F(LongLog, DamageIsNoticedAndWhatIsBeforeItIsRead) {
  write_whole();
  const Read whole = read();
  test::TempDir copies;
  for (const bool packed : {false, true}) {
    if (packed) pack_logs(recording_, false, true);
    for (uint32_t part = 1; part <= 3; part++) {
      const std::string file = part_path(path_, part), copy = copies.path() + "/copy";
      fs::copy_file(file, copy, fs::copy_options::overwrite_existing);
      const uint64_t size = fs::file_size(file);
      for (const uint64_t at : {uint64_t{50}, uint64_t{100}, uint64_t{4104}, uint64_t{4150}, size / 2}) {
        flip(file, at);
        Read r;
        bool refused = false;
        try {
          r = read();
        } catch (const Error&) {
          refused = true;
        }
        EXPECT_TRUE(refused || r.damage) << "part " << part << ", byte " << at << (packed ? ", packed" : "");
        EXPECT_TRUE(std::equal(r.texts.begin(), r.texts.end(), whole.texts.begin(),
                               whole.texts.begin() + static_cast<ptrdiff_t>(r.texts.size())));
        fs::copy_file(copy, file, fs::copy_options::overwrite_existing);
      }
    }
  }
  EXPECT_TRUE(read() == whole);
}

TEST_F(LongLog, ADamagedPartIsNotPacked) {
  write_whole();
  flip(part_path(path_, 2), 3 << 20);
  const Read before = read();
  ASSERT_TRUE(before.damage);
  EXPECT_FALSE(pack_part(part_path(path_, 2)));
  EXPECT_TRUE(pack_part(part_path(path_, 1)));
  EXPECT_TRUE(read() == before);
}

TEST_F(LongLog, WhatAPackerLeftThatWasKilledDoesNotMatter) {
  write_whole();
  const Read before = read();
  std::ofstream(path_ + ".packing") << "half of it";
  EXPECT_TRUE(read() == before);
  pack_logs(recording_, false, true);
  EXPECT_TRUE(read() == before);
  EXPECT_FALSE(fs::exists(path_ + ".packing"));
}

TEST_F(LongLog, PartsOfTwoLogsAreNotMixed) {
  write_whole();
  test::TempDir other_dir;
  const Recording other{other_dir.path()};
  Tree tree{other};
  {
    Origin origin;
    origin.process = 2;
    LogWriter writer(other.log_path(2), origin, tree);
    write(writer, kPartSize + (4 << 20));
  }
  const Read before = read();
  fs::copy_file(part_path(other.log_path(2), 2), part_path(path_, 2), fs::copy_options::overwrite_existing);
  const Read after = read();
  EXPECT_TRUE(after.damage);
  EXPECT_LT(after.texts.size(), before.texts.size());
}

}  // namespace
}  // namespace backstep::recording
