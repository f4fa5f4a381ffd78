// Who writes to a pipe has done what came before that when somebody reads from it; likewise sockets,
// eventfds, files, queues, futexes, signals. A call that gives does so where it was made, even if it had to
// wait then, and one that takes has done it when it returns: so what goes through a full pipe is in order,
// too.
//
// What exactly a read got, and of whom, is not looked at: it comes behind all that was given to the same
// thing before. All sockets but pairs are one thing, since the log does not say which belong together; that
// is how ThreadSanitizer has it, too. So some pairs of accesses count as ordered that are not, but none the
// other way round.
#include "session/thread_order.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>

#include "session/channels.h"

namespace backstep::session {
namespace {

using recording::Event;

// Gives names that are no addresses to things.
class Things {
 public:
  Address of(const std::string& kind, uint64_t a = 0, uint64_t b = 0, int c = 0) {
    constexpr Address kNoAddress = 0xf000'0000'0000'0000;
    const auto [place, fresh] = names_.try_emplace({kind, a, b, c}, kNoAddress + names_.size());
    return place->second;
  }

 private:
  std::map<std::tuple<std::string, uint64_t, uint64_t, int>, Address> names_;
};

class CallsThatOrder {
 public:
  CallsThatOrder(Session& session, const SpansByThread& known)
      : log_(session.timeline().log()), recording_(session.recording()), known_(known) {}

  std::vector<SyncEvent> events() {
    Channels channels(recording_);
    channels.each_call(log_.process(), [&](const ChannelCall& call) { look_at(call); });
    for (const timeline::SignalMoment& s : log_.signals()) deliver(s);
    return std::move(events_);
  }

 private:
  void look_at(const ChannelCall& call) {
    const Event& e = call.event;
    switch (e.nr) {
      case SYS_write:
      case SYS_writev:
      case SYS_pwrite64:
      case SYS_pwritev:
      case SYS_pwritev2:
      case SYS_sendto:
      case SYS_sendmsg:
      case SYS_sendmmsg:
      case SYS_close:
      case SYS_shutdown:
        return give(call, thing(call, e.args[0], true));
      case SYS_read:
      case SYS_readv:
      case SYS_pread64:
      case SYS_preadv:
      case SYS_preadv2:
      case SYS_recvfrom:
      case SYS_recvmsg:
      case SYS_recvmmsg:
        return take(call, thing(call, e.args[0], false));
      case SYS_splice:
      case SYS_tee:
        take(call, thing(call, e.args[0], false));
        return give(call, thing(call, e.args[e.nr == SYS_splice ? 2 : 1], true));
      case SYS_sendfile:
        take(call, thing(call, e.args[1], false));
        return give(call, thing(call, e.args[0], true));
      case SYS_flock:
        return both(call, thing(call, e.args[0], true));
      case SYS_connect:
        return give(call, things_.of("connect"));
      case SYS_accept:
      case SYS_accept4:
        return take(call, things_.of("connect"));
      case SYS_msgsnd:
        return give(call, things_.of("queue", e.args[0]));
      case SYS_msgrcv:
        return take(call, things_.of("queue", e.args[0]));
      case SYS_mq_timedsend:
        return give(call, things_.of("queues"));
      case SYS_mq_timedreceive:
        return take(call, things_.of("queues"));
      case SYS_semop:
      case SYS_semtimedop:
        return both(call, things_.of("semaphores", e.args[0]));
      case SYS_futex:
        return futex(call);
      case SYS_kill:
      case SYS_tkill:
      case SYS_rt_sigqueueinfo:
      case SYS_pidfd_send_signal:
        return give(call, things_.of("signal", e.args[1]));
      case SYS_tgkill:
      case SYS_rt_tgsigqueueinfo:
        return give(call, things_.of("signal", e.args[2]));
      case SYS_rt_sigtimedwait:
        return take(call, things_.of("signal", static_cast<uint64_t>(e.result)));
      default:
        return;
    }
  }

