// The scan goes by what the log has: whom a signal came from is in its siginfo, whom a wait found is its
// result, and the time is in what the program read of clocks, and in the header of each chunk.
#include "cluster/process_scan.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include <fmt/format.h>

#include "base/error.h"
#include "guest/syscall_print.h"
#include "recording/log_reader.h"

namespace backstep::cluster {
namespace {

using recording::Event;
using recording::EventKind;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kFinest = 1'000'000;  // clocks are read often; a millisecond is enough

class Scanner {
 public:
  Scanner(ProcessScan& scan, ProcessId id, const std::set<uint64_t>& wanted)
      : s_(scan), id_(id), wanted_(wanted) {}

  void read(recording::LogReader& reader) {
    Event e;
    uint64_t chunk = 0;
    while (reader.next(e)) {
      if (reader.wall_ns() != chunk) {
        chunk = reader.wall_ns();
        wall_minus_monotonic_ =
            reader.monotonic_ns() ? static_cast<int64_t>(chunk - reader.monotonic_ns()) : 0;
        time(e.number, static_cast<int64_t>(chunk));
      }
      see(e);
    }
  }

 private:
  Point point(const Event& e) const {
    Point p;
    p.process = id_;
    p.at = {e.tick, s_.base + e.number, e.pc};
    p.thread = e.thread;
    p.own_event = e.number;
    p.order = e.order.number();
    if (e.kind == EventKind::Syscall) p.nr = e.nr;
    return p;
  }
  static bool has_place(const Event& e) {
    switch (e.kind) {
      case EventKind::Syscall:
      case EventKind::Instr:
      case EventKind::Signal:
      case EventKind::Turn:
      case EventKind::Shared:
      case EventKind::Resize:
      case EventKind::Gap:
      case EventKind::End:
        return true;
      default:
        return false;
    }
  }
  void time(uint64_t event, int64_t wall_ns) {
    if (s_.times.empty() || wall_ns - s_.times.back().wall_ns >= kFinest || wall_ns < s_.times.back().wall_ns)
      s_.times.push_back({event, wall_ns});
  }
  void see(const Event& e) {
    const Point here = point(e);
    if (has_place(e)) {
      see_thread(e, here);
      if (!s_.first) s_.first = here;
      s_.last = here;
    } else if (e.kind == EventKind::Start) {
      s_.first = here;
    }
    s_.events = e.number + 1;
    if (wanted_.count(e.number)) s_.wanted[e.number] = here;
    if (e.flags & recording::kAsynchronous) see_told_to_end(e, here);
    interrupted_.reset();
    switch (e.kind) {
      case EventKind::Gap:
        s_.gaps++;
        break;
      case EventKind::Signal:
        return see_signal(e, here);
      case EventKind::End:
        s_.ended = true;
        s_.exits = e.end == recording::EndKind::Exit || e.end == recording::EndKind::Signal;
        break;
      case EventKind::Syscall:
        return see_call(e, here);
      default:
        break;
    }
  }
  // A thread begins with the first event of its own. What a child of vfork does is told where its parent does
  // it.
  void see_thread(const Event& e, const Point& here) {
    if (threads_.insert(e.thread).second && threads_.size() > 1 && !lodgers_.count(e.thread))
      own("thread-begins", here, fmt::format("thread {}", e.thread));
    if (e.kind != EventKind::Turn) return;
    const auto reason = static_cast<recording::TurnReason>(e.nr);
    if (reason == recording::TurnReason::Vforked) lodgers_.insert(e.next_thread);
    if (reason == recording::TurnReason::Ended && !lodgers_.count(e.thread))
      own("thread-done", here, fmt::format("thread {}", e.thread));
  }
  void own(const char* kind, const Point& here, std::string what) {
    s_.own_events.push_back({here, kind, std::move(what)});
  }
  void see_signal(const Event& e, const Point& here) {
    siginfo_t info{};
    std::memcpy(&info, e.body.data(), std::min(e.body.size(), sizeof info));
    const bool sent = info.si_code == SI_USER || info.si_code == SI_TKILL || info.si_code == SI_QUEUE;
    if (sent && info.si_pid > 0) s_.signals.push_back({here, info.si_pid, e.signo});
  }
  // What ends a process that hangs interrupts its call first.
  void see_told_to_end(const Event& e, const Point& here) {
    int signo = 0;
    if (e.kind == EventKind::Signal) signo = e.signo;
    if (e.kind == EventKind::End && e.end == recording::EndKind::Signal) signo = static_cast<int>(e.result);
    if (signo == SIGTERM || signo == SIGINT || signo == SIGQUIT ||
        (signo == SIGHUP && e.kind == EventKind::End))
      s_.told_to_end.push_back({here, signo, interrupted_.value_or(here.at)});
  }
  void see_call(const Event& e, const Point& here) {
    if (e.result == -EINTR) interrupted_ = here.at;
    if (guest::is_error(e.result)) return;
    switch (e.nr) {
      case SYS_kill:
      case SYS_tkill:
      case SYS_rt_sigqueueinfo:
        s_.kills.push_back({here, static_cast<int>(e.args[0]), static_cast<int>(e.args[1])});
        break;
      case SYS_tgkill:
      case SYS_rt_tgsigqueueinfo:
        s_.kills.push_back({here, static_cast<int>(e.args[0]), static_cast<int>(e.args[2])});
        break;
      case SYS_wait4:
        if (e.result > 0) s_.waits.push_back({here, static_cast<int>(e.result)});
        break;
      case SYS_waitid: {
        siginfo_t info{};
        for (const auto& p : e.pieces)
          if (p.kind == recording::PieceKind::OutAtArg && p.arg == 2)
            std::memcpy(&info, p.bytes.data(), std::min(p.bytes.size(), sizeof info));
        if (info.si_pid > 0) s_.waits.push_back({here, info.si_pid});
        break;
      }
      case SYS_clock_gettime:
        see_clock(e, static_cast<int>(e.args[0]));
        break;
      case SYS_epoll_create:
      case SYS_epoll_create1:
        own("set-creation", here, fmt::format("descriptor {}", e.result));
        break;
      case SYS_epoll_ctl:
        if (e.args[1] == EPOLL_CTL_ADD || e.args[1] == EPOLL_CTL_DEL)
          own(e.args[1] == EPOLL_CTL_ADD ? "set-adds" : "set-removes", here,
              fmt::format("descriptor {} in {}", static_cast<int>(e.args[2]), static_cast<int>(e.args[0])));
        break;
      default:
        break;
    }
  }
  void see_clock(const Event& e, int clock) {
    // The coarse clocks are late by up to a tick of the kernel's: no later end of a span, and seldom read
    // alone.
    const bool real = clock == CLOCK_REALTIME;
    const bool monotonic = clock == CLOCK_MONOTONIC && wall_minus_monotonic_;
    int64_t words[2];
    if ((!real && !monotonic) || e.pieces.empty() || e.pieces[0].bytes.size() != sizeof words) return;
    std::memcpy(words, e.pieces[0].bytes.data(), sizeof words);
    time(e.number, words[0] * kSecond + words[1] + (real ? 0 : wall_minus_monotonic_));
  }

  ProcessScan& s_;
  ProcessId id_;
  const std::set<uint64_t>& wanted_;
  int64_t wall_minus_monotonic_ = 0;
  std::set<int> threads_, lodgers_;
  std::optional<replayer::Position> interrupted_;  // the last event was a call that a signal ended
};

}  // namespace

ProcessScan scan_process(const recording::Recording& recording, const recording::ProcessInfo& info,
                         ProcessId id, uint64_t base, const std::set<uint64_t>& wanted) {
  ProcessScan s;
  s.base = base;
  if (info.empty) return s;
  try {
    recording::LogReader reader(recording.log_path(info.number),
                                recording::first_thread(recording, info.number));
    s.version = reader.file().header().version;
    Scanner(s, id, wanted).read(reader);
    s.damage = reader.damage();
  } catch (const Error& e) {
    s.damage = e.what();
  }
  constexpr uint64_t kCall = 2;  // the length of the `syscall` instruction
  if (info.birth == recording::Birth::Fork && s.first)
    s.begin = {s.first.at.tick, s.first.at.event + 1, s.first.at.pc + kCall};
  s.end = s.last ? s.last.at : s.begin;
  return s;
}

}  // namespace backstep::cluster
