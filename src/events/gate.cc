// A gate errs to one side only: it may be open where nothing can match, never the other way round. So it
// goes by ticks, not by moments. That B closes the gate of `A then B` it cannot know, for B is what is not
// looked for. Parts of parts are judged by matchers of their own, which are exact.
//
// Only a simple event has a gate, as it remembers nothing: what `nth 3 of A` or `X then A` matches inside of
// the gate depends on what was outside of it.
#include "events/gate.h"

#include <algorithm>

namespace backstep::events {

using replayer::Position;

void TickRanges::add(Tick from, Tick to) {
  while (!list_.empty() && (list_.back().second >= from || from - list_.back().second <= gap_)) {
    from = std::min(from, list_.back().first);
    to = std::max(to, list_.back().second);
    list_.pop_back();
  }
  list_.push_back({from, to});
}

namespace {

size_t count(const Event& event) {
  return specs_of(event).size();
}

// Which of its parts has a gate, if that one is simple.
std::optional<size_t> gated_part(const Event& event) {
  switch (event.op) {
    case Event::Op::Between:
      return 0;
    case Event::Op::Then:
    case Event::Op::Within:
      return 1;
    case Event::Op::One:
    case Event::Op::Nth:
      break;
  }
  return std::nullopt;
}

void collect(const Event& event, size_t& next, std::vector<size_t>& found) {
  if (event.op == Event::Op::One) next++;
  for (size_t i = 0; i < event.parts.size(); i++) {
    if (gated_part(event) == i && event.parts[i].op == Event::Op::One) found.push_back(next);
    collect(event.parts[i], next, found);
  }
}

}  // namespace

std::vector<size_t> Gate::gated(const Event& event) {
  std::vector<size_t> found;
  size_t next = 0;
  collect(event, next, found);
  return found;
}

// The event that has this simple one as a part; `first`: the place of its own first simple one.
const Event* Gate::owner(const Event& event, size_t spec, size_t& first) {
  size_t at = first;
  for (const Event& part : event.parts) {
    const size_t n = count(part);
    if (spec >= at && spec < at + n) {
      if (part.op == Event::Op::One) return &event;
      first = at;
      return owner(part, spec, first);
    }
    at += n;
  }
  return nullptr;
}

Gate::Gate(const Event& event, size_t spec) {
  size_t first = 0;
  const Event& of = *owner(event, spec, first);
  auto part = [&](size_t number) {
    size_t begin = first;
    for (size_t i = 0; i < number; i++) begin += count(of.parts[i]);
    return Part{begin, begin + count(of.parts[number]), Matcher(of.parts[number])};
  };
  if (of.op == Event::Op::Between) {
    opens_.emplace(part(1));
    closes_.emplace(part(2));
    return;
  }
  opens_.emplace(part(0));
  if (of.op == Event::Op::Within) ticks_ = of.n;
}

bool Gate::match(std::optional<Part>& part, size_t spec, const Position& at) {
  return part && spec >= part->first && spec < part->last && part->matcher.feed(spec - part->first, at);
}

void Gate::feed(size_t spec, const Position& at) {
  if (ticks_ && since_ && at.tick > newest_.tick && at.tick - newest_.tick > *ticks_) {
    past_ = {*since_, newest_.tick + *ticks_};
    since_.reset();
  }
  if (match(opens_, spec, at)) {
    if (!since_) since_ = at.tick;
    newest_ = at;
  }
  // What opens at the moment of what closes wins, in whichever order they come.
  if (match(closes_, spec, at) && since_ && newest_ != at) {
    past_ = {*since_, at.tick};
    since_.reset();
  }
}

bool Gate::open_at(const Position& at) const {
  if (!since_) return false;
  return !ticks_ || at.tick - newest_.tick <= *ticks_;
}

bool Gate::closed(TickRanges& to) {
  if (!past_) return false;
  to.add(past_->first, past_->second);
  past_.reset();
  return true;
}

void Gate::end(TickRanges& to, Tick end) const {
  if (!since_) return;
  const bool ends = ticks_ && *ticks_ < end - newest_.tick;
  to.add(*since_, ends ? newest_.tick + *ticks_ : end);
}

}  // namespace backstep::events
