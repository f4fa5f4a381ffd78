// Going forwards is one sweep for all events that wait, on all processors. Matches are told in the order of
// time as it hands them on; when one stops, the sweep ends and the present moves there. What it had found
// beyond is kept for the next run, unless the set of events has changed meanwhile: whoever reacts to a match
// may install other events, which then count from the moment of that match on.
//
// Backwards the last matches of each event are looked for, and told latest first. A spent event is one that
// matches nowhere behind its last match; when time goes back over that, it waits again.
#include "session/event_set.h"

#include <algorithm>

#include <fmt/format.h>

#include "session/hits.h"
#include "session/kind.h"

namespace backstep::session {
namespace {

using timeline::Arrival;

constexpr size_t kBackwards = 64;      // matches of an event that are looked for at a time
constexpr uint64_t kInVain = 100'000;  // matches of spent events after which a sweep goes on without them
constexpr Tick kFirstTicks = 10'000;   // the next stop may be near

bool is_data(const events::Event& event) {
  return event.op == events::Event::Op::One && kind_of(event.spec).memory;
}

}  // namespace

EventSet::One& EventSet::event(int id) {
  auto found = events_.find(id);
  if (found == events_.end())
    throw Error(fmt::format("there is no event {}: it was destroyed, or never created", id), kExitUsage);
  return found->second;
}

int EventSet::create(const EventRequest& request, const Watcher& watcher) {
  LogRequest log{request.spec, request.values, request.stack, {}};
  events_.emplace(next_id_, One{request, Logging(session_, log, watcher)});
  return next_id_++;
}

void EventSet::install(int id) {
  event(id).installed = true;
  changed();
}

void EventSet::uninstall(int id) {
  event(id).installed = false;
  changed();
}

void EventSet::destroy(int id) {
  event(id);
  events_.erase(id);
  changed();
}

std::vector<EventState> EventSet::list() {
  take_back(base());
  std::vector<EventState> all;
  for (const auto& [id, e] : events_)
    all.push_back({id, e.request, e.installed, e.spent(), e.request.times ? e.matched.size() : e.matches});
  return all;
}

// The moment that the next run begins at; all that matches there has been told.
Position EventSet::base() const {
  const Position now = session_.timeline().now();
  return stood_ && stood_->present == now ? stood_->match : now;
}

const timeline::LogIndex& EventSet::log() const {
  return session_.timeline().log();
}

bool EventSet::is_first(const Match& a, const Match& b) const {
  const Position at = a.hit.position(), other = b.hit.position();
  if (log().is_same(at, other)) return a.id < b.id;
  return log().is_before(at, other);
}

// What is behind `now` has not happened yet.
void EventSet::take_back(const Position& now) {
  for (auto& [id, e] : events_)
    while (!e.matched.empty() && log().is_before(now, e.matched.back().position())) e.matched.pop_back();
}

// False: somebody wants to stop.
bool EventSet::find_composed(const Watcher& watcher) {
  for (auto& [id, e] : events_) {
    if (e.logging.simple() || e.composed || !e.waits()) continue;
    std::vector<Hit> hits;
    session_.log(
        {e.request.spec, e.request.values, e.request.stack, {}},
        [&](const Hit& h) {
          hits.push_back(h);
          return true;
        },
        watcher);
    if (session_.timeline().attention.stop_asked) return false;
    e.composed = std::move(hits);
  }
  return true;
}

void EventSet::meet(const Match& match, const Told& told, Stop& stop) {
  const EventRequest& request = event(match.id).request;
  if (request.action == EventRequest::Log && told) told(match.id, match.hit);
  if (request.action == EventRequest::Stop) stop.hits.emplace_back(match.id, match.hit);
}

// Tells of what has been found and lies before a moment. Where one stops; nullopt: none did.
std::optional<Position> EventSet::meet_found(const Position& before, const Told& told, Stop& stop) {
  while (!found_.empty() && found_.front().hit.position() < before) {
    const Position at = found_.front().hit.position();
    for (; !found_.empty() && log().is_same(found_.front().hit.position(), at); found_.pop_front()) {
      const Match& match = found_.front();
      One& e = event(match.id);
      if (!e.waits()) continue;
      if (e.request.times)
        e.matched.push_back(match.hit);
      else
        e.matches++;
      meet(match, told, stop);
    }
    if (!stop.hits.empty()) return at;
    stood_ = Stood{at, session_.timeline().now()};
  }
  return std::nullopt;
}

// The sweep of a run forwards.
class EventSet::Ahead {
 public:
  Ahead(EventSet& set, const Position& from, const Told& told, Stop& stop)
      : set_(set), from_(from), told_(told), stop_(stop) {
    for (auto& [id, e] : set.events_) {
      if (!e.waits()) continue;
      if (!e.logging.simple()) {
        composed_.push_back(id);
        continue;
      }
      const auto& taps = e.logging.resolved().taps;
      for (size_t i = 0; i < taps.size(); i++) {
        sweep_.taps.list.push_back(taps[i].tap);
        owners_.push_back({id, i});
      }
    }
  }

