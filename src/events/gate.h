// Where a part of an event can matter: `A` of `A between B and C` only while B has come and C has not, `B` of
// `A then B` only behind an A. Whoever knows the other parts' matches need not look for it anywhere else.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "events/matcher.h"

namespace backstep::events {

// Ticks, both ends included, in ascending order. What is not farther apart than `gap` becomes one stretch, so
// that there are not too many of them.
class TickRanges {
 public:
  explicit TickRanges(Tick gap) : gap_(gap) {}
  // `to` must not be smaller than that of any before.
  void add(Tick from, Tick to);
  const std::vector<std::pair<Tick, Tick>>& list() const { return list_; }

 private:
  Tick gap_;
  std::vector<std::pair<Tick, Tick>> list_;
};

// Of one simple event: its gate. It is fed with the matches of all others, in the order of time.
class Gate {
 public:
  // The simple events of this one that have a gate: each a place in specs_of.
  static std::vector<size_t> gated(const Event& event);

  Gate(const Event& event, size_t spec);

  void feed(size_t spec, const replayer::Position& at);
  // May a match at this moment, or behind it while nothing else is fed, matter?
  bool open_at(const replayer::Position& at) const;
  // Of `A then B`: B itself closes the gate, and only who sees it knows.
  bool closes_itself() const { return !closes_ && !ticks_; }
  // … is it closed by that one, the last?
  bool closed_by(const std::optional<replayer::Position>& last) const {
    return !since_ || (last && *last > newest_);
  }
  // Adds the ticks since which it has been open, if it closed with the last match.
  bool closed(TickRanges& to);
  // … if it is open still; `end`: the last tick of all.
  void end(TickRanges& to, Tick end) const;

 private:
  struct Part {
    size_t first = 0, last = 0;  // simple events [first, last) are in it
    Matcher matcher;
  };
  static const Event* owner(const Event& event, size_t spec, size_t& first);
  static bool match(std::optional<Part>& part, size_t spec, const replayer::Position& at);

  std::optional<Part> opens_, closes_;
  std::optional<Tick> ticks_;  // of Within: how long it stays open
  // Open: since when, and since which match of what opens it, the newest.
  std::optional<Tick> since_;
  replayer::Position newest_;
  std::optional<std::pair<Tick, Tick>> past_;  // was open then; not asked for yet
};

}  // namespace backstep::events
