// What is known about each log of a recording without replaying it: the facts behind `ps`, and `info` of a
// tree.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "recording/library.h"
#include "recording/tree.h"

namespace backstep::recording {

struct ProcessFacts {
  ProcessInfo info;
  Tick ticks = 0;
  uint64_t events = 0;
  std::optional<int64_t> duration_ns, cpu_ns;

  bool begins_process() const { return info.birth != Birth::Exec || info.spawned; }
  std::string end_text() const;  // exit 0, SIGSEGV, exec 5, killed, …
};

// By number. From headers and manifests alone, except for processes that were killed: what those came to is
// found in their logs.
std::vector<ProcessFacts> process_facts(const Recording& recording);

// All of them together.
struct TreeFacts {
  size_t logs = 0, processes = 0;
  uint64_t events = 0;
  Tick ticks = 0;
  int64_t cpu_ns = 0;                                // of those where it is known
  std::vector<std::pair<std::string, size_t>> ends;  // of processes, most frequent first
};
TreeFacts tree_facts(const std::vector<ProcessFacts>& all);

}  // namespace backstep::recording
