// What the log itself knows of what taps look out for: signals, system calls, new processes. No replay is
// needed to find the next one or the last.
//
// A signal stops in front of its delivery. A system call may stop in front of it and behind it, a call that
// made a process as well. Where "behind" is the log does not say (another thread may have run meanwhile), so
// one goes to the call and takes a step. Both directions stop at the same places; what happens at the same
// place is told one after the other in the order of Phase, backwards in reverse.
//
// A tap of the log that has a condition is left to the replaying processes, which can evaluate it: they are
// given its moments.
#include <algorithm>

#include "timeline/timeline.h"

namespace backstep::timeline {
namespace {

// The first of them whose event is not before `event`.
template <class Some>
auto from_event(const std::vector<Some>& all, uint64_t event) {
  return std::partition_point(all.begin(), all.end(),
                              [&](const Some& one) { return one.moment.event < event; });
}

template <class Some>
const Some* at_event(const std::vector<Some>& all, uint64_t event) {
  auto found = from_event(all, event);
  return found != all.end() && found->moment.event == event ? &*found : nullptr;
}

bool any_of_kind(const Taps& taps, Tap::Kind kind) {
  return std::any_of(taps.list.begin(), taps.list.end(), [&](const Tap& t) { return t.kind == kind; });
}

// Could it be one of these calls, by what the log says?
bool may_be_one(const LogIndex& log, const Moment& m, const Tap& tap) {
  if (tap.numbers.empty()) return log.may_be_call(m, std::nullopt);
  return std::any_of(tap.numbers.begin(), tap.numbers.end(),
                     [&](uint64_t nr) { return log.may_be_call(m, nr); });
}

bool asks_for_one(const LogIndex& log, const Moment& m, const Taps& taps) {
  return std::any_of(taps.list.begin(), taps.list.end(),
                     [&](const Tap& t) { return t.kind == Tap::Call && may_be_one(log, m, t); });
}

}  // namespace

Timeline::Mark Timeline::mark_of(const Moment& m, const Taps& taps) const {
  Mark mark;
  mark.moment = m;
  mark.signal = at_event(log_.signals(), m.event);
  mark.fork = at_event(log_.forks(), m.event);
  for (const Tap& t : taps.list) {
    if (m.tick < t.from || m.tick >= t.to || m.event < t.since) continue;
    const bool returns = LogIndex::returns(m);
    if (t.kind == Tap::Signal && mark.signal)
      mark.front |= t.asks_for(static_cast<uint64_t>(mark.signal->signo));
    if (t.kind == Tap::Fork && mark.fork && t.asks_for(mark.fork->vfork))
      (t.after ? mark.forked : mark.front) = true;
    if (t.kind == Tap::Call && (!t.after || returns) && may_be_one(log_, m, t))
      (t.after ? mark.returned : mark.front) = true;
  }
  return mark;
}

std::optional<Timeline::Mark> Timeline::next_mark(const Taps& taps) const {
  if (taps.empty()) return std::nullopt;
  for (uint64_t from = now_.event;;) {
    std::optional<Moment> first;
    auto offer = [&](const Moment& m) {
      if (!first || m.event < first->event) first = m;
    };
    auto offer_from = [&](const auto& all) {
      for (auto it = from_event(all, from); it != all.end(); ++it)
        if (mark_of(it->moment, taps).any()) return offer(it->moment);
    };
    if (any_of_kind(taps, Tap::Signal)) offer_from(log_.signals());
    if (any_of_kind(taps, Tap::Fork)) offer_from(log_.forks());
    if (any_of_kind(taps, Tap::Call))
      if (auto call = log_.next_call(
              from, [&](const Moment& m) { return asks_for_one(log_, m, taps) && mark_of(m, taps).any(); }))
        offer(*call);
    if (!first) return std::nullopt;
    Mark mark = mark_of(*first, taps);
    if (is_here(*first) && phase_ >= Phase::Next) mark.front = false;
    if (mark.any()) return mark;
    from = first->event + 1;
  }
}

std::optional<Timeline::Mark> Timeline::previous_mark(const Taps& taps) const {
  // What is left of a moment before the present.
  auto left = [&](const Moment& m) {
    Mark mark = mark_of(m, taps);
    if (behind_ && behind_->event == m.event) {
      mark.returned = mark.returned && phase_ > Phase::Returned;
      mark.forked = mark.forked && phase_ > Phase::Forked;
    }
    return mark;
  };
  std::optional<Moment> last;
  auto offer = [&](const Moment& m) {
    if (!last || m.event > last->event) last = m;
  };
  auto offer_before = [&](const auto& all) {
    for (auto it = from_event(all, now_.event); it != all.begin();)
      if (const Moment& m = (--it)->moment; left(m).any()) return offer(m);
  };
  if (any_of_kind(taps, Tap::Signal)) offer_before(log_.signals());
  if (any_of_kind(taps, Tap::Fork)) offer_before(log_.forks());
  if (any_of_kind(taps, Tap::Call))
    if (auto call = log_.previous_call(
            now_.event, [&](const Moment& m) { return asks_for_one(log_, m, taps) && left(m).any(); }))
      offer(*call);
  return last ? std::optional(left(*last)) : std::nullopt;
}

bool Timeline::is_here(const Moment& moment) const {
  const Position p = moment.position();
  return now_.tick == p.tick && (p.pc == 0 || now_.pc == p.pc) && now_.event >= p.event;
}

uint64_t Timeline::call_number() {
  return current_.registers(current_.state().tid).gpr[RAX];
}

bool Timeline::asks_for_call(const Taps& taps, bool after, uint64_t nr) const {
  return std::any_of(taps.list.begin(), taps.list.end(),
                     [&](const Tap& t) { return t.kind == Tap::Call && t.after == after && t.asks_for(nr); });
}

// Of a call, only the guest's registers say for sure which one it is.
std::optional<Arrival> Timeline::tell_front(const Mark& mark, const Taps& taps) {
  phase_ = Phase::Next;
  Arrival arrival;
  arrival.at = now_;
  if (mark.signal) {
    arrival.why = Arrival::Signal;
    arrival.signo = mark.signal->signo;
    return arrival;
  }
  arrival.nr = call_number();
  if (asks_for_call(taps, false, arrival.nr)) {
    arrival.why = Arrival::CallEntry;
    return arrival;
  }
  const bool forks = mark.fork && std::any_of(taps.list.begin(), taps.list.end(), [&](const Tap& t) {
                       return t.kind == Tap::Fork && !t.after && t.asks_for(mark.fork->vfork);
                     });
  if (!forks) return std::nullopt;
  arrival.why = Arrival::Fork;
  return arrival;
}

// What is still to be told of the call before the present place.
std::optional<Arrival> Timeline::tell_behind(const Taps& taps) {
  if (!behind_ || phase_ >= Phase::Returned) return std::nullopt;
  const Mark mark = mark_of(*log_.at(behind_->event), taps);
  Arrival arrival;
  arrival.at = now_;
  if (mark.forked && phase_ < Phase::Forked) {
    phase_ = Phase::Forked;
    arrival.why = Arrival::Fork;
    arrival.pid = mark.fork->pid;
    arrival.vfork = mark.fork->vfork;
    arrival.child = mark.fork->child;
    return arrival;
  }
  if (!mark.returned || !asks_for_call(taps, true, behind_->nr)) return std::nullopt;
  phase_ = Phase::Returned;
  arrival.why = Arrival::CallReturn;
  arrival.nr = behind_->nr;
  return arrival;
}

void Timeline::stand_behind(uint64_t call, uint64_t nr) {
  behind_ = Behind{call, nr};
  phase_ = Phase::Changed;
}

// From in front of a call to where it returns. nullopt: there; else what came between.
std::optional<Arrival> Timeline::behind_call() {
  Arrival step_taken = step(current_.state().tid, 0, 0, {});
  if (step_taken.why == Arrival::Stepped) return std::nullopt;
  return step_taken;
}

// nullopt: it is not what was wanted; the present is there all the same.
std::optional<Arrival> Timeline::go_back_to(const Mark& mark, const Taps& taps) {
  const Position from = now_;
  const Phase told = phase_;
  Arrival there = go_to(mark.moment.position());
  if (there.why != Arrival::There) return there;
  if (mark.signal) return tell_front(mark, taps);
  const Position front = now_;
  const uint64_t nr = call_number();
  bool returned = mark.returned && asks_for_call(taps, true, nr);
  if ((mark.forked || returned) && !behind_call() && now_ <= from) {
    // The last of what happens behind it comes first.
    returned = returned && (now_ != from || told > Phase::Returned);
    const bool forked = mark.forked && (now_ != from || told > Phase::Forked);
    stand_behind(mark.moment.event, nr);
    if (returned) phase_ = Phase::Forked;
    if (returned || forked) return tell_behind(taps);
  }
  // All behind it has been told, or the call has not returned by then: in front of it.
  if (now_ != front) there = go_to(front);
  if (there.why != Arrival::There) return there;
  phase_ = Phase::Next;
  return mark.front ? tell_front(mark, taps) : std::nullopt;
}

// With moments in place of what the log knows: of all taps, or of those with conditions.
Taps Timeline::with_moments(const Taps& taps, bool all) const {
  Taps result;
  result.thread = taps.thread;
  for (const Tap& t : taps.list) {
    Tap& copy = result.list.emplace_back(t);
    if (!t.is_of_log() || (!all && t.conditions.empty())) continue;
    copy.kind = Tap::Moment;
    if (t.kind != Tap::Call) copy.numbers.clear();
    Taps alone;
    alone.list = {t};
    auto add = [&](const Moment& m) {
      if (mark_of(m, alone).any()) copy.moments.push_back({m.position(), m.event, m.nr});
    };
    if (t.kind == Tap::Signal)
      for (const SignalMoment& s : log_.signals()) add(s.moment);
    if (t.kind == Tap::Fork)
      for (const ForkMoment& f : log_.forks()) add(f.moment);
    if (t.kind == Tap::Call)
      log_.each(t.since, [&](const Moment& m, std::span<const uint8_t>) {
        add(m);
        return true;
      });
  }
  return result;
}

Timeline::Split Timeline::split(const Taps& taps) const {
  Split split;
  split.worker.thread = split.log.thread = taps.thread;
  for (Tap& t : with_moments(taps, false).list)
    (t.is_of_log() ? split.log : split.worker).list.push_back(std::move(t));
  return split;
}

}  // namespace backstep::timeline
