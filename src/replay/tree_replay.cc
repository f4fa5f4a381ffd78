// The controller of a tree's replay. It reads all logs as one sequence (recording/ordered_log.h): that says
// which process's output is next. Workers (tree_worker.cc) replay, as many at a time as there are processors,
// and send what their processes wrote; what is not due yet waits, up to some hundred kilobytes for each
// worker in its queue here and in its socket, and then the worker waits.
//
// Who waits needs no processor but has a place among those that run. So the one whose output everybody waits
// for (or the one that will fork it) runs in any case: the replay as a whole always goes on.
#include "replay/tree_replay.h"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/fd.h"
#include "engine/engine.h"
#include "recording/ordered_log.h"
#include "recording/tree.h"
#include "replay/confinement.h"
#include "replay/tree_worker.h"

namespace backstep::replayer {

namespace {

constexpr size_t kQueue = 256 << 10;  // bytes of output of one worker that may wait here

size_t processors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<size_t>(std::max(CPU_COUNT(&set), 1)) : 1;
}

void write_all(int fd, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t n = ::write(fd, bytes, size);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return;  // our output is closed: the replay goes on
    bytes += n;
    size -= static_cast<size_t>(n);
  }
}

struct Worker {
  Fd channel;
  bool running = false;  // else it waits for our permission
  std::string input;     // the beginning of a message
  struct Output {
    uint64_t event;
    int fd;  // 0: that was all of this event
    std::string bytes;
  };
  std::deque<Output> queue;
  size_t queued = 0;   // bytes
  std::deque<Fd> fds;  // received, of children that were forked
};

class TreeReplay {
 public:
  TreeReplay(const ReplayOptions& options, const recording::Library& library,
             const recording::Recording& recording);
  std::vector<Replayed> run();

 private:
  void start(uint64_t process);
  void let_run(uint64_t process);
  void schedule();
  uint64_t nearest(uint64_t process) const;
  void write_due();
  void wait_for_news();
  void read_from(uint64_t process, Worker& worker);
  void take_messages(uint64_t process, Worker& worker);
  void finish(const Replayed& result);
  void show_progress();
  void hide_progress();

  const ReplayOptions& options_;
  const recording::Library& library_;
  const recording::Recording& recording_;
  std::map<uint64_t, recording::ProcessInfo> logs_;
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> forks_;  // (log, event) -> log of the child
  std::set<uint64_t> unstarted_;                             // begin with a program of their own
  std::map<uint64_t, Worker> workers_;
  std::map<uint64_t, Replayed> results_;
  recording::OrderedLogs order_;
  const recording::OrderedLog* due_ = nullptr;  // the log whose output is next
  bool read_all_ = false;                       // of the logs: no output is to come
  const size_t most_ = processors();
  size_t running_ = 0;
  std::chrono::steady_clock::time_point looked_ = std::chrono::steady_clock::now();
  bool shown_ = false;
};

TreeReplay::TreeReplay(const ReplayOptions& options, const recording::Library& library,
                       const recording::Recording& recording)
    : options_(options), library_(library), recording_(recording), order_(recording, false) {
  for (const recording::ProcessInfo& info : recording::list_processes(recording)) {
    logs_[info.number] = info;
    Replayed result;
    result.process = info.number;
    if (info.empty) {
      result.outcome.incomplete = "the process was killed before its first event";
      finish(result);
    } else if (info.damaged || info.birth == recording::Birth::Fork) {
      // A damaged one will say so when it is tried.
      if (info.damaged || info.parent >= info.number)
        unstarted_.insert(info.number);
      else
        forks_[{info.parent, info.parent_event}] = info.number;
    } else {
      unstarted_.insert(info.number);
    }
  }
}

void TreeReplay::start(uint64_t process) {
  unstarted_.erase(process);
  int pair[2];
  Replayed failed;
  failed.process = process;
  failed.code = kExitFailure;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    failed.error = fmt::format("cannot make a process for the replay: {}", errno_text(errno));
    return finish(failed);
  }
  fflush(nullptr);
  const pid_t controller = getpid(), pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != controller) _exit(kExitFailure);
    workers_.clear();  // their sockets are the controller's
    close(pair[1]);
    ReplayOptions own = options_;
    own.process = process;
    own.progress = false;
    work(pair[0], own, library_, recording_, [this](uint64_t log, uint64_t event) -> uint64_t {
      auto fork = forks_.find({log, event});
      return fork == forks_.end() ? 0 : fork->second;
    });
  }
  close(pair[0]);
  if (pid < 0) {
    close(pair[1]);
    failed.error = fmt::format("cannot make a process for the replay: {}", errno_text(errno));
    return finish(failed);
  }
  Worker& worker = workers_[process];
  worker.channel.reset(pair[1]);
  worker.running = true;
  running_++;
}

