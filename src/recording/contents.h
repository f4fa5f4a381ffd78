// The table of contents of a window: what the program wrote to and executed in it, exactly. Whoever looks for
// something need not replay windows that cannot hold it.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "recording/checkpoint_file.h"

namespace backstep::recording {

struct Contents {
  // Memory that was written to, or may have been as its mapping has changed: ascending, apart.
  std::vector<AddressRange> ranges;
  // Other pages, ascending: bit i of `words` is set if one of the bytes 8i to 8i+7 was written to.
  struct Page {
    uint64_t address = 0;
    std::array<uint64_t, 8> words{};
  };
  std::vector<Page> pages;
  // Instructions that were executed, or of which that is not known: ascending, apart.
  std::vector<AddressRange> code;

  bool wrote(uint64_t start, uint64_t end) const;
  // … in a way that is not a store, or may have been.
  bool changed_as_a_whole(uint64_t start, uint64_t end) const;
  bool executed(uint64_t start, uint64_t end) const;

  std::vector<uint8_t> pack() const;
  // Throws Error: the bytes are not what pack() makes.
  static Contents unpack(std::span<const uint8_t> bytes);
};

// Two moments of a process (replay/until.h, Position): [from, to).
struct WindowBounds {
  uint64_t from_tick = 0, from_event = 0, from_pc = 0;
  uint64_t to_tick = 0, to_event = 0, to_pc = 0;
};

// What the file of a window is called: it says where the window begins.
std::string window_file_name(uint64_t process, const WindowBounds& bounds, const std::string& suffix);

// Those of a process, in the folder of its recording. docs/trace-format.md has every byte.
class ContentsFolder {
 public:
  ContentsFolder(const Recording& recording, uint64_t process);

  struct Entry {
    std::string path;
    WindowBounds bounds;
    uint64_t size = 0;  // of the file
  };
  // Those whose header is good, in the order of time; why others are not used goes to `notes`.
  std::vector<Entry> list(std::vector<std::string>* notes) const;
  // Throws Error: it is damaged, or cannot be read.
  Contents read(const Entry& entry) const;
  // Writes one; another one of the same window is replaced. Throws Error.
  Entry write(const WindowBounds& bounds, const Contents& contents) const;

  static std::string dir(const Recording& recording) { return recording.base() + "/contents"; }
  static uint64_t disk(const Recording& recording);
  // Removes them all; bytes freed. Throws Error.
  static uint64_t remove(const Recording& recording);

 private:
  std::string dir_;
  uint64_t process_;
  uint64_t log_identity_;
};

}  // namespace backstep::recording
