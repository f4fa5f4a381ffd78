// Memory whose changes stop a replay, by page protection.
#pragma once
#include <optional>
#include <vector>

#include "guest/process.h"
#include "replay/tap_set.h"

namespace backstep::replayer {

// Puts them in order, and those together that touch: as the engine wants them.
void join(std::vector<engine::DataRange>& ranges);

class WatchedMemory {
 public:
  explicit WatchedMemory(guest::Process& process) : process_(process) {}
  WatchedMemory(const WatchedMemory&) = delete;
  WatchedMemory& operator=(const WatchedMemory&) = delete;

  // Those of them that are about data.
  void set(const TapSet& taps);
  bool empty() const { return watches_.empty(); }
  // Steps are not seen by store checks: they must be compared afterwards.
  bool compare_steps() const { return checked_; }
  // Between arm and disarm touching a watched page faults. All that is not guest code runs disarmed.
  void arm();
  void disarm();
  // A fault because of us, not the guest's own.
  bool ours(const engine::FaultInfo& fault) const;

  void remember();  // the contents as they are now
  // By their place among those.
  using Hits = std::vector<size_t>;
  // Those whose contents are not what they were. Remembers the new ones.
  Hits changed();
  // Those that the instruction at rip is about to read or write, as their kind asks for.
  Hits touched() const;
  // Those that a write of the replayer's own is about, whatever it writes.
  Hits stored(Address start, uint64_t length) const;
  const Tap& spec(size_t index) const { return watches_[index].spec; }
  size_t tap(size_t index) const { return watches_[index].tap; }  // its place in all that was set
  // What was there before the last change, and is there now, as far as it fits into a word.
  uint64_t old_value(size_t index) const { return word(watches_[index].before); }
  uint64_t new_value(size_t index) const { return word(watches_[index].contents); }
  size_t count() const { return watches_.size(); }

 private:
  void refuse_code() const;
  struct Watched {
    Tap spec;
    size_t tap = 0;
    std::vector<uint8_t> contents;
    std::vector<uint8_t> before;
    bool there = false;
  };
  bool read(const Watched& w, std::vector<uint8_t>& bytes) const;
  static uint64_t word(const std::vector<uint8_t>& bytes) {
    uint64_t value = 0;
    for (size_t i = bytes.size() < 8 ? bytes.size() : 8; i-- > 0;) value = value << 8 | bytes[i];
    return value;
  }

  guest::Process& process_;
  std::vector<Watched> watches_;
  std::vector<Address> pages_;    // sorted
  std::vector<bool> unreadable_;  // of pages_: reads are to fault too
  std::vector<engine::DataRange> ranges_;
  bool checked_ = false;  // by store checks in translated code, not by page protection
  bool armed_ = false;
};

}  // namespace backstep::replayer
