// What code of a recording could still do if it got out of the translator's hands.
#include "replay/confinement.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/fd.h"
#include "recording/made_here.h"
#include "temp_dir.h"

namespace backstep::replayer {
namespace {

using recording::Library;
using recording::Recording;
using test::TempDir;
using test::write_file;

bool has_landlock() {
  return syscall(SYS_landlock_create_ruleset, nullptr, 0, 1 /* version */) >= 1;
}

// A library with a recording of our own, and one that came from elsewhere: a copy.
class Confinement : public testing::Test {
 protected:
  Confinement() {
    mkdir((dir_ / "cache").c_str(), 0700);
    setenv("XDG_CACHE_HOME", (dir_ / "cache").c_str(), 1);
    own_ = std::make_unique<Recording>(library_.create("prog"));
    mkdir(foreign_.dir().c_str(), 0700);
    for (const Recording* r : {own_.get(), &foreign_}) write_file(r->dir() + "/process-1.log", "log");
    mkdir(library_.store().dir().c_str(), 0700);
    write_file(library_.store().dir() + "/contents", "contents");
    write_file(dir_ / "secret", "secret");
  }

  // Runs it in a process that is confined for this recording; what it returns, or -1.
  int confined(const Recording& recording, const std::function<int()>& tried) {
    const pid_t pid = fork();
    if (pid == 0) {
      confine(library_, recording, true);
      _exit(tried());
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  static int error_of(long result) { return result < 0 ? errno : 0; }
  static int opened(const std::string& path, int flags = O_RDONLY) {
    return error_of(Fd(open(path.c_str(), flags | O_CLOEXEC, 0600)).get());
  }

  TempDir dir_;
  Library library_{dir_ / "lib"};
  std::unique_ptr<Recording> own_;
  Recording foreign_{dir_ / "lib/foreign-1"};
};

TEST_F(Confinement, KnowsWhatWasMadeHere) {
  EXPECT_TRUE(recording::was_made_here(own_->dir()));
  EXPECT_FALSE(recording::was_made_here(foreign_.dir()));
  // What was moved is what it was; what was made anew in its place is not.
  const std::string moved = dir_ / "moved";
  ASSERT_EQ(rename(own_->dir().c_str(), moved.c_str()), 0);
  EXPECT_TRUE(recording::was_made_here(moved));
  ASSERT_EQ(mkdir(own_->dir().c_str(), 0700), 0);
  EXPECT_FALSE(recording::was_made_here(own_->dir()));
}

TEST_F(Confinement, KeepsReplaysFromOtherProcessesProgramsAndTheNetwork) {
  const pid_t parent = getpid();
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  for (const Recording* r : {own_.get(), &foreign_}) {
    EXPECT_EQ(confined(*r, [&] { return error_of(kill(parent, 0)); }), EPERM);
    EXPECT_EQ(confined(*r, [&] { return error_of(ptrace(PTRACE_ATTACH, parent, 0, 0)); }), EPERM);
    EXPECT_EQ(confined(*r, [&] { return error_of(socket(AF_INET, SOCK_STREAM, 0)); }), EPERM);
    EXPECT_EQ(confined(*r, [&] { return error_of(execl("/bin/true", "true", nullptr)); }), EPERM);
    EXPECT_EQ(confined(*r, [&] { return error_of(unshare(CLONE_NEWUSER)); }), EPERM);
    EXPECT_EQ(confined(*r, [&] { return error_of(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)); }),
              EPERM);
    // Signals by way of a descriptor's owner, and what is as good as one.
    EXPECT_EQ(confined(*r, [&] { return error_of(fcntl(pipe_ends[0], F_SETOWN, parent)); }), EPERM);
    EXPECT_EQ(confined(*r, [&] { return error_of(fcntl(pipe_ends[0], F_SETSIG, SIGKILL)); }), EPERM);
    EXPECT_EQ(confined(*r,
                       [&] {
                         rlimit limit{1, 1};
                         return error_of(prlimit(parent, RLIMIT_CPU, &limit, nullptr));
                       }),
              EPERM);
    EXPECT_EQ(confined(*r, [&] { return error_of(setpriority(PRIO_PROCESS, parent, 19)); }), EPERM);
    EXPECT_EQ(confined(*r, [&] { return error_of(setpriority(PRIO_USER, 0, 19)); }), EPERM);
    // It would type into the terminal of whoever replays.
    EXPECT_EQ(confined(*r, [&] { return error_of(ioctl(0, TIOCSTI, "x")); }), EPERM);
    EXPECT_EQ(confined(*r, [&] { return error_of(syscall(SYS_io_uring_setup, 1, nullptr)); }), EPERM);
    EXPECT_EQ(confined(*r,
                       [&] {
                         char byte;
                         iovec own{&byte, 1}, other{&byte, 1};
                         return error_of(process_vm_writev(parent, &own, 1, &other, 1, 0));
                       }),
              EPERM);
  }
}

TEST_F(Confinement, LetsReplaysDoWhatTheyMust) {
  for (const Recording* r : {own_.get(), &foreign_}) {
    EXPECT_EQ(confined(*r, [&] { return opened(r->dir() + "/process-1.log"); }), 0);
    EXPECT_EQ(confined(*r, [&] { return opened(library_.store().dir() + "/contents"); }), 0);
    EXPECT_EQ(confined(*r, [&] { return opened("/proc/self/pagemap"); }), 0);
    EXPECT_EQ(confined(*r, [&] { return opened(r->dir() + "/checkpoints/1", O_RDWR | O_CREAT); }),
              r == &foreign_ ? 0 : ENOENT);
    EXPECT_EQ(confined(*r, [&] { return error_of(memfd_create("x", 0)); }), 0);
    EXPECT_EQ(confined(*r, [&] { return error_of(setpriority(PRIO_PROCESS, 0, 10)); }), 0);
    EXPECT_EQ(confined(*r,
                       [] {
                         rlimit limit{};
                         return error_of(getrlimit(RLIMIT_STACK, &limit));
                       }),
              0);
    EXPECT_EQ(confined(*r, [] { return error_of(fcntl(0, F_DUPFD_CLOEXEC, 100)); }), 0);
    EXPECT_EQ(confined(*r,
                       [] {
                         const pid_t child = fork();
                         if (child == 0) _exit(0);
                         return error_of(child);
                       }),
              0);
  }
}

TEST_F(Confinement, KeepsStrangersRecordingsFromFiles) {
  if (!has_landlock()) GTEST_SKIP() << "this kernel has no Landlock";
  const std::string secret = dir_ / "secret", log = foreign_.dir() + "/process-1.log";
  const std::string parent_memory = "/proc/" + std::to_string(getpid()) + "/mem";
  EXPECT_EQ(confined(foreign_, [&] { return opened(secret); }), EACCES);
  EXPECT_EQ(confined(foreign_, [&] { return opened(dir_ / "new", O_WRONLY | O_CREAT); }), EACCES);
  EXPECT_EQ(confined(foreign_, [&] { return opened(parent_memory); }), EACCES);
  EXPECT_EQ(confined(foreign_, [&] { return opened(own_->dir() + "/process-1.log"); }), EACCES);
  EXPECT_EQ(confined(foreign_, [&] { return opened(log, O_RDWR); }), EACCES);
  EXPECT_EQ(confined(foreign_, [&] { return error_of(unlink(log.c_str())); }), EACCES);
  // A link for a folder that may be written gives nobody that folder.
  std::filesystem::remove_all(foreign_.dir() + "/checkpoints");
  mkdir((dir_ / "other").c_str(), 0700);
  ASSERT_EQ(symlink((dir_ / "other").c_str(), (foreign_.dir() + "/checkpoints").c_str()), 0);
  EXPECT_EQ(confined(foreign_, [&] { return opened(dir_ / "other/new", O_WRONLY | O_CREAT); }), EACCES);
  unlink((foreign_.dir() + "/checkpoints").c_str());
  // A link in what may be written does not lead out of it.
  mkdir((foreign_.dir() + "/checkpoints").c_str(), 0700);
  const std::string link = foreign_.dir() + "/checkpoints/1";
  ASSERT_EQ(symlink(secret.c_str(), link.c_str()), 0);
  EXPECT_EQ(confined(foreign_, [&] { return opened(link, O_RDWR); }), EACCES);
}

}  // namespace
}  // namespace backstep::replayer
