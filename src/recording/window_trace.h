// What is kept of the stores of a window: level 2, which one was the last to each word; level 3, all of them.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "recording/backlinks.h"
#include "recording/contents.h"
#include "recording/trace_chunk.h"

namespace backstep::recording {

// As read from its file, without the stores themselves.
class WindowTrace {
 public:
  int level = 2;
  uint64_t count = 0;  // stores
  Backlinks links;

  // Level 3: calls `take` with each store that touches the memory, in the order of time; nothing: any.
  // Chunks without such a one are not read. False: `take` had enough. Throws Error: it is damaged.
  bool each(std::span<const AddressRange> data, const std::function<bool(const TracedStore&)>& take) const;
  // Throws Error: what would be read for it is not what was written.
  void check(std::span<const AddressRange> data) const;

 private:
  friend class TraceFolder;
  struct Chunk {
    uint64_t offset = 0, size = 0, check = 0, count = 0;
    Contents words;  // that are stored to in it
  };
  std::vector<uint8_t> bytes_of(const Chunk& chunk) const;
  static bool touches(const Chunk& chunk, std::span<const AddressRange> data);

  std::string path_;
  std::vector<Chunk> chunks_;
};

// Those of a process, in the folder of its tables of contents. docs/trace-format.md has every byte.
class TraceFolder {
 public:
  TraceFolder(const Recording& recording, uint64_t process);

  struct Entry {
    std::string path;
    WindowBounds bounds;
    int level = 2;
    uint64_t stores = 0;
    uint64_t size = 0;      // of the file
    uint64_t of_links = 0;  // … that level 2 takes
  };
  // Those of the recording's other processes.
  std::vector<TraceFolder> others() const;
  // Those whose header is good, in the order of time; why others are not used goes to `notes`.
  std::vector<Entry> list(std::vector<std::string>* notes) const;
  // Throws Error: it is damaged, or cannot be read.
  WindowTrace read(const Entry& entry) const;

  // A chunk of a window, as it comes: stores packed, or nothing.
  struct Part {
    uint64_t count = 0;
    Backlinks links;
    std::span<const uint8_t> stores;
  };
  // Another one of the same window is replaced. Throws Error.
  Entry write(const WindowBounds& bounds, int level, std::span<const Part> parts) const;
  // A trace of level 3 becomes one of level 2. Nullopt: it is damaged, and gone. Throws Error.
  std::optional<Entry> reduced(const Entry& entry) const;
  // Two neighbours of level 2 become one window, in which less is known of when things were written; the
  // first one's file is it. Nullopt: one of them is damaged. Throws Error.
  std::optional<Entry> merged(const Entry& first, const Entry& second) const;
  static void remove(const Entry& entry);
  // It was used now; when it was used last, on a scale of its own.
  static void note_use(const Entry& entry);
  static int64_t last_use(const Entry& entry);

 private:
  std::string dir_;
  uint64_t process_;
  uint64_t log_identity_;
};

}  // namespace backstep::recording
