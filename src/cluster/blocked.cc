// Two sources. Where the run went on, the graph says what a process needs next; if that has not been done in
// the cut and the process stands in front of it, it waits. Where the run did not go on (it hung, and somebody
// killed it), there is no such event: then the process stands in a system call, and its registers say which
// descriptor, child or word of memory it waits for. Or it asks again and again, which the log shows
// (polling.h).
#include "cluster/blocked.h"

#include <sys/syscall.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "cluster/polling.h"
#include "guest/syscall_print.h"
#include "session/present.h"

namespace backstep::cluster {
namespace {

constexpr size_t kRax = 0, kRdx = 2, kRsi = 6, kRdi = 7, kR10 = 10;

std::string channel_text(const History& h, ChannelId id) {
  return id < h.channels.size() ? h.channels[id].name : "a channel that is not known";
}

class Finder {
 public:
  Finder(const Causality& causality, const Cut& cut, Sessions& sessions)
      : causality_(causality),
        history_(causality.history()),
        cut_(cut),
        sessions_(sessions),
        counts_(counts_of(causality, cut)) {}

  Blocked find() {
    for (ProcessId p = 0; p < cut_.places.size(); p++) {
      const Place& place = cut_.places[p];
      if (place.state == Place::Ended && ended_by_itself(p)) continue;
      if (place.state == Place::Unborn || !by_graph(p)) by_state(p);
    }
    find_circles();
    return result_;
  }

 private:
  void find_circles() {
    using Givers = std::vector<std::vector<ProcessId>>;
    Givers certain(history_.processes.size()), possible(history_.processes.size());
    std::set<ProcessId> helped;  // time, or somebody outside, can end what they wait for
    for (const Wait& w : result_.waits) {
      if (w.givers.empty() || w.timed || w.outside) helped.insert(w.process);
      for (ProcessId g : w.givers) {
        certain[w.process].push_back(g);
        if (g != w.process && !w.timed) possible[w.process].push_back(g);
      }
    }
    helped.insert(running_.begin(), running_.end());
    for (ProcessId p : helped) certain[p].clear();
    for (ProcessId p : running_) possible[p].clear();
    result_.circles = circles_of(certain);
    std::set<ProcessId> named;
    for (const auto& circle : result_.circles) named.insert(circle.begin(), circle.end());
    for (auto& circle : circles_of(possible))
      if (!named.count(circle.front())) result_.possible.push_back(std::move(circle));
  }

  // Nothing can be waited for any more.
  bool ended_by_itself(ProcessId p) const {
    const ProcessOfRun& process = history_.processes[p];
    return process.how && !process.cut_off && process.how->kind != recording::EndKind::Signal;
  }

  // The next event of the graph, if the process stands in front of it.
  bool by_graph(ProcessId p) {
    const EventCount count = counts_[p];
    if (count >= causality_.length(p)) return false;
    const GraphEvent next{p, count};
    const Place& place = cut_.places[p];
    if (place.state == Place::Running && (place.at.event < causality_.event(next).point.at.event ||
                                          place.at.tick < causality_.event(next).point.at.tick))
      return place.waits;
    bool waits = false;
    for (const Causality::Link& link : causality_.links_into(next)) {
      const GraphEvent from = causality_.find(link.transfer ? link.transfer->sent : link.edge->from);
      if (from.process == kNone || from.index < counts_[from.process]) continue;
      add(next, link, from);
      waits = true;
    }
    return waits;
  }

  void add(GraphEvent next, const Causality::Link& link, GraphEvent from) {
    Wait w;
    w.process = next.process;
    w.givers = {from.process};
    w.what = causality_.text(link);
    const Point& point = causality_.event(next).point;
    w.thread = point.thread;
    if (point.nr != 0xffff) w.call = guest::syscall_name(point.nr);
    w.kind = Wait::Channel;
    if (link.transfer) {
      w.channel = link.transfer->channel;
    } else {
      w.channel = link.edge->channel;
      switch (link.edge->kind) {
        case Edge::Fork:
        case Edge::Exec:
          w.kind = Wait::Creation, w.thread = 0;
          break;
        case Edge::Wait:
          w.kind = Wait::Child;
          break;
        case Edge::Signal:
          w.kind = Wait::Signal;
          break;
        case Edge::Shared:
          w.kind = Wait::Lock;
          break;
        default:
          break;
      }
    }
    result_.waits.push_back(std::move(w));
  }

  // --- from registers ---

