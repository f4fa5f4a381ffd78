// Compositions of events against an obvious implementation: all matches in a list, looked through again and
// again.
#include "events/matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "session/kind.h"

namespace backstep::events {
namespace {

using replayer::Position;
using Moments = std::set<Position>;

Position at(uint64_t n) {
  return {n / 3, 0, 100 + n % 3};
}

Moments obvious(const Event& e, const std::vector<Moments>& simple, size_t& next) {
  if (e.op == Event::Op::One) return simple[next++];
  std::vector<Moments> parts;
  for (const Event& p : e.parts) parts.push_back(obvious(p, simple, next));
  const Moments& a = parts[0];
  Moments found;
  switch (e.op) {
    case Event::Op::One:
      break;
    case Event::Op::Nth: {
      uint64_t n = 0;
      for (const Position& p : a)
        if (++n % e.n == 0) found.insert(p);
      break;
    }
    case Event::Op::Then:
    case Event::Op::Within:
      for (const Position& p : a) {
        auto b = parts[1].upper_bound(p);
        if (b != parts[1].end() && (e.op == Event::Op::Then || b->tick - p.tick <= e.n)) found.insert(*b);
      }
      break;
    case Event::Op::Between:
      for (const Position& p : a) {
        auto b = parts[1].lower_bound(p);
        if (b == parts[1].begin()) continue;
        auto c = parts[2].upper_bound(*std::prev(b));
        if (c == parts[2].end() || *c >= p) found.insert(p);
      }
      break;
  }
  return found;
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  uint64_t below(uint64_t n) { return engine_() % n; }

  std::string event(unsigned depth) {
    if (depth == 0 || below(3) == 0) return "0x" + std::to_string(below(5) + 1);
    const std::string a = event(depth - 1), b = event(0), c = event(0);
    switch (below(4)) {
      case 0:
        return a + " then " + b;
      case 1:
        return a + " and within " + std::to_string(below(5)) + " ticks " + b;
      case 2:
        return "nth " + std::to_string(below(4) + 1) + " of " + b;
      default:
        return b + " between " + c + " and " + event(0);
    }
  }

 private:
  std::mt19937 engine_;
};

TEST(Matcher, agrees_with_an_obvious_one) {
  for (unsigned seed = 0; seed < 3000; seed++) {
    Random random(seed);
    const std::string text = random.event(3);
    const Event event = session::parse_event(text);
    const size_t specs = specs_of(event).size();
    std::vector<Moments> simple(specs);
    const uint64_t length = 1 + random.below(60), density = 1 + random.below(6);
    for (size_t s = 0; s < specs; s++)
      for (uint64_t n = 0; n < length; n++)
        if (random.below(density) == 0) simple[s].insert(at(n));

    Matcher matcher(event);
    Moments found;
    for (uint64_t n = 0; n < length; n++) {
      // At one moment they come in any order.
      std::vector<size_t> here;
      for (size_t s = 0; s < specs; s++)
        if (simple[s].count(at(n))) here.push_back(s);
      for (size_t i = here.size(); i > 1; i--) std::swap(here[i - 1], here[random.below(i)]);
      for (size_t s : here)
        if (matcher.feed(s, at(n))) found.insert(at(n));
    }
    size_t next = 0;
    EXPECT_EQ(found, obvious(event, simple, next)) << text << ", seed " << seed;
  }
}

TEST(Matcher, a_moment_is_not_behind_itself) {
  Matcher matcher(session::parse_event("main then main"));
  EXPECT_FALSE(matcher.feed(0, at(1)));
  EXPECT_FALSE(matcher.feed(1, at(1)));
  for (uint64_t n = 2; n < 10; n++) {
    EXPECT_FALSE(matcher.feed(0, at(n)));
    EXPECT_TRUE(matcher.feed(1, at(n)));
  }
}

}  // namespace
}  // namespace backstep::events
