// A table of contents tells exactly which words were written to and which code was executed in a window of
// the run. So whoever looks for a store or a place in the code passes over the windows without it, however
// busy the pages around are, and replays only those that have an answer.
//
// Tables are read when they are first asked for, and some are kept in memory. Their windows need not be those
// of the checkpoints that there are now: a stretch is quiet if tables that follow each other without a gap
// say so.
#include "timeline/stored_contents.h"

#include <algorithm>

#include "base/error.h"

namespace backstep::timeline {
namespace {

constexpr size_t kMostKept = 512;  // tables in memory

recording::WindowBounds bounds_of(const Position& from, const Position& to) {
  return {from.tick, from.event, from.pc, to.tick, to.event, to.pc};
}

bool can_tell(const Taps& taps) {
  return std::all_of(taps.list.begin(), taps.list.end(), [](const Tap& t) {
    return t.off || t.kind == Tap::Pc || t.kind == Tap::Write || t.kind == Tap::Store;
  });
}

bool can_match(const recording::Contents& contents, const Taps& taps) {
  return std::any_of(taps.list.begin(), taps.list.end(), [&](const Tap& t) {
    if (t.off) return false;
    return t.kind == Tap::Pc ? contents.executed(t.start, t.start + 1)
                             : contents.wrote(t.start, t.start + t.length);
  });
}

}  // namespace

StoredContents::StoredContents(const recording::Recording& recording, uint64_t process)
    : folder_(recording, process) {}

void StoredContents::read_list() {
  if (std::exchange(listed_, true)) return;
  for (recording::ContentsFolder::Entry& entry : folder_.list(&notes_)) {
    const recording::WindowBounds& b = entry.bounds;
    const StoredWindow window{
        {b.from_tick, b.from_event, b.from_pc}, {b.to_tick, b.to_event, b.to_pc}, entry.size};
    known_.push_back({window, std::move(entry), nullptr, false});
  }
}

std::vector<StoredWindow> StoredContents::list() {
  read_list();
  std::vector<StoredWindow> all;
  for (const Known& k : known_)
    if (!k.damaged) all.push_back(k.window);
  return all;
}

const StoredWindow* StoredContents::at(const Position& moment) {
  read_list();
  for (const Known& k : known_)
    if (!k.damaged && k.window.from <= moment && moment < k.window.to) return &k.window;
  return nullptr;
}

const recording::Contents* StoredContents::covering(const Position& from, const Position& to) {
  read_list();
  for (Known& k : known_)
    if (k.window.from <= from && to <= k.window.to)
      if (const recording::Contents* contents = contents_of(k)) return contents;
  return nullptr;
}

const recording::Contents* StoredContents::contents_of(Known& known) {
  if (known.damaged) return nullptr;
  const auto index = static_cast<size_t>(&known - known_.data());
  if (!known.contents) {
    try {
      known.contents = std::make_shared<recording::Contents>(folder_.read(known.entry));
    } catch (const Error& e) {
      known.damaged = true;
      notes_.push_back(e.what());
      return nullptr;
    }
    if (recent_.size() >= kMostKept) {
      known_[recent_.back()].contents.reset();
      recent_.pop_back();
    }
    recent_.push_front(index);
  }
  return known.contents.get();
}

Position StoredContents::quiet_until(const Position& from, const Position& to, const Taps& taps) {
  if (!can_tell(taps)) return from;
  read_list();
  Position at = from;
  while (at < to) {
    bool quiet = false;
    for (Known& k : known_) {
      if (k.window.from > at) break;
      if (!(at < k.window.to)) continue;
      const recording::Contents* contents = contents_of(k);
      if (!contents || can_match(*contents, taps)) continue;
      at = k.window.to;
      quiet = true;
      break;
    }
    if (!quiet) break;
  }
  return std::min(at, to);
}

void StoredContents::add(const Position& from, const Position& to, const recording::Contents& contents) {
  read_list();
  Known fresh{{from, to, 0}, folder_.write(bounds_of(from, to), contents), nullptr, false};
  fresh.window.size = fresh.entry.size;
  // Places in the list change.
  for (Known& k : known_) k.contents.reset();
  recent_.clear();
  std::erase_if(known_, [&](const Known& k) { return k.window.from == from; });
  auto behind =
      std::find_if(known_.begin(), known_.end(), [&](const Known& k) { return k.window.from > from; });
  known_.insert(behind, std::move(fresh));
}

}  // namespace backstep::timeline
