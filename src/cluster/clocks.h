// What the clocks of the hosts have to do with each other, by the messages between them: a message is
// received after it was sent, whatever the two clocks say.
#pragma once
#include <vector>

#include "cluster/history.h"
#include "cluster/process_scan.h"

namespace backstep::cluster {

// Fills Host::clock. `scans`: of the history's processes.
void estimate_clocks(History& history, const std::vector<ProcessScan>& scans);
// Between which times of its host's wall clock an event was.
struct TimeSpan {
  int64_t least = INT64_MIN, most = INT64_MAX;
};
TimeSpan time_of(const ProcessScan& scan, uint64_t own_event);

}  // namespace backstep::cluster