  void by_state(ProcessId p) {
    const Place& place = cut_.places[p];
    if (place.state == Place::Unborn) return;
    try {
      session::Session& s = sessions_.at(p, place);
      session::Present present(s);
      const bool is_last =
          place.stopped || place.state == Place::Ended || place.at.event >= history_.processes[p].end.event;
      for (const session::ThreadFacts& thread : present.threads()) {
        const auto registers = present.registers(thread.tid);
        // Where the run went on, whoever stands in front of a call has just not made it yet.
        const bool at_call = thread.in_call || (is_last && stands_at_syscall(present, registers.rip));
        if (at_call && by_call(p, thread, registers, present)) continue;
        if (!by_polling(p, thread)) running_.insert(p);
      }
    } catch (const Error&) {
      // Nothing of it can be replayed, so nothing is known.
    }
  }

  static bool stands_at_syscall(session::Present& present, Address pc) {
    const auto code = present.memory(pc, 2);
    return code.size() == 2 && code[0] == 0x0f && code[1] == 0x05;
  }

  // False: it does not wait there, or not for anybody.
  bool by_call(ProcessId p, const session::ThreadFacts& thread, const timeline::Registers& r,
               session::Present& present) {
    Wait w;
    w.process = p;
    w.thread = thread.name;
    const uint64_t nr = r.gpr[kRax];
    w.call = guest::syscall_name(nr);
    switch (nr) {
      case SYS_read:
      case SYS_readv:
      case SYS_recvfrom:
      case SYS_recvmsg:
      case SYS_write:
      case SYS_writev:
      case SYS_sendto:
      case SYS_sendmsg:
      case SYS_accept:
      case SYS_accept4:
      case SYS_connect:
        on_descriptors(w, {static_cast<int>(r.gpr[kRdi])});
        break;
      case SYS_poll:
        w.kind = Wait::Channel;
        // One that is not to wait at all says nothing about who does.
        if (static_cast<int>(r.gpr[kRdx]) == 0) return false;
        on_descriptors(w, polled(present, r.gpr[kRdi], r.gpr[kRsi]));
        if (static_cast<int>(r.gpr[kRdx]) >= 0) has_time_out(w);
        break;
      case SYS_wait4:
      case SYS_waitid:
        on_children(w);
        break;
      case SYS_futex:
        w.kind = Wait::Lock;
        w.what = fmt::format("the futex at {:#x}", r.gpr[kRdi]);
        w.givers = {p};  // another thread of its own
        if (r.gpr[kR10]) has_time_out(w);
        break;
      case SYS_nanosleep:
      case SYS_clock_nanosleep:
        w.kind = Wait::Timer;
        w.what = "a time to come";
        break;
      case SYS_pause:
      case SYS_rt_sigtimedwait:
      case SYS_rt_sigsuspend:
        w.kind = Wait::Signal;
        w.what = "a signal";
        break;
      case SYS_epoll_wait:
      case SYS_epoll_pwait:
        if (static_cast<int>(r.gpr[kR10]) == 0) return false;
        in_set(w, static_cast<int>(r.gpr[kRdi]));
        if (static_cast<int>(r.gpr[kR10]) >= 0) has_time_out(w);
        break;
      case SYS_select:
      case SYS_pselect6:
      case SYS_ppoll:
        w.what = "one of several descriptors";
        break;
      default:
        return false;
    }
    result_.waits.push_back(std::move(w));
    return true;
  }

  static void has_time_out(Wait& w) {
    w.timed = true;
    w.what += ", or a time to come";
  }

  // What an epoll set watches is in the log only.
  void in_set(Wait& w, int set) {
    const auto& sets = polling_of(w.process).sets;
    const auto watched = sets.find(set);
    if (watched == sets.end() || watched->second.empty()) {
      w.what = "one of several descriptors";
      w.outside = true;
      return;
    }
    on_descriptors(w, {watched->second.begin(), watched->second.end()});
  }

  // It asks again and again, and is told that there is nothing.
  bool by_polling(ProcessId p, const session::ThreadFacts& thread) {
    const auto& spinning = polling_of(p).spinning;
    const auto polls = spinning.find(thread.name);
    if (polls == spinning.end()) return false;
    Wait w;
    w.process = p;
    w.thread = thread.name;
    w.call = "polls";
    on_descriptors(w, {polls->second.begin(), polls->second.end()});
    result_.waits.push_back(std::move(w));
    return true;
  }

  const Polling& polling_of(ProcessId p) {
    auto [it, fresh] = polling_.try_emplace(p);
    if (fresh) it->second = polling_at(history_, p, history_.processes[p].own_event(cut_.places[p].at.event));
    return it->second;
  }

  static std::vector<int> polled(session::Present& present, Address at, uint64_t count) {
    constexpr uint64_t kMost = 4096, kBytes = 8;  // struct pollfd: int fd, two shorts
    const auto bytes = present.memory(at, std::min(count, kMost) * kBytes);
    std::vector<int> fds;
    for (size_t i = 0; i + kBytes <= bytes.size(); i += kBytes) {
      int fd;
      std::memcpy(&fd, &bytes[i], sizeof fd);
      fds.push_back(fd);
    }
    return fds;
  }

