// What orders processes besides messages: who made whom, who waited for whom, signals, connections and their
// ends.
//
// An edge says less rather than too much: of several signals that could be it the first, of the ends of a
// connection only those that came before, as far as the host's own order tells. What is missing makes a cut
// earlier than need be; what is too much could make a circle.
#include <algorithm>
#include <cerrno>
#include <csignal>

#include <fmt/format.h>

#include "cluster/history_reader.h"

namespace backstep::cluster {

using recording::Birth;
using session::Happening;
using session::Side;

namespace {

const Happening* first_happening(const Side& s, Happening::Kind kind) {
  for (const Happening& h : s.happenings)
    if (h.kind == kind) return &h;
  return nullptr;
}

std::string signal_text(int signo) {
  const char* name = sigabbrev_np(signo);
  return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", signo);
}

// What both have from the order of one host; of two hosts nothing is known.
bool may_be_before(const Point& from, HostId a, const Point& to, HostId b) {
  return a != b || !from.order || !to.order || from.order < to.order;
}

}  // namespace

void HistoryReader::find_family_edges() {
  for (const auto& [key, child] : ids_) {
    const auto& info = *std::find_if(infos_[key.first].begin(), infos_[key.first].end(),
                                     [&](const auto& p) { return p.number == key.second; });
    const ProcessId parent = h_.processes[child].parent;
    if (parent == kNone || !scans_[child].first) continue;
    const ProcessScan& scan = scans_[parent];
    auto made = scan.wanted.find(info.parent_event);
    // The parent may have been killed before it could log that.
    const Point from = made != scan.wanted.end() ? made->second : scan.last;
    if (!from) continue;
    h_.edges.push_back(
        {info.birth == Birth::Fork ? Edge::Fork : Edge::Exec, from, scans_[child].first, kNone, ""});
  }
}

void HistoryReader::find_wait_edges() {
  std::map<std::pair<HostId, uint64_t>, std::vector<ProcessId>> by_pid;
  for (ProcessId p = 0; p < h_.processes.size(); p++)
    if (scans_[p].exits) by_pid[{h_.processes[p].host, h_.processes[p].pid}].push_back(p);
  for (ProcessId p = 0; p < h_.processes.size(); p++)
    for (const auto& w : scans_[p].waits) {
      auto ended = by_pid.find({h_.processes[p].host, static_cast<uint64_t>(w.pid)});
      if (ended == by_pid.end()) continue;
      const Point* last = nullptr;  // a pid may be used again
      for (ProcessId c : ended->second) {
        const Point& end = scans_[c].last;
        if (c != p && (!w.to.order || end.order < w.to.order) && (!last || end.order > last->order))
          last = &end;
      }
      if (last) h_.edges.push_back({Edge::Wait, *last, w.to, kNone, ""});
    }
}

void HistoryReader::find_signal_edges() {
  struct Sent {
    const ProcessScan::Kill* kill;
    bool taken = false;
  };
  std::map<std::tuple<HostId, uint64_t, int>, std::vector<Sent>> sent;  // by sender's pid and signal
  for (ProcessId p = 0; p < h_.processes.size(); p++)
    for (const auto& k : scans_[p].kills)
      sent[{h_.processes[p].host, h_.processes[p].pid, k.signo}].push_back({&k, false});
  for (ProcessId p = 0; p < h_.processes.size(); p++)
    for (const auto& s : scans_[p].signals) {
      auto list = sent.find({h_.processes[p].host, static_cast<uint64_t>(s.pid), s.signo});
      if (list == sent.end()) continue;
      for (Sent& k : list->second) {
        const bool to_group = k.kill->pid <= 0;
        if ((k.taken && !to_group) || k.kill->from.process == p) continue;
        if (!to_group && static_cast<uint64_t>(k.kill->pid) != h_.processes[p].pid) continue;
        if (!may_be_before(k.kill->from, 0, s.to, 0)) continue;
        k.taken = true;
        h_.edges.push_back({Edge::Signal, k.kill->from, s.to, kNone, signal_text(s.signo)});
        break;
      }
    }
  find_last_signals();
}

// The log does not say who has sent the signal of which a process died. If one that was recorded has sent
// such a one, it was that; else somebody outside.
void HistoryReader::find_last_signals() {
  auto sender = [&](ProcessId p, const ProcessScan::ToldToEnd& told) -> const Point* {
    for (ProcessId q = 0; q < h_.processes.size(); q++)
      for (const auto& k : scans_[q].kills)
        if (h_.processes[q].host == h_.processes[p].host && k.signo == told.signo &&
            (k.pid <= 0 || static_cast<uint64_t>(k.pid) == h_.processes[p].pid) &&
            may_be_before(k.from, 0, told.to, 0))
          return &k.from;
    return nullptr;
  };
  for (ProcessId p = 0; p < h_.processes.size(); p++) {
    ProcessOfRun& process = h_.processes[p];
    for (const auto& told : scans_[p].told_to_end) {
      const Point* from = sender(p, told);
      if (!from && !process.told_to_end) process.told_to_end = {told.before, signal_text(told.signo)};
      if (from && from->process != p && told.to == scans_[p].last)
        h_.edges.push_back({Edge::Signal, *from, told.to, kNone, signal_text(told.signo)});
    }
  }
}

void HistoryReader::find_channel_edges() {
  const session::Sides& sides = messages_->sides();
  // Listeners, by where they are.
  std::map<std::tuple<std::string, uint64_t, std::string>, const Happening*> listeners;
  auto place = [&](const Side& s, const std::string& name) {
    const std::string& boot = h_.hosts[read_hosts_.at(s.host)].boot;
    return std::tuple(boot, s.kernel.net, name);
  };
  auto name = [](const guest::SocketAddress& a, bool any) {
    return a.is_inet() && any ? "*:" + std::to_string(a.port) : a.text();
  };
  for (const Side& s : sides.all())
    if (const Happening* h = s.listening ? first_happening(s, Happening::Listened) : nullptr)
      listeners.emplace(place(s, name(s.kernel.local, s.kernel.local.is_any())), h);
  for (const session::Link& l : sides.links()) {
    const Side &a = *l.a, &b = *l.b;
    const ChannelId channel = channel_of_.at(&a);
    const Happening* connected = first_happening(a, Happening::Connected);
    const Happening* accepted = first_happening(b, Happening::Accepted);
    if (connected && accepted) {
      h_.edges.push_back({Edge::Connect, given(*connected), got(*accepted), channel, ""});
      // A call that only begins to connect does not know whether anybody listens.
      for (const std::string& at : {name(b.kernel.local, false), name(b.kernel.local, true)}) {
        auto listener = listeners.find(place(b, at));
        if (listener == listeners.end() || connected->error) continue;
        const Point from = given(*listener->second), to = got(*connected);
        if (from.process != to.process && may_be_before(from, a.host, to, a.host == b.host ? a.host : ~0u))
          h_.edges.push_back({Edge::Listen, from, to, channel, ""});
        break;
      }
    }
    auto ends = [&](const Side& closing, const Side& seeing) {
      const bool shut_itself = first_happening(seeing, Happening::Shut);
      for (const Happening& seen : seeing.happenings) {
        const bool reset = seen.kind == Happening::Failed && (seen.error == ECONNRESET || !shut_itself);
        if (seen.kind != Happening::SawEnd && !reset) continue;
        const Point to = got(seen);
        const Happening* shut = first_happening(closing, Happening::Shut);
        std::map<ProcessId, Point> last;  // close of each process
        for (const Happening& h : closing.happenings) {
          if (shut ? &h != shut : h.kind != Happening::Closed) continue;
          const Point from = given(h);
          if (from && from.process != to.process && may_be_before(from, closing.host, to, seeing.host))
            last.try_emplace(from.process, from);
        }
        for (const auto& [process, from] : last) h_.edges.push_back({Edge::Close, from, to, channel, ""});
        break;  // it stays so
      }
    };
    if (&a == &b) continue;
    ends(b, a);
    if (a.kind != session::OpenFile::Pipe) ends(a, b);
  }
}

}  // namespace backstep::cluster
