// Who has the turn, who wants it, who waits for what. Books only: the log, guest memory and signals are the
// recorder's (record_threads.cc).
#pragma once
#include <csignal>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "guest/thread.h"
#include "record/body_hot.h"
#include "record/scratch.h"

namespace backstep::recorder {

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
int64_t monotonic_ns();

// What we know of the descriptors of a guest thread that does not share those of the others (record_seats.cc;
// lodgers without CLONE_FILES), while another one has the turn.
struct Table {
  std::vector<uint8_t> kinds;               // HotState::fd_kind
  std::map<int, std::string> proc_folders;  // Recorder::proc_folders_
};

// What the recorder knows of a guest thread. The call that it waits in is described here until it is
// finished.
struct Task {
  guest::Thread* thread = nullptr;
  std::unique_ptr<Body> body;  // null: none needed yet (first thread)

  enum class Wait {
    None,
    Futex,   // for a wake-up of futex `key`
    Sleep,   // for the deadline
    Call,    // for its body
    Signal,  // for a signal (pause, rt_sigsuspend)
  } wait = Wait::None;
  uint64_t nr = 0, args[6] = {}, counts[6] = {};
  int64_t result = 0;
  bool scratched = false;  // results are in `scratch`
  bool teased = false;     // chaos: the call is to end with EINTR though no signal has come
  Scratch scratch;
  uint64_t key = 0;
  uint32_t bitset = 0;
  int64_t timeout[2] = {};     // for the kernel, of a futex in shared memory
  int64_t deadline = kNever;   // CLOCK_MONOTONIC
  int64_t timeout_result = 0;  // what it means when that passes

  std::vector<siginfo_t> signals;  // sent to this thread and not delivered yet, oldest first
  // What the kernel thread with its tid blocks, if that is not the runner (Recorder::show_mask): everything
  // at first; none: not known.
  std::optional<uint64_t> shown_mask = ~0ull;
  bool begins = true;      // nothing else was shown yet
  bool unsettled = false;  // the kernel thread may not have heard of it yet
  // Takes one of these out: the lowest number first, then the oldest, as the kernel does.
  std::optional<siginfo_t> take_signal(uint64_t wanted);
  int64_t delayed_until = 0;  // chaos: not before this; 0: not decided
  int64_t cpu_ns = 0;         // time with the turn, without the current one

  // ptrace by a lodger (record_lodgers.cc). Who is held does not get the turn, and gets in line when it is
  // let go if it wanted to meanwhile.
  Task* tracer = nullptr;
  bool held = false, wanting = false;
  int stop = 0;                  // status for wait4 that its tracer has not asked for yet
  std::shared_ptr<Body> seat;    // where the runner is while it has the turn; null: where it is usually
  std::shared_ptr<Table> table;  // null: the one that the program began with
  bool lost = false;             // its body was killed, or leaves
  // Where others see whether it waits (published.h); null: nowhere.
  uint32_t* shown = nullptr;
  void show(bool waits) const {
    if (shown) __atomic_store_n(shown, waits, __ATOMIC_RELAXED);
  }
};

class Turns {
 public:
  Turns();

  Task& current() { return *current_; }
  const Task& current() const { return *current_; }
  Task& add(guest::Thread& thread, std::unique_ptr<Body> body);
  void remove(Task& task);                  // not the current one
  void retire(std::shared_ptr<Body> body);  // its kernel thread leaves
  void keep_only_current();
  Task* by_tid(int tid);
  Task* first();  // the first thread of the process; null: it has ended
  const std::map<int, std::unique_ptr<Task>>& tasks() const { return tasks_; }

  // The queue of those that want the turn. The one that has it is not in there.
  bool anyone_ready() const { return !ready_.empty(); }
  size_t ready_count() const { return ready_.size(); }
  void make_ready(Task& task, bool first = false);
  const std::deque<Task*>& ready() const { return ready_; }
  Task& take_ready(size_t index = 0);
  void hold(Task& task);
  void let_go(Task& task);
  // It never gets the turn again.
  void drop(Task& task);
  void set_current(Task& task, int64_t now);
  int64_t turn_started() const { return turn_started_; }

  // Waiting. `finish`: the call has a result, the thread wants the turn.
  void wait(Task& task, Task::Wait what, int64_t deadline, int64_t timeout_result);
  void wait_futex(Task& task, uint64_t key, uint32_t bitset, int64_t deadline);
  void finish(Task& task, int64_t result, bool first = false);
  // A signal ends the wait. (A body needs a moment for that; the call may also still succeed.)
  void interrupt(Task& task);
  // Wakes up to `most` waiters of a futex, oldest first; `requeue_to` takes up to `most_requeued` of the
  // rest.
  int wake(uint64_t key, int most, uint32_t bitset);
  int requeue(uint64_t key, uint64_t to, int most);
  Task* first_waiter(uint64_t key);
  size_t waiters(uint64_t key) const;

  // Bodies that are done and deadlines that have passed.
  void collect();
  int64_t next_deadline() const { return deadlines_.empty() ? kNever : deadlines_.begin()->first; }
  // Sleeps until something happens.
  void idle(int64_t until = kNever);

 private:
  void forget_futex(Task& task);
  void drop_deadline(Task& task);
  void bury();  // frees bodies whose kernel threads are gone

  std::map<int, std::unique_ptr<Task>> tasks_;  // by name
  Task* current_;
  std::deque<Task*> ready_;
  std::map<uint64_t, std::deque<Task*>> futexes_;
  std::set<std::pair<int64_t, Task*>> deadlines_;
  std::vector<std::shared_ptr<Body>> leaving_;
  unsigned calls_ = 0;  // tasks that wait for their bodies
  uint32_t seen_ = 0;
  int64_t turn_started_ = 0;
};

}  // namespace backstep::recorder
