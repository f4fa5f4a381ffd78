// Moving in time.
//
// Forwards, a worker simply runs on. Backwards, a checkpoint before the wanted moment is forked, and the fork
// runs forward to it: searching for the last match before the present means running from one checkpoint to
// the next, last window first, and remembering the last match. So the cost of going anywhere is that of
// replaying the window between two checkpoints; they are made on the way whenever a run takes long enough to
// be worth one, and thinned so that recent history is dense and old history sparse.
//
// Long runs are cut into slices of some 50 ms: between two of them checkpoints are made and a wish to stop
// is heard.
#include "timeline/timeline.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "recording/tree.h"

namespace backstep::timeline {
namespace {

constexpr size_t kMaxAutomatic = 24;
constexpr double kSliceSeconds = 0.05;
constexpr double kNearSeconds = 0.004;  // how far before a place that was gone back to a checkpoint is made
constexpr Tick kMinSlice = 1 << 12, kMaxSlice = 1ull << 40;

}  // namespace

Timeline::Timeline(const ReplayOptions& options, const recording::Library& library,
                   const recording::Recording& recording)
    : log_(recording, options.process ? recording::find_process(recording, options.process) : 1) {
  Worker first = Worker::start(options, library, recording);
  Position at = first.state().at;
  current_ = first.fork();
  checkpoints_.push_back({at, std::move(first), 0, ""});
  now_ = at;
  if (log_.birth()) go_to(*log_.birth());
}

Worker& Timeline::divert() {
  if (!diversion_) {
    diversion_ = current_.fork();
    diversion_.divert();
  }
  return diversion_;
}

std::list<Timeline::Checkpoint>::iterator Timeline::nearest_before(const Position& at, bool inclusive) {
  auto found = checkpoints_.end();
  for (auto it = checkpoints_.begin(); it != checkpoints_.end(); ++it)
    if (it->at < at || (inclusive && it->at == at)) found = it;
  return found;
}

void Timeline::keep(Worker& worker, const Position& at) {
  auto before = nearest_before(at, true);
  if (before->at == at) return;
  const auto start = Clock::now();
  Checkpoint fresh{at, worker.fork(), 0, ""};
  fork_seconds_ = 0.7 * fork_seconds_ + 0.3 * std::chrono::duration<double>(Clock::now() - start).count();
  checkpoints_.insert(std::next(before), std::move(fresh));
  thin();
}

// Goes the checkpoint whose absence makes the smallest hole, compared with how long ago it is.
void Timeline::thin() {
  while (automatic_checkpoints() > kMaxAutomatic) {
    auto victim = checkpoints_.end();
    double least = 0;
    for (auto it = std::next(checkpoints_.begin()); it != checkpoints_.end(); ++it) {
      if (it->id) continue;
      const Tick low = std::prev(it)->at.tick;
      const Tick high = std::next(it) == checkpoints_.end() ? it->at.tick + slice_ : std::next(it)->at.tick;
      const double hole = static_cast<double>(high - low);
      const double distance =
          std::abs(static_cast<double>(now_.tick) - static_cast<double>(it->at.tick)) + 1000;
      if (victim == checkpoints_.end() || hole / distance < least) victim = it, least = hole / distance;
    }
    if (victim == checkpoints_.end()) return;
    checkpoints_.erase(victim);
  }
}

size_t Timeline::automatic_checkpoints() const {
  return static_cast<size_t>(
      std::count_if(checkpoints_.begin(), checkpoints_.end(), [](const Checkpoint& c) { return c.id == 0; }));
}

void Timeline::learn(Clock::time_point start, Tick from, Tick to) {
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (to > from && seconds > 0.005)
    ticks_per_second_ = std::max(1000.0, static_cast<double>(to - from) / seconds);
  const double want = kSliceSeconds + 10 * fork_seconds_;
  if (seconds > 2 * want) {
    slice_ = std::max(kMinSlice, slice_ / 2);
  } else if (seconds < want && to - from >= slice_) {
    slice_ = std::min(kMaxSlice, slice_ * 2);
  }
}

void Timeline::arrive(const Halt& halt) {
  now_ = halt.at;
  signal_here_.reset();
  call_here_.reset();
  end_told_ = false;
}

Halt Timeline::run_to(Worker& worker, const Position& from, const Position& point) {
  Position at = from;
  worker.install({});
  const auto near = static_cast<Tick>(ticks_per_second_ * kNearSeconds);
  for (;;) {
    Until until;
    until.point = point;
    bool keep_there = false;
    if (point.tick > at.tick && point.tick - at.tick > 2 * near + 2) {
      until.tick = std::min(at.tick + slice_, point.tick - near);
      keep_there = true;
    }
    const auto start = Clock::now();
    Halt halt = worker.run(until, false, &attention);
    learn(start, at.tick, halt.at.tick);
    if (halt.why != Halt::AtTick) return halt;
    at = halt.at;
    if (attention.stop_asked) {
      halt.why = Halt::Interrupted;
      return halt;
    }
    if (keep_there) keep(worker, at);
  }
}

Worker Timeline::worker_at(const Position& wanted, Position& at) {
  auto checkpoint = nearest_before(wanted, true);
  if (checkpoint == checkpoints_.end()) checkpoint = checkpoints_.begin();
  at = checkpoint->at;
  return checkpoint->worker.fork();
}

bool Timeline::wanted_call(const Moment& m, const Wanted& wanted) const {
  return wanted.call_numbers.empty() || wanted.call_numbers.count(m.nr);
}

Arrival Timeline::end_arrival() {
  Arrival a;
  a.why = Arrival::End;
  if (log_.end_signal() && !end_told_) {
    a.why = Arrival::Signal;
    a.signo = log_.end_signal();
    end_told_ = true;
  }
  return a;
}

Arrival Timeline::forward(const Stops& stops, const Wanted& wanted) {
  end_diversion();
  attention.stop_asked = false;
  Arrival arrival;
  if (at_end()) return end_arrival();
  if (call_here_) {
    const uint64_t nr = log_.at(*call_here_)->nr;
    arrival = step(current_.state().tid, 0, 0, stops, Wanted{});
    if (arrival.why != Arrival::Stepped) return arrival;
    arrival.why = Arrival::CallReturn;
    arrival.nr = nr;
    return arrival;
  }
  Moment target = log_.last();
  arrival.why = Arrival::End;
  if (auto mark = next_mark(wanted)) {
    target = mark->moment;
    arrival = mark->arrival;
  }

  current_.install(stops);
  Until until;
  until.point = target.position();
  for (;;) {
    until.tick = now_.tick + slice_;
    const Tick from = now_.tick;
    const auto start = Clock::now();
    Halt halt = current_.run(until, true, &attention);
    learn(start, from, halt.at.tick);
    arrive(halt);
    switch (halt.why) {
      case Halt::AtTick:
        keep(current_, now_);
        until.fresh = true;
        if (attention.stop_asked) {
          arrival.why = Arrival::Interrupted;
          return arrival;
        }
        continue;
      case Halt::AtPoint:
        if (arrival.why == Arrival::End) return end_arrival();
        if (arrival.why == Arrival::Signal) signal_here_ = target.event;
        if (arrival.why == Arrival::CallEntry) call_here_ = target.event;
        if (arrival.why == Arrival::Fork)
          if (auto other = behind_call()) return *other;
        return arrival;
      case Halt::Break:
        arrival.why = Arrival::Break;
        return arrival;
      case Halt::Watch:
        arrival.why = Arrival::Watch;
        arrival.address = halt.address;
        arrival.watch_kind = halt.watch_kind;
        return arrival;
      case Halt::Interrupted:
        arrival.why = Arrival::Interrupted;
        return arrival;
      default:
        arrival.why = Arrival::End;
        return arrival;
    }
  }
}

Arrival Timeline::step(int tid, Address range_start, Address range_end, const Stops& stops,
                       const Wanted& wanted) {
  end_diversion();
  attention.stop_asked = false;
  Arrival arrival;
  if (at_end()) return end_arrival();
  Moment target = log_.last();
  arrival.why = Arrival::End;
  if (wanted.signals)
    for (const SignalMoment& s : log_.signals()) {
      if (s.moment.event < now_.event || s.moment.event == signal_here_) continue;
      if (wanted.passed_signals.count(s.signo)) continue;
      target = s.moment;
      arrival.why = Arrival::Signal;
      arrival.signo = s.signo;
      break;
    }
  current_.install(stops);
  Until until;
  until.point = target.position();
  Halt halt = current_.step(tid, range_start, range_end, until, true, &attention);
  arrive(halt);
  const Position end = target.position();
  const bool there = now_.tick == end.tick && (now_.pc == end.pc || end.pc == 0) && now_.event >= end.event;
  switch (halt.why) {
    case Halt::Stepped:
    case Halt::AtPoint:
      // A step that ends in front of a signal reports it; one that ends at the end of all is just a step.
      if (there && arrival.why == Arrival::Signal) {
        signal_here_ = target.event;
      } else if (halt.why == Halt::AtPoint && there) {
        return end_arrival();
      } else {
        arrival.why = Arrival::Stepped;
      }
      return arrival;
    case Halt::Break:
      arrival.why = Arrival::Break;
      return arrival;
    case Halt::Watch:
      arrival.why = Arrival::Watch;
      arrival.address = halt.address;
      arrival.watch_kind = halt.watch_kind;
      return arrival;
    case Halt::Interrupted:
      arrival.why = Arrival::Interrupted;
      return arrival;
    default:
      arrival.why = Arrival::End;
      return arrival;
  }
}

Arrival Timeline::backward(const Stops& stops, const Wanted& wanted) {
  end_diversion();
  attention.stop_asked = false;
  Arrival arrival;
  Position goal;
  const std::optional<Mark> mark = previous_mark(now_, wanted);
  const Position lowest = mark ? mark->moment.position() : checkpoints_.front().at;
  Position high = now_;
  bool found = false;
  const bool search = !stops.breaks.empty() || !stops.watches.empty();
  while (search && !found && high > lowest) {
    auto checkpoint = nearest_before(high, false);
    if (checkpoint == checkpoints_.end()) break;
    const Position low = checkpoint->at;
    Worker worker = checkpoint->worker.fork();
    worker.install(stops);
    Until until;
    until.point = high;
    until.fresh = true;
    Halt last;
    for (Position at = low;;) {
      until.tick = at.tick + slice_;
      const auto start = Clock::now();
      Found part = worker.search(until, &attention);
      learn(start, at.tick, part.end.at.tick);
      if (part.last.why != Halt::None) last = part.last;
      if (attention.stop_asked || part.end.why == Halt::Interrupted) {
        arrival.why = Arrival::Interrupted;  // the present stays where it is
        return arrival;
      }
      if (part.end.why != Halt::AtTick) break;
      at = part.end.at;
      if (at < high) keep(worker, at);
    }
    if (last.why != Halt::None) {
      found = true;
      arrival.why = last.why == Halt::Break ? Arrival::Break : Arrival::Watch;
      arrival.address = last.address;
      arrival.watch_kind = last.watch_kind;
      goal = last.why == Halt::Break ? last.at : last.before;
    }
    high = low;
  }
  if (mark && (!found || goal < mark->moment.position())) return go_back_to(*mark);
  if (!found) {
    Arrival there = go_to_start();
    there.why = Arrival::Begin;
    return there;
  }
  Arrival there = go_to(goal);
  return there.why == Arrival::Sought ? arrival : there;
}

Arrival Timeline::step_back(int tid) {
  end_diversion();
  attention.stop_asked = false;
  Arrival arrival;
  arrival.why = Arrival::Stepped;
  int name = 1;
  for (const ThreadState& t : current_.state().threads)
    if (t.tid == tid) name = t.name;
  const std::vector<Turn>& turns = log_.turns();
  size_t i = turns.size();
  while (i > 1 && turns[i - 1].tick > now_.tick) i--;
  bool present = true;
  for (; i-- > 0; present = false) {
    if (turns[i].thread != name) continue;
    const Tick first = std::max(turns[i].tick, checkpoints_.front().at.tick);
    const Tick last = present ? now_.tick : turns[i + 1].tick - 1;
    const Position end = present ? now_ : Position{turns[i + 1].tick, 0, 0};
    Tick tried = ~0ull;
    for (Tick back : {Tick(1), Tick(64), last}) {
      const Tick start = last >= back + first ? last - back : first;
      if (start == tried) continue;
      tried = start;
      Position at;
      Worker worker = worker_at({start, 0, 0}, at);
      if (at.tick < start) {
        Halt halt = run_to(worker, at, {start, 0, 0});
        if (halt.why == Halt::Interrupted) {
          arrival.why = Arrival::Interrupted;
          return arrival;
        }
        at = halt.at;
      }
      worker.install({});
      Worker scout = worker.fork();
      auto found = scout.last_step_before(tid, end, &attention);
      if (attention.stop_asked) {
        arrival.why = Arrival::Interrupted;
        return arrival;
      }
      if (!found) continue;
      Until until;
      until.point = *found;
      Halt halt = worker.run(until, false, &attention);
      current_ = std::move(worker);
      arrive(halt);
      return arrival;
    }
  }
  arrival = go_to_start();
  arrival.why = Arrival::Begin;
  return arrival;
}

Arrival Timeline::go_to(const Position& target) {
  end_diversion();
  attention.stop_asked = false;
  Arrival arrival;
  auto checkpoint = nearest_before(target, true);
  if (checkpoint == checkpoints_.end()) checkpoint = checkpoints_.begin();
  if (checkpoint->at > now_ || now_ > target) {
    now_ = checkpoint->at;  // while we go, thinning counts from there
    current_ = checkpoint->worker.fork();
  }
  Halt halt = run_to(current_, now_, target);
  arrive(halt);
  if (halt.why == Halt::Interrupted) arrival.why = Arrival::Interrupted;
  if (halt.why == Halt::Passed || halt.why == Halt::Ended) arrival.why = Arrival::Missing;
  return arrival;
}

Arrival Timeline::go_to_start() {
  end_diversion();
  Halt halt;
  halt.at = checkpoints_.front().at;
  current_ = checkpoints_.front().worker.fork();
  arrive(halt);
  return {};
}

Arrival Timeline::go_to_end() {
  return go_to(log_.last().position());
}

Halt Timeline::run_diverted(const Stops& stops, std::optional<int> step_tid) {
  Worker& worker = divert();
  attention.stop_asked = false;
  worker.install(stops);
  Until until;
  if (step_tid) return worker.step(*step_tid, 0, 0, until, true, &attention);
  for (;;) {
    until.tick = worker.state().at.tick + slice_;
    Halt halt = worker.run(until, true, &attention);
    if (halt.why == Halt::AtTick && attention.stop_asked) halt.why = Halt::Interrupted;
    if (halt.why != Halt::AtTick) return halt;
    until.fresh = true;
  }
}

int Timeline::add_checkpoint(const std::string& note) {
  auto before = nearest_before(now_, true);
  checkpoints_.insert(std::next(before), Checkpoint{now_, current_.fork(), next_id_, note});
  return next_id_++;
}

std::vector<CheckpointInfo> Timeline::checkpoints() const {
  std::vector<CheckpointInfo> list;
  for (const Checkpoint& c : checkpoints_)
    if (c.id) list.push_back({c.id, c.at, c.note});
  std::sort(list.begin(), list.end(), [](auto& a, auto& b) { return a.id < b.id; });
  return list;
}

bool Timeline::remove_checkpoint(int id) {
  return std::erase_if(checkpoints_, [&](const Checkpoint& c) { return id && c.id == id; }) > 0;
}

std::optional<Arrival> Timeline::restart(int id) {
  for (Checkpoint& c : checkpoints_)
    if (c.id && c.id == id) {
      end_diversion();
      Halt halt;
      halt.at = c.at;
      current_ = c.worker.fork();
      arrive(halt);
      return Arrival{};
    }
  return std::nullopt;
}

}  // namespace backstep::timeline
