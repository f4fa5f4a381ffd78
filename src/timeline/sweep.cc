// Counting and logging what happens in a stretch of the run.
//
// The stretch is cut at the checkpoints; windows are replayed on all processors, oldest first, and what they
// found is handed on in the order of time: of the oldest one at once, of the others when it is their turn.
// Where there are no checkpoints yet a window may be long; they are made on the way, so that the next sweep
// is done by all processors.
#include "timeline/sweep.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "timeline/timeline.h"
#include "timeline/windows.h"

namespace backstep::timeline {
namespace {

constexpr double kPartSeconds = 0.45;         // of a window that is divided, or more, while it is replayed
constexpr uint64_t kSome = 1 << 16;           // records, which take some milliseconds
constexpr uint64_t kMostWaiting = 256 << 20;  // bytes that windows log before it is their turn

// Hands on what a window has logged and nobody has seen.
class Teller {
 public:
  Teller(const Sweep& sweep, const Attention& attention) : sweep_(sweep), attention_(attention) {}

  // False: enough.
  bool tell(Window& window) {
    if (window.trace) return tell_trace(window);
    if (window.told >= window.logged) return true;
    // If it has to be replayed once more its parts will be others.
    if (sweep_.traced && !window.done) return true;
    // The first bytes may be the end of what begins on an earlier page.
    const uint64_t page = window.told & ~(layout::kPage - 1);
    const size_t size = window.logged - page;
    void* map = mmap(nullptr, size, PROT_READ, MAP_SHARED, window.log.get(), static_cast<off_t>(page));
    if (map == MAP_FAILED) throw Error("cannot read what was logged: " + errno_text(errno));
    auto* at = static_cast<const uint8_t*>(map) + (window.told - page);
    const uint8_t* end = static_cast<const uint8_t*>(map) + size;
    bool more = true;
    for (uint64_t looked_at = 0; more && at < end; looked_at++) {
      // (Of a trace there is all or nothing.)
      if (looked_at % kSome == kSome - 1 && !sweep_.traced && stop_wanted()) {
        more = false;
        break;
      }
      replayer::TapRecord record;
      std::memcpy(&record, at, sizeof record);
      if (sweep_.traced) {
        add_part(at + sizeof record);
      } else if (record.tap < sweep_.taps.list.size() && sweep_.taps.list[record.tap].kind == Tap::Contents) {
        uint32_t size;
        std::memcpy(&size, at + sizeof record, sizeof size);
        if (sweep_.contents)
          sweep_.contents(window.low, window.high, {at + sizeof record + sizeof size, size});
      } else if (sweep_.record) {
        more = sweep_.record(record, at + sizeof record);
      }
      at += record.size;
    }
    if (sweep_.traced) sweep_.traced(window.low, window.high, parts_);
    parts_.clear();
    munmap(map, size);
    window.told = window.logged;
    // Memory of what nobody will read again goes back; of a long window it could be more than there is.
    constexpr uint64_t kWorthwhile = 16 << 20;
    if (size > kWorthwhile)
      fallocate(window.log.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                static_cast<off_t>(window.told & ~(layout::kPage - 1)));
    return more;
  }

 private:
  // What the replay would have logged.
  bool tell_trace(Window& window) {
    const Tap& tap = sweep_.taps.list.front();
    std::vector<recording::AddressRange> data;
    for (const Tap::Range& r : tap.data) data.push_back({r.start, r.end});
    auto in_code = [&](Address pc) {
      return tap.code.empty() || std::any_of(tap.code.begin(), tap.code.end(), [&](const Tap::Range& r) {
               return pc >= r.start && pc < r.end;
             });
    };
    uint64_t looked_at = 0;
    return window.trace->each(data, [&](const recording::TracedStore& s) {
      if (looked_at++ % kSome == 0 && stop_wanted()) return false;
      const Position at{s.at.tick, s.at.event, s.at.pc};
      if (at < window.low || (sweep_.to && at >= window.high)) return true;
      const bool asked = !tap.start || s.at.thread == tap.start;
      if (!asked || at.tick < tap.from || at.tick >= tap.to || !in_code(at.pc)) return true;
      window.counts.front().matches++;
      struct {
        uint32_t length;
        uint8_t bytes[sizeof(replayer::AccessRecord)];
      } value{sizeof(replayer::AccessRecord), {}};
      const replayer::AccessRecord access{s.address, s.old_value, s.new_value, s.size, true, s.by_kernel, {}};
      std::memcpy(value.bytes, &access, sizeof access);
      const replayer::TapRecord record{sizeof record + sizeof value,      0, at.tick, at.event, at.pc,
                                       static_cast<int32_t>(s.at.thread), 1};
      return sweep_.record(record, reinterpret_cast<const uint8_t*>(&value));
    });
  }

