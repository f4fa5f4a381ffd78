// The part of `backstep trace` that has jobs make the tables: on this machine, on others, in a cluster.
#pragma once
#include <string>
#include <vector>

#include "cli/asking.h"
#include "cluster/controller.h"

namespace backstep::cli {

struct TraceJobs {
  cluster::JobWishes wishes;
  std::string options;  // words for the engine's program, as in a shell
  std::string job;      // not empty: this is such a job itself
  uint64_t tries = 3, at_once = 0;

  void add_options(CommandLine& line);
  bool wanted() const { return !wishes.engine.empty(); }
  // Makes what is missing of this level, and of level 1 before. Throws Error. Does not come back if a signal
  // ends it.
  void run(session::Session& session, const session::Stretch& stretch, int level);

 private:
  void run_level(session::Session& session, const session::Stretch& stretch, int level);
};

// Says on stderr how many windows were reduced to stay within the budget.
void tell_reduced(size_t windows, uint64_t budget);

// Says on stderr how many windows can have no table.
void tell_unknown(size_t windows);

}  // namespace backstep::cli
