// A thread spins if it has polled a few times in a row and been told that there is nothing, and did nothing
// in between that anybody could notice or that could change its mind, but for looking at the time.
#include "cluster/polling.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "guest/syscall_print.h"
#include "recording/log_reader.h"
#include "recording/tree.h"

namespace backstep::cluster {
namespace {

using recording::Event;

constexpr int kOften = 3;

class PollReader {
 public:
  void see(const Event& e) {
    switch (e.nr) {
      case SYS_epoll_ctl:
        if (!guest::is_error(e.result)) change_set(e);
        break;
      case SYS_close:
        polling_.sets.erase(static_cast<int>(e.args[0]));
        for (auto& [set, fds] : polling_.sets) fds.erase(static_cast<int>(e.args[0]));
        break;
      default:
        break;
    }
    Spin& spin = spins_[e.thread];
    if (const auto fds = asked(e); fds && found_nothing(e))
      spin.times++, spin.fds.insert(fds->begin(), fds->end());
    else if (!is_idle(e))
      spin = {};
  }
  Polling take() {
    for (const auto& [thread, spin] : spins_)
      if (spin.times >= kOften) polling_.spinning[thread] = spin.fds;
    return std::move(polling_);
  }

 private:
  struct Spin {
    int times = 0;
    std::set<int> fds;
  };

  void change_set(const Event& e) {
    std::set<int>& fds = polling_.sets[static_cast<int>(e.args[0])];
    const int fd = static_cast<int>(e.args[2]);
    if (e.args[1] == EPOLL_CTL_ADD) fds.insert(fd);
    if (e.args[1] == EPOLL_CTL_DEL) fds.erase(fd);
  }
  // The descriptors that a call asks for; none: it is no such call.
  std::optional<std::set<int>> asked(const Event& e) const {
    switch (e.nr) {
      case SYS_poll:
      case SYS_ppoll:
        return in_array(e);
      case SYS_epoll_wait:
      case SYS_epoll_pwait: {
        const auto set = polling_.sets.find(static_cast<int>(e.args[0]));
        return set == polling_.sets.end() ? std::set<int>() : set->second;
      }
      case SYS_read:
      case SYS_readv:
      case SYS_recvfrom:
      case SYS_recvmsg:
      case SYS_accept:
      case SYS_accept4:
        return e.result == -EAGAIN ? std::optional(std::set<int>{static_cast<int>(e.args[0])}) : std::nullopt;
      default:
        return std::nullopt;
    }
  }
  static bool found_nothing(const Event& e) {
    return e.result == 0 || e.result == -EAGAIN || e.result == -EINTR;
  }
  static std::set<int> in_array(const Event& e) {
    std::set<int> fds;
    for (const auto& p : e.pieces)
      if (p.kind == recording::PieceKind::OutAtArg && p.arg == 0)
        for (size_t i = 0; i + sizeof(pollfd) <= p.bytes.size(); i += sizeof(pollfd)) {
          pollfd entry;
          std::memcpy(&entry, p.bytes.data() + i, sizeof entry);
          if (entry.fd >= 0) fds.insert(entry.fd);
        }
    return fds;
  }
  static bool is_idle(const Event& e) {
    switch (e.nr) {
      case SYS_sched_yield:
      case SYS_clock_gettime:
      case SYS_gettimeofday:
      case SYS_time:
      case SYS_getcpu:
      case SYS_nanosleep:
      case SYS_clock_nanosleep:
        return true;
      default:
        return false;
    }
  }

  Polling polling_;
  std::map<int, Spin> spins_;
};

}  // namespace

Polling polling_at(const History& history, ProcessId process, uint64_t own_event) {
  const ProcessOfRun& p = history.processes[process];
  const recording::Recording recording(history.hosts[p.host].recording);
  recording::LogReader reader(recording.log_path(p.log), recording::first_thread(recording, p.log));
  PollReader polls;
  Event e;
  while (reader.next(e) && e.number < own_event)
    if (e.kind == recording::EventKind::Syscall) polls.see(e);
  return polls.take();
}

}  // namespace backstep::cluster
