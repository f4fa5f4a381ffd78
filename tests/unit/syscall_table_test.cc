// The system-call table against the kernel's headers, against the kernel itself, and the printer by examples.
//
// "The kernel writes no more than the table says" is the promise that recordings rest on, so it is tested the
// direct way: buffers are filled with a pattern, the call is made, and no byte may have changed beyond what
// the row describes. Twice, with two patterns, since the kernel may happen to write the pattern.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/hot.h"
#include "guest/syscall_names.h"
#include "guest/syscall_print.h"
#include "guest/syscall_table.h"
#include "recording/format.h"

namespace backstep::guest {
namespace {

static_assert(static_cast<int>(PieceKind::OutAtArg) == static_cast<int>(recording::PieceKind::OutAtArg));
static_assert(static_cast<int>(PieceKind::OutAt) == static_cast<int>(recording::PieceKind::OutAt));
static_assert(static_cast<int>(PieceKind::Text) == static_cast<int>(recording::PieceKind::Text));
static_assert(static_cast<int>(PieceKind::Sum) == static_cast<int>(recording::PieceKind::Sum));

// ---- the table itself ----

TEST(SyscallTable, EveryNumberOfTheHeadersHasARowOfThatName) {
  std::ifstream header("/usr/include/x86_64-linux-gnu/asm/unistd_64.h");
  if (!header) GTEST_SKIP() << "no kernel headers here";
  std::string word, name;
  int number = 0, count = 0;
  while (header >> word) {
    if (word != "#define" || !(header >> name) || !name.starts_with("__NR_") || !(header >> number)) continue;
    const char* row_name = syscall_row(static_cast<uint64_t>(number)).name;
    ASSERT_NE(row_name, nullptr) << name;
    EXPECT_EQ("__NR_" + std::string(row_name), name) << number;
    count++;
  }
  EXPECT_GT(count, 350);
}

TEST(SyscallTable, NamesAreUnique) {
  std::set<std::string> seen;
  for (uint64_t nr = 0; nr < kSyscallCount; nr++)
    if (const char* name = syscall_row(nr).name) {
      EXPECT_TRUE(seen.insert(name).second) << name;
    }
  EXPECT_GT(seen.size(), 380u);
}

TEST(SyscallTable, ArgumentsOfEveryRowMakeSense) {
  for (uint64_t nr = 0; nr < kSyscallCount; nr++) {
    const Syscall& row = syscall_row(nr);
    if (!row.name) continue;
    SCOPED_TRACE(row.name);
    ASSERT_LE(row.argc, 6);
    for (int i = 0; i < 6; i++) {
      const ArgSpec& a = row.args[i];
      SCOPED_TRACE(i);
      if (i >= row.argc) {
        EXPECT_EQ(a.kind, Arg::None);
        continue;
      }
      EXPECT_LT(a.names, static_cast<uint8_t>(Names::Count));
      if (a.kind == Arg::Flags || a.kind == Arg::Enum) {
        EXPECT_GT(name_table(static_cast<Names>(a.names)).count, 0u);
      }
      bool refers = a.len == Len::ByArg || a.len == Len::ByArgTimes || a.len == Len::ByArgPlus ||
                    a.len == Len::ResultUpTo || a.len == Len::BitsOfArg || a.len == Len::PagesOfArg ||
                    a.len == Len::SockLenAt || a.len == Len::CapData || a.kind == Arg::IovIn ||
                    a.kind == Arg::IovOut || a.kind == Arg::MmsgIn || a.kind == Arg::MmsgOut;
      if (refers) {
        ASSERT_LT(a.n, row.argc);
        EXPECT_NE(a.n, i);
        Arg target = row.args[a.n].kind;
        if (a.len == Len::SockLenAt) {
          EXPECT_EQ(target, Arg::SockLen);
        } else if (a.len == Len::CapData) {
          EXPECT_EQ(target, Arg::InOut);
        } else {
          EXPECT_TRUE(target == Arg::Size || target == Arg::Int || target == Arg::Uint);
        }
      }
      bool memory = a.kind == Arg::In || a.kind == Arg::InStruct || a.kind == Arg::Out ||
                    a.kind == Arg::OutStruct || a.kind == Arg::InOut || a.kind == Arg::Pollfds ||
                    a.kind == Arg::FdSet || a.kind == Arg::SockLen;
      EXPECT_TRUE(!memory || a.len != Len::None);
    }
  }
}

TEST(SyscallTable, CallsNameTheArgumentsThatSayHowLongTheyWait) {
  for (uint64_t nr = 0; nr < kSyscallCount; nr++) {
    const Syscall& call = syscall_row(nr);
    const Waiting& w = call.waiting;
    if (w.what == Waiting::Unsaid) continue;
    SCOPED_TRACE(call.name);
    EXPECT_TRUE(call.traits & kMayBlock);
    auto is_called = [&](int index, std::initializer_list<const char*> names) {
      if (index < 0) return true;
      const std::string name = index < call.argc ? call.args[index].name : "";
      return std::any_of(names.begin(), names.end(), [&](const char* n) { return name == n; });
    };
    EXPECT_TRUE(is_called(w.time, {"timeout"}));
    EXPECT_TRUE(is_called(w.mask, {"sigmask", "mask"}));
    EXPECT_TRUE(is_called(w.flags, {"flags", "options", "op"}));
    EXPECT_TRUE(is_called(w.size, {"count", "len"}));
    EXPECT_TRUE(w.mask < 0 || w.mask_behind || is_called(w.mask + 1, {"size", "sigsetsize"}));
    EXPECT_EQ(w.what == Waiting::Events, w.time >= 0);
    EXPECT_EQ(w.flags >= 0, w.flag_bits != 0);
    const bool pointer = w.time >= 0 && call.args[w.time].kind != Arg::Int;
    EXPECT_EQ(pointer, w.unit != Waiting::TimeUnit::Milliseconds);
    const bool on_descriptor =
        w.what == Waiting::Input || w.what == Waiting::Output || w.what == Waiting::Connection;
    EXPECT_TRUE(!on_descriptor || call.args[0].kind == Arg::Fd);
  }
}

TEST(SyscallTable, NumbersWithoutARowAreUnknown) {
  for (uint64_t nr : {400ul, 479ul, 480ul, 100000ul, ~0ul}) {
    EXPECT_EQ(syscall_row(nr).name, nullptr);
    EXPECT_EQ(syscall_row(nr).how, How::Unknown);
    EXPECT_EQ(syscall_row(nr).args[0].kind, Arg::Unknown);
  }
}

TEST(SyscallTable, NoArgumentVariesOnceTheOthersAreKnown) {
  for (uint64_t nr = 0; nr < kSyscallCount; nr++) {
    for (uint64_t command = 0; command < 64; command++) {
      uint64_t args[6] = {command, command, command, command, command, command};
      for (int i = 0; i < 6; i++) {
        ArgSpec spec = arg_spec(nr, args, i);
        EXPECT_NE(spec.kind, Arg::Varies) << nr << " " << i;
        EXPECT_TRUE(spec.name != nullptr || spec.kind == Arg::None) << nr << " " << i;
      }
    }
  }
}

TEST(SyscallTable, CallsThatWouldBreakReplayAreRefused) {
  for (int nr : {SYS_rseq, SYS_clone3, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_setup, SYS_io_submit,
                 SYS_userfaultfd, SYS_modify_ldt})
    EXPECT_EQ(syscall_row(static_cast<uint64_t>(nr)).how, How::Refuse) << nr;
}

// ---- sub-tables ----

TEST(Ioctl, OldRequestsAreInTheTable) {
  EXPECT_EQ(ioctl_arg(TCGETS).kind, Arg::OutStruct);
  EXPECT_EQ(ioctl_arg(TCGETS).n, 36);
  EXPECT_EQ(ioctl_arg(TIOCGWINSZ).n, 8);
  EXPECT_EQ(ioctl_arg(TIOCSPGRP).kind, Arg::InStruct);
  EXPECT_EQ(ioctl_arg(FIOCLEX).kind, Arg::None);
  EXPECT_STREQ(ioctl_name(FIONREAD), "FIONREAD");
  EXPECT_EQ(ioctl_arg(0xffffffff00000000 | TIOCGWINSZ).n, 8) << "only 32 bits of a request count";
}

TEST(Ioctl, NewRequestsTellDirectionAndSizeThemselves) {
  EXPECT_EQ(ioctl_arg(_IOR('z', 1, char[100])).kind, Arg::OutStruct);
  EXPECT_EQ(ioctl_arg(_IOR('z', 1, char[100])).n, 100);
  EXPECT_EQ(ioctl_arg(_IOW('z', 2, int)).kind, Arg::InStruct);
  EXPECT_EQ(ioctl_arg(_IOWR('z', 3, char[300])).kind, Arg::InOut);
  EXPECT_EQ(ioctl_arg(_IOWR('z', 3, char[300])).n, 300);
  EXPECT_EQ(ioctl_arg(_IO('z', 4)).kind, Arg::Unknown);
}

TEST(Ioctl, RequestsThatLieAreInTheTable) {
  EXPECT_EQ(ioctl_arg(0x80086601).n, 4) << "FS_IOC_GETFLAGS says long and means int";
  EXPECT_EQ(ioctl_arg(0x40049409).kind, Arg::Fd) << "FICLONE";
  EXPECT_EQ(ioctl_arg(0xc020660b).len, Len::Fiemap);
}

TEST(Fcntl, CommandsDecideTheArgument) {
  EXPECT_EQ(fcntl_arg(F_GETLK).kind, Arg::InOut);
  EXPECT_EQ(fcntl_arg(F_GETLK).n, 32);
  EXPECT_EQ(fcntl_arg(F_OFD_GETLK).kind, Arg::InOut);
  EXPECT_EQ(fcntl_arg(F_SETLKW).kind, Arg::InStruct);
  EXPECT_EQ(fcntl_arg(F_GETFL).kind, Arg::None);
  EXPECT_EQ(fcntl_arg(F_DUPFD_CLOEXEC).kind, Arg::Int);
  EXPECT_EQ(fcntl_arg(F_GETOWN_EX).n, 8);
  EXPECT_EQ(fcntl_arg(4711).kind, Arg::Unknown);
}

TEST(Prctl, OptionsDecideTheArguments) {
  EXPECT_EQ(prctl_arg(PR_GET_NAME, 1).n, 16);
  EXPECT_EQ(prctl_arg(PR_GET_NAME, 2).kind, Arg::None);
  EXPECT_EQ(prctl_arg(PR_GET_PDEATHSIG, 1).n, 4);
  EXPECT_EQ(prctl_arg(PR_GET_TID_ADDRESS, 1).n, 8);
  EXPECT_EQ(prctl_arg(PR_SET_NAME, 1).kind, Arg::Str);
  EXPECT_EQ(prctl_arg(0x53564d41, 4).kind, Arg::Str) << "PR_SET_VMA";
}

TEST(Length, IntsAreCutTo32Bits) {
  uint64_t args[6] = {3, 0x1000, 0xabcdef0000000010};
  EXPECT_EQ(buffer_bytes(arg_spec(SYS_connect, args, 1), args, 0), 16u);
}

TEST(Length, TruncatedDatagramsWereNotWrittenBeyondTheBuffer) {
  uint64_t args[6] = {3, 0x1000, 100, MSG_TRUNC, 0, 0};
  EXPECT_EQ(buffer_bytes(arg_spec(SYS_recvfrom, args, 1), args, 1500), 100u);
  EXPECT_EQ(buffer_bytes(arg_spec(SYS_recvfrom, args, 1), args, 7), 7u);
  EXPECT_EQ(buffer_bytes(arg_spec(SYS_recvfrom, args, 1), args, -EAGAIN), 0u);
}

TEST(Length, CapabilitiesDependOnTheVersion) {
  uint64_t args[6] = {0x1000, 0x2000};
  ArgSpec data = arg_spec(SYS_capget, args, 1);
  EXPECT_EQ(count_address(data, args, 1), 0x1000u);
  EXPECT_EQ(buffer_bytes(data, args, 0, 0x19980330, 0x19980330), 12u);
  EXPECT_EQ(buffer_bytes(data, args, 0, 0x20080522, 0x20080522), 24u);
}

// ---- the kernel ----

class Call {
 public:
  explicit Call(long nr, std::initializer_list<long> args = {}) : nr_(nr) {
    std::copy(args.begin(), args.end(), args_);
  }

