// A distributed run that is made up: its graph, cuts as files, ways, and who waits for whom.
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "base/error.h"
#include "cluster/blocked.h"
#include "cluster/breaking.h"
#include "cluster/causal_path.h"
#include "cluster/space_time.h"
#include "temp_dir.h"

namespace backstep::cluster {
namespace {

replayer::Position at(uint64_t event) {
  return {event * 10, event, 0x1000 + event};
}

Point point(ProcessId process, uint64_t event) {
  Point p;
  p.process = process;
  p.at = at(event);
  p.own_event = event;
  p.nr = 0;
  return p;
}

// A/client asks A/server (its request is sent at 1, and got at 1); the server forks A/server.2 at 2, which
// tells B/worker (1 -> 1), and that answers to the client (2 -> 4). The server waits for its child (end of
// A/server.2 -> 5). Each has ten events.
class MadeUpRun : public testing::Test {
 protected:
  MadeUpRun() {
    h.run = dir.path();
    h.hosts.resize(2);
    h.hosts[0].name = "A", h.hosts[1].name = "B";
    for (const char* name : {"A/client", "A/server", "A/server.2", "B/worker"}) {
      ProcessOfRun p;
      p.name = name;
      p.host = name[0] == 'A' ? 0 : 1;
      p.begin = at(0), p.end = at(9);
      h.processes.push_back(p);
    }
    h.processes[kChild].parent = kServer;
    h.processes[kChild].birth = recording::Birth::Fork;
    h.channels.resize(1);
    h.channels[0].name = "tcp";
    message(kClient, 1, kServer, 1);
    edge(Edge::Fork, kServer, 2, kChild, 0);
    message(kChild, 1, kWorker, 1);
    message(kWorker, 2, kClient, 4);
    edge(Edge::Wait, kChild, 9, kServer, 5);
  }
  void message(ProcessId from, uint64_t sent, ProcessId to, uint64_t received) {
    Transfer t;
    t.channel = 0;
    t.bytes = 8;
    t.sent = point(from, sent), t.received = point(to, received);
    h.transfers.push_back(t);
  }
  void edge(Edge::Kind kind, ProcessId from, uint64_t a, ProcessId to, uint64_t b) {
    Edge e;
    e.kind = kind;
    e.from = point(from, a), e.to = point(to, b);
    h.edges.push_back(e);
  }
  static Breakpoint stop(ProcessId process, uint64_t event) { return {process, at(event), "here", 1}; }

  static constexpr ProcessId kClient = 0, kServer = 1, kChild = 2, kWorker = 3;
  test::TempDir dir;
  History h;
};

TEST_F(MadeUpRun, LetsOthersRunOnToWhatTheyNeed) {
  const Causality causality(h);
  Breaking breaking(causality);
  const Cut cut = breaking.optimistic({stop(kServer, 2)});  // in front of the fork
  EXPECT_TRUE(cut.places[kServer].stopped);
  EXPECT_EQ(cut.places[kServer].at, at(2));
  EXPECT_EQ(cut.places[kChild].state, Place::Unborn);
  EXPECT_EQ(cut.places[kWorker].at, at(1));
  EXPECT_TRUE(cut.places[kWorker].waits);
  EXPECT_NE(cut.places[kWorker].why.find("8 bytes on tcp"), std::string::npos) << cut.places[kWorker].why;
  EXPECT_EQ(cut.places[kClient].at, at(4));
  EXPECT_EQ(inconsistency(causality, cut), "");
}

TEST_F(MadeUpRun, RunsToItsEndWhereNobodyIsStopped) {
  const Causality causality(h);
  Breaking breaking(causality);
  for (const Place& place : breaking.optimistic({}).places) EXPECT_EQ(place.state, Place::Ended);
}

TEST_F(MadeUpRun, HasNoChildBeforeItsParentMadeIt) {
  const Causality causality(h);
  Breaking breaking(causality);
  const Cut start = breaking.start();
  EXPECT_EQ(start.places[kChild].state, Place::Unborn);
  EXPECT_EQ(start.places[kServer].state, Place::Running);
  // However early it is in the child, the fork has happened.
  EXPECT_EQ(causality.graph().least({0, 0, causality.count_at(kChild, at(0)), 0}).counts[kServer],
            causality.count_at(kServer, at(3)));
}

TEST_F(MadeUpRun, RefusesBreakpointsThatCannotBeHeldTogether) {
  const Causality causality(h);
  Breaking breaking(causality);
  try {
    breaking.causal({stop(kServer, 2), stop(kWorker, 2)});
    FAIL() << "the worker has got what the server's child has sent";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("A/server stops at"), std::string::npos) << e.what();
  }
  const Cut cut = breaking.optimistic({stop(kServer, 2), stop(kWorker, 2)});
  EXPECT_FALSE(cut.places[kWorker].stopped);
  EXPECT_NE(cut.places[kWorker].why.find("does not come to here"), std::string::npos);
}

TEST_F(MadeUpRun, KeepsCutsAsFiles) {
  const Causality causality(h);
  Breaking breaking(causality);
  const CutFolder folder(causality);
  Cut cut = breaking.optimistic({stop(kServer, 2)});
  cut.name = folder.free_name("break");
  EXPECT_EQ(cut.name, "break-1");
  folder.save(cut);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"break-1"});
  EXPECT_EQ(folder.free_name("break"), "break-2");
  const Cut again = folder.load("break-1");
  EXPECT_EQ(again.kind, cut.kind);
  ASSERT_EQ(again.breakpoints.size(), 1u);
  EXPECT_EQ(again.breakpoints[0].at, at(2));
  for (size_t p = 0; p < cut.places.size(); p++) {
    EXPECT_EQ(again.places[p].at, cut.places[p].at);
    EXPECT_EQ(again.places[p].state, cut.places[p].state);
    EXPECT_EQ(again.places[p].why, cut.places[p].why);
    EXPECT_EQ(again.places[p].stopped, cut.places[p].stopped);
  }
  EXPECT_TRUE(folder.remove("break-1"));
  EXPECT_THROW(folder.load("break-1"), Error);
}

