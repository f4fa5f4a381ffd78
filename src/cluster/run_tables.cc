// Everything here is known before a query comes: rows are made when a table is first asked, and kept.
#include <algorithm>

#include <fmt/format.h>

#include "cluster/event_database.h"
#include "cluster/run_database.h"
#include "cluster/space_time.h"
#include "guest/syscall_print.h"
#include "recording/process_facts.h"
#include "timeline/moments.h"

namespace backstep::cluster {
namespace {

using trace::Column;
using trace::kNothing;
using trace::known_text;
using trace::number;
using trace::Row;
using trace::Value;

using Rows = std::shared_ptr<const std::vector<Row>>;

std::string position_text(const replayer::Position& at) {
  return timeline::point_text(at.tick, at.pc);
}

class RunTables {
 public:
  RunTables(const Causality& causality, const CutFolder& cuts)
      : causality_(causality), h_(causality.history()), cuts_(cuts) {}

  Value process(ProcessId p) const { return p < h_.processes.size() ? Value(h_.processes[p].name) : Value(); }
  Value host(HostId id) const { return id < h_.hosts.size() ? Value(h_.hosts[id].name) : Value(); }
  Value channel(ChannelId c) const { return c < h_.channels.size() ? Value(h_.channels[c].name) : Value(); }
  Value time(GraphEvent e) {
    if (!times_) times_.emplace(causality_);
    return e.process == kNone ? Value() : number(times_->at(e));
  }
  Value call(const Point& p) const { return p.nr == 0xffff ? Value() : Value(guest::syscall_name(p.nr)); }

  std::vector<Row> hosts() {
    std::vector<Row> rows;
    for (const Host& h : h_.hosts)
      rows.push_back({h.name, h.recording, known_text(h.machine), known_text(h.boot), h.start_ns,
                      h.clock.known() ? Value(h.clock.shift) : Value(),
                      h.clock.known() ? Value(h.clock.least) : Value(),
                      h.clock.known() ? Value(h.clock.most) : Value()});
    return rows;
  }

  std::vector<Row> processes() {
    std::vector<Row> rows;
    for (ProcessId p = 0; p < h_.processes.size(); p++) {
      const ProcessOfRun& q = h_.processes[p];
      std::string command;
      for (const std::string& word : q.argv) command += (command.empty() ? "" : " ") + word;
      rows.push_back({q.name, host(q.host), number(q.log), number(q.pid), known_text(command),
                      process(q.parent), position_text(q.begin), time({p, 0}), position_text(q.end),
                      time({p, causality_.length(p) - 1}), ended(q), int64_t{q.cut_off}});
    }
    return rows;
  }
  static Value ended(const ProcessOfRun& p) {
    if (!p.how) return {};
    recording::ProcessFacts facts;
    facts.info.end = p.how;
    return facts.end_text();
  }

  std::vector<Row> channels() {
    std::vector<Row> rows;
    for (const Channel& c : h_.channels)
      rows.push_back({c.name, std::string(channel_kind_name(c.kind)), int64_t{c.datagrams},
                      host(c.ends[0].host), known_text(c.ends[0].local), process(c.ends[0].made.process),
                      host(c.ends[1].host), known_text(c.ends[1].local), process(c.ends[1].made.process),
                      int64_t{c.by_content}});
    return rows;
  }

  std::vector<Row> messages() {
    std::vector<Row> rows;
    for (const Transfer& t : h_.transfers) {
      const Point &s = t.sent, &r = t.received;
      rows.push_back({process(s.process),
                      process(r.process),
                      channel(t.channel),
                      number(t.bytes),
                      number(s.at.tick),
                      position_text(s.at),
                      time(causality_.find(s)),
                      int64_t{s.thread},
                      number(s.own_event),
                      number(t.sent_byte),
                      call(s),
                      number(r.at.tick),
                      position_text(r.at),
                      time(causality_.find(r)),
                      int64_t{r.thread},
                      number(r.own_event),
                      number(t.received_byte),
                      call(r),
                      number(t.offset),
                      int64_t{t.from_end},
                      int64_t{t.peeked},
                      int64_t{t.duplicate},
                      int64_t{t.checked}});
    }
    return rows;
  }

  std::vector<Row> orders() {
    std::vector<Row> rows;
    for (const Edge& e : h_.edges)
      rows.push_back({std::string(edge_kind_name(e.kind)), process(e.from.process), position_text(e.from.at),
                      time(causality_.find(e.from)), number(e.from.own_event), process(e.to.process),
                      position_text(e.to.at), number(e.to.own_event), channel(e.channel),
                      known_text(e.what)});
    return rows;
  }

