// What a process waits for is the next event of the graph, if that needs something outside the cut. What
// would do as well is looked for among its later events: all of whose givers are inside. Whether the call
// could have taken it is known from the two (the same socket, the same listener), or from the log: wait4 for
// any child, and a poll, select or epoll since the thread got something last.
#include "cluster/delayed.h"

#include <sys/syscall.h>
#include <sys/wait.h>

#include <fmt/format.h>

#include <optional>

#include "base/error.h"
#include "recording/log_reader.h"
#include "recording/tree.h"

namespace backstep::cluster {
namespace {

using Link = Causality::Link;

bool is_choice(uint16_t nr) {
  switch (nr) {
    case SYS_poll:
    case SYS_ppoll:
    case SYS_select:
    case SYS_pselect6:
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
      return true;
    default:
      return false;
  }
}

// Of the call that a process is held in front of.
struct HeldCall {
  bool any_child = false;  // waits for whichever ends
  bool chosen = false;     // one of several descriptors: the thread has polled since it got something last
};

class Delays {
 public:
  Delays(const Causality& causality, const Cut& cut)
      : causality_(causality), history_(causality.history()), cut_(cut), counts_(counts_of(causality, cut)) {}

  std::vector<Delay> find() {
    std::vector<Delay> delays;
    for (ProcessId p = 0; p < cut_.places.size(); p++)
      if (const auto needed = held_by(p))
        if (const auto delay = delay_of(p, *needed)) delays.push_back(*delay);
    return delays;
  }

 private:
  const Point& from(const Link& l) const { return l.transfer ? l.transfer->sent : l.edge->from; }
  const Point& to(const Link& l) const { return l.transfer ? l.transfer->received : l.edge->to; }
  bool has_happened(const Link& l) const {
    const GraphEvent e = causality_.find(from(l));
    return e.process != kNone && e.index < counts_[e.process];
  }

  // What the process stands in front of and has not got.
  std::optional<Link> held_by(ProcessId p) const {
    const Place& place = cut_.places[p];
    if (place.state != Place::Running || counts_[p] >= causality_.length(p)) return std::nullopt;
    const GraphEvent next{p, counts_[p]};
    const Point& point = causality_.event(next).point;
    if (!place.waits && (place.at.event < point.at.event || place.at.tick < point.at.tick))
      return std::nullopt;
    for (const Link& link : causality_.links_into(next))
      if (!has_happened(link)) return link;
    return std::nullopt;
  }

  std::optional<Delay> delay_of(ProcessId p, const Link& needed) {
    std::optional<HeldCall> call;
    for (EventCount later = counts_[p] + 1; later < causality_.length(p); later++)
      for (const Link& other : causality_.links_into({p, later})) {
        if (!has_happened(other) || from(other).process == p) continue;
        if (!call) call = call_at(p, to(needed));
        const auto kind = would_do(needed, other, *call);
        if (!kind) continue;
        const Point& point = to(needed);
        return Delay{*kind,
                     p,
                     point.thread,
                     point.at,
                     causality_.text(needed),
                     from(needed).process,
                     causality_.text(other),
                     from(other).process};
      }
    return std::nullopt;
  }

  std::optional<Delay::Kind> would_do(const Link& needed, const Link& other, const HeldCall& call) const {
    if (to(needed).thread != to(other).thread) return std::nullopt;
    if (needed.transfer && other.transfer && needed.transfer->channel == other.transfer->channel) {
      // What one sender has put into a stream is behind what it had put there before.
      const bool ordered = from(needed).process == from(other).process &&
                           !history_.channels[needed.transfer->channel].datagrams;
      return ordered ? std::nullopt : std::optional(Delay::Overtaken);
    }
    const auto edge = [](const Link& l, Edge::Kind kind) { return l.edge && l.edge->kind == kind; };
    if (edge(needed, Edge::Connect) && edge(other, Edge::Connect) && same_listener(needed, other))
      return Delay::Queue;
    if (edge(needed, Edge::Wait))
      return edge(other, Edge::Wait) && call.any_child ? std::optional(Delay::Child) : std::nullopt;
    const bool comes = other.transfer || edge(other, Edge::Connect) || edge(other, Edge::Close);
    return call.chosen && comes ? std::optional(Delay::Choice) : std::nullopt;
  }

  bool same_listener(const Link& a, const Link& b) const {
    const auto& channels = history_.channels;
    if (a.edge->channel >= channels.size() || b.edge->channel >= channels.size()) return false;
    const ChannelEnd &x = channels[a.edge->channel].ends[1], &y = channels[b.edge->channel].ends[1];
    return !x.local.empty() && x.local == y.local && x.net == y.net;
  }

  HeldCall call_at(ProcessId p, const Point& held) const {
    HeldCall call;
    const ProcessOfRun& process = history_.processes[p];
    // What it got before is no news any more. In front of the first thing, all of its log counts.
    uint64_t got = 0;
    for (EventCount before = counts_[p]; before-- > 1;) {
      const Point& point = causality_.event({p, before}).point;
      if (point.thread != held.thread || causality_.links_into({p, before}).empty()) continue;
      got = point.own_event;
      break;
    }
    try {
      const recording::Recording recording(history_.hosts[process.host].recording);
      recording::LogReader reader(recording.log_path(process.log),
                                  recording::first_thread(recording, process.log));
      recording::Event e;
      while (reader.next(e) && e.number <= held.own_event) {
        if (e.kind != recording::EventKind::Syscall || e.thread != held.thread) continue;
        if (e.number > got && is_choice(e.nr)) call.chosen = true;
        if (e.number == held.own_event)
          call.any_child = (e.nr == SYS_wait4 && static_cast<int>(e.args[0]) <= 0) ||
                           (e.nr == SYS_waitid && e.args[0] != P_PID);
      }
    } catch (const Error&) {
      // A damaged log: nothing is known of it, and so not that it could have gone on.
    }
    return call;
  }

  const Causality& causality_;
  const History& history_;
  const Cut& cut_;
  Counts counts_;
};

}  // namespace

const char* delay_kind_name(Delay::Kind kind) {
  constexpr const char* kNames[] = {"overtaken", "queue", "child", "choice"};
  return kNames[kind];
}

std::vector<Delay> delayed(const Causality& causality, const Cut& cut) {
  return Delays(causality, cut).find();
}

}  // namespace backstep::cluster