void TreeReplay::let_run(uint64_t process) {
  if (unstarted_.contains(process)) return start(process);
  Worker& worker = workers_.at(process);
  if (worker.running) return;
  worker.running = true;
  running_++;
  const char go = 1;
  (void)!::send(worker.channel.get(), &go, 1, MSG_NOSIGNAL);  // if it has died we shall hear of that
}

// The worker that this log is replayed by, or comes from; 0: none any more.
uint64_t TreeReplay::nearest(uint64_t process) const {
  for (;;) {
    if (results_.contains(process)) return 0;
    if (workers_.contains(process) || unstarted_.contains(process)) return process;
    auto log = logs_.find(process);
    if (log == logs_.end() || log->second.birth != recording::Birth::Fork || log->second.parent >= process)
      return 0;
    process = log->second.parent;
  }
}

// Logs are numbered in the order of their beginning: the earliest first, since their output is due first.
// But a process that only forks would make more and more of them that wait: then the youngest, which end
// soonest.
void TreeReplay::schedule() {
  if (due_)
    if (const uint64_t worker = nearest(due_->number())) let_run(worker);
  const size_t many = 4 * most_ + 4;
  for (auto youngest = workers_.rbegin();
       running_ < most_ && youngest != workers_.rend() && workers_.size() > running_ + many; ++youngest)
    if (youngest->second.channel && !youngest->second.running) let_run(youngest->first);
  auto waiting = workers_.begin();
  while (running_ < most_) {
    while (waiting != workers_.end() && (waiting->second.running || !waiting->second.channel)) ++waiting;
    if (waiting != workers_.end() && (unstarted_.empty() || waiting->first < *unstarted_.begin())) {
      let_run(waiting->first);
    } else if (!unstarted_.empty()) {
      start(*unstarted_.begin());
    } else {
      return;
    }
  }
}

// Writes what is next, as far as it is there.
void TreeReplay::write_due() {
  constexpr unsigned kAtOnce = 20'000;  // events, before we look at the workers again
  for (unsigned n = 0; n < kAtOnce && !read_all_; n++) {
    if (due_) {
      const uint64_t process = due_->number(), event = due_->event().number;
      auto worker = workers_.find(process);
      if (worker == workers_.end()) {
        if (nearest(process)) return;
        order_.drop(process);  // its replay has ended early, or never came to be
        due_ = nullptr;
      } else {
        auto& queue = worker->second.queue;
        for (bool done = false; !done;) {
          if (queue.empty()) {
            if (worker->second.channel) return;
            workers_.erase(worker);
            break;
          }
          if (queue.front().event > event) {  // what is due has not come: do not wait for it
            due_ = nullptr;
            break;
          }
          Worker::Output output = std::move(queue.front());
          queue.pop_front();
          worker->second.queued -= output.bytes.size();
          if (output.fd) {
            hide_progress();
            write_all(output.fd, output.bytes.data(), output.bytes.size());
          }
          done = output.fd == 0 && output.event >= event;
          if (done) due_ = nullptr;
        }
        if (due_) continue;  // it has ended: see above
      }
    }
    const recording::OrderedLog* log = order_.next();
    if (!log) {
      read_all_ = true;
      return;
    }
    const recording::Event& e = log->event();
    const bool output = e.flags & (recording::kToStdout | recording::kToStderr);
    if (e.kind == recording::EventKind::Syscall && output && e.result > 0) due_ = log;
  }
}

void TreeReplay::finish(const Replayed& result) {
  results_[result.process] = result;
}

void TreeReplay::take_messages(uint64_t process, Worker& worker) {
  for (;;) {
    Message message;
    if (worker.input.size() < sizeof message) return;
    std::memcpy(&message, worker.input.data(), sizeof message);
    if (worker.input.size() - sizeof message < message.size) return;
    std::string bytes = worker.input.substr(sizeof message, message.size);
    worker.input.erase(0, sizeof message + message.size);
    switch (message.kind) {
      case Message::Stdout:
      case Message::Stderr:
        worker.queued += bytes.size();
        worker.queue.push_back({message.value, static_cast<int>(message.kind), std::move(bytes)});
        break;
      case Message::Written:
        worker.queue.push_back({message.value, 0, {}});
        break;
      case Message::Forked:
        worker.running = false;
        running_--;
        if (worker.fds.empty()) break;
        workers_[message.value].channel = std::move(worker.fds.front());
        worker.fds.pop_front();
        break;
      case Message::Finished:
        finish(unpack(bytes));
        break;
      default:
        throw Error(fmt::format("internal error: the replay of process #{} speaks in riddles", process));
    }
  }
}