TEST_F(MadeUpRun, RefusesCutsThatAreNone) {
  const Causality causality(h);
  Breaking breaking(causality);
  const CutFolder folder(causality);
  Cut cut = breaking.optimistic({stop(kServer, 2)});
  cut.name = "good";
  folder.save(cut);
  const std::string path = dir.path() + "/cuts/good.json";
  std::ifstream in(path);
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  auto refused = [&](const std::string& from, const std::string& to) {
    std::string bad = good;
    const size_t place = bad.find(from);
    EXPECT_NE(place, std::string::npos) << from;
    bad.replace(place, from.size(), to);
    std::ofstream(path) << bad;
    try {
      folder.load("good");
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("was taken");
  };
  EXPECT_NE(refused("\"process\": \"B/worker\"", "\"process\": \"C/worker\"").find("no process C/worker"), std::string::npos);
  EXPECT_NE(refused("\"process\": \"B/worker\"", "\"process\": \"A/client\"").find("twice"), std::string::npos);
  EXPECT_NE(refused("@40:0x1004", "@4000000:0x1004").find("was never at"), std::string::npos);
  EXPECT_NE(refused("@40:0x1004", "somewhere").find("no control point"), std::string::npos);
  // The client has got what the worker has not sent.
  EXPECT_NE(refused("\"event\": 4", "\"event\": 5").find("not consistent"), std::string::npos);
  EXPECT_NE(refused("\"format\": 1", "\"format\": 2").find("newer version"), std::string::npos);
  EXPECT_NE(refused("{", "[").find("is no cut"), std::string::npos);
  std::mt19937 random(1);
  for (int i = 0; i < 500; i++) {
    std::string bad = good;
    bad[random() % bad.size()] = static_cast<char>(random());
    std::ofstream(path) << bad;
    try {
      folder.load("good");  // taken or refused, and nothing else
    } catch (const Error&) {
    }
  }
}

TEST_F(MadeUpRun, FindsARequestsWay) {
  const Causality causality(h);
  std::vector<ProcessId> way;
  for (const Hop& hop : way_to(causality, kClient, causality.count_at(kClient, at(5)), 10))
    way.push_back(hop.from.process);
  EXPECT_EQ(way, (std::vector<ProcessId>{kClient, kServer, kChild, kWorker}));
  way.clear();
  for (const Hop& hop : way_from(causality, kClient, causality.count_at(kClient, at(1)), 10))
    way.push_back(hop.to.process);
  EXPECT_EQ(way, (std::vector<ProcessId>{kServer, kChild, kWorker, kClient}));
}

TEST_F(MadeUpRun, HasLogicalTimesThatGrowAlongEveryArrow) {
  const Causality causality(h);
  const LogicalTime times(causality);
  causality.graph().in_order([&](const GraphEdge& e) { EXPECT_LT(times.at(e.from), times.at(e.to)); });
  for (uint32_t p = 0; p < 4; p++)
    for (EventCount i = 1; i < causality.length(p); i++) EXPECT_LT(times.at({p, i - 1}), times.at({p, i}));
}

TEST_F(MadeUpRun, IsDrawn) {
  const Causality causality(h);
  Breaking breaking(causality);
  Cut cut = breaking.optimistic({stop(kServer, 2)});
  cut.name = "<b>";
  Diagram diagram;
  diagram.cut = &cut;
  const std::string svg = space_time_svg(causality, diagram);
  auto count = [&](const std::string& text) {
    size_t n = 0;
    for (size_t i = svg.find(text); i != std::string::npos; i = svg.find(text, i + 1)) n++;
    return n;
  };
  EXPECT_EQ(count("<path class=\"message\""), 3u);
  EXPECT_EQ(count("<path class=\"order\""), 2u);
  EXPECT_EQ(count("<line class=\"life\""), 4u);
  EXPECT_EQ(count("<path class=\"cut\""), 1u);
  EXPECT_EQ(count("&lt;b&gt;"), 1u);
  diagram.most_arrows = 2;
  EXPECT_THROW(space_time_svg(causality, diagram), Error);
}

TEST(Deadlocks, AreCirclesThatNobodyCanHelp) {
  using Circles = std::vector<std::vector<ProcessId>>;
  EXPECT_EQ(circles_of({{1}, {2}, {0}}), (Circles{{0, 1, 2}}));
  EXPECT_EQ(circles_of({{1}, {2}, {}}), Circles{});
  EXPECT_EQ(circles_of({{1}, {0, 2}, {}}), Circles{});           // 2 can still help 1
  EXPECT_EQ(circles_of({{1}, {0, 2}, {1}}), (Circles{{0, 1}}));  // 2 waits, too
  EXPECT_EQ(circles_of({{1}, {0}, {3}, {2}}), (Circles{{0, 1}, {2, 3}}));
  EXPECT_EQ(circles_of({{0}}), (Circles{{0}}));
  EXPECT_EQ(circles_of({{1}, {2}, {1}}), (Circles{{1, 2}}));  // 0 waits for them, and is no part of it
}

}  // namespace
}  // namespace backstep::cluster
