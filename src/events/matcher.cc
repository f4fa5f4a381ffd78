// A match depends on what was before its moment, never on what else is at it: one moment is not behind
// itself, and in which order the matches of one moment come says nothing. So each part keeps what it knew
// before the moment, which answers, and what the moment adds to that, which counts from the next one on.
#include "events/matcher.h"

#include <optional>

namespace backstep::events {

using replayer::Position;

struct Matcher::Node {
  Event::Op op = Event::Op::One;
  uint64_t n = 0;
  size_t first = 0, last = 0;  // simple events [first, last) are in it
  std::vector<Node> parts;
  uint64_t count = 0;  // Nth
  // Then, Within: the newest match of a that waits for b. Between: the b that c has not followed yet.
  std::optional<Position> open;
  Position now;                        // the moment at hand …
  bool opens = false, closes = false;  // … and what it adds

  Node(const Event& event, size_t& next) : op(event.op), n(event.n), first(next) {
    if (op == Event::Op::One) next++;
    for (const Event& part : event.parts) parts.emplace_back(part, next);
    last = next;
  }

  void begin(const Position& at) {
    if (at == now) return;
    if (closes) open.reset();
    if (opens) open = now;
    opens = closes = false;
    now = at;
  }

  bool feed(size_t spec, const Position& at) {
    if (spec < first || spec >= last) return false;
    begin(at);
    switch (op) {
      case Event::Op::One:
        return true;
      case Event::Op::Nth:
        return parts[0].feed(spec, at) && ++count % n == 0;
      case Event::Op::Then:
      case Event::Op::Within: {
        opens |= parts[0].feed(spec, at);
        const bool matches =
            parts[1].feed(spec, at) && open && (op == Event::Op::Then || at.tick - open->tick <= n);
        closes |= matches;
        return matches;
      }
      case Event::Op::Between: {
        opens |= parts[1].feed(spec, at);
        closes |= parts[2].feed(spec, at);
        return parts[0].feed(spec, at) && open;
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