  // What a descriptor is; 0: nothing that is known.
  Address thing(const ChannelCall& call, uint64_t fd, bool gives) {
    auto found = call.table.find(static_cast<int>(fd));
    if (found == call.table.end()) return 0;
    const OpenFile& f = *found->second.file;
    switch (f.kind) {
      case OpenFile::Pipe:
        return things_.of("pipe", f.process, f.event);
      case OpenFile::SocketPair:  // by the end that the bytes come out of
        return things_.of("socket pair", f.process, f.event, gives ? 1 - f.end : f.end);
      case OpenFile::Events:
        return things_.of("eventfd", f.process, f.event);
      case OpenFile::Socket:
        return things_.of("sockets");
      case OpenFile::File:
        return things_.of("file " + f.name);
      default:
        return 0;
    }
  }

  void futex(const ChannelCall& call) {
    const Event& e = call.event;
    auto spans = known_.find(e.thread);
    if (spans != known_.end()) {
      const auto& list = spans->second;
      auto behind = std::upper_bound(list.begin(), list.end(), call.began,
                                     [](Tick t, const Span& s) { return t < s.enter; });
      for (int looked = 0; behind != list.begin() && looked < 8; looked++)  // they may lie in each other
        if (std::prev(behind--)->leave >= call.began) return;
    }
    const Address first = things_.of("futex", e.args[0]), second = things_.of("futex", e.args[4]);
    switch (e.args[1] & FUTEX_CMD_MASK) {
      case FUTEX_WAKE:
      case FUTEX_WAKE_BITSET:
      case FUTEX_UNLOCK_PI:
        return give(call, first);
      case FUTEX_REQUEUE:
      case FUTEX_CMP_REQUEUE:
      case FUTEX_CMP_REQUEUE_PI:
      case FUTEX_WAKE_OP:
        give(call, first);
        return give(call, second);
      case FUTEX_WAIT:
      case FUTEX_WAIT_BITSET:
      case FUTEX_LOCK_PI:
      case FUTEX_LOCK_PI2:
      case FUTEX_TRYLOCK_PI:
        return take(call, first);
      case FUTEX_WAIT_REQUEUE_PI:
        take(call, first);
        return take(call, second);
      default:
        return;
    }
  }

  // A signal that a process has sent: whoever sent the same one before comes before its handler.
  void deliver(const timeline::SignalMoment& s) {
    siginfo_t info{};
    std::memcpy(&info, s.siginfo.data(), std::min(s.siginfo.size(), sizeof info));
    if (info.si_code > 0 || s.moment.event < log_.own()) return;
    const auto& turns = log_.turns();
    auto next = std::upper_bound(turns.begin(), turns.end(), s.moment.tick,
                                 [](Tick t, const timeline::Turn& turn) { return t < turn.tick; });
    const int thread = next == turns.begin() ? 1 : std::prev(next)->thread;
    add(SyncEvent::Take, s.moment.tick, thread, things_.of("signal", static_cast<uint64_t>(s.signo)),
        s.moment.event + 1);
  }

  void give(const ChannelCall& call, Address what) {
    add(SyncEvent::Give, call.began, call.event.thread, what, log_.own() + call.began_event + 1);
  }
  void take(const ChannelCall& call, Address what) {
    add(SyncEvent::Take, call.event.tick, call.event.thread, what, log_.own() + call.event.number + 1);
  }
  void both(const ChannelCall& call, Address what) {
    give(call, what);
    take(call, what);
  }
  void add(SyncEvent::Kind kind, Tick tick, int thread, Address what, uint64_t event) {
    if (what) events_.push_back({kind, tick, thread, what, 0, 0, event});
  }

  const timeline::LogIndex& log_;
  const recording::Recording& recording_;
  const SpansByThread& known_;
  Things things_;
  std::vector<SyncEvent> events_;
};

}  // namespace

std::vector<SyncEvent> calls_that_order(Session& session, const SpansByThread& known) {
  return CallsThatOrder(session, known).events();
}

}  // namespace backstep::session
