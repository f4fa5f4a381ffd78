// The processes of one recording. Each has a log of its own (a new one after every execve); what they share
// are counters in a small file that all recorders map: one gives out the logs' numbers.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "recording/format.h"
#include "recording/library.h"

namespace backstep::recording {

class Tree {
 public:
  // Maps the counter of a recording, making it if need be; throws Error.
  explicit Tree(const Recording& recording);
  uint64_t next_number();
  // How often a file was mapped shared and writable, in the whole tree.
  const uint64_t& shared_files() const { return last_[1]; }
  void count_shared_file() { __atomic_fetch_add(&last_[1], 1, __ATOMIC_SEQ_CST); }
  uint64_t last_number() const { return __atomic_load_n(last_, __ATOMIC_SEQ_CST); }

 private:
  uint64_t* last_;
};

// One log, as its header and manifest tell.
struct ProcessInfo {
  uint64_t number = 0;
  Birth birth = Birth::Start;
  uint64_t parent = 0, parent_event = 0;
  uint64_t pid = 0;
  std::vector<std::string> argv;  // of the nearest ancestor that has a manifest, if this one has none
  std::optional<Manifest::End> end;
  bool damaged = false;  // the header cannot be read, or is that of another log
};
std::vector<ProcessInfo> list_processes(const Recording& recording);

// The log that a user means with a pid (of several with that pid, the last one) or, if no process has it,
// with a log's number. Throws Error.
uint64_t find_process(const Recording& recording, uint64_t pid_or_number);

// How the program that was recorded ended: if it became others by execve, the last of them.
std::optional<Manifest::End> final_end(const Recording& recording, const std::optional<Manifest::End>& first);

}  // namespace backstep::recording
