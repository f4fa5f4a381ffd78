// Where a window has a trace nobody has to replay it to know its stores (level 3), or to know which one was
// the last one to a word (level 2). What else there is to be known of a moment (registers, expressions,
// stacks) is still replayed, but only there.
#include "timeline/stored_traces.h"

#include <algorithm>

#include "base/error.h"

namespace backstep::timeline {
namespace {

constexpr size_t kMostTraces = 32;  // in memory

Position position_of(const recording::StoreMoment& m) {
  return {m.tick, m.event, m.pc};
}

TracedWindow window_of(const recording::TraceFolder::Entry& entry) {
  const recording::WindowBounds& b = entry.bounds;
  return {{b.from_tick, b.from_event, b.from_pc},
          {b.to_tick, b.to_event, b.to_pc},
          entry.level,
          entry.stores,
          entry.size};
}

}  // namespace

StoredTraces::StoredTraces(const recording::Recording& recording, uint64_t process)
    : folder_(recording, process) {}

void StoredTraces::read_list() {
  if (std::exchange(listed_, true)) return;
  for (recording::TraceFolder::Entry& entry : folder_.list(&notes_)) {
    const TracedWindow window = window_of(entry);
    known_.push_back({window, std::move(entry), nullptr});
  }
}

std::vector<TracedWindow> StoredTraces::list() {
  read_list();
  std::vector<TracedWindow> all;
  for (const Known& k : known_) all.push_back(k.window);
  return all;
}

std::optional<TracedWindow> StoredTraces::at(const Position& moment, int level) {
  read_list();
  for (const Known& k : known_)
    if (k.window.level >= level && k.window.from <= moment && moment < k.window.to) return k.window;
  return std::nullopt;
}

StoredTraces::Known* StoredTraces::find(const TracedWindow& window) {
  auto known = std::find_if(known_.begin(), known_.end(),
                            [&](const Known& k) { return k.window.from == window.from; });
  return known == known_.end() ? nullptr : &*known;
}

void StoredTraces::drop(const TracedWindow& window, const std::string& why) {
  notes_.push_back(why);
  std::erase_if(known_, [&](const Known& k) { return k.window.from == window.from; });
  recent_.remove(window.from);
}

std::shared_ptr<const recording::WindowTrace> StoredTraces::trace_of(const TracedWindow& window) {
  Known* known = find(window);
  if (!known) return nullptr;
  if (known->trace) return known->trace;
  std::shared_ptr<const recording::WindowTrace> trace;
  try {
    trace = std::make_shared<recording::WindowTrace>(folder_.read(known->entry));
  } catch (const Error& e) {
    drop(window, e.what());
    return nullptr;
  }
  // Somebody else has reduced it meanwhile.
  if (trace->level < known->window.level) {
    known->window.level = trace->level;
    return nullptr;
  }
  if (recent_.size() >= kMostTraces) {
    if (Known* oldest = find({.from = recent_.back(), .to = {}})) oldest->trace.reset();
    recent_.pop_back();
  }
  recent_.push_front(window.from);
  known->trace = trace;
  recording::TraceFolder::note_use(known->entry);
  return trace;
}

bool StoredTraces::is_good(const TracedWindow& window, std::span<const recording::AddressRange> data) {
  const auto trace = trace_of(window);
  if (!trace) return false;
  try {
    trace->check(data);
  } catch (const Error& e) {
    drop(window, e.what());
    return false;
  }
  return true;
}

std::optional<StoredTraces::Ticks> StoredTraces::ticks_of(const Position& from, const Position& to,
                                                          const Taps& taps) {
  std::vector<recording::AddressRange> data;
  for (const Tap& t : taps.list) {
    if (t.off) continue;
    if (t.kind != Tap::Write && t.kind != Tap::Store) return std::nullopt;
    data.push_back({t.start, t.start + t.length});
  }
  const auto window = at(from, 2);
  if (data.empty() || !window || window->to < to) return std::nullopt;
  const auto trace = trace_of(*window);
  if (!trace) return std::nullopt;
  Ticks ticks{~0ull, 0};
  for (const auto& range : data)
    for (const recording::StoreMoment& m : trace->links.last(range.start, range.end))
      ticks.end = std::max(ticks.end, m.tick + 1);
  if (trace->level < 3) {
    // Of the first ones nothing is known; nor of the last ones before `to`, if there are some behind it.
    if (ticks.end > to.tick) return std::nullopt;
    if (ticks.end <= from.tick) return Ticks{0, 0};  // of a window that was merged: all before this one
    ticks.first = ticks.end ? from.tick : 0;
    return ticks;
  }
  if (!is_good(*window, data)) return std::nullopt;
  ticks.end = 0;
  trace->each(data, [&](const recording::TracedStore& s) {
    const Position at = position_of(s.at);
    if (at < from || (to.pc ? at.tick > to.tick : at >= to)) return true;
    ticks.first = std::min(ticks.first, s.at.tick);
    ticks.end = std::max(ticks.end, s.at.tick + 1);
    return true;
  });
  return ticks;
}

void StoredTraces::add(const Position& from, const Position& to, int level,
                       std::span<const TracePart> parts) {
  read_list();
  std::vector<recording::TraceFolder::Part> unpacked;
  for (const TracePart& p : parts)
    unpacked.push_back({p.count, recording::Backlinks::unpack(p.links), p.stores});
  take_in(folder_.write({from.tick, from.event, from.pc, to.tick, to.event, to.pc}, level, unpacked));
}

void StoredTraces::take_in(const recording::TraceFolder::Entry& entry) {
  const TracedWindow window = window_of(entry);
  std::erase_if(known_, [&](const Known& k) { return k.window.from == window.from; });
  recent_.remove(window.from);
  auto behind =
      std::find_if(known_.begin(), known_.end(), [&](const Known& k) { return k.window.from > window.from; });
  known_.insert(behind, {window, entry, nullptr});
}

namespace {

struct KeptTrace {
  const recording::TraceFolder* folder;
  recording::TraceFolder::Entry entry;
  int64_t used;
  bool gone = false;
};

bool is_followed_by(const KeptTrace& a, const KeptTrace& b) {
  const recording::WindowBounds &x = a.entry.bounds, &y = b.entry.bounds;
  return a.folder == b.folder && !b.gone && b.entry.level == 2 && x.to_tick == y.from_tick &&
         x.to_event == y.from_event && x.to_pc == y.from_pc;
}

}  // namespace

void StoredTraces::forget(const TracedWindow& window) {
  std::erase_if(known_, [&](const Known& k) { return k.window.from == window.from; });
  recent_.remove(window.from);
}

// In this order: level 3 becomes level 2, what was not used for the longest time first; windows of level 2
// are merged with those behind them, two at a time, then four, …; and then they go.
size_t StoredTraces::reduce() {
  read_list();
  // What other processes have is looked up each time: they may be asked by somebody else just now.
  const std::vector<recording::TraceFolder> others = folder_.others();
  std::vector<KeptTrace> oldest;
  uint64_t total = 0;
  auto add = [&](const recording::TraceFolder& folder, const recording::TraceFolder::Entry& entry) {
    oldest.push_back({&folder, entry, recording::TraceFolder::last_use(entry)});
    total += entry.size;
  };
  for (const Known& k : known_) add(folder_, k.entry);
  for (const recording::TraceFolder& other : others)
    for (const auto& entry : other.list(nullptr)) add(other, entry);
  std::stable_sort(oldest.begin(), oldest.end(),
                   [](const KeptTrace& a, const KeptTrace& b) { return a.used < b.used; });
  size_t reduced = 0;
  // It is smaller now; nothing: it has gone.
  auto becomes = [&](KeptTrace& kept, const std::optional<recording::TraceFolder::Entry>& smaller) {
    total -= kept.entry.size;
    if (kept.folder == &folder_) smaller ? take_in(*smaller) : forget(window_of(kept.entry));
    kept.gone = !smaller;
    if (smaller) total += smaller->size, kept.entry = *smaller;
  };
  for (KeptTrace& kept : oldest) {
    if (total <= budget) return reduced;
    if (kept.entry.level != 3) continue;
    becomes(kept, kept.folder->reduced(kept.entry));
    reduced++;
  }
  for (bool any = true; any;) {
    any = false;
    std::vector<bool> done(oldest.size());  // in this round
    for (size_t i = 0; i < oldest.size(); i++) {
      KeptTrace& kept = oldest[i];
      if (total <= budget) return reduced;
      if (kept.gone || done[i] || kept.entry.level != 2) continue;
      const auto next = std::find_if(oldest.begin(), oldest.end(),
                                     [&](const KeptTrace& other) { return is_followed_by(kept, other); });
      if (next == oldest.end() || done[static_cast<size_t>(next - oldest.begin())]) continue;
      const auto both = kept.folder->merged(kept.entry, next->entry);
      if (!both) continue;
      becomes(*next, std::nullopt);
      becomes(kept, both);
      done[i] = any = true;
      reduced++;
    }
  }
  for (KeptTrace& kept : oldest) {
    if (total <= budget) return reduced;
    if (kept.gone || kept.entry.level != 2) continue;
    recording::TraceFolder::remove(kept.entry);
    becomes(kept, std::nullopt);
    reduced++;
  }
  return reduced;
}

}  // namespace backstep::timeline
