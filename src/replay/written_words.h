// Which words of the guest's memory are written to, exactly: the shadow (engine/shadow_hot.cc), and all that
// is written by others than translated code.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "guest/process.h"
#include "recording/contents.h"

namespace backstep::replayer {

class WrittenWords {
 public:
  explicit WrittenWords(guest::Process& process) : process_(process) {}
  WrittenWords(const WrittenWords&) = delete;
  WrittenWords& operator=(const WrittenWords&) = delete;

  // Counts from now on, or not any more. If that cannot be done for this program, collect() says so.
  void count(bool wanted);
  bool counting() const { return counting_; }
  // The mapping of [start, end) changes, or its contents in a way that nobody can tell.
  void note(uint64_t start, uint64_t end);
  // Memory is about to be mapped there.
  void map(uint64_t start, uint64_t end);
  // The instruction at rip is about to be executed alone.
  void mark_instruction();
  // What was written to since: pages and ranges of it. Nullopt: not known.
  std::optional<recording::Contents> collect();
  // … and counts from now on.
  std::optional<recording::Contents> take();

 private:
  void give_up();
  void remember_all();
  void compare_all(const recording::Contents& known) const;

  guest::Process& process_;
  bool counting_ = false;
  std::vector<recording::AddressRange> noted_;
  std::vector<uint64_t> shadow_pages_;               // that the last collect() has read
  std::map<uint64_t, std::vector<uint8_t>> before_;  // tests have contents compared
};

}  // namespace backstep::replayer
