// Moving in time.
//
// Forwards, a worker simply runs on. Backwards, a checkpoint before the wanted moment is forked, and the fork
// runs forward to it: searching for the last match before the present means running from one checkpoint to
// the next, last window first, and remembering the last match. So the cost of going anywhere is that of
// replaying the window between two checkpoints; they are made on the way whenever a run takes long enough to
// be worth one, and thinned so that recent history is dense and old history sparse.
//
// Checkpoints are workers (this session's) or files in the recording (stored_checkpoints.h), from which a
// worker is made when one is needed.
//
// Long runs are cut into slices of some 50 ms: between two of them checkpoints are made and a wish to stop
// is heard.
#include "timeline/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "timeline/window_slices.h"

namespace backstep::timeline {
namespace {

constexpr size_t kMaxAutomatic = 24;
constexpr double kSliceSeconds = 0.05;
constexpr double kNearSeconds = 0.004;  // how far before a place that was gone back to a checkpoint is made
constexpr Tick kMinSlice = 1 << 12, kMaxSlice = 1ull << 40;

// What stopped a worker on its way to the end.
Arrival met(Arrival halt) {
  if (halt.why != Arrival::Break && halt.why != Arrival::Watch && halt.why != Arrival::Interrupted &&
      halt.why != Arrival::DebugStop)
    halt.why = Arrival::End;
  return halt;
}

// Checkpoints in the recording have no debug code's state.
void tell_of_way_with_debug(double seconds, double without) {
  constexpr double kLongSeconds = 3;
  static bool told = false;
  if (told || seconds - without < kLongSeconds) return;
  told = true;
  fmt::print(stderr,
             "backstep: the debug code runs on the whole way there, so that its variables are right: that "
             "takes some "
             "{:.0f} s, and the recording's checkpoints cannot be used (--debug-state=keep uses them)\n",
             seconds);
}

}  // namespace

Timeline::Timeline(const ReplayOptions& options, const recording::Library& library,
                   const recording::Recording& recording, const Attention& ear)
    : attention(ear),
      log_(recording, options.process),
      stored_(recording, log_, options.checkpoints),
      contents_(recording, log_.process()),
      traces_(recording, log_.process()),
      slicing_(std::make_unique<Slicing>()),
      wait_for_stored_(options.wait_for_checkpoints) {
  limit_slice();
  Worker first = Worker::start(options, library, recording, log_.forking_threads());
  Position at = first.state().at;
  current_ = first.fork();
  checkpoints_.push_back({at, std::move(first), 0, "", 0});
  for (const StoredCheckpoint& c : stored_.list())
    if (c.at > at) checkpoints_.push_back({c.at, Worker(), 0, "", c.number});
  tell_notes();
  now_ = at;
  go_to_birth();
}

Timeline::~Timeline() = default;

Worker& Timeline::divert_to(int tid) {
  Worker& worker = divert();
  worker.divert(tid);
  return worker;
}

Worker& Timeline::divert() {
  if (!diversion_) {
    diversion_ = current_.fork();
    diversion_.leave_debug();
    diversion_.divert();
    diversions_++;
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
  // The first one is what others are made of, so it has no debug code.
  const bool here = before->at == at && before->worker;
  if (here && (before == checkpoints_.begin() || before->worker.has_debug() || !worker.has_debug())) return;
  const auto start = Clock::now();
  Worker copy = worker.fork();
  fork_seconds_ = 0.7 * fork_seconds_ + 0.3 * std::chrono::duration<double>(Clock::now() - start).count();
  if (before->at == at) {
    before->worker = std::move(copy);
  } else {
    checkpoints_.insert(std::next(before), Checkpoint{at, std::move(copy), 0, "", 0});
  }
  thin();
}

void Timeline::store(Worker& worker, const Position& at, bool at_end) {
  gather_stored(false);
  if (at_end ? stored_.due_at_end(at, ticks_per_second_) : stored_.due(at, ticks_per_second_)) {
    // Files are of the recorded program alone; which pages it wrote to is not counted while debug code runs.
    Worker copy = worker.has_debug() ? worker.fork() : Worker();
    copy.leave_debug();
    stored_.make(copy ? copy : worker, at, at_end, !copy);
  }
  if (wait_for_stored_) {
    gather_stored(true);
    stored_.forget_cost();
  }
}

bool Timeline::store_in_window(Worker& worker, const Position& from, const Position& at) {
  gather_stored(false);
  if (!stored_.due_in_window(from, at, ticks_per_second_)) return false;
  stored_.make(worker, at, true, false);
  gather_stored(true);
  return std::any_of(checkpoints_.begin(), checkpoints_.end(),
                     [&](const Checkpoint& c) { return c.stored && c.at == at; });
}

void Timeline::count_written(Worker& worker, const Position& from, Tick to) const {
  if (stored_.enabled() && !worker.has_debug() && !worker.counts_written() && to > from.tick &&
      static_cast<double>(to - from.tick) > stored_.seconds() / 2 * ticks_per_second_)
    worker.written();
}

void Timeline::gather_stored(bool wait) {
  while (stored_.writing(wait)) {
    auto fresh = stored_.finished();
    tell_notes();
    if (!fresh) continue;
    auto before = nearest_before(fresh->at, true);
    if (before->at == fresh->at) {
      before->stored = fresh->number;
    } else {
      checkpoints_.insert(std::next(before), Checkpoint{fresh->at, Worker(), 0, "", fresh->number});
    }
  }
}

void Timeline::finish_storing() {
  gather_stored(true);
}

std::optional<uint32_t> Timeline::stored_checksum(uint64_t number) {
  Worker copy = checkpoints_.front().worker.fork();
  if (!stored_.restore(copy, number)) return std::nullopt;
  return copy.checksum();
}

// The user's program goes on without them; but that something is wrong with a file is worth a line.
void Timeline::tell_notes() {
  for (const auto& notes : {stored_.take_notes(), contents_.take_notes(), traces_.take_notes()})
    for (const std::string& note : notes) fmt::print(stderr, "backstep: {}\n", note);
}

// Goes the checkpoint whose absence makes the smallest hole, compared with how long ago it is.
void Timeline::thin() {
  while (automatic_checkpoints() > kMaxAutomatic) {
    auto victim = checkpoints_.end();
    double least = 0;
    for (auto it = std::next(checkpoints_.begin()); it != checkpoints_.end(); ++it) {
      if (it->id || !it->worker) continue;
      const Tick low = std::prev(it)->at.tick;
      const Tick high = std::next(it) == checkpoints_.end() ? it->at.tick + slice_ : std::next(it)->at.tick;
      const double hole = static_cast<double>(high - low);
      const double distance =
          std::abs(static_cast<double>(now_.tick) - static_cast<double>(it->at.tick)) + 1000;
      if (victim == checkpoints_.end() || hole / distance < least) victim = it, least = hole / distance;
    }
    if (victim == checkpoints_.end()) return;
    if (victim->stored) {
      victim->worker = Worker();
    } else {
      checkpoints_.erase(victim);
    }
  }
}

size_t Timeline::automatic_checkpoints() const {
  return static_cast<size_t>(std::count_if(checkpoints_.begin(), checkpoints_.end(),
                                           [](const Checkpoint& c) { return c.id == 0 && c.worker; }));
}

// `seconds` are the worker's own. On a busy machine even the shortest slice takes long by the clock; slices
// would become shorter and shorter without becoming any faster, and the session would do nothing but make
// checkpoints between them.
void Timeline::learn(double seconds, Tick from, Tick to) {
  if (to > from) {
    // A mean over the last second or two: one slice is not like the next. Nothing is said about the first
    // few.
    const double memory = std::max(0.0, 1 - seconds);
    seen_ticks_ = memory * seen_ticks_ + static_cast<double>(to - from);
    seen_seconds_ = memory * seen_seconds_ + seconds;
    if (seen_seconds_ > 0.005) ticks_per_second_ = std::max(1000.0, seen_ticks_ / seen_seconds_);
  }
  const double want = kSliceSeconds + 10 * fork_seconds_;
  if (seconds > 2 * want) {
    slice_ = std::max(kMinSlice, slice_ / 2);
  } else if (seconds < want && to - from >= slice_) {
    slice_ = std::min(kMaxSlice, slice_ * 2);
  }
  limit_slice();
}

// Checkpoints are made between slices.
void Timeline::limit_slice() {
  if (stored_.enabled())
    slice_ = std::max(kMinSlice, std::min(slice_, static_cast<Tick>(stored_.seconds() * ticks_per_second_)));
}

void Timeline::arrive(const Arrival& halt) {
  now_ = halt.at;
  phase_ = Phase::Place;
  behind_.reset();
  end_told_ = false;
}

Arrival Timeline::run_to(Worker& worker, const Position& from, const Position& point) {
  Position at = from;
  worker.install(with_debug(worker, {}));
  count_written(worker, at, point.tick);
  const auto near = static_cast<Tick>(ticks_per_second_ * kNearSeconds);
  bool careful = false;
  for (;;) {
    Until until;
    until.point = point;
    until.rate = careful || worker.has_debug() ? 0 : ticks_per_second_;
    bool keep_there = false;
    if (point.tick > at.tick && point.tick - at.tick > 2 * near + 2) {
      until.tick = std::min(at.tick + slice_, point.tick - near);
      keep_there = true;
    }
    Arrival halt = worker.run(until, false, &attention);
    if (halt.why == Arrival::Overshot) {
      careful = true;
      overshot_++;
      const Position wanted = at;
      worker = worker_at(wanted, at);
      worker.install({});
      continue;
    }
    learn(worker.took(), at.tick, halt.at.tick);
    if (halt.why != Arrival::AtTick) return halt;
    at = halt.at;
    if (attention.stop_asked) {
      halt.why = Arrival::Interrupted;
      return halt;
    }
    if (keep_there) {
      store(worker, at, false);
      keep(worker, at);
    }
  }
}

double Timeline::seconds_from(const Checkpoint& checkpoint, const Position& to) const {
  const double way = static_cast<double>(to.tick - std::min(to.tick, checkpoint.at.tick)) / ticks_per_second_;
  return way + (checkpoint.worker ? 0 : restore_seconds_);
}

Worker& Timeline::awake(std::list<Checkpoint>::iterator checkpoint) {
  if (checkpoint->worker) return checkpoint->worker;
  const auto start = Clock::now();
  Worker fresh = checkpoints_.front().worker.fork();
  if (stored_.restore(fresh, checkpoint->stored)) {
    checkpoint->worker = std::move(fresh);
    restore_seconds_ =
        0.5 * restore_seconds_ + 0.5 * std::chrono::duration<double>(Clock::now() - start).count();
  }
  tell_notes();
  return checkpoint->worker;
}

Worker Timeline::worker_at(const Position& wanted, Position& at) {
  for (;;) {
    auto best = checkpoints_.begin();
    for (auto it = std::next(best); it != checkpoints_.end(); ++it)
      if (it->at <= wanted && seconds_from(*it, wanted) <= seconds_from(*best, wanted)) best = it;
    Worker& worker = awake(best);
    if (!worker) {
      checkpoints_.erase(best);
      continue;
    }
    at = best->at;
    Worker copy = worker.fork();
    copy.leave_debug();
    const Position present = std::exchange(now_, at);  // it is not the one to go
    thin();
    now_ = present;
    return copy;
  }
}

Arrival Timeline::end_arrival() {
  Arrival a;
  a.why = Arrival::End;
  a.at = now_;
  if (log_.end_signal() && !end_told_) {
    a.why = Arrival::Signal;
    a.signo = log_.end_signal();
    end_told_ = true;
  }
  return a;
}

// What happens in windows where nothing can match, by what is known of the pages that they write to and
// execute, is not replayed: the present moves to the last checkpoint behind such a stretch. Their output, as
// far as the log has it, is shown all the same.
bool Timeline::pass_quiet(const Position& target, const Taps& taps) {
  if (debug_) return false;
  Position at = now_;
  auto last = checkpoints_.end();
  std::string output;
  size_t windows = 0;
  for (auto it = checkpoints_.begin(); it != checkpoints_.end() && it->at <= target; ++it) {
    if (it->at <= now_) continue;
    if (!taps.empty() && !quiet(at, it->at, taps)) break;
    auto text = output_between(at, it->at);
    if (!text) break;
    output += *text;
    windows++;
    at = it->at;
    last = it;
  }
  if (last == checkpoints_.end()) return false;
  const double way = static_cast<double>(at.tick - now_.tick) / ticks_per_second_;
  if (seconds_from(*last, at) >= way) return false;
  searched_.quiet += windows;
  const Position wanted = at;
  current_ = worker_at(wanted, at);
  if (at < wanted) {
    const Arrival halt = run_to(current_, at, wanted);
    if (halt.why != Arrival::There) {
      arrive(halt);
      return true;
    }
  }
  Arrival halt;
  halt.at = wanted;
  arrive(halt);
  if (attention.output && !output.empty()) attention.output(output);
  return true;
}

// A quick run may turn out to have been in vain: what the program writes meanwhile is not shown before it is
// known that it was not.
Arrival Timeline::run_slice(const Until& until) {
  std::string written;
  Attention ear = attention;
  if (ear.output && until.rate > 0) ear.output = [&](const std::string& text) { written += text; };
  const Arrival halt = current_.run(until, true, &ear);
  attention.stop_asked = ear.stop_asked;
  if (halt.why != Arrival::Overshot && !written.empty()) attention.output(written);
  return halt;
}

// Another worker at the present, for one that has come too far. False: somebody wants to stop, and the
// present is where that was heard.
bool Timeline::start_again() {
  overshot_++;
  const Position present = now_;
  Position at;
  current_ = worker_at(present, at);
  if (at == present) return true;
  const Arrival halt = run_to(current_, at, present);
  if (halt.why != Arrival::Interrupted) return true;
  arrive(halt);
  return false;
}

Arrival Timeline::forward(const Taps& taps) {
  end_diversion();
  attention.stop_asked = false;
  enter_debug();
  const Split parts = split(taps);
  for (;;)
    if (auto arrival = forward_part(parts)) return *arrival;
}

// nullopt: up to something of the log, or to what turned out not to be wanted.
std::optional<Arrival> Timeline::forward_part(const Split& taps) {
  if (auto owed = tell_behind(taps.log)) return owed;
  const std::optional<Mark> mark = next_mark(taps.log);
  const bool here = mark && is_here(mark->moment);
  if (here && mark->front) return tell_front(*mark, taps.log);
  if (at_end()) return end_arrival();
  if (here) {
    const Arrival arrival = step_call(current_.state().tid, *mark, taps);
    return arrival.why == Arrival::Stepped ? std::nullopt : std::optional(arrival);
  }
  const Moment target = mark ? mark->moment : log_.last();
  // A forked process's debug code begins where the process does.
  const bool debug_begins =
      debug_ && !current_.has_debug() && now_ < debug_from_ && debug_from_ < target.position();

  current_.install(with_debug(current_, taps.worker));
  log_debug(current_);
  count_written(current_, now_, target.tick);
  Until until;
  until.point = debug_begins ? debug_from_ : target.position();
  // A debugger that wants to pass a breakpoint here steps over it, unless it has been told of something
  // behind the instruction before and goes on at once.
  until.fresh = phase_ < Phase::Place;
  searched_ = {};
  Position next_try;     // what is known of windows is asked once for each
  bool careful = false;  // it has come too far once
  for (;;) {
    if (now_ >= next_try && pass_quiet(target.position(), taps.worker)) {
      if (attention.stop_asked) return Arrival{.why = Arrival::Interrupted};
      current_.install(taps.worker);
      count_written(current_, now_, target.tick);
      until.fresh = true;
    }
    if (now_ >= next_try) {
      auto next = std::find_if(checkpoints_.begin(), checkpoints_.end(),
                               [&](const Checkpoint& c) { return c.at > now_; });
      next_try = next == checkpoints_.end() ? target.position() : next->at;
    }
    until.tick = now_.tick + slice_;
    const Tick from = now_.tick;
    const Arrival halt = run_slice(until);
    if (halt.why == Arrival::Overshot) {
      careful = true;
      until.rate = 0;
      if (!start_again()) return Arrival{.why = Arrival::Interrupted};
      current_.install(taps.worker);
      continue;
    }
    learn(current_.took(), from, halt.at.tick);
    arrive(halt);
    tell_debug(current_, halt.why == Arrival::There && !mark && !debug_begins);
    switch (halt.why) {
      case Arrival::AtTick:
        // Other code for a long way, but not for one of many short ones.
        if (!careful && !debug_) until.rate = ticks_per_second_;
        store(current_, now_, false);
        keep(current_, now_);
        until.fresh = true;
        if (attention.stop_asked) return Arrival{.why = Arrival::Interrupted};
        continue;
      case Arrival::There:
        if (debug_begins) {
          enter_debug();
          phase_ = Phase::Changed;
          return std::nullopt;
        }
        if (mark) return std::nullopt;
        store(current_, now_, true);
        return end_arrival();
      default:
        return met(halt);
    }
  }
}

// Over the call that the present stands in front of, and of which something behind it is wanted.
Arrival Timeline::step_call(int tid, const Mark& mark, const Split& taps) {
  const uint64_t nr = call_number();
  Split rest{taps.worker, {}};
  for (const Tap& t : taps.log.list)
    if (t.kind == Tap::Signal) rest.log.list.push_back(t);
  const Arrival arrival = step_in(tid, 0, 0, rest);
  if (arrival.why != Arrival::Stepped && arrival.why != Arrival::Watch) return arrival;
  if (now_.event <= mark.moment.event) return arrival;  // it has not returned
  stand_behind(mark.moment.event, nr);
  if (arrival.why == Arrival::Watch) return arrival;
  return tell_behind(taps.log).value_or(arrival);
}

Arrival Timeline::step(int tid, Address range_start, Address range_end, const Taps& taps) {
  end_diversion();
  attention.stop_asked = false;
  enter_debug();
  return step_in(tid, range_start, range_end, split(taps));
}

Arrival Timeline::step_in(int tid, Address range_start, Address range_end, const Split& taps) {
  if (auto owed = tell_behind(taps.log)) return *owed;
  std::optional<Mark> mark = next_mark(taps.log);
  // What happens here and has not been told: a call in front of which there was a breakpoint.
  if (mark && mark->front && !mark->signal && is_here(mark->moment)) {
    if (auto told = tell_front(*mark, taps.log)) return *told;
    mark = next_mark(taps.log);
  }
  if (at_end()) return end_arrival();
  if (mark && mark->behind() && is_here(mark->moment) && current_.state().tid == tid)
    return step_call(tid, *mark, taps);
  const Moment target = mark ? mark->moment : log_.last();
  current_.install(with_debug(current_, taps.worker));
  log_debug(current_);
  Until until;
  until.point = target.position();
  Arrival halt = current_.step(tid, range_start, range_end, until, true, &attention);
  arrive(halt);
  tell_debug(current_);
  if (halt.why != Arrival::Stepped && halt.why != Arrival::There) return met(halt);
  // A step that ends in front of a signal reports it; one that ends at the end of all, or in front of a call,
  // is just a step.
  const bool there = is_here(target);
  if (there && mark && mark->signal) return *tell_front(*mark, taps.log);
  if (there && halt.why == Arrival::There) {
    if (!mark) return end_arrival();
    // On the way of a step: by another thread, or in the range.
    if (!mark->front) return step_call(current_.state().tid, *mark, taps);
    if (auto told = tell_front(*mark, taps.log)) return *told;
    return step_in(tid, range_start, range_end, taps);
  }
  halt.why = Arrival::Stepped;
  return halt;
}

Arrival Timeline::backward(const Taps& taps) {
  end_diversion();
  attention.stop_asked = false;
  const Split parts = split(taps);
  for (;;) {
    Arrival arrival;
    arrival.at = now_;
    // What a call here has changed was told; the call itself comes before that.
    if (phase_ >= Phase::Done) {
      const bool beyond = std::exchange(phase_, Phase::Place) == Phase::Beyond;
      const auto mark = next_mark(parts.log);
      if (mark && mark->front && !mark->signal && is_here(mark->moment))
        if (auto told = tell_front(*mark, parts.log)) return *told;
      if (beyond) phase_ = Phase::Next;
    }
    // In front of what was told of there may be a breakpoint, too: that came before.
    if (phase_ == Phase::Next && parts.worker.any_pc()) {
      current_.install(parts.worker);
      if (current_.break_here()) {
        phase_ = Phase::Place;
        arrival.why = Arrival::Break;
        return arrival;
      }
    }
    const std::optional<Mark> mark = previous_mark(parts.log);
    const Position lowest = mark ? mark->moment.position() : checkpoints_.front().at;
    Arrival found{.why = Arrival::None};
    if (!parts.worker.empty()) found = search_back(parts.worker, lowest);
    if (found.why == Arrival::Interrupted) return found;  // the present stays where it is
    const Position goal = found.why == Arrival::Watch ? found.before : found.at;
    // A breakpoint in front of a call comes before that, and what the call changes before its return.
    const bool nothing = found.why == Arrival::None;
    const bool with_it = mark && mark->moment.is_at(goal);
    if (mark && (nothing || mark->moment.is_behind(goal) ||
                 (with_it && (found.why == Arrival::Break || mark->behind())))) {
      if (auto there = go_back_to(*mark, parts.log)) return *there;
      if (attention.stop_asked) return {.why = Arrival::Interrupted};
      if (!with_it) continue;
      // There was nothing to be told of it; but what was found happens there.
      phase_ = found.why == Arrival::Watch ? Phase::Done : Phase::Place;
      return found;
    }
    if (nothing) {
      Arrival there = go_to_start();
      there.why = Arrival::Begin;
      return there;
    }
    const Arrival there = go_to(goal);
    if (there.why != Arrival::There) return there;
    phase_ = found.why == Arrival::Watch ? Phase::Done : Phase::Place;
    return found;
  }
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
      const Tick start = log_.before_gap(last >= back + first ? last - back : first);
      if (start == tried) continue;
      tried = start;
      Position at;
      Worker worker = worker_at({start, 0, 0}, at);
      if (at.tick < start) {
        Arrival halt = run_to(worker, at, {start, 0, 0});
        if (halt.why == Arrival::Interrupted) {
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
      if (debug_) {
        const Arrival there = go_to(*found);
        return there.why == Arrival::Interrupted ? there : arrival;
      }
      Until until;
      until.point = *found;
      Arrival halt = worker.run(until, false, &attention);
      current_ = std::move(worker);
      arrive(halt);
      return arrival;
    }
  }
  arrival = go_to_start();
  arrival.why = Arrival::Begin;
  return arrival;
}

// A system call that the recorder put off is made again at the same control point, and who goes there means
// the call that was made.
Arrival Timeline::pass_put_off(Arrival halt) {
  auto any = [](const Moment&) { return true; };
  while (halt.why == Arrival::There) {
    const auto put_off = log_.next_moment(now_.event, any);
    if (!put_off || put_off->made || !put_off->is_at(now_)) break;
    const auto again = log_.next_moment(put_off->event + 1, any);
    if (!again || again->kind != recording::EventKind::Syscall || again->tick != now_.tick ||
        again->pc != now_.pc)
      break;
    halt = run_to(current_, now_, {now_.tick, put_off->event + 1, now_.pc});
    arrive(halt);
  }
  return halt;
}

Arrival Timeline::go_to(const Position& target) {
  end_diversion();
  attention.stop_asked = false;
  Arrival arrival;
  const bool missing = debug_ && !debug_->keep && !current_.has_debug() && target >= debug_from_;
  bool elsewhere = now_ > target || missing;
  const double from_here =
      static_cast<double>(target.tick - std::min(target.tick, now_.tick)) / ticks_per_second_;
  const bool any = !debug_ || debug_->keep;  // with debug code's state a checkpoint has its own
  for (const Checkpoint& c : checkpoints_)
    if (c.at > now_ && c.at <= target && (any || c.worker.has_debug()) && seconds_from(c, target) < from_here)
      elsewhere = true;
  if (!any) {
    double with = static_cast<double>(target.tick) / ticks_per_second_, without = with;
    if (!elsewhere) with = from_here;
    for (const Checkpoint& c : checkpoints_)
      if (c.at <= target)
        (c.worker.has_debug() ? with : without) =
            std::min(c.worker.has_debug() ? with : without, seconds_from(c, target));
    tell_of_way_with_debug(with, without);
  }
  Worker before;
  if (keeps_debug()) before = current_.fork();
  if (elsewhere) {
    Position at;
    current_ = present_at(target, at);
    now_ = at;  // while we go, thinning counts from there
  } else if (before) {
    current_.leave_debug();
  }
  Arrival halt = run_to(current_, now_, target);
  arrive(halt);
  if (before) take_debug_from(before);
  if (halt.why == Arrival::There && target.pc && target.event == 0) halt = pass_put_off(halt);
  if (halt.why == Arrival::There && at_end()) store(current_, now_, true);
  if (halt.why == Arrival::Interrupted) arrival.why = Arrival::Interrupted;
  if (halt.why == Arrival::Missing || halt.why == Arrival::End) arrival.why = Arrival::Missing;
  return arrival;
}

Arrival Timeline::go_to_start() {
  end_diversion();
  Arrival halt;
  Worker before;
  if (keeps_debug()) before = current_.fork();
  current_ = present_at(checkpoints_.front().at, halt.at);
  arrive(halt);
  if (before) take_debug_from(before);
  return {};
}

Arrival Timeline::go_to_birth() {
  return log_.birth() ? go_to(*log_.birth()) : go_to_start();
}

Arrival Timeline::go_to_end() {
  return go_to(log_.last().position());
}

Arrival Timeline::run_diverted(const Taps& taps, std::optional<int> step_tid) {
  Worker& worker = divert();
  attention.stop_asked = false;
  worker.install(split(taps).worker);
  Until until;
  until.fresh = true;  // a breakpoint on the first instruction of a function that is called
  if (step_tid) return worker.step(*step_tid, 0, 0, until, true, &attention);
  for (;;) {
    until.tick = worker.state().at.tick + slice_;
    Arrival halt = worker.run(until, true, &attention);
    if (halt.why == Arrival::AtTick && attention.stop_asked) halt.why = Arrival::Interrupted;
    if (halt.why != Arrival::AtTick) return halt;
  }
}

int Timeline::add_checkpoint(const std::string& note) {
  auto before = nearest_before(now_, true);
  checkpoints_.insert(std::next(before), Checkpoint{now_, current_.fork(), next_id_, note, 0});
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
  for (auto it = checkpoints_.begin(); it != checkpoints_.end(); ++it) {
    if (!id || it->id != id) continue;
    it->id = 0;
    if (!it->stored) checkpoints_.erase(it);
    return true;
  }
  return false;
}

std::optional<Arrival> Timeline::restart(int id) {
  for (Checkpoint& c : checkpoints_)
    if (c.id && c.id == id) {
      end_diversion();
      if (debug_ && (debug_->keep || !c.worker.has_debug())) return go_to(c.at);
      Arrival halt;
      halt.at = c.at;
      current_ = c.worker.fork();
      arrive(halt);
      return Arrival{};
    }
  return std::nullopt;
}

}  // namespace backstep::timeline
