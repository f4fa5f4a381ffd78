// Threads that do not share everything with the others of their process: descriptors (unshare(CLONE_FILES),
// clone without CLONE_FILES, close_range with CLOSE_RANGE_UNSHARE), working directory, root and umask
// (CLONE_FS), mount, network and other namespaces (unshare, setns).
//
// For the kernel all that belongs to a kernel thread, and there is no call to take on that of another one.
// But guest code need not always run on the same one. Such a guest thread gets a *seat*, a kernel thread that
// its body starts when it has done what the guest asked for, so that both have the same descriptors. When the
// guest thread gets the turn, the runner goes there (move_runner): the same code on the same stack goes on,
// only that whatever it asks of the kernel, to open, map, fork or execute, is asked by the seat. Threads that
// are started there share its world, as natively. A turn between two seats costs some microseconds, others
// cost what they always did.
//
// The kernel shows the world of the first kernel thread of a process as the whole process's (/proc/self/fd,
// /proc/PID/cwd). That is right if it is the first guest thread's. So when this one parts from the others,
// the runner leaves the first kernel thread to it, as its body, for good.
//
// Our own descriptors are in each of these tables, under the same numbers: those that we may need are opened
// before the first thread parts.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>

#include "record/mid_call.h"
#include "record/recorder.h"
#include "recording/stored_state.h"

