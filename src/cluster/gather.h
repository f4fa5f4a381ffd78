// Brings recordings of several hosts together in the folder of a run.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "cluster/run_folder.h"

namespace backstep::cluster {

struct GatherOptions {
  std::string rsh;  // what rsync reaches other machines with; empty: its own choice (ssh)
  std::function<void(const std::string& text, double part)> progress;
};
// Each of `sources` is a recording (a path or a name), or HOST:PATH, which is fetched by rsync. What is there
// already, and unchanged, is not copied again. Throws Error; what was gathered up to then stays.
void gather(RunFolder& run, const std::vector<std::string>& sources, const GatherOptions& options);

// Compares the files of a run with the sums of when they were gathered. Sentences, one for each that differs.
std::vector<std::string> check_files(const RunFolder& run);

}  // namespace backstep::cluster
