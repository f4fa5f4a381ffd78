#include "recording/writers.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/vfs.h>
#include <time.h>

#include <cerrno>
#include <cstdint>

namespace backstep::recording {
namespace {

// A write through a mapping changes the times only when it faults: the first one to a page, and the first
// after the kernel has written that page to the disk, which it does long before this.
constexpr int64_t kSettled = 600;
// As in git's index: what was touched just now could change again within the grain of its time stamps.
constexpr int64_t kRacy = 2;

// File systems without a disk behind them never look at what is written through a mapping.
bool is_in_memory(int fd) {
  struct statfs fs {};
  if (fstatfs(fd, &fs) != 0) return true;
  return fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC || fs.f_type == HUGETLBFS_MAGIC;
}

}  // namespace

// A lease that can be had says that nobody has the file open for writing. It is had on the program's own
// description: closing another one would take away its locks on the file (fcntl). If somebody opens the file
// while we have the lease the kernel says so with a SIGIO, which is nothing to the program.
Writers writers_of(int fd) {
  if (fcntl(fd, F_GETLEASE) != F_UNLCK) return Writers::Unknown;  // the program has one itself
  const int owner = fcntl(fd, F_GETOWN);
  sigset_t io, before, pending;
  sigemptyset(&io);
  sigaddset(&io, SIGIO);
  sigprocmask(SIG_BLOCK, &io, &before);
  sigpending(&pending);
  const bool leased = fcntl(fd, F_SETLEASE, F_RDLCK) == 0;
  const bool busy = !leased && errno == EAGAIN;
  if (leased) fcntl(fd, F_SETLEASE, F_UNLCK);
  if (leased && owner == 0) fcntl(fd, F_SETOWN, 0);  // the lease made us that
  const timespec at_once{};
  if (leased && !sigismember(&pending, SIGIO)) sigtimedwait(&io, nullptr, &at_once);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  return leased ? Writers::None : busy ? Writers::Some : Writers::Unknown;
}

bool times_tell(int fd, const struct stat& st) {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const auto changed = st.st_mtim.tv_sec > st.st_ctim.tv_sec ? st.st_mtim.tv_sec : st.st_ctim.tv_sec;
  if (changed >= now.tv_sec - kRacy || is_in_memory(fd)) return false;
  return changed < now.tv_sec - kSettled || writers_of(fd) == Writers::None;
}

}  // namespace backstep::recording
