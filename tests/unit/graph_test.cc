// Cuts of random graphs against brute force over all cuts, and the figures of the literature as cases.
#include "cluster/graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.h"

namespace backstep::cluster {
namespace {

struct Example {
  std::vector<EventCount> lengths;
  std::vector<GraphEdge> edges;

  Graph graph() const {
    Graph g(lengths);
    for (const GraphEdge& e : edges) g.add(e.from, e.to);
    g.finish();
    return g;
  }
  bool is_consistent(const Counts& cut) const {
    return std::all_of(edges.begin(), edges.end(), [&](const GraphEdge& e) {
      return e.to.index >= cut[e.to.process] || e.from.index < cut[e.from.process];
    });
  }
  // Calls `each` for all cuts there are.
  void all_cuts(const std::function<void(const Counts&)>& each) const {
    Counts cut(lengths.size(), 0);
    while (true) {
      each(cut);
      size_t p = 0;
      while (p < cut.size() && cut[p] == lengths[p]) cut[p++] = 0;
      if (p == cut.size()) return;
      cut[p]++;
    }
  }
};

bool is_inside(const Counts& small, const Counts& large) {
  for (size_t p = 0; p < small.size(); p++)
    if (small[p] > large[p]) return false;
  return true;
}

// A run that can have happened: events of random processes one after the other, each of which may need any
// that came before.
Example random_run(std::mt19937& random, size_t processes, size_t events, unsigned one_in) {
  Example run{std::vector<EventCount>(processes, 0), {}};
  std::vector<GraphEvent> before;
  for (size_t i = 0; i < events; i++) {
    const auto p = static_cast<uint32_t>(random() % processes);
    const GraphEvent now{p, run.lengths[p]++};
    while (!before.empty() && random() % one_in == 0)
      run.edges.push_back({before[random() % before.size()], now});
    before.push_back(now);
  }
  std::shuffle(run.edges.begin(), run.edges.end(), random);
  return run;
}

Counts random_counts(std::mt19937& random, const Example& run) {
  Counts counts;
  for (EventCount n : run.lengths) counts.push_back(static_cast<EventCount>(random() % (n + 1)));
  return counts;
}

TEST(Graph, FindsTheLeastAndTheGreatestOfAllConsistentCuts) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; round++) {
    const Example run = random_run(random, 1 + random() % 4, 1 + random() % 14, 2 + random() % 3);
    const Graph graph = run.graph();
    const Counts asked = random_counts(random, run);
    const GraphCut least = graph.least(asked), greatest = graph.greatest(asked);
    ASSERT_TRUE(run.is_consistent(least.counts) && is_inside(asked, least.counts));
    ASSERT_TRUE(run.is_consistent(greatest.counts) && is_inside(greatest.counts, asked));
    run.all_cuts([&](const Counts& cut) {
      ASSERT_EQ(graph.violation(cut).has_value(), !run.is_consistent(cut));
      if (!run.is_consistent(cut)) return;
      ASSERT_TRUE(!is_inside(asked, cut) || is_inside(least.counts, cut));
      ASSERT_TRUE(!is_inside(cut, asked) || is_inside(cut, greatest.counts));
    });
  }
}

TEST(Graph, SaysWhatEachProcessIsWhereItIsFor) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; round++) {
    const Example run = random_run(random, 4, 40, 2);
    const Graph graph = run.graph();
    const Counts asked = random_counts(random, run);
    const GraphCut least = graph.least(asked), greatest = graph.greatest(asked);
    for (uint32_t p = 0; p < 4; p++) {
      const auto& up = least.because[p];
      ASSERT_EQ(up.has_value(), least.counts[p] != asked[p]);
      if (up) {
        EXPECT_EQ(up->from, (GraphEvent{p, least.counts[p] - 1}));
        EXPECT_LT(up->to.index, least.counts[up->to.process]);
      }
      const auto& down = greatest.because[p];
      ASSERT_EQ(down.has_value(), greatest.counts[p] != asked[p]);
      if (down) {
        EXPECT_EQ(down->to, (GraphEvent{p, greatest.counts[p]}));
        EXPECT_GE(down->from.index, greatest.counts[down->from.process]);
      }
    }
  }
}

TEST(Graph, AnswersFromItsRowsWhatItAnswersFromItsEdges) {
  // Long enough for many rows, against the plain way: one step after the other until nothing changes.
  std::mt19937 random(3);
  Example run{{0, 0, 0}, {}};
  for (size_t i = 0; i < 60'000; i++) {
    const auto to = static_cast<uint32_t>(random() % 3),
               from = static_cast<uint32_t>((to + 1 + random() % 2) % 3);
    const GraphEvent now{to, run.lengths[to]++};
    if (const EventCount n = run.lengths[from])
      run.edges.push_back({{from, n - 1 - std::min<EventCount>(n - 1, random() % 50)}, now});
  }
  const Graph graph = run.graph();
  for (int round = 0; round < 20; round++) {
    const Counts asked = random_counts(random, run);
    Counts least = asked, greatest = asked;
    for (bool changed = true; changed;) {
      changed = false;
      for (const GraphEdge& e : run.edges) {
        if (e.to.index < least[e.to.process] && e.from.index >= least[e.from.process])
          least[e.from.process] = e.from.index + 1, changed = true;
        if (e.to.index < greatest[e.to.process] && e.from.index >= greatest[e.from.process])
          greatest[e.to.process] = e.to.index, changed = true;
      }
    }
    EXPECT_EQ(graph.least(asked).counts, least);
    EXPECT_EQ(graph.greatest(asked).counts, greatest);
    EXPECT_FALSE(graph.violation(least));
    EXPECT_EQ(graph.violation(asked).has_value(), asked != least);
  }
}

