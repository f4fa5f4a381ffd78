// Memory whose changes stop a replay, by page protection.
#pragma once
#include <optional>
#include <vector>

#include "guest/process.h"
#include "replay/until.h"

namespace backstep::replayer {

class WatchedMemory {
 public:
  explicit WatchedMemory(guest::Process& process) : process_(process) {}
  WatchedMemory(const WatchedMemory&) = delete;
  WatchedMemory& operator=(const WatchedMemory&) = delete;

  void set(const std::vector<Watchpoint>& watches);
  bool empty() const { return watches_.empty(); }
  // Steps are not seen by store checks: they must be compared afterwards.
  bool compare_steps() const { return checked_; }
  // Between arm and disarm touching a watched page faults. All that is not guest code runs disarmed.
  void arm();
  void disarm();
  // A fault because of us, not the guest's own.
  bool ours(const engine::FaultInfo& fault) const;

  void remember();  // the contents as they are now
  // Watchpoints by their place in what was set.
  using Hits = std::vector<size_t>;
  // Those whose contents are not what they were. Remembers the new ones.
  Hits changed();
  // Those that the instruction at rip is about to read or write, as their kind asks for.
  Hits touched() const;
  // Those that a write of the replayer's own is about, whatever it writes.
  Hits stored(Address start, uint64_t length) const;
  const Watchpoint& spec(size_t index) const { return watches_[index].spec; }
  size_t count() const { return watches_.size(); }

 private:
  struct Watched {
    Watchpoint spec;
    std::vector<uint8_t> contents;
    bool there = false;
  };
  bool read(const Watched& w, std::vector<uint8_t>& bytes) const;

  guest::Process& process_;
  std::vector<Watched> watches_;
  std::vector<Address> pages_;    // sorted
  std::vector<bool> unreadable_;  // of pages_: reads are to fault too
  std::vector<engine::DataRange> ranges_;
  bool checked_ = false;  // by store checks in translated code, not by page protection
  bool armed_ = false;
};

}  // namespace backstep::replayer