namespace backstep::recorder {

using namespace guest;

namespace {

bool is_alone_for_kernel() {
  std::error_code ignored;
  const auto tasks = std::filesystem::directory_iterator("/proc/self/task", ignored);
  return std::distance(begin(tasks), end(tasks)) <= 1;
}

void block_in_body(Body& body, uint64_t mask) {
  body.mask = mask;
  for (int signo : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) mask &= ~(1ull << (signo - 1));
  const uint64_t args[6] = {SIG_SETMASK, reinterpret_cast<uint64_t>(&mask), 0, 8};
  call_now(body, SYS_rt_sigprocmask, args);
}

// What a kernel thread blocks for a guest thread that blocks this. Some come to who makes a call for the
// guest, and are for who asked for it (finish_call).
//
// The first process of a PID namespace ignores signals that would kill it, but the kernel forgets that while
// its first thread blocks one, as the runner does now and then, and another thread does not: there, all do.
uint64_t mask_in_body(uint64_t mask) {
  if (getpid() == 1) return ~0ull;
  for (int signo : {SIGPIPE, SIGXFSZ, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGKILL, SIGSTOP})
    mask |= 1ull << (signo - 1);
  return mask;
}

}  // namespace

// --- what we know of descriptors ---

Table Recorder::table_now() const {
  return {{std::begin(bs_record.fd_kind), std::end(bs_record.fd_kind)}, proc_folders_};
}

// The turn goes from one to the other.
void Recorder::use_table(Task& from, Task& next) {
  if (from.table == next.table) return;
  (from.table ? *from.table : table_) = table_now();
  const Table& theirs = next.table ? *next.table : table_;
  std::copy(theirs.kinds.begin(), theirs.kinds.end(), bs_record.fd_kind);
  proc_folders_ = theirs.proc_folders;
}

// --- where the runner is ---

void Recorder::sit_for(const Task& next) {
  Body& seat = next.seat ? *next.seat : *home_;
  if (&seat == seat_) return;
  leave_to_first(*seat_);
  move_runner(*std::exchange(seat_, &seat), seat);
  set_real_mask();
}

// The runner is about to leave a kernel thread. If the first guest thread has its tid, signals to that one
// come there.
void Recorder::leave_to_first(Body& left) {
  Task* first = turns_.first();
  if (!first || first->thread->tid != left.tid) return;
  left.mask = mask_in_body(mask_of(*first));
  first->shown_mask = left.mask;
  first->begins = false;
}

// For good: the other seats are given up.
void Recorder::go_home() {
  if (!seat_ || vfork_) return;
  if (seat_ != home_.get()) {
    leave_to_first(*seat_);
    move_runner(*std::exchange(seat_, home_.get()), *home_);
  }
  for (const auto& [name, task] : turns_.tasks())
    if (task->seat) end_body(*task->seat);
}

// Signals that are asked for are asked for by the kernel thread that is to have them.
void Recorder::take_timers_along() {
  if (timer_ >= 0) {
    syscall(SYS_timer_delete, timer_);
    timer_ = make_timer(CLOCK_MONOTONIC, kTurnSignal, kTurnTimer);
    armed_ = 0;
    arm_timer();
  }
  if (checkpoint_timer_ >= 0) {
    syscall(SYS_timer_delete, checkpoint_timer_);
    checkpoint_timer_ = make_timer(CLOCK_THREAD_CPUTIME_ID, kCheckpointSignal, kCheckpointTimer);
    checkpoint_cpu_ = recording::thread_cpu_seconds();
    await_checkpoint(options_.checkpoints);
  }
  if (look_timer_ >= 0) {
    syscall(SYS_timer_delete, look_timer_);
    look_regularly();
  }
  const f_owner_ex owner{F_OWNER_TID, gettid()};
  if (bs_record.our_fds[kQueueFd] >= 0) fcntl(bs_record.our_fds[kQueueFd], F_SETOWN_EX, &owner);
}

// The runner changes its usual place, from the kernel thread that it is on, which `left` is to have.
void Recorder::change_home(std::unique_ptr<Body>& left, std::unique_ptr<Body> home) {
  int at_parents_death = 0;  // this, too, belongs to a kernel thread
  prctl(PR_GET_PDEATHSIG, &at_parents_death);
  if (at_parents_death) prctl(PR_SET_PDEATHSIG, 0);
  left = std::exchange(home_, std::move(home));
  seat_ = home_.get();
  leave_to_first(*left);
  move_runner(*left, *home_);
  if (at_parents_death) prctl(PR_SET_PDEATHSIG, at_parents_death);
  set_real_mask();
  take_timers_along();
}

// The first kernel thread becomes the body of the first guest thread, which has the turn. False: the kernel
// refuses another one.
bool Recorder::leave_first() {
  Task& first = turns_.current();
  if (first.thread->tid != home_->tid) return true;
  auto home = std::make_unique<Body>();
  if (!prepare_stack(*home_) || !start_body(*home)) return false;
  if (first.body) turns_.retire(std::move(first.body));
  change_home(first.body, std::move(home));
  return true;
}

// Signals that are sent to the first thread alone, by a process that is not recorded, wait at the first
// kernel thread: if they are to be found by a call that waits, that one has to make it.
bool Recorder::leave_first_to_wait(uint64_t nr) {
  return (nr == SYS_rt_sigtimedwait || bs_record.signalfds) && !vfork_ && leave_first();
}

// --- signals to one thread ---
//
// Another process may send a signal to one thread alone, or to the process, and then the kernel chooses a
// thread that does not block it. It does both right by itself if each kernel thread that has the tid of a
// guest thread blocks what that one does. So bodies do; what comes there is passed on to the runner
// (record_hot.cc). Where the runner has the tid, which is the first guest thread's, it does so itself
// (set_real_mask).

// The one with its tid, if that is not where the runner is.
Body* Recorder::kernel_thread_of(const Task& task) const {
  if (!task.thread || task.thread->lodger) return nullptr;
  if (task.body && task.body->tid == task.thread->tid) return task.body.get();
  return home_ && home_->tid == task.thread->tid && seat_ != home_.get() ? home_.get() : nullptr;
}

uint64_t Recorder::mask_of(const Task& task) const {
  return task.thread == &process_.current() ? process_.signals.mask : task.thread->signals.mask;
}

// Behind this, what was pending and is not blocked any more has been passed on.
void Recorder::show_mask(Task& task) {
  Body* const body = vfork_ || !bs_record.threads ? nullptr : kernel_thread_of(task);
  if (!body || task.wait == Task::Wait::Call) return;  // in a call it has shown it before
  const uint64_t mask = mask_in_body(mask_of(task));
  if (task.shown_mask == mask) return;
  // The body need not have heard of it when the thread goes on, if nothing becomes open: a signal that comes
  // all the same is given back to the kernel (take_passed_signals), before anybody looks for it there
  // (settle_mask). Nor if the thread has just begun with all blocked, as they do: nobody knows it yet who
  // would have sent it anything.
  const bool soon = std::exchange(task.begins, false) || (task.shown_mask && !(*task.shown_mask & ~mask));
  task.shown_mask = mask;
  task.unsettled = soon;
  if (soon)
    take_mask_soon(*body, mask);
  else
    block_in_body(*body, mask);
}

// The current thread is about to make a call that may find signals.
void Recorder::settle_mask() {
  Task& task = turns_.current();
  Body* const body = kernel_thread_of(task);
  if (!std::exchange(task.unsettled, false) || !body) return;
  const uint64_t none[6] = {};
  call_now(*body, SYS_getpid, none);
  const MidCall here;
  route_signals();
  give_back_signals();  // those to the process that nobody takes
}

void Recorder::show_masks() {
  for (const auto& [name, task] : turns_.tasks()) show_mask(*task);
}

// The process ends, or becomes another program: what is sent to it from now on waits in the kernel, and no
// body takes it. Each is asked by a signal, for it may be in a call.
void Recorder::quiet_bodies() {
  if (vfork_ || !bs_record.threads) return;
  constexpr int kTries = 20'000;
  const timespec brief{0, 50'000};
  uint32_t asked = 0;
  bs_wakeups.quiet = 0;
  __atomic_store_n(&bs_wakeups.ending, 1, __ATOMIC_SEQ_CST);
  for (const auto& [name, task] : turns_.tasks()) {
    const Body* const body = kernel_thread_of(*task);
    if (!body || body->mask == ~0ull || !__atomic_load_n(&body->alive, __ATOMIC_SEQ_CST)) continue;
    asked++;
    quiet(*body);
    task->shown_mask.reset();
  }
  for (int i = 0; i < kTries && __atomic_load_n(&bs_wakeups.quiet, __ATOMIC_SEQ_CST) < asked; i++)
    nanosleep(&brief, nullptr);
  // Nor does a body send anything to the runner, because its call has ended, say: a signal that comes when
  // the kernel executes another program would kill that one.
  __atomic_store_n(&bs_wakeups.idle, 1, __ATOMIC_SEQ_CST);
  for (int i = 0; i < kTries && __atomic_load_n(&bs_wakeups.waking, __ATOMIC_SEQ_CST); i++)
    nanosleep(&brief, nullptr);
}

// It does not.
void Recorder::rouse_bodies() {
  if (vfork_ || !bs_record.threads) return;
  __atomic_store_n(&bs_wakeups.ending, 0, __ATOMIC_SEQ_CST);
  __atomic_store_n(&bs_wakeups.idle, 0, __ATOMIC_SEQ_CST);
  yielded_ = true;
  bs_record.turn_request = true;  // who has finished a call meanwhile has not said so
  show_masks();
}

// … and back, if no other guest thread is left.
void Recorder::return_to_first() {
  Task& first = turns_.current();
  if (first.thread->tid == home_->tid || first.seat || !first.body || !prepare_stack(*home_)) return;
  if (!thread_timers_.empty()) return;  // their signals come to where we are
  std::unique_ptr<Body> left;
  change_home(left, std::move(first.body));
  turns_.retire(std::move(left));
}

// --- calls ---

// The only thread: it changes what is its own, and kernel threads of ours come after that, as the kernel
// wants it for user namespaces.
int64_t Recorder::own_world_alone(const Syscall& row, uint64_t nr, const uint64_t args[6]) {
  Task& me = turns_.current();
  if (me.body) turns_.retire(std::move(me.body));
  const bool had_alarm = alarm_ != nullptr;
  if (had_alarm) {
    interrupt_call(*alarm_);
    turns_.retire(std::move(alarm_));
  }
  constexpr int kTries = 1000;
  const timespec moment{0, 100'000};
  for (int i = 0; i < kTries && !is_alone_for_kernel(); i++) nanosleep(&moment, nullptr);
  const int64_t result = execute(row, nr, args);
  if (had_alarm) {
    alarm_ = std::make_unique<Body>();
    if (!start_body(*alarm_)) alarm_.reset();
  }
  return result;
}

// Before the first thread parts from the others: what we have open must be open in both tables.
void Recorder::open_all_of_ours() {
  keep_folder();
  open_queue();
}

// The thread's body has got a world of its own. False: there is no seat for it there.
bool Recorder::take_own_seat(Task& task, bool own_files) {
  auto seat = std::make_shared<Body>();
  if (!prepare_stack(*home_) || !start_by(*task.body, *seat)) {
    note_once("a thread that wanted descriptors or namespaces of its own got no kernel thread for that");
    return false;
  }
  const std::shared_ptr<Body> before = std::exchange(task.seat, seat);
  if (own_files) {
    if (&task == &turns_.current()) (task.table ? *task.table : table_) = table_now();
    task.table = std::make_shared<Table>(table_now());
  }
  if (&task == &turns_.current()) sit_for(task);
  if (before && before.use_count() == 1) turns_.retire(before);
  return true;
}

// unshare or setns in a program with threads.
int64_t Recorder::do_own_world(const Syscall& row, uint64_t nr, const uint64_t args[6]) {
  Task& me = turns_.current();
  const bool own_files = nr == SYS_unshare && args[0] & CLONE_FILES;
  if (own_files) open_all_of_ours();
  if (turns_.tasks().size() == 1 && me.thread->tid == getpid()) {
    return_to_first();
    if (me.thread->tid == home_->tid) return own_world_alone(row, nr, args);
  }
  if (!leave_first()) return -ENOMEM;
  const int64_t result = call_now(*me.body, nr, args);
  if (result == 0) take_own_seat(me, own_files);
  return result;
}

// A thread that was started without CLONE_FILES or CLONE_FS.
void Recorder::start_in_own_world(Task& task, uint64_t flags) {
  const uint64_t own = ~flags & (CLONE_FILES | CLONE_FS);
  if (!own || task.thread->lodger) return;
  if (own & CLONE_FILES) open_all_of_ours();
  const uint64_t args[6] = {own};
  if (call_now(*task.body, SYS_unshare, args) == 0) take_own_seat(task, own & CLONE_FILES);
}

// The current thread ends. The first kernel thread stays, and takes no signals any more. If nobody else has
// its descriptors they are closed now, which others may wait for; but kernel threads of ours may have them
// for longer.
void Recorder::leave_own_files() {
  const Task& me = turns_.current();
  if (!bs_wakeups.moved || me.thread->lodger) return;
  if (me.thread->tid == getpid() && me.thread->tid != home_->tid) {
    block_in_body(*me.body, ~0ull);
    const MidCall here;
    route_signals();
  }
  for (const auto& [name, task] : turns_.tasks())
    if (task.get() != &me && task->table == me.table) return;
  std::vector<unsigned> ours;
  for (int fd : bs_record.our_fds)
    if (fd >= 0) ours.push_back(static_cast<unsigned>(fd));
  std::sort(ours.begin(), ours.end());
  unsigned from = 0;
  for (unsigned fd : ours) {
    if (from < fd) syscall(SYS_close_range, from, fd - 1, 0);
    from = fd + 1;
  }
  syscall(SYS_close_range, from, ~0u, 0);
}

}  // namespace backstep::recorder
