// One log, read once for what a history needs of it besides its channels: where it begins and ends, the
// events that others refer to, signals and waits, and what time it was.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "cluster/history.h"
#include "recording/tree.h"

namespace backstep::cluster {

struct ProcessScan {
  // The wall clock was so and so much when the log had come to this event.
  struct TimeMark {
    uint64_t event;
    int64_t wall_ns;
  };
  struct Kill {
    Point from;
    int pid = 0, signo = 0;  // pid: of the target; below 1: a group
  };
  struct Delivered {
    Point to;
    int pid = 0, signo = 0;  // of the sender
  };
  struct Waited {
    Point to;
    int pid = 0;
  };
  // A signal that asks a process to end, handled or not.
  struct ToldToEnd {
    Point to;
    int signo = 0;
    replayer::Position before;  // in front of the call that it has ended; else of the signal itself
  };

  uint64_t base = 0;  // number of its own first event, as the timeline counts
  replayer::Position begin, end;
  bool ended = false;
  bool exits = false;  // with an exit or a signal: its parent can wait for that
  std::optional<std::string> damage;
  uint32_t version = 0;
  uint64_t gaps = 0, events = 0;
  Point first, last;
  std::map<uint64_t, Point> wanted;  // by number in its own log
  std::vector<TimeMark> times;
  std::vector<Kill> kills;
  std::vector<Delivered> signals;
  std::vector<Waited> waits;
  std::vector<ToldToEnd> told_to_end;
  std::vector<OwnEvent> own_events;
};

// `wanted`: events whose points are asked for. `thread`: the one that the log begins with.
ProcessScan scan_process(const recording::Recording& recording, const recording::ProcessInfo& info,
                         ProcessId id, uint64_t base, const std::set<uint64_t>& wanted);

}  // namespace backstep::cluster
