// What the log itself says about places to stop: signals, system calls, new processes. No replay is needed to
// know where the next or the last one is.
//
// A signal stops in front of its delivery. A system call stops twice, in front of it and behind it, and a
// call that made a process only behind. Where "behind" is the log does not say (another thread may have run
// meanwhile), so one goes to the call and takes a step. Both directions stop at the same places.
#include "timeline/timeline.h"

namespace backstep::timeline {
namespace {

std::optional<Arrival> arrival_at(const ForkMoment& fork, const Wanted& wanted) {
  const bool apart = fork.vfork && wanted.vforks;
  if (!apart && !wanted.forks) return std::nullopt;
  Arrival a{apart ? Arrival::Vfork : Arrival::Fork};
  a.pid = fork.pid;
  a.child = fork.child;
  return a;
}

}  // namespace

std::optional<Timeline::Mark> Timeline::next_mark(const Wanted& wanted) const {
  std::optional<Mark> next;
  auto offer = [&](const Moment& moment, const Arrival& arrival) {
    if (!next || moment.event < next->moment.event) next = Mark{moment, arrival};
  };
  if (wanted.signals)
    for (const SignalMoment& s : log_.signals()) {
      if (s.moment.event < now_.event || s.moment.event == signal_here_) continue;
      if (wanted.passed_signals.count(s.signo)) continue;
      Arrival a{Arrival::Signal};
      a.signo = s.signo;
      offer(s.moment, a);
      break;
    }
  for (const ForkMoment& f : log_.forks()) {
    if (f.moment.event < now_.event) continue;
    auto arrival = arrival_at(f, wanted);
    if (!arrival) continue;
    offer(f.moment, *arrival);
    break;
  }
  if (wanted.calls)
    if (auto call = log_.next_call(now_.event, [&](const Moment& m) { return wanted_call(m, wanted); })) {
      Arrival a{Arrival::CallEntry};
      a.nr = call->nr;
      if (!next || call->event <= next->moment.event) next = Mark{*call, a};
    }
  return next;
}

std::optional<Timeline::Mark> Timeline::previous_mark(const Position& before, const Wanted& wanted) const {
  std::optional<Mark> last;
  auto offer = [&](const Moment& moment, const Arrival& arrival) {
    if (!last || moment.event > last->moment.event) last = Mark{moment, arrival};
  };
  if (wanted.signals)
    for (const SignalMoment& s : log_.signals()) {
      if (s.moment.position() >= before) break;
      if (wanted.passed_signals.count(s.signo)) continue;
      Arrival a{Arrival::Signal};
      a.signo = s.signo;
      offer(s.moment, a);
    }
  for (const ForkMoment& f : log_.forks()) {
    if (f.moment.event >= before.event) break;
    if (f.moment.tick == before.tick && f.moment.pc + 2 == before.pc) break;  // just here
    if (auto arrival = arrival_at(f, wanted)) offer(f.moment, *arrival);
  }
  if (wanted.calls)
    if (auto call =
            log_.previous_call(before.event, [&](const Moment& m) { return wanted_call(m, wanted); })) {
      Arrival a{Arrival::CallEntry};
      a.nr = call->nr;
      if (!last || call->event >= last->moment.event) last = Mark{*call, a};
    }
  return last;
}

// From in front of a call to where it returns. nullopt: there; else what came between.
std::optional<Arrival> Timeline::behind_call() {
  Arrival step_taken = step(current_.state().tid, 0, 0, {}, Wanted::nothing());
  if (step_taken.why == Arrival::Stepped) return std::nullopt;
  return step_taken;
}

Arrival Timeline::go_back_to(Mark mark) {
  const Position from = now_;
  Arrival there = go_to(mark.moment.position());
  if (there.why != Arrival::Sought) return there;
  if (mark.arrival.why == Arrival::Signal) {
    signal_here_ = mark.moment.event;
    return mark.arrival;
  }
  if (!behind_call() && now_ < from) {
    if (mark.arrival.why == Arrival::CallEntry) mark.arrival.why = Arrival::CallReturn;
    return mark.arrival;
  }
  // That is where we came from, or the call has not returned by then: in front of it.
  there = go_to(mark.moment.position());
  if (there.why != Arrival::Sought) return there;
  if (mark.arrival.why == Arrival::CallEntry) call_here_ = mark.moment.event;
  return mark.arrival;
}

}  // namespace backstep::timeline