  std::vector<Row> unmatched() {
    std::vector<Row> rows;
    for (const Unmatched& u : h_.unmatched)
      rows.push_back({process(u.point.process), std::string(u.sent ? "sent" : "received"), channel(u.channel),
                      number(u.bytes), position_text(u.point.at), number(u.point.own_event),
                      known_text(u.peer), known_text(u.why)});
    return rows;
  }

  std::vector<Row> findings() {
    std::vector<Row> rows;
    for (const Finding& f : h_.findings)
      rows.push_back({std::string(f.weight == Finding::Warning ? "warning" : "note"), f.kind, host(f.host),
                      process(f.process), f.text});
    return rows;
  }

  // What happened, one row for each thing that a process did or that came to it.
  std::vector<Row> events() {
    std::vector<Row> rows;
    auto add = [&](const char* kind, const Point& p, GraphEvent e, ProcessId peer, ChannelId c, Value bytes,
                   Value what) {
      if (p)
        rows.push_back({time(e),
                        process(p.process),
                        int64_t{p.thread},
                        number(p.at.tick),
                        position_text(p.at),
                        number(p.own_event),
                        std::string(kind),
                        call(p),
                        process(peer),
                        channel(c),
                        std::move(bytes),
                        std::move(what),
                        {}});
    };
    for (ProcessId p = 0; p < h_.processes.size(); p++) {
      const ProcessOfRun& q = h_.processes[p];
      add("process-begins", causality_.event({p, 0}).point, {p, 0}, q.parent, kNone, {}, {});
      const GraphEvent end{p, causality_.length(p) - 1};
      const bool died = q.how && q.how->kind == recording::EndKind::Signal;
      add(died        ? "process-aborted"
          : q.cut_off ? "recording-ends"
                      : "process-done",
          causality_.event(end).point, end, kNone, kNone, {}, ended(q));
    }
    for (ChannelId c = 0; c < h_.channels.size(); c++)
      for (const ChannelEnd& end : h_.channels[c].ends) {
        add(end.accepted    ? "accept"
            : end.listening ? "listen"
                            : "channel-creation",
            end.made, {kNone, 0}, kNone, c, {}, known_text(end.local));
        for (const Point& closed : end.closed)
          add("channel-destruction", closed, {kNone, 0}, kNone, c, {}, {});
      }
    for (const Transfer& t : h_.transfers) {
      add("message-transmission", t.sent, causality_.find(t.sent), t.received.process, t.channel,
          number(t.bytes), {});
      add("message-reception", t.received, causality_.find(t.received), t.sent.process, t.channel,
          number(t.bytes), {});
    }
    for (const Edge& e : h_.edges) {
      const std::string kind = edge_kind_name(e.kind);
      add(kind.c_str(), e.from, causality_.find(e.from), e.to.process, e.channel, {}, known_text(e.what));
      if (e.kind == Edge::Fork || e.kind == Edge::Exec) continue;
      add((kind + "-seen").c_str(), e.to, causality_.find(e.to), e.from.process, e.channel, {},
          known_text(e.what));
    }
    add_own(rows);
    add_recorded(rows);
    std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a[0] < b[0]; });
    return rows;
  }

  // The last event of the graph that a position is behind.
  Value time_at(ProcessId p, const replayer::Position& at) {
    return time({p, causality_.count_at(p, at) - 1});
  }

  // Threads, and sets of descriptors (epoll).
  void add_own(std::vector<Row>& rows) {
    for (const OwnEvent& e : h_.own_events) {
      const Point& p = e.point;
      rows.push_back({time_at(p.process, p.at),
                      process(p.process),
                      int64_t{p.thread},
                      number(p.at.tick),
                      position_text(p.at),
                      number(p.own_event),
                      std::string(e.kind),
                      call(p),
                      {},
                      {},
                      {},
                      known_text(e.what),
                      {}});
    }
  }

  // What replays have found. Each is between two events of the log: in front of number N, so N - 0.5.
  void add_recorded(std::vector<Row>& rows) {
    constexpr double kBetween = 0.5;
    for (const EventsOf& events : EventDatabase(h_).load())
      for (const RecordedEvent& e : events.rows) {
        const auto next = static_cast<double>(h_.processes[events.process].own_event(e.at.event));
        const std::string what = events.name + (e.value.empty() ? "" : ": " + e.value);
        rows.push_back({time_at(events.process, e.at),
                        process(events.process),
                        int64_t{e.thread},
                        number(e.at.tick),
                        position_text(e.at),
                        next - kBetween,
                        events.kind,
                        {},
                        {},
                        {},
                        {},
                        what,
                        known_text(e.source)});
      }
  }

