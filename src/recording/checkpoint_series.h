// Checkpoints that are made one after the other while a program runs, by whoever runs it and in its time: the
// recorder, or a replay to the end. How long the run will be is not known.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "recording/checkpoint_file.h"

namespace backstep::recording {

class CheckpointSeries {
 public:
  // `seconds` of CPU time between two of them, at least; `most` bytes for all checkpoints of the recording
  // (the other half is for debugging sessions, whose checkpoints know which pages were written to). Throws
  // Error: the log cannot be read.
  CheckpointSeries(const Recording& recording, uint64_t process, double seconds,
                   uint64_t most = kMaxCheckpointBytes / 2);

  // CPU seconds from the last one (or the start) to the next, which is to have so many pages.
  double distance(uint64_t pages) const;

  // Makes one; `write` gives its contents to the writer, and finishes it. False: not now (others are writing,
  // or the disk is nearly full). Throws Error: cannot be done, or there is no more room for any.
  bool make(uint64_t pages, const std::function<void(CheckpointWriter&)>& write);

  // The one to share pages with, and those to go when there are too many (checkpoint_series.cc), by their
  // index in the list.
  static size_t base_of(size_t index) { return index & (index - 1); }
  static bool is_leaf(size_t index) { return index % 2 == 1; }

  const std::vector<uint64_t>& numbers() const { return numbers_; }

 private:
  bool thin();

  Recording recording_;
  CheckpointFolder folder_;
  double seconds_;
  uint64_t most_;
  std::vector<uint64_t> numbers_;  // of the files, in the order of time
  double cost_ = 0;                // CPU seconds that the last one took …
  uint64_t pages_ = 0;             // … which had so many pages
};

// CPU time of this thread, in seconds.
double thread_cpu_seconds();

}  // namespace backstep::recording
