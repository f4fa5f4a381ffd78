// System calls in a diversion: a function that the user calls from the debugger may allocate, print, look at
// the clock and take locks that are free. The world outside it may not touch, and the other threads do not
// run. What is not done is told once per call, because a program that meets ENOSYS often says nothing about
// it.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include "base/error.h"
#include "engine/host_ops.h"
#include "guest/buffers.h"
#include "guest/cpu.h"
#include "guest/syscall_table.h"
#include "replay/replayer.h"

namespace backstep::replayer {
namespace {

void say(const std::string& text) {
  [[maybe_unused]] ssize_t n = ::write(1, text.data(), text.size());  // the controller shows it
}

// What a terminal looks like: stdio then writes line by line.
struct stat terminal() {
  constexpr unsigned kPtyMajor = 136;
  struct stat st {};
  st.st_mode = S_IFCHR | 0620;
  st.st_nlink = 1;
  st.st_rdev = makedev(kPtyMajor, 0);
  st.st_blksize = 1024;
  return st;
}

// Bytes that one call may print.
constexpr uint64_t kMostOutput = 1 << 16;

int64_t print(uint64_t address, uint64_t length) {
  std::vector<char> text(std::min(length, kMostOutput));
  if (!bs_guarded_copy(text.data(), reinterpret_cast<const void*>(address), text.size())) return -EFAULT;
  return ::write(1, text.data(), text.size());
}

int64_t print_parts(uint64_t address, uint64_t count) {
  constexpr uint64_t kMostParts = 1024;
  if (count > kMostParts) return -EINVAL;
  int64_t total = 0;
  for (uint64_t i = 0; i < count; i++) {
    struct {
      uint64_t base, length;
    } part;
    if (!bs_guarded_copy(&part, reinterpret_cast<const void*>(address + i * sizeof part), sizeof part))
      return -EFAULT;
    int64_t n = print(part.base, part.length);
    if (n < 0) return total ? total : n;
    total += n;
    if (static_cast<uint64_t>(n) < part.length) break;
  }
  return total;
}

bool is_output(uint64_t fd) {
  return fd == 1 || fd == 2;
}

}  // namespace

// Results into guest memory.
int64_t Replayer::give(uint64_t address, const void* data, size_t size) {
  process_.prepare_write(address, address + size);
  return bs_guarded_copy(reinterpret_cast<void*>(address), data, size) ? 0 : -EFAULT;
}

int64_t Replayer::diverted_mmap(const uint64_t args[6]) {
  constexpr uint64_t kNeeded = MAP_ANONYMOUS | MAP_PRIVATE;
  if ((args[3] & kNeeded) != kNeeded || (args[3] & MAP_FIXED)) return -ENODEV;
  const uint64_t size = (args[1] + layout::kPage - 1) & ~(layout::kPage - 1);
  auto place = process_.map.find_free(size, 0, guest::Zone::Data);
  if (!place || size == 0) return -ENOMEM;
  guest::Region r{*place, *place + size, static_cast<int>(args[2] & 7), static_cast<int>(kNeeded), 0, "", 0,
                  0};
  const int64_t result = process_.map_region(r, -1, MAP_NORESERVE);
  return result == 0 ? static_cast<int64_t>(*place) : result;
}

int64_t Replayer::diverted_futex(const uint64_t args[6]) {
  const uint64_t operation = args[1] & FUTEX_CMD_MASK;
  if (operation == FUTEX_WAKE || operation == FUTEX_WAKE_BITSET || operation == FUTEX_UNLOCK_PI) return 0;
  if (operation != FUTEX_WAIT && operation != FUTEX_WAIT_BITSET) return -EAGAIN;
  uint32_t value = 0;
  if (!bs_guarded_copy(&value, reinterpret_cast<const void*>(args[0]), sizeof value)) return -EFAULT;
  if (value != static_cast<uint32_t>(args[2])) return -EAGAIN;
  if (args[3]) return -ETIMEDOUT;
  say("backstep: the called function waits for another thread, and those do not run in a copy of the "
      "program.\n");
  diverted_signal_ = SIGINT;
  return -EINTR;
}

// nullopt: this call is not done here.
std::optional<int64_t> Replayer::diverted_result(uint64_t nr, const uint64_t args[6]) {
  switch (nr) {
    case SYS_write:
      return is_output(args[0]) ? std::optional(print(args[1], args[2])) : std::nullopt;
    case SYS_writev:
      return is_output(args[0]) ? std::optional(print_parts(args[1], args[2])) : std::nullopt;
    case SYS_read:
      return args[0] == 0 ? std::optional<int64_t>(0) : std::nullopt;
    case SYS_fstat:
    case SYS_newfstatat: {
      const bool by_path = nr == SYS_newfstatat && !(args[3] & AT_EMPTY_PATH);
      if (args[0] > 2 || by_path) return std::nullopt;
      const struct stat st = terminal();
      return give(args[nr == SYS_fstat ? 1 : 2], &st, sizeof st);
    }
    case SYS_lseek:
      return args[0] <= 2 ? std::optional<int64_t>(-ESPIPE) : std::nullopt;
    case SYS_ioctl:
      return -ENOTTY;
    case SYS_mmap:
      return diverted_mmap(args);
    case SYS_munmap:
      return process_.sys_munmap(args[0], args[1]);
    case SYS_mprotect:
      return process_.sys_mprotect(args[0], args[1], args[2]);
    case SYS_brk:
      return process_.sys_brk(args[0]);
    case SYS_madvise:
      return process_.sys_madvise(args[0], args[1], args[2]);
    case SYS_rt_sigprocmask:
      return process_.sys_rt_sigprocmask(args);
    case SYS_rt_sigaction:
      return process_.sys_rt_sigaction(args);
    case SYS_futex:
      return diverted_futex(args);
    case SYS_gettid:
      return process_.current().tid;
    case SYS_getpid:
      return process_.thread(1) ? process_.thread(1)->tid : process_.current().tid;
    case SYS_getuid:
    case SYS_geteuid:
      return recording_.manifest().uid;
    case SYS_getgid:
    case SYS_getegid:
      return recording_.manifest().gid;
    case SYS_clock_gettime: {
      timespec t{};
      if (clock_gettime(static_cast<clockid_t>(args[0]), &t) != 0) return -EINVAL;
      return give(args[1], &t, sizeof t);
    }
    case SYS_clock_getres: {
      timespec t{};
      if (clock_getres(static_cast<clockid_t>(args[0]), &t) != 0) return -EINVAL;
      return args[1] ? give(args[1], &t, sizeof t) : 0;
    }
    case SYS_gettimeofday: {
      timeval t{};
      gettimeofday(&t, nullptr);
      return args[0] ? give(args[0], &t, sizeof t) : 0;
    }
    case SYS_time: {
      const time_t t = ::time(nullptr);
      if (args[0] && give(args[0], &t, sizeof t) != 0) return -EFAULT;
      return t;
    }
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_sched_yield:
      return 0;  // nobody waits for anything here
    case SYS_getrandom: {
      std::vector<char> bytes(std::min<uint64_t>(args[1], 4096));
      const ssize_t n = getrandom(bytes.data(), bytes.size(), 0);
      if (n < 0) return -EAGAIN;
      const int64_t given = give(args[0], bytes.data(), static_cast<size_t>(n));
      return given < 0 ? given : n;
    }
    case SYS_uname: {
      utsname name{};
      uname(&name);
      return give(args[0], &name, sizeof name);
    }
    case SYS_sysinfo: {
      struct sysinfo info {};
      sysinfo(&info);
      return give(args[0], &info, sizeof info);
    }
    case SYS_prlimit64: {
      rlimit limit{};
      if (args[2] || !args[3]) return std::nullopt;  // setting
      if (getrlimit(static_cast<__rlimit_resource>(args[1]), &limit) != 0) return -EINVAL;
      return give(args[3], &limit, sizeof limit);
    }
    case SYS_getcwd: {
      const std::string path = recording_.manifest().cwd;
      if (path.size() + 1 > args[1]) return -ERANGE;
      const int64_t given = give(args[0], path.c_str(), path.size() + 1);
      return given < 0 ? given : static_cast<int64_t>(path.size() + 1);
    }
    default:
      return std::nullopt;
  }
}

void Replayer::diverted_syscall() {
  Context& ctx = context();
  const uint64_t nr = ctx.gpr[RAX];
  uint64_t args[6];
  guest::syscall_args(ctx, args);
  if (nr == SYS_exit || nr == SYS_exit_group) {
    outcome_ = Outcome{};
    return;
  }
  if (nr == SYS_rt_sigreturn) {
    if (!process_.sys_rt_sigreturn()) diverted_signal_ = SIGSEGV;
    return;
  }
  std::optional<int64_t> result = diverted_result(nr, args);
  if (!result) {
    result = -ENOSYS;
    if (refused_.insert(nr).second) {
      const char* name = guest::syscall_row(nr).name;
      say(fmt::format("backstep: {} is not done in a copy of the program; it fails with ENOSYS.\n",
                      name ? name : fmt::format("system call {}", nr)));
    }
  }
  ctx.gpr[RAX] = static_cast<uint64_t>(*result);
}

void Replayer::diverted_host_op(const isa::Insn& insn) {
  Context& ctx = context();
  engine::HostOp op = engine::host_op_of(insn);
  if (op == engine::HostOp::None) {
    if (auto fault = process_.emulate(insn)) diverted_signal_ = fault->signo;
    return;
  }
  engine::HostValues values = engine::sample(op, ctx);
  if (op == engine::HostOp::Cpuid)
    guest::hide_features(guest::CpuLevel::Machine, static_cast<uint32_t>(ctx.gpr[RAX]),
                         static_cast<uint32_t>(ctx.gpr[RCX]), values.value);
  engine::apply(op, insn, values, ctx);
}

}  // namespace backstep::replayer