  std::vector<Row> cuts() {
    std::vector<Row> rows;
    for (const std::string& name : cuts_.names()) {
      const Cut cut = cuts_.load(name);
      for (ProcessId p = 0; p < cut.places.size(); p++) {
        const Place& place = cut.places[p];
        rows.push_back({name, std::string(cut_kind_name(cut.kind)), process(p),
                        std::string(place_state_name(place.state)), position_text(place.at),
                        number(place.at.tick), number(h_.processes[p].own_event(place.at.event)),
                        int64_t{place.stopped}, place.why});
      }
    }
    return rows;
  }

 private:
  const Causality& causality_;
  const History& h_;
  const CutFolder& cuts_;
  std::optional<LogicalTime> times_;
};

using Maker = std::vector<Row> (RunTables::*)();

trace::Table table(const char* name, const char* meaning, std::vector<Column> columns,
                   const std::shared_ptr<RunTables>& tables, Maker make) {
  auto kept = std::make_shared<Rows>();
  const auto rows = [tables, make, kept] {
    if (!*kept) *kept = std::make_shared<const std::vector<Row>>(((*tables).*make)());
    return *kept;
  };
  trace::Table t;
  t.name = name, t.meaning = meaning, t.columns = std::move(columns), t.of_one_process = false;
  t.cost = [rows](trace::History&, const trace::Question&) {
    const auto count = static_cast<double>(rows()->size());
    return trace::Cost{1 + count, 1 + count};
  };
  t.open = [rows](trace::History&, const trace::Question&) {
    return std::make_unique<trace::ReadyRows>(rows());
  };
  t.explain = [](trace::History&, const trace::Question&) { return std::string("is there already"); };
  return t;
}

}  // namespace

