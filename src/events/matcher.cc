#include "events/matcher.h"

namespace backstep::events {

using replayer::Position;

struct Matcher::Node {
  Event::Op op = Event::Op::One;
  uint64_t n = 0;
  size_t first = 0, last = 0;  // simple events [first, last) are in it
  std::vector<Node> parts;
  // Then, Within: matches of a that wait for b; only the newest matters. Between: b has been, c not yet.
  bool open = false;
  Position opened;
  uint64_t count = 0;  // Nth

  Node(const Event& event, size_t& next) : op(event.op), n(event.n), first(next) {
    if (op == Event::Op::One) next++;
    for (const Event& part : event.parts) parts.emplace_back(part, next);
    last = next;
  }

  bool feed(size_t spec, const Position& at) {
    if (spec < first || spec >= last) return false;
    switch (op) {
      case Event::Op::One:
        return true;
      case Event::Op::Nth:
        return parts[0].feed(spec, at) && ++count % n == 0;
      case Event::Op::Then:
      case Event::Op::Within: {
        // One moment cannot be behind itself.
        const bool matches = parts[1].feed(spec, at) && open && at > opened &&
                             (op == Event::Op::Then || at.tick - opened.tick <= n);
        if (matches) open = false;
        if (parts[0].feed(spec, at)) open = true, opened = at;
        return matches;
      }
      case Event::Op::Between: {
        const bool closes = parts[2].feed(spec, at), opens = parts[1].feed(spec, at);
        const bool matches = parts[0].feed(spec, at) && open;
        open = (open && !closes) || opens;
        return matches;
      }
    }
    return false;
  }
};

Matcher::Matcher(const Event& event) {
  size_t next = 0;
  root_ = std::make_unique<Node>(event, next);
}
Matcher::~Matcher() = default;
Matcher::Matcher(Matcher&&) noexcept = default;

bool Matcher::feed(size_t spec, const Position& at) {
  return root_->feed(spec, at);
}

}  // namespace backstep::events