  // Argument `index` points to memory that starts with `content` and goes on with the pattern.
  template <typename T>
  Call& memory(int index, const T& content) {
    auto* p = reinterpret_cast<const unsigned char*>(&content);
    contents_[index].assign(p, p + sizeof(T));
    return *this;
  }
  Call& memory(int index) {
    contents_[index];
    return *this;
  }
  Call& expect(long result) {
    expected_ = result;
    return *this;
  }

  // Kernels may lack this call, or forbid it to us.
  Call& if_there() {
    optional_ = true;
    return *this;
  }

  // Makes the call and returns its result.
  long check() {
    long result = 0;
    for (unsigned char pattern : {0xa5, 0x5a}) result = once(pattern);
    return result;
  }

 private:
  static uint64_t read_count(uint64_t address, Len len) {
    uint64_t value = 0;
    if (address) std::memcpy(&value, reinterpret_cast<void*>(address), static_cast<size_t>(count_width(len)));
    return value;
  }

  long once(unsigned char pattern) {
    const Syscall& row = syscall_row(static_cast<uint64_t>(nr_));
    SCOPED_TRACE(row.name);
    std::map<int, std::vector<unsigned char>> before, after;
    uint64_t args[6], old_counts[6] = {};
    std::copy(args_, args_ + 6, args);
    for (auto& [index, content] : contents_) {
      before[index].assign(1 << 16, pattern);
      std::copy(content.begin(), content.end(), before[index].begin());
      after[index] = before[index];
      args[index] = reinterpret_cast<uint64_t>(after[index].data());
    }
    for (auto& [index, content] : contents_) {
      ArgSpec spec = arg_spec(static_cast<uint64_t>(nr_), args, index);
      old_counts[index] = read_count(count_address(spec, args, index), spec.len);
    }
    auto a = [&](int i) { return static_cast<long>(args[i]); };
    long result = hot::syscall6(nr_, a(0), a(1), a(2), a(3), a(4), a(5));
    if (optional_ && (result == -ENOSYS || result == -EPERM || result == -EACCES || result == -EOPNOTSUPP))
      return result;
    if (expected_) {
      EXPECT_EQ(result, expected_);
    } else {
      EXPECT_FALSE(hot::is_error(result)) << std::strerror(static_cast<int>(-result));
    }
    bool nothing = hot::is_error(result) && !(row.traits & kOutOnError);
    for (auto& [index, content] : contents_) {
      SCOPED_TRACE(index);
      ArgSpec spec = arg_spec(static_cast<uint64_t>(nr_), args, index);
      size_t changed = before[index].size();
      while (changed > 0 && before[index][changed - 1] == after[index][changed - 1]) changed--;
      uint64_t new_count = read_count(count_address(spec, args, index), spec.len);
      uint64_t described = buffer_bytes(spec, args, result, old_counts[index], new_count);
      if (spec.len == Len::NulString && spec.kind == Arg::Out)
        described = strlen(reinterpret_cast<char*>(args[index])) + 1;
      if (nothing || spec.kind == Arg::In || spec.kind == Arg::InStruct || spec.kind == Arg::Path)
        described = 0;
      EXPECT_LE(changed, described) << "the kernel has written more than the table says";
      EXPECT_LE(described, before[index].size());
    }
    return result;
  }

