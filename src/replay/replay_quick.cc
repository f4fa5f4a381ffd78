// Replaying a long way without looking at every tick.
//
// Code that can be stopped at a tick looks at each of them, which takes call-heavy programs a good part of
// their speed. Far from all that it has to stop for, a replay does without: it runs code that only counts, in
// legs of some milliseconds. A timer ends each, so early that no program could have come to the end of the
// way by then; for what is left of it the replay changes over to code that looks.
//
// Timers may be late. A replay that has come too far says so (Arrival::Overshot): it may have passed the
// delivery of a signal, and is of no use any more. Whoever sent it this way sends another one.
#include <sys/time.h>

#include <algorithm>
#include <cstdlib>

#include "engine/cache.h"
#include "replay/replayer.h"

namespace backstep::replayer {
namespace {

constexpr double kFastest = 4e9;                       // ticks that a program makes in a second, at most
constexpr double kWorthwhile = 0.15;                   // seconds of a way for which changing over twice pays
constexpr suseconds_t kAgain = 2000;                   // microseconds
constexpr double kShortest = 0.0005, kLongest = 0.05;  // seconds of a leg

// Tests have legs of this length, whatever the way: most of them end behind the goal.
double forced_leg() {
  static const char* const wanted = std::getenv("BACKSTEP_LEG");
  return wanted ? std::strtod(wanted, nullptr) : 0;
}

}  // namespace

void Replayer::look_at_ticks(bool look) {
  if (look == engine::bs_cache.check) return;
  // What was executed so far is known by what is in the cache.
  const bool known = code_since_ && *code_since_ == engine::bs_cache.stats.flushes;
  if (known)
    for (uint32_t i = 1; i < engine::bs_cache.pages; i++)
      stepped_.push_back({engine::kPages[i].page, engine::kPages[i].page + layout::kPage});
  process_.engine().set_check(look);
  if (known) code_since_ = engine::bs_cache.stats.flushes;
}

// Seconds; 0: there is none.
double Replayer::quick_leg(const Until& until, Tick goal) const {
  const Tick now = context().tick;
  if (until.rate <= 0 || diverted_ || !watch_.empty() || goal <= now) return 0;
  if (debug_ && debug_->has_acted()) return 0;  // it would act twice
  if (forced_leg() > 0) return forced_leg();
  const auto left = static_cast<double>(goal - now);
  const double sure = left / kFastest;
  if (sure < kShortest || (engine::bs_cache.check && left < kWorthwhile * until.rate)) return 0;
  const double slice = static_cast<double>(until.tick - std::min(until.tick, now)) / until.rate;
  return std::min(sure, std::clamp(slice, kShortest, kLongest));
}

void Replayer::set_timer(double seconds, Tick goal) {
  // One that was set before with this goal is no later than need be.
  if (bs_replay.timer && !bs_replay.rung && seconds > 0 && goal >= timer_goal_) return;
  if (!bs_replay.timer && seconds == 0) return;
  constexpr double kMicroseconds = 1e6;
  itimerval timer{};
  timer.it_value.tv_usec = static_cast<suseconds_t>(seconds * kMicroseconds);
  // Again and again, until it is switched off: a guest that waits for a signal of the log would run for ever
  // if a single one were missed.
  if (seconds > 0) timer.it_interval.tv_usec = kAgain;
  bs_replay.timer = seconds > 0;
  bs_replay.rung = false;
  timer_goal_ = goal;
  setitimer(ITIMER_REAL, &timer, nullptr);
}

engine::Stop Replayer::run_quick(double leg, Tick goal) {
  look_at_ticks(false);
  // What is to be done in front of this instruction has been done.
  if (engine::find_break(context().rip)) {
    note_alone();
    process_.engine().pass_break();
  }
  set_timer(leg, goal);
  const engine::Stop stop = run_guest();
  overshot_ = context().tick >= goal;
  return stop;
}

}  // namespace backstep::replayer
