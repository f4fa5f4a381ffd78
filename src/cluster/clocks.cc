// Each message from host a to host b says that b's clock, put right, is not behind a's: shift(b) - shift(a)
// is at least the earliest time of sending minus the latest of receiving. Such inequalities over all hosts
// are distances in a graph; the shortest ones are what follows from all of them. When an event was is known
// between two moments at which the log has a time, so what is found is a span; that of two hosts that talk
// back and forth is mostly that of a round trip.
#include "cluster/clocks.h"

#include <algorithm>

namespace backstep::cluster {
namespace {

constexpr int64_t kFar = INT64_MAX / 4;

}  // namespace

TimeSpan time_of(const ProcessScan& scan, uint64_t own_event) {
  TimeSpan t;
  auto later = std::upper_bound(scan.times.begin(), scan.times.end(), own_event,
                                [](uint64_t at, const ProcessScan::TimeMark& m) { return at < m.event; });
  if (later != scan.times.end()) t.most = later->wall_ns;
  if (later != scan.times.begin()) t.least = std::prev(later)->wall_ns;
  return t;
}

void estimate_clocks(History& history, const std::vector<ProcessScan>& scans) {
  const size_t n = history.hosts.size();
  if (n < 2) return;
  // slack[a][b]: shift(a) - shift(b) is at most that.
  std::vector<std::vector<int64_t>> slack(n, std::vector<int64_t>(n, kFar));
  for (size_t i = 0; i < n; i++) slack[i][i] = 0;
  auto follows = [&](const Point& from, const Point& to) {
    if (!from || !to) return;
    const HostId a = history.processes[from.process].host, b = history.processes[to.process].host;
    if (a == b) return;
    const TimeSpan sent = time_of(scans[from.process], from.own_event);
    const TimeSpan received = time_of(scans[to.process], to.own_event);
    if (sent.least == INT64_MIN || received.most == INT64_MAX) return;
    slack[a][b] = std::min(slack[a][b], received.most - sent.least);
  };
  for (const Transfer& t : history.transfers) follows(t.sent, t.received);
  for (const Edge& e : history.edges) follows(e.from, e.to);
  for (size_t k = 0; k < n; k++)
    for (size_t i = 0; i < n; i++)
      for (size_t j = 0; j < n; j++)
        if (slack[i][k] < kFar && slack[k][j] < kFar)
          slack[i][j] = std::min(slack[i][j], slack[i][k] + slack[k][j]);
  for (size_t i = 1; i < n; i++) {
    Host::Clock& clock = history.hosts[i].clock;
    if (slack[i][0] < kFar) clock.most = slack[i][0];
    if (slack[0][i] < kFar) clock.least = -slack[0][i];
    // A clock that was put right on the way may make it impossible: then there is no best guess.
    if (clock.known() && clock.least <= clock.most)
      clock.shift = clock.least + (clock.most - clock.least) / 2;
    else if (!clock.known())
      clock.shift = clock.most != INT64_MAX    ? std::min<int64_t>(0, clock.most)
                    : clock.least != INT64_MIN ? std::max<int64_t>(0, clock.least)
                                               : 0;
  }
  history.hosts[0].clock = {0, 0, 0};
}

}  // namespace backstep::cluster