void add_run_tables(std::vector<trace::Table>& tables, const Causality& causality, const CutFolder& cuts) {
  const auto run = std::make_shared<RunTables>(causality, cuts);
  tables.push_back(
      table("hosts", "the hosts of the run",
            {{"name", "TEXT", kNothing, ""},
             {"recording", "TEXT", kNothing, "its folder"},
             {"machine", "TEXT", kNothing, "the machine's id"},
             {"boot", "TEXT", kNothing, "the id of its boot"},
             {"start", "TIME INT", kNothing, "when the recording began, by the host's own clock"},
             {"clock_shift", "INT", kNothing,
              "nanoseconds to be added to its clock to have the first host's; NULL: not known"},
             {"clock_least", "INT", kNothing, "… at least"},
             {"clock_most", "INT", kNothing, "… at most"}},
            run, &RunTables::hosts));
  tables.push_back(table("processes", "the processes of all hosts; after execve a process is another row",
                         {{"name", "TEXT", kNothing, "in the run: host, program, number"},
                          {"host", "TEXT", kNothing, ""},
                          {"number", "INT", kNothing, "of its log in the host's recording"},
                          {"pid", "INT", kNothing, ""},
                          {"command", "TEXT", kNothing, ""},
                          {"parent", "TEXT", kNothing, "who made it, or what it was before execve"},
                          {"begin_at", "TEXT", kNothing, "its first control point"},
                          {"begin_time", "INT", kNothing, "… in logical time"},
                          {"end_at", "TEXT", kNothing, "its last one"},
                          {"end_time", "INT", kNothing, "… in logical time"},
                          {"ended", "TEXT", kNothing, "how: exit 0, SIGSEGV; NULL: not known"},
                          {"cut_off", "INT", kNothing, "1: its recording ends before it did"}},
                         run, &RunTables::processes));
  tables.push_back(table(
      "channels", "pipes, connections and sockets",
      {{"name", "TEXT", kNothing, ""},
       {"kind", "TEXT", kNothing, ""},
       {"datagrams", "INT", kNothing, "1: what is sent at once is received at once"},
       {"host_0", "TEXT", kNothing, "of the end that is read (pipe), has connected (connection)"},
       {"address_0", "TEXT", kNothing, ""},
       {"maker_0", "TEXT", kNothing, "the process that made this end"},
       {"host_1", "TEXT", kNothing, "of the end that is written to, was accepted, receives (datagrams)"},
       {"address_1", "TEXT", kNothing, ""},
       {"maker_1", "TEXT", kNothing, ""},
       {"by_content", "INT", kNothing, "1: the ends were put together by what went through"}},
      run, &RunTables::channels));
  tables.push_back(table(
      "messages", "each pair of a call that sent bytes and one that received them",
      {{"sender", "TEXT", kNothing, "the process"},
       {"receiver", "TEXT", kNothing, "the process"},
       {"channel", "TEXT", kNothing, ""},
       {"bytes", "INT", kNothing, "that both calls have in common"},
       {"sent", "INT", kNothing, "the sender's tick when it made the call"},
       {"sent_at", "TEXT", kNothing, "its control point"},
       {"sent_time", "INT", kNothing, "logical time: larger than that of everything that happened before"},
       {"sent_thread", "INT", kNothing, ""},
       {"sent_event", "INT", kNothing, "number of the call in the sender's log"},
       {"sent_byte", "INT", kNothing, "the first one, of what the call sent"},
       {"sent_call", "TEXT", kNothing, "the system call"},
       {"received", "INT", kNothing, "the receiver's tick when the call had it"},
       {"received_at", "TEXT", kNothing, ""},
       {"received_time", "INT", kNothing, "logical time"},
       {"received_thread", "INT", kNothing, ""},
       {"received_event", "INT", kNothing, "number of the call in the receiver's log"},
       {"received_byte", "INT", kNothing, "the first one, of what the call received"},
       {"received_call", "TEXT", kNothing, ""},
       {"offset", "INT", kNothing, "of the first byte in its direction of the channel; datagrams: which one"},
       {"from_end", "INT", kNothing, "of the channel: 0 or 1"},
       {"peeked", "INT", kNothing, "1: the bytes were only looked at, and are received again"},
       {"duplicate", "INT", kNothing, "1: a datagram that the network has doubled"},
       {"checked", "INT", kNothing, "1: checksums agree; 0: by order alone"}},
      run, &RunTables::messages));
  tables.push_back(table(
      "orders", "one thing after another that is no message: fork, exec, wait, signal, connect, close, …",
      {{"kind", "TEXT", kNothing, ""},
       {"from_process", "TEXT", kNothing, "where something happened"},
       {"from_at", "TEXT", kNothing, ""},
       {"from_time", "INT", kNothing, "logical time"},
       {"from_event", "INT", kNothing, ""},
       {"to_process", "TEXT", kNothing, "that could go on then"},
       {"to_at", "TEXT", kNothing, ""},
       {"to_event", "INT", kNothing, ""},
       {"channel", "TEXT", kNothing, ""},
       {"what", "TEXT", kNothing, "the signal, the memory"}},
      run, &RunTables::orders));
  tables.push_back(
      table("events", "all that processes did to each other, and what was recorded, in logical time",
            {{"time", "INT", kNothing, "logical time; NULL: nothing came of it"},
             {"process", "TEXT", kNothing, ""},
             {"thread", "INT", kNothing, ""},
             {"tick", "INT", kNothing, ""},
             {"at", "TEXT", kNothing, "control point"},
             {"event", "ANY", kNothing,
              "number in the process's log; N - 0.5 of what was recorded in front of number N"},
             {"kind", "TEXT", kNothing, "message-transmission, message-reception, process-begins, …"},
             {"call", "TEXT", kNothing, "the system call"},
             {"peer", "TEXT", kNothing, "the other process"},
             {"channel", "TEXT", kNothing, ""},
             {"bytes", "INT", kNothing, ""},
             {"what", "TEXT", kNothing, "recorded: its name, and its value behind a colon"},
             {"source", "TEXT", kNothing, "line, of what 'cluster events RUN record …' has recorded"}},
            run, &RunTables::events));
  tables.push_back(table("unmatched", "bytes that only one side tells of",
                         {{"process", "TEXT", kNothing, ""},
                          {"direction", "TEXT", kNothing, "sent or received"},
                          {"channel", "TEXT", kNothing, ""},
                          {"bytes", "INT", kNothing, ""},
                          {"at", "TEXT", kNothing, ""},
                          {"event", "INT", kNothing, ""},
                          {"peer", "TEXT", kNothing, "the other side's address"},
                          {"why", "TEXT", kNothing, ""}},
                         run, &RunTables::unmatched));
  tables.push_back(table("findings", "what is odd about the run",
                         {{"weight", "TEXT", kNothing, "note or warning"},
                          {"kind", "TEXT", kNothing, ""},
                          {"host", "TEXT", kNothing, ""},
                          {"process", "TEXT", kNothing, ""},
                          {"text", "TEXT", kNothing, ""}},
                         run, &RunTables::findings));
  tables.push_back(table("cuts", "where each process is in each cut that has a name",
                         {{"name", "TEXT", kNothing, ""},
                          {"kind", "TEXT", kNothing, "causal, optimistic or mark"},
                          {"process", "TEXT", kNothing, ""},
                          {"state", "TEXT", kNothing, "unborn, running or ended"},
                          {"at", "TEXT", kNothing, ""},
                          {"tick", "INT", kNothing, ""},
                          {"event", "INT", kNothing, "of its log, the next one"},
                          {"stopped", "INT", kNothing, "1: at a breakpoint"},
                          {"why", "TEXT", kNothing, ""}},
                         run, &RunTables::cuts));
}

}  // namespace backstep::cluster
