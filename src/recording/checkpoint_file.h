// A checkpoint that outlives its session: the state of a program at one moment, in a file of the recording.
// docs/trace-format.md has every byte.
//
// Here a checkpoint is an opaque `state` (recording/stored_state.h knows what registers and books are in it)
// and pages of memory. A page is written once: a checkpoint names the pages that it shares with earlier ones
// by the number of their file. So the files of one process belong together: only one that no other shares
// pages with may go alone.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "recording/library.h"

namespace backstep::recording {

inline constexpr char kCheckpointMagic[8] = {'B', 'K', 'S', 'T', 'E', 'P', 'C', 'P'};
// Of the file's format and of the state in it: what is kept, and what that means.
inline constexpr uint32_t kCheckpointVersion = 3;
inline constexpr uint64_t kMaxCheckpointBytes = 512ull << 20;  // of one recording
inline constexpr uint64_t kPageSize = 4096;
inline constexpr uint64_t kPagesPerFrame = 64;

enum class Maker : uint64_t { Replay = 1, Record = 2 };

struct CheckpointHeader {
  char magic[8];
  uint32_t version;
  uint32_t header_size;
  uint64_t process;          // the log whose replay it belongs to
  uint64_t number;           // of this file among those of the process: 1, 2, 3 …
  uint64_t tick, event, pc;  // the moment (replay/until.h, Position)
  uint64_t program;          // XXH3-64 of the version of the Backstep that wrote it
  uint64_t log;  // XXH3-64 of what never changes in the log's FileHeader and first ChunkHeader: which
                 // recording it is of
  uint64_t body_offset, body_size;  // compressed, at the end of the file
  uint64_t body_raw_size;
  uint64_t body_check;    // XXH3-64 of the compressed bytes
  uint64_t stored_pages;  // how many pages are in this file
  uint64_t pages;         // how many the checkpoint has in all
  uint64_t maker;         // Maker: who wrote it
  uint64_t check;         // XXH3-64 of the bytes before it
};
static_assert(sizeof(CheckpointHeader) == 136);

// Consecutive pages that lie one behind the other in one file.
struct PageRun {
  uint64_t space = 0;    // 0: the program's memory; n: the n-th file that it maps shared
  uint64_t address = 0;  // of the first one, or its place in that file
  uint64_t count = 0;
  uint64_t file = 0;   // number of the checkpoint that has them
  uint64_t index = 0;  // of the first one there
};

struct AddressRange {
  uint64_t start = 0, end = 0;
};
// What the program may have written to and executed since an earlier moment. Other pages were not written to,
// and no instruction that begins in another page was executed.
struct Written {
  uint64_t tick = 0, event = 0, pc = 0;  // since
  std::vector<AddressRange> ranges;      // page-aligned, ascending
  bool code_known = false;
  std::vector<AddressRange> code;  // likewise
};

using PageHash = std::array<uint64_t, 2>;  // XXH3-128: low half, high half

class CheckpointFile {
 public:
  // Reads and verifies the header only. Throws Error: cannot be read, damaged, of another version or
  // recording.
  CheckpointFile(std::string path, uint64_t log_identity);
  ~CheckpointFile();
  CheckpointFile(const CheckpointFile&) = delete;
  CheckpointFile& operator=(const CheckpointFile&) = delete;

  const CheckpointHeader& header() const { return header_; }
  const std::string& path() const { return path_; }
  uint64_t size() const { return data_.size(); }

  // The rest is verified when it is first asked for; throws Error.
  std::span<const uint8_t> state();
  const std::vector<PageRun>& runs();
  const std::vector<PageHash>& hashes();  // of the pages in this file
  const std::optional<Written>& written();
  // The page with this index; good until the next call.
  const uint8_t* page(uint64_t index);
  // Everything in this file is what was written.
  void verify();

 private:
  struct Frame {
    uint64_t offset = 0, size = 0, check = 0;
  };
  void read_body();
  [[noreturn]] void damaged(const std::string& what) const;

  std::string path_;
  std::span<const uint8_t> data_;
  CheckpointHeader header_{};
  bool parsed_ = false;
  std::vector<uint8_t> body_;
  std::span<const uint8_t> state_;
  std::vector<Frame> frames_;
  std::vector<PageRun> runs_;
  std::vector<PageHash> hashes_;
  std::optional<Written> written_;
  std::vector<uint8_t> frame_;  // decompressed
  uint64_t frame_number_ = ~0ull;
};

// The stored checkpoints of one process of a recording.
class CheckpointFolder {
 public:
  CheckpointFolder(const Recording& recording, uint64_t process);

  struct Entry {
    uint64_t number = 0;
    CheckpointHeader header{};
    uint64_t size = 0;
  };
  // Those whose header is good, in the order of time; why the others are not used goes to `notes`.
  std::vector<Entry> list(std::vector<std::string>* notes) const;
  std::string path(uint64_t number) const;
  const std::string& dir() const { return dir_; }
  uint64_t log_identity() const { return log_identity_; }
  uint64_t process() const { return process_; }
  // Opens each file once.
  CheckpointFile& open(uint64_t number);
  // The right to write; nullopt: somebody else has it (or, with `wait`, never). Held while the descriptor is
  // open. Makes the folder. Throws Error if that cannot be done.
  std::optional<Fd> lock(bool wait) const;
  // For the next file; ask with the lock held.
  uint64_t free_number() const;
  // Removes one that no other shares pages with.
  void remove(uint64_t number);

  // Of all processes of the recording.
  static std::string dir(const Recording& recording) { return recording.base() + "/checkpoints"; }
  static uint64_t disk(const Recording& recording);
  static size_t count(const Recording& recording);
  // Made while recording.
  static size_t count_recorded(const Recording& recording);
  static std::set<uint64_t> processes(const Recording& recording);
  // Removes them all; bytes freed. Throws Error.
  static uint64_t remove(const Recording& recording);

 private:
  std::string dir_;
  uint64_t process_;
  uint64_t log_identity_;
  std::map<uint64_t, std::unique_ptr<CheckpointFile>> files_;
};

class CheckpointWriter {
 public:
  // `earlier`: the checkpoint to share pages with, 0: none. `most`: bytes that it may take; more than that is
  // an Error. Throws Error.
  CheckpointWriter(CheckpointFolder& folder, uint64_t number, uint64_t earlier, uint64_t most = ~0ull);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Pages come in ascending order of (space, address).
  void page(uint64_t space, uint64_t address, const uint8_t* bytes);
  // Writes the rest and gives the file its name; its size.
  uint64_t finish(uint64_t tick, uint64_t event, uint64_t pc, Maker maker, std::span<const uint8_t> state,
                  const std::optional<Written>& written);
  // Was it given up because of `most`?
  bool too_large() const { return too_large_; }

 private:
  void flush_frame();
  void write(const void* bytes, size_t n);
  void add_to_runs(uint64_t space, uint64_t address, uint64_t file, uint64_t index);

  CheckpointFolder& folder_;
  uint64_t number_, most_;
  std::string temporary_;
  Fd fd_;
  uint64_t offset_ = sizeof(CheckpointHeader);
  bool too_large_ = false;
  const std::vector<PageRun>* earlier_ = nullptr;
  size_t cursor_ = 0;
  std::vector<uint8_t> buffer_, packed_;
  std::vector<uint64_t> frames_;  // offset, size, check
  std::vector<PageHash> hashes_;
  std::vector<PageRun> runs_;
  uint64_t pages_ = 0;
};

}  // namespace backstep::recording
