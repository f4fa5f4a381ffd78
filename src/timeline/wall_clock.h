// Which time of the day it was at a tick, as far as a recording knows.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "recording/manifest.h"
#include "timeline/log_index.h"

namespace backstep::timeline {

// When the process of that log ended, as far as its manifest knows.
std::optional<int64_t> end_ns(const recording::Recording& recording, uint64_t process);

class WallClock {
 public:
  // A moment whose time is known.
  struct Known {
    Tick tick = 0;
    int64_t ns = 0;  // since 1970
  };

  // `manifest`: of the recording's first process. `end_ns`: when this log's process ended, if its own
  // manifest says so.
  WallClock(const LogIndex& log, const recording::Manifest& manifest, std::optional<int64_t> end_ns = {});

  struct Estimate {
    Tick tick = 0;
    int64_t ns = 0;
    Known before, after;  // between these it is a guess; the same: it is known
  };
  Estimate at_tick(Tick tick) const;
  Estimate at_time(int64_t ns) const;  // the nearest there is

  int64_t start_ns() const { return start_; }  // of the recording
  int64_t first_ns() const { return known_.front().ns; }
  int64_t last_ns() const { return known_.back().ns; }

 private:
  void add(Tick tick, int64_t ns);

  std::vector<Known> known_;  // ascending in both
  int64_t start_ = 0;
};

}  // namespace backstep::timeline
