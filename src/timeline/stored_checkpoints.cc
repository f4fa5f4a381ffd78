// When checkpoints are written to disk, and what they are good for.
//
// The length of a recording is known before it is replayed, so none is ever made to be thrown away: they are
// made at even distances on the way, which grow if the disk that they may take (kMaxBytes) would not last to
// the end. Writing is done by a fork of the replaying worker, in the background and one at a time; if that
// takes long, distances grow, too.
//
// Each file also says which pages were written to since the one before. That is what makes looking for the
// last write to a variable quick: windows in which its page was not touched need not be replayed.
#include "timeline/stored_checkpoints.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"

namespace backstep::timeline {
namespace {

constexpr uint64_t kMaxBytes = recording::kMaxCheckpointBytes;
constexpr size_t kMaxFiles = 1000;
constexpr double kShortSeconds = 0.25;  // between two, in a window that is divided
constexpr double kWriterShare = 4;      // at least so many times as long as one takes to be written

}  // namespace

StoredCheckpoints::StoredCheckpoints(const recording::Recording& recording, const LogIndex& log,
                                     double seconds)
    : recording_(recording), process_(log.process()), seconds_(seconds), last_(log.last().tick) {
  if (!enabled()) return;
  folder_.emplace(recording, process_);
  for (const auto& entry : folder_->list(&notes_)) {
    const Position at{entry.header.tick, entry.header.event, entry.header.pc};
    // A recorder that was killed may have made some behind the last event: the log does not go there.
    if (at > log.last().position()) continue;
    list_.push_back({entry.number, {at.tick, log.behind_notes(at.event), at.pc}});
  }
  bytes_ = recording::CheckpointFolder::disk(recording);
}

void StoredCheckpoints::note(const std::string& text) {
  if (notes_.empty() || notes_.back() != text) notes_.push_back(text);
}

const StoredCheckpoint* StoredCheckpoints::before(Tick tick) const {
  const StoredCheckpoint* found = nullptr;
  for (const StoredCheckpoint& c : list_)
    if (c.at.tick <= tick) found = &c;
  return found;
}

// Ticks between two, or 0: no more.
double StoredCheckpoints::spacing(const Position& at, double seconds, double ticks_per_second) const {
  double ticks = std::max(seconds, kWriterShare * writer_seconds_) * ticks_per_second;
  if (bytes_ >= kMaxBytes || list_.size() >= kMaxFiles) return 0;
  double left = static_cast<double>(kMaxFiles - list_.size());
  if (!list_.empty()) {
    const double each = static_cast<double>(bytes_) / static_cast<double>(list_.size());
    left = std::min(left, static_cast<double>(kMaxBytes - bytes_) / std::max(each, 1.0));
  }
  if (left < 1) return 0;
  if (last_ > at.tick) ticks = std::max(ticks, static_cast<double>(last_ - at.tick) / left);
  return ticks;
}

bool StoredCheckpoints::due(const Position& at, double ticks_per_second) const {
  if (!enabled() || !making_ || !writing_.empty()) return false;
  const double ticks = spacing(at, seconds_, ticks_per_second);
  if (ticks == 0) return false;
  const StoredCheckpoint* earlier = before(at.tick);
  const Tick from = earlier ? earlier->at.tick : 0;
  if (static_cast<double>(at.tick - from) < ticks) return false;
  // Where the recording has been gone through before, only holes are filled: what a second is in ticks
  // changes with what else the machine does.
  for (const StoredCheckpoint& c : list_)
    if (c.at.tick > at.tick) return static_cast<double>(c.at.tick - from) > 3 * ticks;
  return true;
}

bool StoredCheckpoints::due_at_end(const Position& at, double ticks_per_second) const {
  if (!enabled() || !making_ || spacing(at, seconds_, ticks_per_second) == 0) return false;
  const StoredCheckpoint* earlier = before(at.tick);
  return static_cast<double>(at.tick - (earlier ? earlier->at.tick : 0)) >= seconds_ / 4 * ticks_per_second;
}

// Who asks about a moment, or follows a value from window to window, replays half of one each time.
bool StoredCheckpoints::due_in_window(const Position& from, const Position& at,
                                      double ticks_per_second) const {
  if (!enabled() || !making_) return false;
  // Tests have no long runs, and nothing to say about how long writing takes.
  static const bool always = std::getenv("BACKSTEP_TABLE") != nullptr;
  if (always) return true;
  const double ticks = spacing(at, std::min(seconds_, kShortSeconds), ticks_per_second);
  return ticks > 0 && static_cast<double>(at.tick - std::min(at.tick, from.tick)) >= ticks;
}

void StoredCheckpoints::make(Worker& worker, const Position& at, bool patient, bool written) {
  Writing fresh;
  if (written) fresh.window = worker.written();
  fresh.at = at;
  const StoredCheckpoint* earlier = before(at.tick);
  fresh.writer = worker.fork();
  fresh.writer.begin_store(recording_, process_, earlier ? earlier->number : 0, fresh.window, patient);
  writing_.push_back(std::move(fresh));
}

std::optional<StoredCheckpoint> StoredCheckpoints::finished() {
  Writing front = std::move(writing_.front());
  writing_.pop_front();
  try {
    const Worker::Storage done = front.writer.end_store();
    const StoredCheckpoint fresh{done.number, front.at};
    writer_seconds_ = done.seconds;
    bytes_ += done.size;
    made_++;
    auto behind = std::find_if(list_.begin(), list_.end(), [&](const auto& c) { return c.at > fresh.at; });
    list_.insert(behind, fresh);
    if (front.window) add_window(*front.window, fresh.at);
    return fresh;
  } catch (const Error& e) {
    // Another session at work is no reason to give up for good.
    if (e.exit_code != kBusy) {
      making_ = false;
      note(std::string("no more checkpoints are stored in the recording: ") + e.what());
    }
    return std::nullopt;
  }
}

bool StoredCheckpoints::restore(Worker& worker, uint64_t number) {
  try {
    worker.restore(recording_, process_, number);
    used_++;
    return true;
  } catch (const Error& e) {
    note(e.what());
    std::erase_if(list_, [&](const StoredCheckpoint& c) { return c.number == number; });
    return false;
  }
}

void StoredCheckpoints::read_windows() {
  if (windows_read_) return;
  windows_read_ = true;
  for (const StoredCheckpoint& c : list_) {
    try {
      recording::CheckpointFile file(folder_->path(c.number), folder_->log_identity());
      if (const auto& w = file.written()) add_window(*w, c.at);
    } catch (const Error&) {
      // Then that window is searched.
    }
  }
}

void StoredCheckpoints::add_window(const recording::Written& written, const Position& to) {
  windows_.push_back({{written.tick, written.event, written.pc}, to, written});
}

bool StoredCheckpoints::quiet(const Position& from, const Position& to, const Taps& taps) {
  if (!enabled()) return false;
  read_windows();
  for (const Tap& t : taps.list)
    if (!t.off && (t.kind == Tap::Read || t.kind == Tap::Access || t.kind >= Tap::Period)) return false;
  auto meets = [](const std::vector<recording::AddressRange>& ranges, Address start, Address end) {
    auto r = std::partition_point(ranges.begin(), ranges.end(),
                                  [&](const auto& range) { return range.end <= start; });
    return r != ranges.end() && r->start < end;
  };
  return std::any_of(windows_.begin(), windows_.end(), [&](const Window& window) {
    if (window.from > from || to > window.to) return false;
    const recording::Written& known = window.written;
    if (taps.any_pc() && !known.code_known) return false;
    return std::none_of(taps.list.begin(), taps.list.end(), [&](const Tap& t) {
      if (t.off) return false;
      return t.kind == Tap::Pc ? meets(known.code, t.start, t.start + 1)
                               : meets(known.ranges, t.start, t.start + t.length);
    });
  });
}

}  // namespace backstep::timeline
