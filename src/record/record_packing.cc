// What a recording takes of the disk: its limit, what is said of it, and who makes it smaller.
//
// Logs are compressed while the program runs, by another process. It cannot be done by this one: the recorded
// program *is* this process, whose time, threads and signals are the program's; and compressing
// takes some percent of what a program that makes system calls all the time needs. Nor by a child: the
// program would find it with wait(). So it is a grandchild whose parent has ended (init is its parent then),
// in a session of its own, with no descriptor of the program's, at idle priority; and it does not matter when
// it is killed (recording/log_packer.h). It is started when a log has its first complete part, or ends and is
// long; short programs have none.
//
// An orphan's new parent is the nearest process above that has asked for orphans (PR_SET_CHILD_SUBREAPER),
// or the first one of the PID namespace. Where that may be a recorded one there is no packing: it can be done
// later (`backstep pack`).
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "record/recorder.h"
#include "recording/log_packer.h"

namespace backstep::recorder {

namespace {

using recording::Tree;

constexpr uint64_t kMuch = 1 << 30;       // a recording that is so large is spoken of
constexpr uint64_t kShort = 1 << 30;      // bytes left on a disk that is nearly full
constexpr uint64_t kPackAtEnd = 1 << 20;  // of a log that ends
constexpr size_t kStack = 16 << 10;

// Two processes in a row that have our memory and nothing of our stack: they make system calls, no more.
struct Start {
  char* const* argv;
  char* const* env;
  alignas(16) std::array<char, kStack> first, second;
};

int become_packer(void* given) {
  constexpr unsigned kCloseOnExec = 4;  // CLOSE_RANGE_CLOEXEC
  auto* start = static_cast<Start*>(given);
  syscall(SYS_setsid);
  const int nothing = static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0));
  for (int fd = 0; fd <= 2; fd++) {
    if (nothing >= 0)
      syscall(SYS_dup2, nothing, fd);
    else
      syscall(SYS_close, fd);
  }
  if (syscall(SYS_close_range, 3u, ~0u, kCloseOnExec) == 0) {
    syscall(SYS_execve, "/proc/self/exe", start->argv, start->env);
  }
  syscall(SYS_exit, 1);
  return 1;
}

int make_packer(void* given) {
  auto* start = static_cast<Start*>(given);
  clone(become_packer, start->second.data() + start->second.size(), CLONE_VM | CLONE_VFORK | SIGCHLD, given);
  syscall(SYS_exit, 0);
  return 0;
}

}  // namespace

void Recorder::look_after_space() {
  if (origin_.process == 1) {
    int reaper = 0;
    if (getpid() == 1 || (prctl(PR_GET_CHILD_SUBREAPER, &reaper) == 0 && reaper)) tree_.set(Tree::kReaper);
  }
  log_.part_done = [this] { start_packing(); };
  log_.refuse = [this](uint64_t bytes) { return take_space(bytes); };
}

void Recorder::pack_at_end() {
  if (log_.size() >= kPackAtEnd) start_packing();
}

void Recorder::start_packing() {
  if (!options_.pack || detached_ || vfork_ || is_foreign() || folder_fd() >= 0 || tree_.has(Tree::kReaper) ||
      recording::is_packing(recording_))
    return;
  std::string words[] = {"backstep", "pack", "--logs", recording_.dir()};
  std::array<char*, std::size(words) + 1> argv{};
  for (size_t i = 0; i < std::size(words); i++) argv[i] = words[i].data();
  std::string library = "BACKSTEP_DIR=" + library_.dir();
  char* const env[] = {library.data(), nullptr};
  const auto start = std::make_unique<Start>();
  start->argv = argv.data();
  start->env = env;
  // A signal for the process group must find no handler of ours in one that has our memory.
  const uint64_t all = ~0ull;
  uint64_t before = 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, 8);
  // No exit signal: such a child is not seen by those who wait for children.
  const int child =
      clone(make_packer, start->first.data() + start->first.size(), CLONE_VM | CLONE_VFORK, start.get());
  while (child > 0 && waitpid(child, nullptr, __WCLONE) < 0 && errno == EINTR) {
  }
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, 8);
}

// Before the log takes so much more of the disk. Why it may not; empty: it may.
std::string Recorder::take_space(uint64_t bytes) {
  if (options_.limit && tree_.space() + bytes > options_.limit)
    return fmt::format("it has come to its limit of {} MB (--limit); the program runs on",
                       options_.limit >> 20);
  const uint64_t now = tree_.take_space(bytes);
  if (now >= kMuch && !tree_.has(Tree::kSaidMuch) && tree_.set(Tree::kSaidMuch))
    announce(fmt::format(
        "the recording has come to 1 GB of events (compressed, a fraction of that); record --limit SIZE "
        "ends recordings, not programs"));
  if (now < kPackAtEnd || tree_.has(Tree::kSaidShort)) return {};
  struct statvfs disk {};
  if (fstatvfs(log_.fd(), &disk) != 0) return {};
  const uint64_t left = static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
  if (left < kShort && tree_.set(Tree::kSaidShort))
    announce(fmt::format(
        "{} MB are left on the disk of {}; if it gets full the recording ends, and the program runs on",
        left >> 20, recording_.dir()));
  return {};
}

// Of any process of the tree: what is about all of them, and said once.
void Recorder::announce(const std::string& text) const {
  if (options_.quiet || detached_ || stderr_ < 0) return;
  const std::string line = "backstep: " + text + "\n";
  (void)!::write(stderr_, line.data(), line.size());
}

}  // namespace backstep::recorder