  // The other ends of what the descriptors stand for, and who has them.
  void on_descriptors(Wait& w, const std::vector<int>& fds) {
    w.kind = Wait::Channel;
    const auto& own = descriptors_of(w.process);
    std::vector<std::string> texts;
    for (int fd : fds) {
      const auto found = own.find(fd);
      if (found == own.end()) {
        texts.push_back(fmt::format("descriptor {}", fd));
        w.outside = true;
        continue;
      }
      const ChannelPlace& place = found->second;
      w.channel = place.channel;
      texts.push_back(channel_text(history_, place.channel));
      const size_t before = w.givers.size();
      for (ProcessId q = 0; q < history_.processes.size(); q++) {
        if (cut_.places[q].state != Place::Running &&
            !(cut_.places[q].state == Place::Ended && !ended_by_itself(q)))
          continue;
        const auto& others = descriptors_of(q);
        if (std::any_of(others.begin(), others.end(), [&](const auto& d) {
              return d.second.channel == place.channel && d.second.end != place.end;
            }))
          w.givers.push_back(q);
      }
      w.outside = w.outside || w.givers.size() == before;
    }
    std::sort(w.givers.begin(), w.givers.end());
    w.givers.erase(std::unique(w.givers.begin(), w.givers.end()), w.givers.end());
    for (const std::string& text : texts) w.what += (w.what.empty() ? "" : ", ") + text;
  }

  void on_children(Wait& w) {
    w.kind = Wait::Child;
    for (ProcessId q = 0; q < history_.processes.size(); q++)
      if (is_child(q, w.process) && cut_.places[q].state != Place::Unborn &&
          (cut_.places[q].state == Place::Running || !ended_by_itself(q))) {
        w.givers.push_back(q);
        w.what += (w.what.empty() ? "the end of " : ", ") + history_.processes[q].name;
      }
    if (w.what.empty()) w.what = "the end of a child";
  }

  bool is_child(ProcessId q, ProcessId parent) const {
    const ProcessOfRun& process = history_.processes[q];
    return process.parent == parent && (process.birth == recording::Birth::Fork || process.spawned);
  }

  const std::map<int, ChannelPlace>& descriptors_of(ProcessId p) {
    auto [it, fresh] = descriptors_.try_emplace(p);
    if (fresh)
      it->second = descriptors_at(history_, p, history_.processes[p].own_event(cut_.places[p].at.event));
    return it->second;
  }

  const Causality& causality_;
  const History& history_;
  const Cut& cut_;
  Sessions& sessions_;
  Counts counts_;
  std::map<ProcessId, std::map<int, ChannelPlace>> descriptors_;
  std::map<ProcessId, Polling> polling_;
  std::set<ProcessId> running_;  // one of its threads does not wait
  Blocked result_;
};

}  // namespace

const char* wait_kind_name(Wait::Kind kind) {
  constexpr const char* kNames[] = {"channel", "process", "child", "creation",
                                    "signal",  "lock",    "timer", "other"};
  return kNames[kind];
}

std::vector<std::vector<ProcessId>> circles_of(const std::vector<std::vector<ProcessId>>& waits_for) {
  // Whoever waits for one that can go on can go on some time. What is left when all these are gone cannot.
  std::vector<bool> stuck(waits_for.size());
  for (ProcessId p = 0; p < stuck.size(); p++) stuck[p] = !waits_for[p].empty();
  for (bool changed = true; changed;) {
    changed = false;
    for (ProcessId p = 0; p < stuck.size(); p++)
      if (stuck[p] &&
          std::any_of(waits_for[p].begin(), waits_for[p].end(), [&](ProcessId g) { return !stuck[g]; })) {
        stuck[p] = false;
        changed = true;
      }
  }
  // From each of them a way along those they wait for ends up in a circle.
  std::vector<std::vector<ProcessId>> circles;
  std::vector<bool> seen(stuck.size(), false);
  for (ProcessId first = 0; first < stuck.size(); first++) {
    std::vector<ProcessId> way;
    ProcessId p = first;
    for (; stuck[p] && !seen[p]; p = waits_for[p][0]) {
      seen[p] = true;
      way.push_back(p);
    }
    if (const auto begin = std::find(way.begin(), way.end(), p); begin != way.end())
      circles.emplace_back(begin, way.end());
  }
  return circles;
}

Blocked blocked(const Causality& causality, const Cut& cut, Sessions& sessions) {
  return Finder(causality, cut, sessions).find();
}

}  // namespace backstep::cluster
