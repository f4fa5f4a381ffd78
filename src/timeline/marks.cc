// What the log itself says about places to stop: signals, system calls, new processes. No replay is needed to
// know where the next or the last one is.
//
// A signal stops in front of its delivery. A system call stops twice, in front of it and behind it, and a
// call that made a process only behind. Where "behind" is the log does not say (another thread may have run
// meanwhile), so one goes to the call and takes a step. Both directions stop at the same places; what
// happens at the same place is told one after the other, backwards in reverse order.
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
  if (wanted.calls) {
    auto call = log_.next_call(now_.event, [&](const Moment& m) {
      return wanted_call(m, wanted) && m.event != call_here_ && m.event != passed_here_;
    });
    // A call that makes a process is told as one in front of it.
    if (call && (!next || call->event <= next->moment.event)) next = Mark{*call, Arrival{Arrival::CallEntry}};
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
    if (f.moment.event >= before.event || f.moment.event == fork_here_) break;
    if (auto arrival = arrival_at(f, wanted)) offer(f.moment, *arrival);
  }
  if (wanted.calls)
    if (auto call = log_.previous_call(before.event, [&](const Moment& m) { return wanted_call(m, wanted); }))
      // Behind it first its return, then that it made a process.
      if (!last || call->event > last->moment.event ||
          (call->event == last->moment.event && call->event != return_here_))
        last = Mark{*call, Arrival{Arrival::CallEntry}};
  return last;
}

bool Timeline::is_here(const Moment& moment) const {
  const Position p = moment.position();
  return now_.tick == p.tick && (p.pc == 0 || now_.pc == p.pc) && now_.event >= p.event;
}

uint64_t Timeline::call_number() {
  return current_.registers(current_.state().tid).gpr[RAX];
}

std::optional<Arrival> Timeline::tell(const Mark& mark, const Wanted& wanted) {
  Arrival arrival = mark.arrival;
  if (arrival.why == Arrival::Signal) signal_here_ = mark.moment.event;
  if (arrival.why == Arrival::CallEntry) {
    arrival.nr = call_number();
    if (!wanted.call_numbers.empty() && !wanted.call_numbers.count(arrival.nr)) {
      passed_here_ = mark.moment.event;
      return std::nullopt;
    }
    call_here_ = mark.moment.event;
  }
  return arrival;
}

// From in front of a call to where it returns. nullopt: there; else what came between.
std::optional<Arrival> Timeline::behind_call() {
  Arrival step_taken = step(current_.state().tid, 0, 0, {}, Wanted::nothing());
  if (step_taken.why == Arrival::Stepped) return std::nullopt;
  return step_taken;
}

// nullopt: it is not what was wanted; the present is there all the same.
std::optional<Arrival> Timeline::go_back_to(Mark mark, const Wanted& wanted) {
  const Position from = now_;
  const uint64_t event = mark.moment.event;
  const bool is_call = mark.arrival.why == Arrival::CallEntry;
  const bool returned = return_here_ == event;
  const bool told = fork_here_ == event || (is_call && returned);
  Arrival there = go_to(mark.moment.position());
  if (there.why != Arrival::Sought) return there;
  if (mark.arrival.why == Arrival::Signal) return tell(mark, wanted);
  if (is_call) {
    mark.arrival.nr = call_number();
    if (!wanted.call_numbers.empty() && !wanted.call_numbers.count(mark.arrival.nr)) return std::nullopt;
  }
  if (LogIndex::returns(mark.moment) && !told && !behind_call() && now_ <= from) {
    if (is_call) mark.arrival.why = Arrival::CallReturn;
    if (is_call || returned) return_here_ = event;
    if (!is_call) fork_here_ = event;
    return mark.arrival;
  }
  // The return has been told, or the call has not returned by then: in front of it.
  there = go_to(mark.moment.position());
  if (there.why != Arrival::Sought) return there;
  if (is_call) call_here_ = event;
  return mark.arrival;
}

}  // namespace backstep::timeline
