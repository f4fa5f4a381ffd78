// One job: the tables of contents, or the traces, of a stretch of a recorded run, made by whoever is given
// its file.
#pragma once
#include <string>

#include "replay/replay.h"
#include "timeline/timeline.h"

namespace backstep::cluster {

struct Job {
  std::string library, recording;  // absolute paths
  uint64_t process = 1;
  uint64_t build = 0;  // recording/parcel.h
  int level = 1;       // 1: tables of contents; 2, 3: traces, where there are such tables
  timeline::Timeline::Span span;

  // As JSON. Throws Error.
  void write(const std::string& path) const;
  static Job read(const std::string& path);
};

// Does what the file says, and writes the result beside it. Throws Error.
void run_job(const std::string& path, ReplayOptions options);

}  // namespace backstep::cluster
