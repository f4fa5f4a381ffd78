#include "record/turns.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

namespace backstep::recorder {

int64_t monotonic_ns() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * 1'000'000'000LL + ts.tv_nsec;
}

std::optional<siginfo_t> Task::take_signal(uint64_t wanted) {
  auto best = signals.end();
  for (auto it = signals.begin(); it != signals.end(); ++it)
    if ((wanted >> (it->si_signo - 1) & 1) && (best == signals.end() || it->si_signo < best->si_signo))
      best = it;
  if (best == signals.end()) return std::nullopt;
  const siginfo_t info = *best;
  signals.erase(best);
  return info;
}

Turns::Turns() {
  current_ = (tasks_[1] = std::make_unique<Task>()).get();
}

Task& Turns::add(guest::Thread& thread, std::unique_ptr<Body> body) {
  auto task = std::make_unique<Task>();
  task->thread = &thread;
  task->body = std::move(body);
  Task& t = *task;
  tasks_[thread.name] = std::move(task);
  make_ready(t);
  return t;
}

void Turns::remove(Task& task) {
  if (task.body) retire(std::move(task.body));
  if (task.seat && task.seat.use_count() == 1) retire(std::move(task.seat));
  bury();
  tasks_.erase(task.thread->name);
}

void Turns::retire(std::shared_ptr<Body> body) {
  end_body(*body);
  leaving_.push_back(std::move(body));
}

void Turns::bury() {
  std::erase_if(leaving_, [](const std::shared_ptr<Body>& body) {
    if (__atomic_load_n(&body->alive, __ATOMIC_ACQUIRE) != 0) return false;
    free_stack(*body);
    return true;
  });
}

void Turns::keep_only_current() {
  std::erase_if(tasks_, [&](const auto& entry) { return entry.second.get() != current_; });
  current_->body.reset();
  current_->seat.reset();
  current_->table.reset();
  current_->wait = Task::Wait::None;
  current_->shown = nullptr;
  current_->signals.clear();
  ready_.clear();
  futexes_.clear();
  deadlines_.clear();
  leaving_.clear();
  calls_ = 0;
}

Task* Turns::by_tid(int tid) {
  for (auto& [name, task] : tasks_)
    if (task->thread->tid == tid) return task.get();
  return nullptr;
}

Task* Turns::first() {
  auto it = tasks_.find(1);
  return it == tasks_.end() ? nullptr : it->second.get();
}

void Turns::hold(Task& task) {
  task.wanting = std::erase(ready_, &task) != 0;
  task.held = true;
}

void Turns::let_go(Task& task) {
  task.held = false;
  if (task.wanting) make_ready(task);
  task.wanting = false;
}

void Turns::drop(Task& task) {
  std::erase(ready_, &task);
  if (task.wait == Task::Wait::Futex) forget_futex(task);
  if (task.wait == Task::Wait::Call) calls_--;
  drop_deadline(task);
  task.wait = Task::Wait::None;
}

void Turns::make_ready(Task& task, bool first) {
  if (task.held) {
    task.wanting = true;
    return;
  }
  if (first) {
    ready_.push_front(&task);
  } else {
    ready_.push_back(&task);
  }
}

Task& Turns::take_ready(size_t index) {
  Task* task = ready_[index];
  ready_.erase(ready_.begin() + static_cast<ptrdiff_t>(index));
  return *task;
}

void Turns::set_current(Task& task, int64_t now) {
  current_->cpu_ns += now - turn_started_;
  current_ = &task;
  turn_started_ = now;
}

void Turns::wait(Task& task, Task::Wait what, int64_t deadline, int64_t timeout_result) {
  task.wait = what;
  task.deadline = deadline;
  task.timeout_result = timeout_result;
  if (deadline != kNever) deadlines_.emplace(deadline, &task);
  if (what == Task::Wait::Call) calls_++;
  task.show(true);
}

void Turns::wait_futex(Task& task, uint64_t key, uint32_t bitset, int64_t deadline) {
  task.key = key;
  task.bitset = bitset;
  futexes_[key].push_back(&task);
  wait(task, Task::Wait::Futex, deadline, -ETIMEDOUT);
}

void Turns::forget_futex(Task& task) {
  auto it = futexes_.find(task.key);
  if (it == futexes_.end()) return;
  std::erase(it->second, &task);
  if (it->second.empty()) futexes_.erase(it);
}

void Turns::drop_deadline(Task& task) {
  if (task.deadline == kNever) return;
  deadlines_.erase({task.deadline, &task});
  task.deadline = kNever;
}

void Turns::finish(Task& task, int64_t result, bool first) {
  if (task.wait == Task::Wait::Futex) forget_futex(task);
  if (task.wait == Task::Wait::Call) calls_--;
  drop_deadline(task);
  task.wait = Task::Wait::None;
  task.show(false);
  task.result = result;
  make_ready(task, first);
}

void Turns::interrupt(Task& task) {
  switch (task.wait) {
    case Task::Wait::None:
      break;
    case Task::Wait::Call:
      interrupt_call(*task.body);
      break;
    default:
      finish(task, -EINTR, true);
      break;
  }
}

int Turns::wake(uint64_t key, int most, uint32_t bitset) {
  int woken = 0;
  auto it = futexes_.find(key);
  if (it == futexes_.end()) return 0;
  const std::deque<Task*> queue = it->second;
  for (Task* task : queue) {
    if (woken >= most) break;
    if (!(task->bitset & bitset)) continue;
    finish(*task, 0);
    woken++;
  }
  return woken;
}

int Turns::requeue(uint64_t key, uint64_t to, int most) {
  int moved = 0;
  auto it = futexes_.find(key);
  while (it != futexes_.end() && moved < most && key != to) {
    Task* task = it->second.front();
    forget_futex(*task);
    task->key = to;
    futexes_[to].push_back(task);
    moved++;
    it = futexes_.find(key);
  }
  return moved;
}

Task* Turns::first_waiter(uint64_t key) {
  auto it = futexes_.find(key);
  return it == futexes_.end() ? nullptr : it->second.front();
}

size_t Turns::waiters(uint64_t key) const {
  auto it = futexes_.find(key);
  return it == futexes_.end() ? 0 : it->second.size();
}

void Turns::collect() {
  const uint32_t counter = __atomic_load_n(&bs_wakeups.counter, __ATOMIC_SEQ_CST);
  if (calls_ && counter != seen_)
    for (auto& [name, task] : tasks_)
      if (task->wait == Task::Wait::Call && !__atomic_load_n(&task->body->busy, __ATOMIC_SEQ_CST))
        finish(*task, task->body->result);
  seen_ = counter;
  if (deadlines_.empty()) return;
  const int64_t now = monotonic_ns();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    Task& task = *deadlines_.begin()->second;
    finish(task, task.timeout_result);
  }
}

void Turns::idle(int64_t until) {
  until = std::min(until, next_deadline());
  timespec ts{until / 1'000'000'000, until % 1'000'000'000};
  __atomic_store_n(&bs_wakeups.idle, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &bs_wakeups.counter, FUTEX_WAIT_BITSET_PRIVATE, seen_, until == kNever ? nullptr : &ts,
          nullptr, FUTEX_BITSET_MATCH_ANY);
  __atomic_store_n(&bs_wakeups.idle, 0, __ATOMIC_SEQ_CST);
}

}  // namespace backstep::recorder
