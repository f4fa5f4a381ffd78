// Recording a program again and again until it fails.
#pragma once
#include <cstdint>
#include <string>

#include "record/record.h"

namespace backstep::cli {

struct Hunt {
  uint64_t most = 0;       // runs; 0: no limit
  std::string fail_if;     // a run has failed if this command succeeds; empty: by its status
  bool new_seeds = false;  // chaos mode makes other choices each time, not the next ones
};

uint32_t random_seed();

// The exit status of the run that failed, or 0: none did. If it died of a signal, so do we.
int run_until_failure(const RecordOptions& options, const Hunt& hunt);

}  // namespace backstep::cli