void TreeReplay::read_from(uint64_t process, Worker& worker) {
  char buffer[64 << 10];
  alignas(cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))];
  iovec part{buffer, sizeof buffer};
  msghdr m{};
  m.msg_iov = &part;
  m.msg_iovlen = 1;
  m.msg_control = control;
  m.msg_controllen = sizeof control;
  const ssize_t n = recvmsg(worker.channel.get(), &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n < 0) return;
  for (cmsghdr* c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + at, sizeof fd);
      worker.fds.emplace_back(fd);
    }
  }
  worker.input.append(buffer, static_cast<size_t>(n));
  take_messages(process, worker);
  if (n > 0) return;
  // It has ended. What is still to be written of it stays until its turn.
  if (worker.running) running_--;
  worker.running = false;
  worker.channel.reset();
  if (!results_.contains(process)) {
    Replayed died;
    died.process = process;
    died.code = kExitFailure;
    died.error = "the process that replayed it died";
    finish(died);
  }
}

void TreeReplay::wait_for_news() {
  std::vector<pollfd> polled;
  std::vector<uint64_t> whose;
  const uint64_t needed = due_ ? nearest(due_->number()) : 0;
  for (auto& [process, worker] : workers_) {
    if (!worker.channel || (worker.queued > kQueue && process != needed)) continue;
    polled.push_back({worker.channel.get(), POLLIN, 0});
    whose.push_back(process);
  }
  constexpr int kProgress = 500;  // ms
  if (poll(polled.data(), polled.size(), due_ || read_all_ ? kProgress : 0) < 0 && errno != EINTR)
    throw Error(fmt::format("cannot wait for the replays: {}", errno_text(errno)));
  for (size_t i = 0; i < polled.size(); i++)
    if (polled[i].revents) read_from(whose[i], workers_.at(whose[i]));
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

void TreeReplay::show_progress() {
  const auto now = std::chrono::steady_clock::now();
  if (!options_.progress || now - looked_ < std::chrono::milliseconds(500)) return;
  looked_ = now;
  shown_ = true;
  fmt::print(stderr, "\rbackstep: replaying, {} of {} logs done", results_.size(), logs_.size());
}

void TreeReplay::hide_progress() {
  if (!std::exchange(shown_, false)) return;
  fmt::print(stderr, "\r\033[K");
  fflush(stderr);
}

std::vector<Replayed> TreeReplay::run() {
  // Workers of forked processes, whose own parents have ended, are ours to collect.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const auto works = [](const auto& w) { return static_cast<bool>(w.second.channel); };
  for (;;) {
    schedule();
    write_due();
    if (read_all_ && unstarted_.empty() && std::none_of(workers_.begin(), workers_.end(), works)) break;
    wait_for_news();
    show_progress();
  }
  hide_progress();
  while (waitpid(-1, nullptr, 0) > 0) {
  }
  std::vector<Replayed> all;
  for (const auto& [number, info] : logs_) {
    auto found = results_.find(number);
    if (found == results_.end()) {
      Replayed lost;
      lost.process = number;
      // Parents have lower numbers: what became of this one's is there already.
      const auto parent =
          std::find_if(all.begin(), all.end(), [&](const Replayed& r) { return r.process == info.parent; });
      lost.lost = parent != all.end() && (!parent->error.empty() || parent->outcome.damaged);
      lost.code = lost.lost && parent->code ? parent->code : static_cast<int>(kExitDivergence);
      lost.error = fmt::format(
          "it was forked by process #{}, whose replay did not come to that, so there is nothing to begin "
          "with",
          info.parent);
      all.push_back(lost);
    } else {
      all.push_back(found->second);
    }
  }
  return all;
}

}  // namespace

std::vector<Replayed> replay_tree(const ReplayOptions& options, const recording::Library& library,
                                  const recording::Recording& recording) {
  return TreeReplay(options, library, recording).run();
}

Outcome replay_log(const ReplayOptions& options, const recording::Library& library,
                   const recording::Recording& recording) {
  confine(library, recording, options.store_on_autopilot);
  Replayer replayer(options, library, recording);
  engine::install_handler(SIGALRM, SA_RESTART);
  const itimerval timer{{0, 500'000}, {1, 0}};
  setitimer(ITIMER_REAL, &timer, nullptr);
  Outcome outcome = replayer.run();
  replayer.save_translations();
  if (options.engine.statistics) fmt::print(stderr, "backstep: {}\n", replayer.engine_statistics());
  const itimerval off{};
  setitimer(ITIMER_REAL, &off, nullptr);
  if (options.progress) fmt::print(stderr, "\r\033[K");
  return outcome;
}

}  // namespace backstep::replayer
