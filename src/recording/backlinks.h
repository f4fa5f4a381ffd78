// Which store was the last one to a word of memory, in a stretch of the run, and how many there were.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace backstep::recording {

// One execution of an instruction that stores; `event` as in a position (replay/until.h).
struct StoreMoment {
  uint64_t tick = 0, event = 0, pc = 0;
  uint32_t thread = 0;
  friend bool operator==(const StoreMoment&, const StoreMoment&) = default;
};

struct Backlinks {
  struct Word {
    uint64_t address = 0;  // of its first byte
    StoreMoment last;
    uint64_t count = 0;
  };
  std::vector<Word> words;  // ascending
  // What was written at once (string instructions, system calls) and is larger than a page is told as one.
  struct Large {
    uint64_t start = 0, end = 0;
    StoreMoment last;
    uint64_t count = 0;
  };
  std::vector<Large> large;  // by start and end, each once

  bool wrote(uint64_t start, uint64_t end) const;
  // Of the words that [start, end) touches: the last store to each of these. By word, without those that were
  // never stored to; large ones behind them.
  std::vector<StoreMoment> last(uint64_t start, uint64_t end) const;
  // Stores to words of [start, end): each counts once for each word that it touches there.
  uint64_t count(uint64_t start, uint64_t end) const;
  // What happens in a stretch behind this one.
  void append(const Backlinks& later);

  std::vector<uint8_t> pack() const;
  // Throws Error: the bytes are not what pack() makes.
  static Backlinks unpack(std::span<const uint8_t> packed);
};

}  // namespace backstep::recording
