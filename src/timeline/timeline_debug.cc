// Debug code in the process that is the present.
//
// Its state is in that process's memory, so what is forked from it takes it along: a checkpoint that the
// present makes has the state that the debug code had there. Moving back begins at such a one, or at the
// start, and runs the code again, silently, up to where it is to be. Searches are none of its business: who
// takes a checkpoint for them takes the debug code out of the copy.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "timeline/timeline.h"

namespace backstep::timeline {

void Timeline::run_debug(DebugCode code) {
  end_debug();
  end_diversion();
  code.answers = with_log(code.answers);
  const Position present = now_;
  go_to_birth();
  debug_start_ = current_.fork();
  debug_from_ = now_;
  const auto mode = code.tell_output ? replayer::DebugMode::SessionTold : replayer::DebugMode::Session;
  debug_start_.admit_debug(code.module, code.answers, mode);
  debug_ = std::move(code);
  current_ = debug_start_.fork();
  if (present != now_) go_to(present);
}

void Timeline::end_debug() {
  if (!debug_) return;
  end_diversion();
  debug_.reset();
  debug_start_ = Worker();
  for (Checkpoint& c : checkpoints_) c.worker.leave_debug();
  current_.leave_debug();
}

Worker Timeline::present_at(const Position& wanted, Position& at) {
  // (Before a forked process begins it is its parent's, whose debug code this is not.)
  if (!debug_ || debug_->keep || wanted < debug_from_) return worker_at(wanted, at);
  Worker* best = &debug_start_;
  at = debug_from_;
  for (Checkpoint& c : checkpoints_)
    if (c.worker.has_debug() && c.at <= wanted && c.at >= at) best = &c.worker, at = c.at;
  return best->fork();
}

void Timeline::take_debug_from(Worker& before) {
  if (!before.has_debug()) return;
  current_.leave_debug();
  const Fd state = before.debug_state();
  const auto mode = debug_->tell_output ? replayer::DebugMode::SessionTold : replayer::DebugMode::Session;
  current_.admit_debug(debug_->module, debug_->answers, mode, state.get());
}

// Back from where it has none.
void Timeline::enter_debug() {
  if (debug_ && !debug_->keep && !current_.has_debug() && now_ >= debug_from_) go_to(now_);
}

// Its places come first: what it says is said in their names.
Taps Timeline::with_debug(const Worker& worker, const Taps& taps) const {
  if (!worker.has_debug()) return taps;
  Taps all = debug_->places;
  all.thread = taps.thread;
  all.list.insert(all.list.end(), taps.list.begin(), taps.list.end());
  return all;
}

void Timeline::log_debug(Worker& worker) {
  if (!worker.has_debug()) return;
  debug_log_ = Fd(memfd_create("backstep-debug-notes", MFD_CLOEXEC));
  if (!debug_log_) throw Error("cannot make a memory file: " + errno_text(errno));
  worker.log_to(debug_log_.get());
  debug_told_ = 0;
}

// What it has said since log_debug. `at_end`: what it wants to say at the end of the run, too.
void Timeline::tell_debug(Worker& worker, bool at_end) {
  if (!worker.has_debug()) return;
  uint64_t logged = worker.collect(0, false).logged;
  if (at_end) {
    // That would change its state, which may be needed yet.
    Worker last = worker.fork();
    logged = last.collect(0, true, &attention).logged;
  }
  std::vector<uint8_t> bytes(logged - std::min(logged, debug_told_));
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = pread(debug_log_.get(), bytes.data() + done, bytes.size() - done,
                            static_cast<off_t>(debug_told_ + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw Error("cannot read what debug code has said: " + errno_text(errno));
    done += static_cast<size_t>(n);
  }
  debug_told_ = logged;
  for (size_t at = 0; at + sizeof(replayer::TapRecord) <= bytes.size();) {
    replayer::TapRecord record;
    std::memcpy(&record, bytes.data() + at, sizeof record);
    if (debug_->tell) debug_->tell(record, bytes.data() + at + sizeof record);
    at += record.size;
  }
  if (at_end) log_debug(worker);
}

}  // namespace backstep::timeline
