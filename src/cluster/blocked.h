// Who waits for what in a cut, and who for each other.
#pragma once
#include <string>
#include <vector>

#include "cluster/cut.h"
#include "cluster/sessions.h"

namespace backstep::cluster {

// Something that a process waits for.
struct Wait {
  enum Kind : uint8_t { Channel, Process, Child, Creation, Signal, Lock, Timer, Other } kind = Other;
  ProcessId process = kNone;      // who waits
  int thread = 0;                 // virtual name; 0: the process as a whole
  ChannelId channel = kNone;      // Channel
  std::vector<ProcessId> givers;  // who could end it; empty: nobody who was recorded
  std::string what;               // in words: "64 bytes on tcp A/client -> B/server:80 #3"
  std::string call;               // the system call that it waits in; may be empty
  bool timed = false;             // time ends it, too
  bool outside = false;           // or somebody who was not recorded
};
const char* wait_kind_name(Wait::Kind kind);

struct Blocked {
  std::vector<Wait> waits;
  // Processes that wait for each other in a circle, and that nobody else can help: a deadlock. Each waits
  // for the next one, the last for the first.
  std::vector<std::vector<ProcessId>> circles;
  // Likewise, but somebody who was not recorded, or a thread that waits for time, could help some of them:
  // the ranks of an MPI program, which listen to mpirun, too.
  std::vector<std::vector<ProcessId>> possible;
};

// What the graph tells is known at once: what the process needs next, and has not been done. What was never
// done at all (the run was ended while the process waited) is read off its registers at its place, by a
// replay.
Blocked blocked(const Causality& causality, const Cut& cut, Sessions& sessions);

// For tests: of processes that each wait for any of some others, those that can never go on, as circles.
std::vector<std::vector<ProcessId>> circles_of(const std::vector<std::vector<ProcessId>>& waits_for);

}  // namespace backstep::cluster