  bool stop_wanted() const {
    pollfd fd{attention_.fd, POLLIN, 0};
    if (fd.fd >= 0 && poll(&fd, 1, 0) > 0 && attention_.stop_wanted()) attention_.stop_asked = true;
    return attention_.stop_asked;
  }

  void add_part(const uint8_t* values) {
    auto next = [&] {
      uint32_t size;
      std::memcpy(&size, values, sizeof size);
      const std::span value(values + sizeof size, size);
      values += sizeof size + size;
      return value;
    };
    TracePart part;
    const auto count = next();
    std::memcpy(&part.count, count.data(), std::min(count.size(), sizeof part.count));
    part.links = next();
    part.stores = next();
    parts_.push_back(part);
  }

  const Sweep& sweep_;
  const Attention& attention_;
  std::vector<TracePart> parts_;  // of a window's trace
};

// What happens at the beginning of the tick was before the stretch.
void skip_beginning(Taps& taps, Tick tick) {
  for (Tap& t : taps.list) {
    if (t.kind == Tap::Period) t.from = std::max(t.from, tick + 1);
    std::erase_if(t.moments, [&](const Tap::MomentAt& m) { return m.at.pc == 0 && m.at.tick <= tick; });
  }
}

// Those that can match in the window, with all of their moments there; others are off.
Taps within(const Taps& taps, const Position& low, const Position& high, bool last) {
  Taps some;
  some.thread = taps.thread;
  for (const Tap& t : taps.list) {
    Tap& copy = some.list.emplace_back();
    // Ticks of moments without a pc stand for the first position there.
    auto before = [&](const Tap::MomentAt& m) { return m.at < low; };
    auto begin = std::partition_point(t.moments.begin(), t.moments.end(), before);
    while (begin != t.moments.begin() && std::prev(begin)->at.tick == low.tick) --begin;
    auto end = last ? t.moments.end()
                    : std::partition_point(begin, t.moments.end(),
                                           [&](const Tap::MomentAt& m) { return m.at < high; });
    copy.kind = t.kind;
    copy.off = t.from > high.tick || t.to <= low.tick || (t.kind == Tap::Moment && begin == end);
    if (copy.off) continue;
    const std::vector<Tap::MomentAt> part(begin, end);
    copy = t;
    copy.moments = part;
  }
  return some;
}

// Moments before the present are over.
Taps moments_from(Taps taps, const Position& now) {
  for (Tap& t : taps.list) std::erase_if(t.moments, [&](const Tap::MomentAt& m) { return m.at < now; });
  return taps;
}

// Ticks in which taps can match: from `first` on, before `end`.
struct Reach {
  Tick first = ~0ull, end = 0;
};
Reach reach_of(const Taps& taps) {
  Reach reach;
  for (const Tap& t : taps.list) {
    Tick first = t.from, end = t.to;
    if (t.off || (t.kind == Tap::Moment && t.moments.empty())) continue;
    if (t.kind == Tap::Moment) {
      // Behind an event may be many ticks behind its moment, but it has to be seen there.
      first = t.after ? t.moments.front().at.tick : std::max(first, t.moments.front().at.tick);
      if (!t.after) end = std::min(end, t.moments.back().at.tick + 1);
    }
    reach.first = std::min(reach.first, first);
    reach.end = std::max(reach.end, end);
  }
  return reach;
}

}  // namespace

// Taps of the log in an answer become moments.
replayer::DebugAnswers Timeline::with_log(const replayer::DebugAnswers& answers) const {
  if (!answers) return {};
  return [this, answers](const replayer::DebugQuestion& question) {
    replayer::DebugAnswer answer = answers(question);
    answer.taps = moments_from(with_moments(answer.taps, true), question.at);
    return answer;
  };
}

std::vector<Position> Timeline::cuts() const {
  std::vector<Position> all;
  for (const Checkpoint& c : checkpoints_) all.push_back({c.at.tick + 1, 0, 0});
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

// A worker at the beginning of a window whose own one has come too far. False: somebody wants to stop.
bool Timeline::start_again(Window& window) {
  window.careful = true;
  overshot_++;
  Position at;
  window.worker = worker_at(window.low, at);
  return at == window.low || run_to(window.worker, at, window.low).why != Arrival::Interrupted;
}

Swept Timeline::sweep(const Sweep& sweep) {
  Swept result;
  const Taps all = with_moments(sweep.taps, true);
  result.counts.resize(all.list.size());
  const Position first = checkpoints_.front().at;
  Position from = sweep.from.value_or(log_.birth().value_or(first));
  const Position to = sweep.to.value_or(log_.last().position());
  const double length = std::max(1.0, static_cast<double>(to.tick - std::min(to.tick, from.tick)));
  attention.stop_asked = false;
  WindowPool pool(sweep.most);
  Teller teller(sweep, attention);
  auto& windows = pool.windows();  // oldest first
  Position low = from;             // what is behind this has not been begun
  bool more = from < to;
  double done = 0;
  // Tests have many windows of a short run.
  const char* const wanted = std::getenv("BACKSTEP_WINDOW");
  const Tick longest = wanted ? std::strtoull(wanted, nullptr, 10) : 0;

  // A control point without an event is not to be compared with others, and what of its tick is before it has
  // to be found out.
  Worker there;
  bool in_the_middle = false;
  auto go_to_first = [&] {
    Position at;
    there = worker_at({from.tick, 0, 0}, at);
    const Arrival begin = run_to(there, at, {from.tick, 0, 0});
    if (begin.why == Arrival::Interrupted) return false;
    const Arrival arrived = run_to(there, begin.at, from);
    in_the_middle = arrived.at != begin.at;
    from = low = arrived.at;
    return arrived.why != Arrival::Interrupted;
  };
  const bool one_window = !sweep.debug_module.empty() && !sweep.stateless;
  // Windows begin at checkpoints. Whether those are at the beginning of a tick is not known: where that
  // matters, with the next one.
  const bool by_tick = all.any_by_tick();
  auto cut = [&](const Checkpoint& c) { return by_tick ? Position{c.at.tick + 1, 0, 0} : c.at; };

  // Tables of contents are of windows that there will be in other sessions, too.
  auto usable = [&](const Checkpoint& c) { return !sweep.by_stored() || c.stored; };

  const replayer::DebugAnswers answers = with_log(sweep.debug_answers);

  auto prepare = [&](Window& window) {
    window.log = Fd(memfd_create("backstep-matches", MFD_CLOEXEC));
    if (!window.log) throw Error("cannot make a memory file: " + errno_text(errno));
    window.logged = 0;
    window.at = window.low;
    if (!sweep.debug_module.empty())
      window.worker.admit_debug(
          sweep.debug_module, answers,
          sweep.stateless ? replayer::DebugMode::Stateless : replayer::DebugMode::Window);
    window.worker.install(window.taps);
    window.worker.log_to(window.log.get());
    if (!sweep.by_stored()) count_written(window.worker, window.low, window.high.tick);
  };
  auto go_on = [&](Window& window) {
    const Tick since = window.at.tick - std::min(window.at.tick, window.low.tick);
    const Tick slice = sweep.hurry ? std::min(slice_, std::max(sweep.hurry, since)) : slice_;
    pool.go_on(window, slice, ticks_per_second_);
  };
  // Has a window replayed. `from`: where `there` is.
  auto replay = [&](Window& window, const Position& from) {
    Position at = from;
    window.pending = false;
    window.worker = there ? std::move(there) : worker_at(window.low, at);
    there = Worker();
    if (at < window.low) {
      const Arrival halt = run_to(window.worker, at, window.low);
      if (halt.why == Arrival::Interrupted) return false;
      at = halt.at;
    }
    window.low = at;
    prepare(window);
    window.until.point = window.high;
    window.until.fresh = true;
    window.until.before = window.high < to || sweep.to;
    go_on(window);
    result.windows++;
    return true;
  };
  // Windows of data are looked through in slices first (search_sliced.cc). Not where that has turned out to
  // pass over little.
  bool slice = !sweep.by_stored() && !sweep.hurry && !one_window && WindowSlices::can_tell(all);
  // In place of a window those of its slices that can hold a match.
  auto divide = [&](Window& window) {
    auto place = std::find_if(windows.begin(), windows.end(), [&](const Window& w) { return &w == &window; });
    const auto whole = static_cast<double>(window.whole_high.tick - window.whole_low.tick);
    double replayed = 0;
    Window* last = nullptr;
    for (const WindowSlices::Part& part : window.parts) {
      replayed += static_cast<double>(part.to.tick - part.from.tick);
      if (!last || last->high != part.from) {
        last = &*windows.insert(place, Window());
        last->pending = true;
        last->low = last->at = part.from;
        last->taps = window.taps;
      }
      last->high = part.to;
    }
    if (replayed > whole / 2) slice = false;
    done += (whole - replayed) / length;
    if (!last) result.quiet++;
    windows.erase(place);
  };
  constexpr size_t kMostWindows = 32;  // that are begun, or read from traces
  auto begin_next = [&] {
    if (auto traced = traced_window(sweep, low, to)) {
      there = Worker();
      in_the_middle = false;
      done += static_cast<double>(traced->high.tick - low.tick) / length;
      low = traced->high;
      more = low < to;
      windows.push_back(std::move(*traced));
      result.quiet++;
      return true;
    }
    auto next = std::find_if(checkpoints_.begin(), checkpoints_.end(),
                             [&](const Checkpoint& c) { return cut(c) > low && usable(c); });
    Position high = one_window || next == checkpoints_.end() || cut(*next) >= to ? to : cut(*next);
    if (!one_window && longest && low.tick + longest < high.tick) high = {low.tick + longest, 0, 0};
    more = high < to;
    Taps taps = within(all, low, high, high == to);
    if (std::exchange(in_the_middle, false)) skip_beginning(taps, low.tick);
    // What lies before all that can match is gone through without looking, what lies behind it not at all.
    Reach reach = reach_of(taps);
    if (one_window) reach = {0, ~0ull};  // its callbacks may be anywhere
    const StoredTraces::Ticks known = ticks_of(low, high, taps);
    reach.first = std::max(reach.first, known.first);
    reach.end = std::min(reach.end, known.end);
    const Position begin = reach.first > low.tick ? Position{reach.first, 0, 0} : low;
    const Position end = std::min(high, Position{reach.end, 0, 0});
    if (!one_window && (begin >= end || quiet(begin, end, taps))) {
      result.quiet++;
      there = Worker();
      done += static_cast<double>(high.tick - low.tick) / length;
      low = high;
      return true;
    }
    if (outlook) {
      outlook->ticks += end.tick - begin.tick;
      result.windows++;
      low = high;
      return true;
    }
    done += static_cast<double>(begin.tick - low.tick + high.tick - end.tick) / length;
    const Position here = std::exchange(low, high);
    Window& window = windows.emplace_back();
    window.low = begin;
    window.high = end;
    window.taps = std::move(taps);
    if (!slice || !worth_slicing(begin, end, window.taps)) return replay(window, here);
    there = Worker();
    window.whole_low = begin;
    window.whole_high = end;
    if (!begin_slicing(pool, window)) return false;
    if (!window.slicing) divide(window);
    return true;
  };
  // Each part begins with all code translated anew, so windows as they usually are stay in one piece.
  const char* const of_tests = std::getenv("BACKSTEP_TABLE");
  const double part_seconds = of_tests ? std::strtod(of_tests, nullptr) : kPartSeconds;
  auto is_part = [&](const Window& window) {
    const auto whole = static_cast<double>(window.high.tick - window.low.tick);
    const double parts = std::floor(whole / (part_seconds * ticks_per_second_));
    return parts >= 2 && static_cast<double>(window.at.tick - window.low.tick) >= whole / parts;
  };
  // What is behind the present of a window becomes one of its own, with the worker. (All that taps have
  // counted begins anew when they are installed behind others.)
  auto begin_rest = [&](Window& window) -> Window& {
    auto behind =
        std::find_if(windows.begin(), windows.end(), [&](const Window& w) { return &w == &window; });
    Window& rest = *windows.insert(std::next(behind), Window());
    rest.worker = std::move(window.worker);
    rest.low = window.at;
    rest.high = std::exchange(window.high, window.at);
    rest.taps = window.taps;
    rest.until = window.until;
    rest.careful = window.careful;
    rest.worker.install({});
    prepare(rest);
    result.windows++;
    return rest;
  };
  auto waiting = [&] {
    uint64_t bytes = 0;
    for (const Window& w : windows) bytes += w.logged - std::min(w.logged, w.told);
    return bytes;
  };
  auto give_up = [&] {
    result.complete = false;
    return result;
  };

  if (more && from.pc && !from.event && !go_to_first()) return give_up();
  if (outlook) {
    while (more && begin_next()) {
    }
    outlook->windows += result.windows, outlook->quiet += result.quiet;
    return result;
  }
  for (;;) {
    for (Window& w : windows)
      if (w.pending && !pool.full() && !replay(w, w.low)) return give_up();
    while (more && !pool.full() && windows.size() < kMostWindows && waiting() < kMostWaiting)
      if (!begin_next()) return give_up();
    while (!windows.empty()) {
      Window& front = windows.front();
      if (!teller.tell(front)) return give_up();
      if (front.trace && sweep.progress) sweep.progress(std::min(done, 1.0));
      if (sweep.handed_on && !sweep.handed_on(front.done      ? front.high
                                              : front.slicing ? front.whole_low
                                                              : front.at))
        return give_up();
      if (!front.done) break;
      const bool stopped = front.end.why == Arrival::DebugStop;
      for (size_t i = 0; i < front.counts.size(); i++) {
        result.counts[i].matches += front.counts[i].matches;
        result.counts[i].failures += front.counts[i].failures;
      }
      windows.pop_front();
      if (stopped) return give_up();
    }
    if (windows.empty()) {
      if (more) continue;
      gather_stored(false);
      return result;
    }
    // One that waited with a full log may go on when it is its turn.
    if (Window& front = windows.front(); !front.running && !front.pending) go_on(front);

    Window* window = pool.wait(attention);
    if (!window) return give_up();
    if (window->slicing) {
      if (window->end.why == Arrival::AtTick) store(window->worker, window->at, false);
      if (!go_on_slicing(pool, *window)) return give_up();
      if (!window->slicing) divide(*window);
      if (sweep.progress) sweep.progress(std::min(done, 1.0));
      continue;
    }
    if (window->end.why == Arrival::Overshot) {
      // Once more; what has been handed on will be the same.
      if (!start_again(*window)) return give_up();
      prepare(*window);
      go_on(*window);
      continue;
    }
    learn(window->worker.took(), window->began, window->at.tick);
    const bool divided = sweep.divide && window->end.why == Arrival::AtTick && window->at < window->high &&
                         is_part(*window) && store_in_window(window->worker, window->low, window->at);
    auto collected = window->worker.collect(all.list.size(), divided || window->end.why != Arrival::AtTick);
    window->logged = collected.logged;
    done += static_cast<double>(window->at.tick - window->began) / length;
    if (sweep.progress) sweep.progress(std::min(done, 1.0));
    if (divided) {
      go_on(begin_rest(*window));
      window->counts = std::move(collected.counts);
      pool.finish(*window);
      continue;
    }
    if (window->end.why == Arrival::AtTick) {
      if (!sweep.by_stored()) store(window->worker, window->at, false);
      if (window == &windows.front() || waiting() < kMostWaiting) go_on(*window);
      continue;
    }
    if (window->end.why == Arrival::Interrupted) return give_up();
    if (window->end.why == Arrival::Break || window->end.why == Arrival::Watch)
      throw Error("internal error: a tap has stopped a sweep");
    window->counts = std::move(collected.counts);
    pool.finish(*window);
  }
}

}  // namespace backstep::timeline