  // True: there is more to come, and it has to be swept again.
  bool run(const Watcher& watcher) {
    sweep_.from = from_;
    sweep_.hurry = kFirstTicks;
    sweep_.progress = watcher.progress;
    sweep_.record = [this](const replayer::TapRecord& record, const uint8_t* values) {
      return take(record, values);
    };
    sweep_.handed_on = [this](const Position& reached) { return pass(reached); };
    timeline::Timeline& timeline = set_.session_.timeline();
    const bool complete = owners_.empty() || timeline.sweep(sweep_).complete;
    if (complete && !stopped_) pass({~0ull, ~0ull, ~0ull});
    interrupted_ = !complete && !stopped_ && !again_;
    return again_;
  }

  std::optional<Position> stopped() const { return stopped_; }
  bool interrupted() const { return interrupted_; }

 private:
  struct Owner {
    int id;
    size_t tap;
  };

  bool take(const replayer::TapRecord& record, const uint8_t* values) {
    if (!set_.log().is_before(from_, position_of(record))) return true;
    const Owner& owner = owners_[record.tap];
    One& e = set_.event(owner.id);
    if (e.waits())
      set_.found_.push_back({owner.id, e.logging.hit_of(owner.tap, record, values)});
    else if (++in_vain_ == kInVain)
      again_ = true;
    return true;
  }

  // All that lies before `reached` has been found.
  bool pass(const Position& reached) {
    for (int id : composed_) {
      const std::vector<Hit>& all = *set_.event(id).composed;
      auto next = std::partition_point(all.begin(), all.end(), [&](const Hit& h) {
        return !set_.log().is_before(from_, h.position()) || h.position() < merged_;
      });
      for (; next != all.end() && next->position() < reached; ++next) set_.found_.push_back({id, *next});
    }
    merged_ = std::max(merged_, reached);  // a window may have been begun anew
    std::stable_sort(set_.found_.begin(), set_.found_.end(),
                     [&](const Match& a, const Match& b) { return set_.is_first(a, b); });
    set_.reached_ = reached;
    stopped_ = set_.meet_found(reached, told_, stop_);
    return !stopped_ && !again_;
  }

