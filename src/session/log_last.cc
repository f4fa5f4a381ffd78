// The last matches of an event, without looking at all the others: a function that was called 100 million
// times is in the log within seconds.
//
// To log a match costs about a microsecond, to count it next to nothing. So a stretch that turns out to have
// too many matches is counted in parts, in one sweep: each tap once for each part, with an era of its own.
// That tells which part has the last ones, and if that has too many, too, it is divided again. So there are
// as many sweeps as the run's length has digits, so to speak, and all but the first are of a part only.
#include <algorithm>
#include <cstdlib>
#include <deque>

#include "session/logging.h"
#include "session/session.h"

namespace backstep::session {
namespace {

using timeline::Sweep;
using timeline::Tap;

constexpr uint64_t kFew = 100'000;  // matches that are logged without thinking
constexpr Tick kParts = 64;

// Tests divide short runs.
uint64_t few() {
  const char* const wanted = std::getenv("BACKSTEP_LAST");
  return wanted ? std::strtoull(wanted, nullptr, 10) : kFew;
}

class LastHits {
 public:
  LastHits(Session& session, const Logging& logging, size_t most, const Watcher& watcher)
      : session_(session), logging_(logging), most_(most), watcher_(watcher) {}

  // Those of a stretch before all that were looked at so far. True: there are enough, or somebody wants to
  // stop.
  bool add(const Stretch& stretch) {
    if (hits_.size() >= most_) return true;
    const bool divisible = can_be_divided(stretch);
    const auto all = logged(stretch, divisible ? few() + most_ : ~0ull);
    if (all) return *all;
    const auto parts = counted(stretch);
    for (auto part = parts.rbegin(); part != parts.rend();) {
      // Near ones with few matches are one.
      Stretch some = part->stretch;
      uint64_t count = part->count;
      for (++part; part != parts.rend() && count < needed() && count + part->count <= few(); ++part)
        some.from = part->stretch.from, count += part->count;
      if (count && add(some)) return true;
    }
    return stopped_;
  }

  std::vector<Hit> hits() const { return {hits_.begin(), hits_.end()}; }

 private:
  struct Part {
    Stretch stretch;
    uint64_t count = 0;
  };

  size_t needed() const { return most_ - hits_.size(); }

  // What the log knows needs no replay, and its returns may be far behind the calls that they belong to.
  bool can_be_divided(const Stretch& stretch) const {
    const auto& taps = logging_.resolved().taps;
    const bool all_in_code = std::all_of(taps.begin(), taps.end(), [](const ResolvedTap& r) {
      return r.tap.kind == Tap::Pc || r.tap.is_data();
    });
    const auto [first, end] = ticks(stretch);
    return logging_.simple() && all_in_code && end - first > 1;
  }

  std::pair<Tick, Tick> ticks(const Stretch& stretch) const {
    const timeline::LogIndex& log = session_.timeline().log();
    const Tick first = stretch.from.value_or(log.birth().value_or(Position{})).tick;
    const Tick end = (stretch.to ? stretch.to->tick : log.last().tick) + 1;
    return {first, std::max(first, end)};
  }

  // Whether there are enough now; nothing: there are more matches than that, and none was taken.
  std::optional<bool> logged(const Stretch& stretch, uint64_t at_most) {
    std::deque<Hit> here;
    uint64_t count = 0;
    Sweep sweep = logging_.sweep([&](const Hit& h) {
      if (++count > at_most) return false;
      here.push_back(h);
      if (here.size() > needed()) here.pop_front();
      return true;
    });
    sweep.from = stretch.from, sweep.to = stretch.to;
    sweep.progress = watcher_.progress;
    const bool complete = sweep_for(session_.timeline(), logging_.resolved(), sweep).complete;
    if (count > at_most) return {};
    stopped_ = !complete;
    hits_.insert(hits_.begin(), here.begin(), here.end());
    return stopped_ || hits_.size() >= most_;
  }

  // Oldest first.
  std::vector<Part> counted(const Stretch& stretch) {
    const auto [first, end] = ticks(stretch);
    std::vector<Part> parts;
    const Tick step = std::max<Tick>(1, (end - first + kParts - 1) / kParts);
    for (Tick at = first; at < end; at += step) {
      Part& part = parts.emplace_back();
      part.stretch.from = at == first ? stretch.from : std::optional(Position{at, 0, 0});
      part.stretch.to = at + step >= end ? stretch.to : std::optional(Position{at + step, 0, 0});
    }
    Sweep sweep;
    sweep.from = stretch.from, sweep.to = stretch.to;
    sweep.progress = watcher_.progress;
    const auto& taps = logging_.resolved().taps;
    for (const Part& part : parts)
      for (const ResolvedTap& r : taps) {
        Tap& tap = sweep.taps.list.emplace_back(r.tap);
        tap.action = Tap::Count;
        tap.values.clear();
        tap.stack = false;
        if (part.stretch.from) tap.from = std::max(tap.from, part.stretch.from->tick);
        if (&part != &parts.back()) tap.to = std::min(tap.to, part.stretch.to->tick);
      }
    const timeline::Swept swept = session_.timeline().sweep(sweep);
    stopped_ = !swept.complete;
    for (size_t i = 0; i < swept.counts.size() && !stopped_; i++)
      parts[i / taps.size()].count += swept.counts[i].matches;
    return parts;
  }

  Session& session_;
  const Logging& logging_;
  size_t most_;
  const Watcher& watcher_;
  std::deque<Hit> hits_;
  bool stopped_ = false;
};

}  // namespace

std::vector<Hit> Session::log_last(const LogRequest& request, size_t most, const Watcher& watcher) {
  Logging logging(*this, request, watcher);
  LastHits last(*this, logging, most, watcher);
  // What is made of several events may have begun anywhere.
  if (logging.simple()) {
    backwards(request.stretch, [&](const Stretch& stretch) { return last.add(stretch); });
  } else {
    last.add(request.stretch);
  }
  return last.hits();
}

}  // namespace backstep::session
