// What the log of a process says about its waiting that registers do not: which descriptors its epoll sets
// have, and which threads wait by asking again and again, as MPI does ("is anything there?", "no", "is
// anything there?"). Such a thread is in no call that waits, wherever it is stopped, and yet goes nowhere.
#pragma once
#include <cstdint>
#include <map>
#include <set>

#include "cluster/history.h"

namespace backstep::cluster {

struct Polling {
  std::map<int, std::set<int>> sets;      // epoll descriptor -> those that it watches
  std::map<int, std::set<int>> spinning;  // thread (virtual name) -> what it polls, without any answer
};

// In front of event `own_event` of the process's log. What it inherited by fork is not known. Throws Error:
// the log cannot be read.
Polling polling_at(const History& history, ProcessId process, uint64_t own_event);

}  // namespace backstep::cluster
