// A run of one recording.
#include "cluster/history.h"

#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "recording/process_facts.h"
#include "session/messages.h"
#include "timeline/log_index.h"

namespace backstep::cluster {

const char* channel_kind_name(ChannelKind kind) {
  constexpr const char* kNames[] = {"pipe", "socketpair", "unix", "unix-datagram", "tcp", "udp", "other"};
  return kNames[static_cast<int>(kind)];
}
const char* edge_kind_name(Edge::Kind kind) {
  constexpr const char* kNames[] = {"fork", "exec", "wait", "signal", "connect", "listen", "close", "shared"};
  return kNames[kind];
}

ProcessId History::find(const std::string& name) const {
  for (ProcessId p = 0; p < processes.size(); p++)
    if (processes[p].name == name || (hosts.size() == 1 && processes[p].name == hosts[0].name + "/" + name))
      return p;
  return kNone;
}

History read_history(const std::string& run) {
  History h;
  const auto recording = recording::Library::standard().resolve(run);
  h.run = recording.dir();
  h.hosts.push_back({"A", recording.dir(), "", "", 0, {}});
  std::map<uint64_t, ProcessId> ids;
  std::map<ProcessId, std::unique_ptr<timeline::LogIndex>> logs;
  std::set<std::string> names;
  for (const auto& f : recording::process_facts(recording)) {
    const auto id = static_cast<ProcessId>(h.processes.size());
    ids[f.info.number] = id;
    logs[id] = std::make_unique<timeline::LogIndex>(recording, f.info.number);
    ProcessOfRun p;
    p.host = 0;
    p.log = f.info.number;
    const std::string base =
        "A/" + (f.info.argv.empty() ? "?" : f.info.argv[0].substr(f.info.argv[0].rfind('/') + 1));
    p.name = base;
    for (int n = 2; !names.insert(p.name).second; n++) p.name = fmt::format("{}.{}", base, n);
    p.pid = f.info.pid;
    p.argv = f.info.argv;
    p.birth = f.info.birth;
    p.how = f.info.end;
    if (ids.count(f.info.parent)) p.parent = ids[f.info.parent];
    const auto& log = *logs[id];
    p.begin = log.birth().value_or(replayer::Position{});
    p.begin.event = log.own();
    p.end = log.last().position();
    p.end.event = log.last().event;
    h.processes.push_back(p);
    if (p.parent != kNone && (f.info.birth == recording::Birth::Fork)) {
      Edge e;
      e.kind = Edge::Fork;
      const auto& parent = *logs[p.parent];
      const uint64_t number = parent.own() + f.info.parent_event;
      const auto m = parent.at(number);
      e.from = {p.parent, {m->tick, number, m->pc}, 1, f.info.parent_event, 0, m->nr};
      e.to = {id, p.begin, 1, 0, 0, 0xffff};
      h.edges.push_back(e);
    }
  }
  session::Channels channels(recording);
  session::Messages messages(channels);
  std::map<const char*, int> none;
  std::map<std::pair<uint64_t, uint64_t>, ChannelId> by_pair;
  for (const auto& m : messages.all()) {
    const ProcessId from = ids[m.write->process], to = ids[m.read->process];
    auto [it, fresh] = by_pair.try_emplace({from, to}, static_cast<ChannelId>(h.channels.size()));
    if (fresh) {
      Channel c;
      c.kind = ChannelKind::Pipe;
      c.name = fmt::format("pipe {} -> {}", h.processes[from].name, h.processes[to].name);
      h.channels.push_back(c);
    }
    Transfer t;
    t.channel = it->second;
    t.sent = {from,
              {m.write->tick, logs[from]->own() + m.write->event, m.write->pc},
              m.write->thread,
              m.write->event,
              m.write->order,
              m.write->nr};
    t.received = {to,
                  {m.read->tick, logs[to]->own() + m.read->event, m.read->pc},
                  m.read->thread,
                  m.read->event,
                  m.read->order,
                  m.read->nr};
    t.bytes = m.bytes;
    t.checked = m.checked;
    h.transfers.push_back(t);
  }
  return h;
}

std::map<int, ChannelPlace> descriptors_at(const History&, ProcessId, uint64_t) {
  return {};
}

}  // namespace backstep::cluster
