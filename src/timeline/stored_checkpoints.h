// The checkpoints of a recording's folder, as a session uses and makes them.
#pragma once
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "recording/checkpoint_file.h"
#include "timeline/log_index.h"
#include "timeline/worker.h"

namespace backstep::timeline {

struct StoredCheckpoint {
  uint64_t number = 0;
  Position at;
};

class StoredCheckpoints {
 public:
  // `seconds` of replay between two of them; 0: none are used nor made.
  StoredCheckpoints(const recording::Recording& recording, const LogIndex& log, double seconds);

  // Those that the folder has, in the order of time.
  const std::vector<StoredCheckpoint>& list() const { return list_; }
  bool enabled() const { return seconds_ > 0; }
  double seconds() const { return seconds_; }

  // Is it time for another one?
  bool due(const Position& at, double ticks_per_second) const;
  // … in front of the end of the recording, where everybody wants to be.
  bool due_at_end(const Position& at, double ticks_per_second) const;
  // Is a window that began at `from` long enough to end here, if it is to be short to replay?
  bool due_in_window(const Position& from, const Position& at, double ticks_per_second) const;
  // Has a copy of the worker write one. `patient`: behind the one that is being written, if there is one.
  // `written`: with what the worker has written to since the last time.
  void make(Worker& worker, const Position& at, bool patient, bool written = true);
  // Is one being written (`any`), or written and not asked for by finished()?
  bool writing(bool any) const { return !writing_.empty() && (any || writing_.front().writer.answered()); }
  // The oldest of them; waits until it is complete. Nullopt: it failed.
  std::optional<StoredCheckpoint> finished();

  // How long the last one took to be written has no influence on when the next is due.
  void forget_cost() { writer_seconds_ = 0; }

  // Takes a worker to one of them. False: it is not usable, and is forgotten (with a note).
  bool restore(Worker& worker, uint64_t number);

  // Can none of the taps have matched between the two moments? False: perhaps.
  bool quiet(const Position& from, const Position& to, const Taps& taps);

  uint64_t used() const { return used_; }    // how often one was restored
  uint64_t made() const { return made_; }    // in this session
  uint64_t bytes() const { return bytes_; }  // on disk
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  struct Window {
    Position from, to;
    recording::Written written;
  };
  const StoredCheckpoint* before(Tick tick) const;
  double spacing(const Position& at, double seconds, double ticks_per_second) const;
  void read_windows();
  void add_window(const recording::Written& written, const Position& to);
  void note(const std::string& text);

  recording::Recording recording_;
  uint64_t process_;
  double seconds_;
  Tick last_;  // the end of the recording
  std::optional<recording::CheckpointFolder> folder_;
  std::vector<StoredCheckpoint> list_;
  std::vector<Window> windows_;
  bool windows_read_ = false;
  bool making_ = true;  // false: it has failed
  struct Writing {
    Worker writer;
    Position at;
    std::optional<recording::Written> window;
  };
  std::list<Writing> writing_;  // oldest first; more than one only at the end of the recording
  double writer_seconds_ = 0;   // of the last one
  uint64_t used_ = 0, made_ = 0, bytes_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace backstep::timeline