  EventSet& set_;
  Position from_;
  const Told& told_;
  Stop& stop_;
  timeline::Sweep sweep_;
  std::vector<Owner> owners_;  // by tap
  std::vector<int> composed_;
  Position merged_;  // matches of composed events before that are among the others
  std::optional<Position> stopped_;
  uint64_t in_vain_ = 0;
  bool again_ = false, interrupted_ = false;
};

EventSet::Stop EventSet::interrupted() const {
  Stop stop;
  stop.arrival.why = Arrival::Interrupted;
  return stop;
}

EventSet::Stop EventSet::forward(const Told& told, const Watcher& watcher) {
  Stop stop;
  const Position from = base();
  take_back(from);
  if (!stood_ || stood_->match != from) changed();
  if (!find_composed(watcher)) return interrupted();
  if (auto at = meet_found(reached_, told, stop)) return arrive(*at, std::move(stop), true);
  for (bool more = true; more;) {
    changed();
    Ahead ahead(*this, base(), told, stop);
    more = ahead.run(watcher);
    if (ahead.interrupted()) return interrupted();
    if (ahead.stopped()) return arrive(*ahead.stopped(), std::move(stop), true);
  }
  changed();
  stood_.reset();
  session_.timeline().leave_here(true);
  stop.arrival = session_.timeline().forward({});
  return stop;
}

// The last matches before a moment, in found_; down to reached_, which is where the last one is that is
// there for certain. False: somebody wants to stop.
bool EventSet::find_before(const Position& to, const Watcher& watcher) {
  found_.clear();
  const Position start = session_.timeline().log().birth().value_or(Position{});
  reached_ = start;
  // Up to the last match of a spent event others wait, and it does not.
  for (auto& [id, e] : events_)
    if (e.installed && e.spent()) reached_ = std::max(reached_, e.matched.back().position());
  for (auto& [id, e] : events_) {
    if (!e.installed) continue;
    if (e.spent()) {
      if (e.matched.back().position() == reached_) found_.push_back({id, e.matched.back()});
      continue;
    }
    std::vector<Hit> hits;
    if (e.logging.simple()) {
      const std::optional<Position> from = reached_ == start ? std::nullopt : std::optional(reached_);
      hits = session_.log_last({e.request.spec, e.request.values, e.request.stack, {from, to}}, kBackwards,
                               watcher);
      if (session_.timeline().attention.stop_asked) return false;
    } else {
      auto end = std::partition_point(e.composed->begin(), e.composed->end(),
                                      [&](const Hit& h) { return log().is_before(h.position(), to); });
      hits.assign(end - std::min<std::ptrdiff_t>(kBackwards, end - e.composed->begin()), end);
    }
    if (hits.size() == kBackwards) reached_ = std::max(reached_, hits.front().position());
    for (Hit& h : hits)
      if (log().is_before(h.position(), to)) found_.push_back({id, std::move(h)});
  }
  std::erase_if(found_, [&](const Match& m) { return m.hit.position() < reached_; });
  std::stable_sort(found_.begin(), found_.end(), [&](const Match& a, const Match& b) {
    return log().is_same(a.hit.position(), b.hit.position()) ? a.id < b.id : is_first(b, a);
  });
  return true;
}

EventSet::Stop EventSet::backward(const Told& told, const Watcher& watcher) {
  const Position start = session_.timeline().log().birth().value_or(Position{});
  Position before = base();
  changed();
  for (;;) {
    // What is not before that moment has not happened yet.
    for (auto& [id, e] : events_)
      while (!e.matched.empty() && !log().is_before(e.matched.back().position(), before))
        e.matched.pop_back();
    if (!find_composed(watcher) || !find_before(before, watcher)) return interrupted();
    if (found_.empty()) break;
    while (!found_.empty()) {
      Stop stop;
      const Position at = found_.front().hit.position();
      for (; !found_.empty() && log().is_same(found_.front().hit.position(), at); found_.pop_front())
        meet(found_.front(), told, stop);
      if (!stop.hits.empty()) {
        changed();
        return arrive(at, std::move(stop), false);
      }
      before = at;
    }
    if (before <= start) break;
  }
  changed();
  stood_.reset();
  Stop stop;
  stop.arrival = session_.timeline().go_to_birth();
  if (stop.arrival.why == Arrival::There) stop.arrival.why = Arrival::Begin;
  return stop;
}

// Forwards the present is behind what wrote or read, as in every movement to such an event.
EventSet::Stop EventSet::arrive(const Position& at, Stop stop, bool forward) {
  timeline::Timeline& timeline = session_.timeline();
  stop.arrival = timeline.go_to(at);
  timeline::Taps taps;
  for (const auto& [id, hit] : stop.hits) {
    const Resolved& resolved = event(id).logging.resolved();
    if (!forward || !is_data(resolved.event)) continue;
    for (const ResolvedTap& r : resolved.taps) {
      taps.list.push_back(r.tap);
      taps.list.back().action = timeline::Tap::Stop;
      taps.list.back().values.clear();
      taps.list.back().stack = false;
    }
  }
  if (!taps.empty() && stop.arrival.why == Arrival::There) {
    timeline.leave_here(true);
    stop.arrival = timeline.forward(taps);
  }
  if (stop.arrival.why == Arrival::There || stop.arrival.why == Arrival::Watch)
    stop.arrival.why = Arrival::Break;
  stood_ = Stood{at, timeline.now()};
  return stop;
}

}  // namespace backstep::session
