// Has the tables of contents and the traces of a recording made by jobs, and gathers them.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "cluster/job_engine.h"
#include "recording/library.h"
#include "timeline/timeline.h"

namespace backstep::cluster {

struct JobWishes {
  std::string engine;  // local, ssh, slurm
  int level = 1;       // as in Job; that of tables of contents should be made before others
  double seconds = 5;  // about how long a job takes
  unsigned tries = 3;  // of each job
  EngineWishes how;    // without `folder` and `name`
};

struct JobsDone {
  size_t windows = 0, unknown = 0;  // tables or traces that were made, and that could not be
  size_t reduced = 0;               // traces, to stay within the budget
  size_t jobs = 0, again = 0;       // jobs, and how often one was run again
  bool complete = true;             // false: somebody wanted to stop
};

// Who is told while it lasts; each may be empty.
struct JobWatcher {
  std::function<void(double done)> progress;
  std::function<void(const std::string& sentence)> note;
};

// Of [from, to), as Timeline::make_contents and make_traces; first makes the checkpoints that are missing,
// here. Throws Error: a job fails each time, or the engine does not work. What has come until then is kept.
JobsDone make_by_jobs(timeline::Timeline& timeline, const recording::Library& library,
                      const recording::Recording& recording, const timeline::Position& from,
                      const timeline::Position& to, const JobWishes& wishes, const timeline::Attention& ear,
                      const JobWatcher& watcher);

}  // namespace backstep::cluster