  long nr_;
  long args_[6] = {};
  long expected_ = 0;  // 0: no error
  bool optional_ = false;
  std::map<int, std::vector<unsigned char>> contents_;
};

TEST(Kernel, WritesWhatTheTableSaysAboutFiles) {
  int fd = open("/etc/passwd", O_RDONLY);
  int dir = open("/etc", O_RDONLY | O_DIRECTORY);
  char path[] = "/etc/passwd";
  Call(SYS_stat).memory(0, path).memory(1).check();
  Call(SYS_fstat, {fd}).memory(1).check();
  Call(SYS_newfstatat, {AT_FDCWD, 0, 0, 0}).memory(1, path).memory(2).check();
  Call(SYS_statx, {AT_FDCWD, 0, 0, 0xffff}).memory(1, path).memory(4).check();
  Call(SYS_fstatfs, {fd}).memory(1).check();
  Call(SYS_read, {fd, 0, 10}).memory(1).check();
  Call(SYS_pread64, {fd, 0, 10, 5}).memory(1).check();
  Call(SYS_getdents64, {dir, 0, 1000}).memory(1).check();
  Call(SYS_getcwd, {0, 4096}).memory(0).check();
  Call(SYS_pipe2, {0, O_CLOEXEC}).memory(0).check();
  Call(SYS_ioctl, {fd, 2 /* FIGETBSZ */}).memory(2).check();
  Call(SYS_fcntl, {fd, F_GETOWN_EX}).memory(2).check();
  struct flock lock = {F_RDLCK, SEEK_SET, 0, 10, 0};
  Call(SYS_fcntl, {fd, F_GETLK}).memory(2, lock).check();
  char link[] = "/proc/self/exe";
  Call(SYS_readlink, {0, 0, 4000}).memory(0, link).memory(1).check();
  uint32_t handle[2] = {0, 0};
  long r = hot::syscall6(SYS_name_to_handle_at, dir, reinterpret_cast<long>(""),
                         reinterpret_cast<long>(handle), reinterpret_cast<long>(&r), AT_EMPTY_PATH, 0);
  if (r == -EOVERFLOW) {
    uint32_t none[2] = {0, 0}, enough[2] = {128, 0};
    char empty[] = "";
    Call(SYS_name_to_handle_at, {dir, 0, 0, 0, AT_EMPTY_PATH})
        .memory(1, empty)
        .memory(2, none)
        .memory(3)
        .expect(-EOVERFLOW)
        .check();
    Call(SYS_name_to_handle_at, {dir, 0, 0, 0, AT_EMPTY_PATH})
        .memory(1, empty)
        .memory(2, enough)
        .memory(3)
        .check();
  }
  Call(SYS_sysfs, {2, 0}).memory(2).if_there().check();
  Call(SYS_getxattr, {0, 0, 0, 0}).memory(0, path).memory(1, "user.x").memory(2).expect(-ENODATA).check();
  Call(SYS_listxattr, {0, 0, 0}).memory(0, path).memory(1).check();
  Call(SYS_listxattr, {0, 0, 1000}).memory(0, path).memory(1).check();
  close(fd);
  close(dir);
}

TEST(Kernel, WritesWhatTheTableSaysAboutOffsets) {
  int in = open("/etc/passwd", O_RDONLY), fds[2];
  ASSERT_EQ(pipe(fds), 0);
  long offset = 0;
  Call(SYS_sendfile, {fds[1], in, 0, 10}).memory(2, offset).check();
  Call(SYS_splice, {in, 0, fds[1], 0, 10}).memory(1, offset).check();
  close(in), close(fds[0]), close(fds[1]);
}

TEST(Kernel, WritesWhatTheTableSaysAboutTimeAndTheSystem) {
  Call(SYS_uname).memory(0).check();
  Call(SYS_sysinfo).memory(0).check();
  Call(SYS_times).memory(0).check();
  Call(SYS_getrusage, {0}).memory(1).check();
  Call(SYS_getrlimit, {7}).memory(1).check();
  Call(SYS_prlimit64, {0, 7, 0}).memory(3).check();
  Call(SYS_clock_gettime, {1}).memory(1).check();
  Call(SYS_clock_getres, {1}).memory(1).check();
  Call(SYS_gettimeofday).memory(0).memory(1).check();
  Call(SYS_time).memory(0).check();
  Call(SYS_getitimer, {0}).memory(1).check();
  long zero[4] = {};
  Call(SYS_setitimer, {0}).memory(1, zero).memory(2).check();
  Call(SYS_timer_create, {1, 0}).memory(2).check();
  Call(SYS_timer_gettime, {0}).memory(1).check();
  Call(SYS_timer_settime, {0, 0}).memory(2, zero).memory(3).check();
  int fd = static_cast<int>(syscall(SYS_timerfd_create, 1, 0));
  Call(SYS_timerfd_settime, {fd, 0}).memory(2, zero).memory(3).check();
  Call(SYS_timerfd_gettime, {fd}).memory(1).check();
  char timex[208] = {};
  Call(SYS_adjtimex).memory(0, timex).check();
  Call(SYS_clock_adjtime, {0}).memory(1, timex).check();
  Call(SYS_getcpu).memory(0).memory(1).check();
  Call(SYS_getrandom, {0, 77, 0}).memory(0).check();
  close(fd);
}

TEST(Kernel, WritesWhatTheTableSaysAboutProcesses) {
  Call(SYS_getresuid).memory(0).memory(1).memory(2).check();
  Call(SYS_getresgid).memory(0).memory(1).memory(2).check();
  Call(SYS_getgroups, {0}).memory(1).check();
  Call(SYS_getgroups, {1000}).memory(1).check();
  for (uint32_t version : {0x19980330u, 0x20071026u, 0x20080522u}) {
    uint32_t header[2] = {version, 0};
    Call(SYS_capget).memory(0, header).memory(1).check();
  }
  uint32_t strange[2] = {1, 0};
  Call(SYS_capget).memory(0, strange).memory(1).expect(-EINVAL).check();
  Call(SYS_sched_getaffinity, {0, 1024}).memory(2).check();
  Call(SYS_sched_getparam, {0}).memory(1).check();
  Call(SYS_sched_getattr, {0, 0, 48, 0}).memory(1).check();
  Call(SYS_sched_getattr, {0, 0, 100, 0}).memory(1).check();
  Call(SYS_sched_rr_get_interval, {0}).memory(1).check();
  Call(SYS_rt_sigaction, {SIGUSR1, 0, 0, 8}).memory(2).check();
  Call(SYS_rt_sigprocmask, {0, 0, 0, 8}).memory(2).check();
  Call(SYS_rt_sigpending, {0, 8}).memory(0).check();
  Call(SYS_sigaltstack, {0}).memory(1).check();
  Call(SYS_get_robust_list, {0}).memory(1).memory(2).check();
  Call(SYS_arch_prctl, {0x1003}).memory(1).check();
  for (long option : {PR_GET_PDEATHSIG, PR_GET_NAME, PR_GET_CHILD_SUBREAPER, PR_GET_TSC})
    Call(SYS_prctl, {option}).memory(1).check();
  Call(SYS_prctl, {0x41555856, 0, 4096, 0, 0}).memory(1).check();  // PR_GET_AUXV
  Call(SYS_waitid, {0, 0, 0, 4 /* WEXITED */}).memory(2).memory(4).expect(-ECHILD).check();
  Call(SYS_wait4, {-1, 0, 0}).memory(1).memory(3).expect(-ECHILD).check();
}

TEST(Kernel, WritesWhatTheTableSaysAboutChildren) {
  for (int i = 0; i < 2; i++)
    if (fork() == 0) _exit(3);
  Call(SYS_wait4, {-1, 0, 0}).memory(1).memory(3).check();
  for (int i = 0; i < 2; i++)
    if (fork() == 0) _exit(3);
  Call(SYS_waitid, {0, 0, 0, 4}).memory(2).memory(4).check();
}

TEST(Kernel, WritesWhatTheTableSaysAboutMemory) {
  long page = 4096;
  auto* three = static_cast<char*>(aligned_alloc(4096, 3 * 4096));
  Call(SYS_mincore, {reinterpret_cast<long>(three), 3 * page}).memory(2).check();
  Call(SYS_mincore, {reinterpret_cast<long>(three), 2 * page + 1}).memory(2).check();
  long r = hot::syscall6(SYS_get_mempolicy, 0, 0, 0, 0, 0, 0);
  if (r == 0) Call(SYS_get_mempolicy, {0, 0, 1025, 0, 0}).memory(0).memory(1).check();
  free(three);
}

TEST(Kernel, WritesWhatTheTableSaysAboutSockets) {
  Call(SYS_socketpair, {AF_UNIX, SOCK_STREAM, 0}).memory(3).check();
  int fd = socket(AF_INET, SOCK_DGRAM, 0), other = socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  socklen_t length = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  for (socklen_t room : {0u, 5u, 16u, 100u}) Call(SYS_getsockname, {fd}).memory(1).memory(2, room).check();
  ASSERT_EQ(connect(other, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  for (int i = 0; i < 4; i++) ASSERT_EQ(send(other, "0123456789", 10, 0), 10);
  socklen_t room = 100;
  EXPECT_EQ(Call(SYS_recvfrom, {fd, 0, 4, MSG_TRUNC}).memory(1).memory(4).memory(5, room).check(), 10);
  EXPECT_EQ(Call(SYS_recvfrom, {fd, 0, 100, 0}).memory(1).memory(4).memory(5, room).check(), 10);
  Call(SYS_getsockopt, {fd, SOL_SOCKET, SO_RCVBUF}).memory(3).memory(4, room).check();
  Call(SYS_getpeername, {other}).memory(1).memory(2, room).check();
  Call(SYS_ioctl, {fd, FIONREAD}).memory(2).check();
  close(fd), close(other);
}

TEST(Kernel, WritesWhatTheTableSaysAboutWaiting) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  ASSERT_EQ(write(fds[1], "x", 1), 1);
  pollfd polls[2] = {{fds[0], POLLIN, 0}, {fds[1], POLLOUT, 0}};
  long second[2] = {1, 0};
  Call(SYS_poll, {0, 2, 0}).memory(0, polls).check();
  Call(SYS_ppoll, {0, 2, 0, 0, 8}).memory(0, polls).memory(2, second).check();
  fd_set set;
  FD_ZERO(&set);
  FD_SET(fds[0], &set);
  Call(SYS_select, {fds[0] + 1}).memory(1, set).memory(4, second).check();
  Call(SYS_pselect6, {fds[0] + 1}).memory(1, set).memory(4, second).check();
  // the time left is stored even when the call fails
  int closed = dup(fds[0]);
  close(closed);
  FD_SET(closed, &set);
  Call(SYS_select, {closed + 1}).memory(1, set).memory(4, second).expect(-EBADF).check();
  int epoll = epoll_create1(0);
  epoll_event event = {EPOLLIN, {.u64 = 7}};
  epoll_ctl(epoll, EPOLL_CTL_ADD, fds[0], &event);
  Call(SYS_epoll_wait, {epoll, 0, 10, 0}).memory(1).check();
  long tick[2] = {0, 1000};
  Call(SYS_nanosleep).memory(0, tick).memory(1).check();
  close(fds[0]), close(fds[1]), close(epoll);
}

TEST(Kernel, WritesWhatTheTableSaysAboutTerminals) {
  int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY);
  if (fd < 0) GTEST_SKIP() << "no pseudo terminals here";
  for (long request : {0x5401l, 0x802c542al, 0x5405l, 0x5411l, 0x5413l, 0x5424l, 0x541bl, 0x80045430l,
                       0x80045438l, 0x80045439l})
    Call(SYS_ioctl, {fd, request}).memory(2).check();
  close(fd);
}

TEST(Kernel, WritesWhatTheTableSaysAboutSystemV) {
  int shm = shmget(IPC_PRIVATE, 4096, 0600), msg = msgget(IPC_PRIVATE, 0600),
      sem = semget(IPC_PRIVATE, 3, 0600);
  if (shm < 0 || msg < 0 || sem < 0) GTEST_SKIP() << "no System V IPC here";
  Call(SYS_shmctl, {shm, IPC_STAT}).memory(2).check();
  Call(SYS_shmctl, {0, IPC_INFO}).memory(2).check();
  Call(SYS_shmctl, {0, 14 /* SHM_INFO */}).memory(2).check();
  Call(SYS_msgctl, {msg, IPC_STAT}).memory(2).check();
  Call(SYS_msgctl, {0, IPC_INFO}).memory(2).check();
  Call(SYS_semctl, {sem, 0, IPC_STAT}).memory(3).check();
  Call(SYS_semctl, {0, 0, IPC_INFO}).memory(3).check();
  struct {
    long type = 1;
    char text[5] = "four";
  } message;
  for (int i = 0; i < 2; i++) ASSERT_EQ(msgsnd(msg, &message, 5, 0), 0);
  Call(SYS_msgrcv, {msg, 0, 100, 0, 0}).memory(1).check();
  shmctl(shm, IPC_RMID, nullptr), msgctl(msg, IPC_RMID, nullptr), semctl(sem, 0, IPC_RMID);
}

TEST(Kernel, WritesWhatTheTableSaysAboutYoungCalls) {
  int fd = open("/etc/passwd", O_RDONLY);
  char path[] = "/etc/passwd", empty[] = "";
  uint64_t range[2] = {0, 0};
  Call(451, {fd}).memory(1, range).memory(2).if_there().check();          // cachestat
  uint64_t root[3] = {24, ~0ull, 0};                                      // mnt_id_req: LSMT_ROOT
  Call(458, {0, 0, 10, 0}).memory(0, root).memory(1).if_there().check();  // listmount
  for (uint32_t room : {0u, 4096u}) {
    Call lsm(461);  // lsm_list_modules
    lsm.memory(0).memory(1, room).if_there();
    if (room == 0) lsm.expect(-E2BIG);
    long r = hot::syscall6(461, 0, 0, 1, 0, 0, 0);
    if (r != -ENOSYS) lsm.check();
  }
  Call(465, {AT_FDCWD, 0, 0, 0, 1000}).memory(1, path).memory(3).if_there().check();       // listxattrat
  Call(468, {fd, 0, 0, 24, AT_EMPTY_PATH}).memory(1, empty).memory(2).if_there().check();  // file_getattr
  // sizes that no kernel knows are answered with the size it knows
  char big[4000];
  std::memset(big, 1, sizeof big);
  uint32_t sizes[2] = {4000, 4000};
  std::memcpy(big, sizes, sizeof sizes);
  Call(SYS_sched_setattr, {0, 0, 0}).memory(1, big).expect(-E2BIG).check();
  Call(SYS_perf_event_open, {0, 0, -1, -1, 0}).memory(0, big).if_there().expect(-E2BIG).check();
  close(fd);
}

// ---- printing ----

std::span<const std::byte> bytes_of(const std::string& s) {
  return std::as_bytes(std::span(s));
}
template <typename T>
std::string raw(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

struct View {
  SyscallView call;
  std::vector<std::string> kept = std::vector<std::string>();

  View(int nr, int64_t result, std::initializer_list<uint64_t> args) {
    kept.reserve(16);
    call.nr = static_cast<uint16_t>(nr);
    call.result = result;
    std::copy(args.begin(), args.end(), call.args);
  }
  View& piece(int arg, PieceKind kind, const std::string& bytes, uint64_t addr = 0) {
    kept.push_back(bytes);
    call.pieces.push_back({arg, kind, addr, bytes_of(kept.back()), 0, 0});
    return *this;
  }
  View& text(int arg, const std::string& s) { return piece(arg, PieceKind::Text, s); }
  View& out(int arg, const std::string& s) { return piece(arg, PieceKind::OutAtArg, s); }
  std::string line(size_t limit = 32) const { return print_syscall(call, limit); }
};

constexpr uint64_t kCwd = 0xffffff9c;  // AT_FDCWD, as compilers pass it

TEST(Print, Openat) {
  EXPECT_EQ(View(SYS_openat, 3, {kCwd, 0x1000, O_RDONLY | O_CLOEXEC, 0}).text(1, "/etc/passwd").line(),
            R"(openat(AT_FDCWD, "/etc/passwd", O_RDONLY|O_CLOEXEC) = 3)");
  EXPECT_EQ(View(SYS_openat, 3, {kCwd, 0x1000, O_RDWR | O_CREAT | O_TRUNC, 0644}).text(1, "a").line(),
            R"(openat(AT_FDCWD, "a", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3)");
  EXPECT_EQ(View(SYS_openat, -ENOENT, {kCwd, 0x1000, O_RDONLY, 0}).text(1, "/nowhere").line(),
            R"(openat(AT_FDCWD, "/nowhere", O_RDONLY) = -1 ENOENT (No such file or directory))");
}

TEST(Print, ReadShowsWhatWasReadAndCutsIt) {
  EXPECT_EQ(View(SYS_read, 12, {3, 0x1000, 4096}).out(1, "root:x:0:0:\n").line(),
            R"(read(3, "root:x:0:0:\n", 4096) = 12)");
  EXPECT_EQ(View(SYS_read, 40, {3, 0x1000, 4096}).out(1, std::string(40, 'a')).line(),
            "read(3, \"" + std::string(32, 'a') + "\"..., 4096) = 40");
  EXPECT_EQ(View(SYS_read, 40, {3, 0x1000, 4096}).out(1, std::string(40, 'a')).line(4),
            R"(read(3, "aaaa"..., 4096) = 40)");
  EXPECT_EQ(View(SYS_read, 0, {3, 0x1000, 4096}).line(), R"(read(3, "", 4096) = 0)");
  EXPECT_EQ(View(SYS_read, -EAGAIN, {3, 0x1000, 4096}).line(),
            "read(3, 0x1000, 4096) = -1 EAGAIN (Resource temporarily unavailable)");
}

TEST(Print, EscapesAreThoseOfC) {
  std::string odd(
      "\x7f"
      "ELF\2\1\1\0\"\\1\0001",
      13);
  EXPECT_EQ(View(SYS_read, 13, {3, 0x1000, 13}).out(1, odd).line(),
            R"(read(3, "\177ELF\2\1\1\0\"\\1\0001", 13) = 13)");
}

TEST(Print, WriteShowsTheAddressUnlessTheTextWasLogged) {
  View sum(SYS_write, 6, {1, 0x1000, 6});
  sum.call.pieces.push_back({1, PieceKind::Sum, 0, {}, 0x1234, 6});
  EXPECT_EQ(sum.line(), "write(1, 0x1000, 6) = 6");
  EXPECT_EQ(View(SYS_write, 6, {1, 0x1000, 6}).text(1, "hello\n").line(), R"(write(1, "hello\n", 6) = 6)");
}

TEST(Print, Stat) {
  struct stat st = {};
  st.st_mode = S_IFREG | 0644;
  st.st_size = 2996;
  EXPECT_EQ(View(SYS_newfstatat, 0, {3, 0x1000, 0x2000, AT_EMPTY_PATH}).text(1, "").out(2, raw(st)).line(),
            R"(newfstatat(3, "", {st_mode=S_IFREG|0644, st_size=2996, ...}, AT_EMPTY_PATH) = 0)");
  st.st_mode = S_IFCHR | 0620;
  st.st_rdev = 0x8801;
  EXPECT_EQ(View(SYS_fstat, 0, {1, 0x2000}).out(1, raw(st)).line(),
            "fstat(1, {st_mode=S_IFCHR|0620, st_rdev=makedev(0x88, 0x1), ...}) = 0");
}

TEST(Print, MemoryMap) {
  EXPECT_EQ(View(SYS_mmap, 0x200000, {0, 8192, 3, 0x22, 0xffffffff, 0}).line(),
            "mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x200000");
  EXPECT_EQ(View(SYS_mprotect, 0, {0x1000, 4096, 0}).line(), "mprotect(0x1000, 4096, PROT_NONE) = 0");
  EXPECT_EQ(View(SYS_brk, 0x5000, {0}).line(), "brk(NULL) = 0x5000");
}

TEST(Print, SocketsAndAddresses) {
  EXPECT_EQ(View(SYS_socket, 3, {AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP}).line(),
            "socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC, IPPROTO_TCP) = 3");
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(80);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(
      View(SYS_accept, 4, {3, 0x1000, 0x2000}).out(1, raw(address)).out(2, raw(16)).line(),
      "accept(3, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr(\"127.0.0.1\")}, [16]) = 4");
  EXPECT_EQ(View(SYS_getsockname, 0, {3, 0x1000, 0x2000})
                .out(1, std::string("\1\0/tmp/s\0", 9))
                .out(2, raw(9))
                .line(),
            "getsockname(3, {sa_family=AF_UNIX, sun_path=\"/tmp/s\"}, [9]) = 0");
  EXPECT_EQ(
      View(SYS_getsockopt, 0, {3, SOL_SOCKET, SO_ERROR, 0x1000, 0x2000}).out(3, raw(0)).out(4, raw(4)).line(),
      R"(getsockopt(3, SOL_SOCKET, SO_ERROR, "\0\0\0\0", [4]) = 0)");
  int pair[2] = {3, 4};
  EXPECT_EQ(View(SYS_pipe2, 0, {0x1000, O_CLOEXEC}).out(0, raw(pair)).line(), "pipe2([3, 4], O_CLOEXEC) = 0");
}

TEST(Print, Messages) {
  msghdr header = {};
  header.msg_iov = reinterpret_cast<iovec*>(0x3000);
  header.msg_iovlen = 1;
  EXPECT_EQ(View(SYS_recvmsg, 2, {3, 0x1000, 0})
                .out(1, raw(header))
                .piece(1, PieceKind::OutAt, "hi", 0x4000)
                .line(),
            "recvmsg(3, {msg_name=NULL, msg_namelen=0, msg_iov=[{iov_base=\"hi\", iov_len=2}], msg_iovlen=1, "
            "msg_control=NULL, msg_controllen=0, msg_flags=0}, 0) = 2");
  EXPECT_EQ(View(SYS_readv, 2, {3, 0x1000, 1}).piece(1, PieceKind::OutAt, "hi", 0x4000).line(),
            "readv(3, [{iov_base=\"hi\", iov_len=2}], 1) = 2");
}

TEST(Print, Waiting) {
  pollfd fds = {5, POLLIN, POLLIN};
  EXPECT_EQ(View(SYS_poll, 1, {0x1000, 1, 0xffffffff}).out(0, raw(fds)).line(),
            "poll([{fd=5, events=POLLIN, revents=POLLIN}], 1, -1) = 1");
  EXPECT_EQ(View(SYS_poll, 0, {0, 0, 100}).line(), "poll(NULL, 0, 100) = 0 (Timeout)");
  epoll_event event = {EPOLLIN, {.u64 = 5}};
  EXPECT_EQ(View(SYS_epoll_wait, 1, {4, 0x1000, 8, 0}).out(1, raw(event)).line(),
            "epoll_wait(4, {events=EPOLLIN, data=0x5}, 8, 0) = 1");
  EXPECT_EQ(View(SYS_wait4, 77, {~0ul, 0x1000, 0, 0}).out(1, raw(0x100)).line(),
            "wait4(-1, [{WIFEXITED(s) && WEXITSTATUS(s) == 1}], 0, NULL) = 77");
  long left[2] = {0, 500};
  EXPECT_EQ(View(SYS_nanosleep, -EINTR, {0x1000, 0x2000}).out(1, raw(left)).line(),
            "nanosleep(0x1000, {tv_sec=0, tv_nsec=500}) = -1 EINTR (Interrupted system call)");
  std::string set(8, '\0');
  set[0] = 0x28;
  EXPECT_EQ(View(SYS_select, 1, {6, 0x1000, 0, 0, 0}).out(1, set).line(),
            "select(6, [3 5], NULL, NULL, NULL) = 1");
}

TEST(Print, SubTables) {
  winsize size = {24, 80, 0, 0};
  EXPECT_EQ(View(SYS_ioctl, 0, {1, TIOCGWINSZ, 0x1000}).out(2, raw(size)).line(),
            "ioctl(1, TIOCGWINSZ, {ws_row=24, ws_col=80, ws_xpixel=0, ws_ypixel=0}) = 0");
  EXPECT_EQ(View(SYS_ioctl, -ENOTTY, {1, TCGETS, 0x1000}).out(2, std::string(36, 'x')).line(),
            "ioctl(1, TCGETS, 0x1000) = -1 ENOTTY (Inappropriate ioctl for device)");
  EXPECT_EQ(View(SYS_ioctl, 0, {1, _IOR('z', 1, int), 0x1000}).out(2, "abcd").line(),
            R"(ioctl(1, _IOC(_IOC_READ, 0x7a, 0x1, 0x4), "abcd") = 0)");
  EXPECT_EQ(View(SYS_fcntl, 0x8002, {3, F_GETFL, 99}).line(),
            "fcntl(3, F_GETFL) = 0x8002 (flags O_RDWR|O_LARGEFILE)");
  EXPECT_EQ(View(SYS_fcntl, 0, {3, F_SETFD, 1}).line(), "fcntl(3, F_SETFD, FD_CLOEXEC) = 0");
  EXPECT_EQ(View(SYS_prctl, 0, {PR_GET_NAME, 0x1000, 7, 8, 9}).out(1, std::string("sh\0zzz", 6)).line(),
            R"(prctl(PR_GET_NAME, "sh") = 0)");
  EXPECT_EQ(View(SYS_futex, 0, {0x1000, 129, 1, 0, 0, 0}).line(), "futex(0x1000, FUTEX_WAKE_PRIVATE, 1) = 0");
}

TEST(Print, ProcessesAndLimits) {
  EXPECT_EQ(View(SYS_exit_group, 0, {3}).line(), "exit_group(3) = ?");
  EXPECT_EQ(View(SYS_kill, 0, {77, SIGTERM}).line(), "kill(77, SIGTERM) = 0");
  EXPECT_EQ(View(SYS_execve, 0, {0x1, 0x2, 0x3})
                .text(0, "/bin/ls")
                .text(1, "ls")
                .text(1, "-l")
                .text(2, "A=B")
                .line(),
            R"(execve("/bin/ls", ["ls", "-l"], 0x3 /* 1 vars */) = 0)");
  EXPECT_EQ(View(SYS_clone, 78, {0x01200011, 0, 0, 0x5000, 0}).line(),
            "clone(CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD, NULL, NULL, 0x5000, NULL) = 78");
  uint64_t limit[2] = {8192 * 1024, ~0ull};
  EXPECT_EQ(View(SYS_prlimit64, 0, {0, 3, 0, 0x1000}).out(3, raw(limit)).line(),
            "prlimit64(0, RLIMIT_STACK, NULL, {rlim_cur=8192*1024, rlim_max=RLIM64_INFINITY}) = 0");
  uint64_t mask = 1ull << (SIGINT - 1) | 1ull << (SIGCHLD - 1);
  EXPECT_EQ(View(SYS_rt_sigprocmask, 0, {SIG_BLOCK, 0, 0x1000, 8}).out(2, raw(mask)).line(),
            "rt_sigprocmask(SIG_BLOCK, NULL, [INT CHLD], 8) = 0");
}

TEST(Print, UnknownAndDamagedCallsDoNoHarm) {
  EXPECT_EQ(View(479, -ENOSYS, {1, 2, 3, 4, 5, 0}).line(),
            "syscall_479(0x1, 0x2, 0x3, 0x4, 0x5, NULL) = -1 ENOSYS (Function not implemented)");
  // every shape with every short length, as a damaged recording may have it
  for (uint64_t nr = 0; nr < kSyscallCount; nr++) {
    for (size_t length : {0ul, 1ul, 3ul, 12ul, 100ul}) {
      View view(static_cast<int>(nr), static_cast<int64_t>(length), {1, 2, 3, 4, 5, 6});
      for (int i = 0; i < 6; i++) view.out(i, std::string(length, '\xff')).text(i, std::string(length, '\0'));
      EXPECT_FALSE(view.line().empty());
    }
  }
}

}  // namespace
}  // namespace backstep::guest
