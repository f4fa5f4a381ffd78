// How the graph of a distributed run (src/cluster/graph.h) copes with many messages: makes up a run, and says
// what the graph, cuts and clocks of it took, in seconds of CPU time.
//     graph_scale [PROCESSES] [MESSAGES]
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <random>

#include <fmt/format.h>

#include "cluster/graph.h"

namespace {

using namespace backstep::cluster;

double cpu_seconds() {
  rusage r;
  getrusage(RUSAGE_SELF, &r);
  return static_cast<double>(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
         static_cast<double>(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

// Messages between any two processes; some 10,000 are under way at a time, and any of them arrives next.
// Calls `event` with its process, `message` with both ends.
template <typename Event, typename Message>
void make_run(uint32_t processes, uint64_t messages, Event event, Message message) {
  std::mt19937_64 random(1);
  struct UnderWay {
    GraphEvent from;
    uint32_t to;
  };
  std::vector<UnderWay> under_way;
  constexpr size_t kMostUnderWay = 10'000;
  std::vector<EventCount> done(processes, 0);
  auto next = [&](uint32_t p) {
    event(p);
    return GraphEvent{p, done[p]++};
  };
  for (uint64_t sent = 0; sent < messages || !under_way.empty();) {
    if (sent < messages &&
        (under_way.size() < kMostUnderWay / 2 || (under_way.size() < kMostUnderWay && random() % 2))) {
      const auto p = static_cast<uint32_t>(random() % processes);
      under_way.push_back({next(p), static_cast<uint32_t>(random() % processes)});
      sent++;
    } else {
      std::swap(under_way[random() % under_way.size()], under_way.back());
      const UnderWay m = under_way.back();
      under_way.pop_back();
      message(m.from, next(m.to));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto processes = static_cast<uint32_t>(argc > 1 ? std::atoi(argv[1]) : 100);
  const uint64_t messages = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1'000'000;
  std::vector<EventCount> lengths(processes, 0);
  make_run(
      processes, messages, [&](uint32_t p) { lengths[p]++; }, [](GraphEvent, GraphEvent) {});
  Graph graph(lengths);
  double t = cpu_seconds();
  make_run(
      processes, messages, [](uint32_t) {}, [&](GraphEvent from, GraphEvent to) { graph.add(from, to); });
  const double added = cpu_seconds() - t;
  t = cpu_seconds();
  graph.finish();
  const double finished = cpu_seconds() - t;
  std::mt19937_64 random(2);
  constexpr int kCuts = 10;
  double least = 0, greatest = 0, before = 0;
  for (int i = 0; i < kCuts; i++) {
    const auto p = static_cast<uint32_t>(random() % processes),
               q = static_cast<uint32_t>(random() % processes);
    const auto count = static_cast<EventCount>(random() % (lengths[p] + 1));
    Counts inside(processes, 0), bounds = lengths;
    inside[p] = bounds[p] = count;
    t = cpu_seconds();
    const GraphCut a = graph.least(inside);
    least += cpu_seconds() - t;
    t = cpu_seconds();
    const GraphCut b = graph.greatest(bounds);
    greatest += cpu_seconds() - t;
    t = cpu_seconds();
    graph.happened_before({p, count ? count - 1 : 0}, {q, lengths[q] / 2});
    before += cpu_seconds() - t;
    if (graph.violation(a.counts) || graph.violation(b.counts)) {
      fmt::print(stderr, "a cut is not consistent\n");
      return 1;
    }
  }
  rusage r;
  getrusage(RUSAGE_SELF, &r);
  fmt::print(
      "{} processes, {} messages: made up and added in {:.2f} s, graph {:.2f} s, least cut {:.2f} ms, "
      "greatest "
      "{:.2f} ms, happened before {:.2f} ms, {} MB\n",
      processes, messages, added, finished, least * 1e3 / kCuts, greatest * 1e3 / kCuts, before * 1e3 / kCuts,
      r.ru_maxrss / 1024);
}