TEST(Graph, KnowsWhatHappenedBeforeWhat) {
  std::mt19937 random(4);
  for (int round = 0; round < 50; round++) {
    const Example run = random_run(random, 3, 20, 3);
    const Graph graph = run.graph();
    std::vector<GraphEvent> all;
    for (uint32_t p = 0; p < 3; p++)
      for (EventCount i = 0; i < run.lengths[p]; i++) all.push_back({p, i});
    // Ways of one step, and of more.
    std::vector<std::vector<bool>> before(all.size(), std::vector<bool>(all.size(), false));
    for (size_t a = 0; a < all.size(); a++)
      for (size_t b = 0; b < all.size(); b++)
        before[a][b] = (all[a].process == all[b].process && all[a].index < all[b].index) ||
                       std::any_of(run.edges.begin(), run.edges.end(),
                                   [&](const GraphEdge& e) { return e.from == all[a] && e.to == all[b]; });
    for (size_t k = 0; k < all.size(); k++)
      for (size_t a = 0; a < all.size(); a++)
        for (size_t b = 0; b < all.size(); b++)
          if (before[a][k] && before[k][b]) before[a][b] = true;
    for (size_t a = 0; a < all.size(); a++)
      for (size_t b = 0; b < all.size(); b++) ASSERT_EQ(graph.happened_before(all[a], all[b]), before[a][b]);
  }
}

TEST(Graph, TellsEdgesInAnOrderInWhichTheyCanHaveHappened) {
  std::mt19937 random(5);
  const Example run = random_run(random, 5, 200, 2);
  const Graph graph = run.graph();
  // Of each process, how many edges that its first events need were told.
  std::vector<int> told(5, 0);
  uint64_t all = 0;
  auto is_own = [](const GraphEdge& e) { return e.from.process == e.to.process; };
  graph.in_order([&](const GraphEdge& e) {
    EXPECT_GE(told[e.from.process],
              std::count_if(run.edges.begin(), run.edges.end(), [&](const GraphEdge& other) {
                return other.to.process == e.from.process && other.to.index <= e.from.index && !is_own(other);
              }));
    told[e.to.process]++;
    all++;
  });
  EXPECT_EQ(all, graph.edges());
}

// Krawczuk, figure 3.1, and the definitions beside it: one process of three has a breakpoint. 0 sends to 1
// twice, 1 (where the breakpoint is, between the two receives) to 2, and 2 to 0.
TEST(Graph, StopsTheOthersAtTheEarliestOrTheLatestStateOfTheFigure) {
  //  0: send a, send b, receive d     1: receive a, [breakpoint], send c, receive b     2: own, receive c,
  //  send d
  const Example run{{3, 3, 3}, {{{0, 0}, {1, 0}}, {{0, 1}, {1, 2}}, {{1, 1}, {2, 1}}, {{2, 2}, {0, 2}}}};
  const Graph graph = run.graph();
  // Pessimistic: 0 has sent what 1 has received, and no more; 2 has done nothing.
  EXPECT_EQ(graph.least({0, 1, 0}).counts, (Counts{1, 1, 0}));
  // Optimistic: 0 waits for d, 2 for c, which 1 has not sent.
  EXPECT_EQ(graph.greatest({3, 1, 3}).counts, (Counts{2, 1, 1}));
}

TEST(Graph, ShowsADeadlockAsTheGreatestCut) {
  // Both have stopped by themselves in receives whose messages nobody sent: what nobody waits for is done,
  // the rest is no event.
  const Example run{{2, 1}, {{{0, 0}, {1, 0}}}};
  EXPECT_EQ(run.graph().greatest({2, 1}).counts, (Counts{2, 1}));
}

TEST(Graph, RefusesCircles) {
  const Example circle{{2, 2}, {{{0, 1}, {1, 0}}, {{1, 1}, {0, 0}}}};
  try {
    circle.graph();
    FAIL() << "a circle was taken";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("in a circle"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("event 0 of process 1 needs event 1 of process 0"),
              std::string::npos);
  }
  const Example itself{{2}, {{{0, 1}, {0, 0}}}};
  EXPECT_THROW(itself.graph(), Error);
}

TEST(Graph, RefusesEventsThatThereAreNot) {
  Graph graph({2, 2});
  EXPECT_THROW(graph.add({0, 2}, {1, 0}), Error);
  EXPECT_THROW(graph.add({0, 0}, {2, 0}), Error);
}

}  // namespace
}  // namespace backstep::cluster
