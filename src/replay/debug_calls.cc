// System calls and requests of debug code.
//
// Its memory is its own (debug_memory.h), so are its files, under numbers of its own: those of this process
// are the replay's. What it prints goes to the log of its tap, so that whoever asked gets it in the order of
// the run. The kernel writes to memory for those who call it, so where it would is checked here as a store is
// in translated code. Other processes, threads and signals there are none; what would need them ends the
// call.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>

#include "base/hot.h"
#include "engine/cache.h"
#include "engine/entry.h"
#include "guest/syscall_table.h"
#include "replay/confinement.h"
#include "replay/debug_world.h"

namespace backstep::replayer {
namespace {

constexpr int kNone = -1;

// Calls that the kernel makes for debug code as they are, but for the descriptor.
struct Passed {
  long nr;
  int file = kNone;     // argument that is a descriptor
  int out = kNone;      // … that says where the kernel writes,
  int64_t size = 0;     // so many bytes;
  int size_in = kNone;  // or as many as this argument says
};
constexpr Passed kPassed[] = {
    {SYS_read, 0, 1, 0, 2},
    {SYS_pread64, 0, 1, 0, 2},
    {SYS_lseek, 0},
    {SYS_stat, kNone, 1, sizeof(struct stat)},
    {SYS_lstat, kNone, 1, sizeof(struct stat)},
    {SYS_fstat, 0, 1, sizeof(struct stat)},
    {SYS_newfstatat, 0, 2, sizeof(struct stat)},
    {SYS_statx, 0, 4, 256},
    {SYS_access},
    {SYS_faccessat, 0},
    {SYS_faccessat2, 0},
    {SYS_getdents64, 0, 1, 0, 2},
    {SYS_getcwd, kNone, 0, 0, 1},
    {SYS_readlink, kNone, 1, 0, 2},
    {SYS_readlinkat, 0, 2, 0, 3},
    {SYS_ftruncate, 0},
    {SYS_fsync, 0},
    {SYS_fdatasync, 0},
    {SYS_mkdir},
    {SYS_unlink},
    {SYS_unlinkat, 0},
    {SYS_rename},
    {SYS_clock_gettime, kNone, 1, 16},
    {SYS_clock_getres, kNone, 1, 16},
    {SYS_gettimeofday, kNone, 0, 16},
    {SYS_time, kNone, 0, 8},
    {SYS_times, kNone, 0, 32},
    {SYS_getrusage, kNone, 1, sizeof(rusage)},
    {SYS_uname, kNone, 0, 6 * 65},
    {SYS_sysinfo, kNone, 0, 112},
    {SYS_getrandom, kNone, 0, 0, 1},
    {SYS_getpid},
    {SYS_gettid},
    {SYS_getppid},
    {SYS_getuid},
    {SYS_geteuid},
    {SYS_getgid},
    {SYS_getegid},
};

bool is_directory_call(uint64_t nr) {
  return nr == SYS_newfstatat || nr == SYS_statx || nr == SYS_faccessat || nr == SYS_faccessat2 ||
         nr == SYS_readlinkat || nr == SYS_unlinkat;
}

bool changes_files(uint64_t nr) {
  return nr == SYS_mkdir || nr == SYS_unlink || nr == SYS_unlinkat || nr == SYS_rename || nr == SYS_ftruncate;
}

// A way around the checks of stores, or to what is ours (which pages were written to).
bool is_of_a_process(int fd, bool to_write) {
  char path[64], name[256];
  fmt::format_to_n(path, sizeof path - 1, "/proc/self/fd/{}{}", fd, '\0');
  const ssize_t n = readlink(path, name, sizeof name - 1);
  if (n <= 0) return true;
  const std::string_view file(name, static_cast<size_t>(n));
  return file.starts_with("/proc/") && (to_write || file.ends_with("/mem"));
}

std::string signal_text(uint64_t signo) {
  if (signo == SIGABRT)
    return "calls abort: an assertion that does not hold, or an exception that nobody catches?";
  return fmt::format("sends signal {}; there are none in debug code", signo);
}

}  // namespace

int DebugWorld::real_file(uint64_t number) const {
  const auto file = files_.find(static_cast<int>(number));
  return file == files_.end() ? -1 : file->second.get();
}

std::optional<std::string> DebugWorld::text_at(Address at, uint64_t length) const {
  constexpr uint64_t kMost = 1 << 20;
  std::string text(std::min(length, kMost), '\0');
  if (!bs_guarded_copy(text.data(), reinterpret_cast<const void*>(at), text.size())) return std::nullopt;
  return text;
}

int64_t DebugWorld::output(int fd, Address from, uint64_t length) {
  const auto text = text_at(from, length);
  if (!text) return -EFAULT;
  note(fd == 1 ? DebugNote::Output : DebugNote::Errors, *text);
  return static_cast<int64_t>(text->size());
}

std::optional<std::string> DebugWorld::string_at(Address at, uint64_t most) const {
  std::string text;
  for (char c; text.size() < most; text += c) {
    if (!bs_guarded_copy(&c, reinterpret_cast<const void*>(at + text.size()), 1)) return std::nullopt;
    if (c == 0) break;
  }
  return text;
}

DebugWorld::Next DebugWorld::request(uint64_t nr, const uint64_t args[6]) {
  Context& ctx = context();
  int64_t result = -ENOSYS;
  auto tell = [&](DebugNote kind) {
    const auto text = text_at(args[0], args[1]);
    if (text) note(kind, *text);
    result = text ? 0 : -EFAULT;
  };
  switch (nr) {
    case BACKSTEP_READY: {
      backstep_module module{};
      if (bs_debug.ready) return fail("says that it is ready a second time");
      constexpr uint64_t kLeast = offsetof(backstep_module, finish);
      if (!bs_guarded_copy(&module, reinterpret_cast<const void*>(args[0]), kLeast) ||
          module.abi != BACKSTEP_ABI || module.size < kLeast ||
          !bs_guarded_copy(&module, reinterpret_cast<const void*>(args[0]),
                           std::min<uint64_t>(module.size, sizeof module)))
        return fail("was made for another version of backstep; compile it again");
      bs_debug.done = reinterpret_cast<Address>(module.done);
      bs_debug.finish = reinterpret_cast<Address>(module.finish);
      constexpr uint64_t kRedZone = 256, kAlign = 64;
      bs_debug.stack = (ctx.gpr[RSP] - kRedZone) & ~(kAlign - 1);
      bs_debug.fs_base = ctx.fs_base;
      bs_debug.ready = true;
      return Next::Over;
    }
    case BACKSTEP_DONE:
      return Next::Over;
    case BACKSTEP_NOW:
      result = DebugMemory::owns(args[0], sizeof(backstep_registers)) &&
                       bs_guarded_copy(reinterpret_cast<void*>(args[0]), kDebugRegisters,
                                       sizeof(backstep_registers))
                   ? 0
                   : -EFAULT;
      break;
    case BACKSTEP_FAIL:
      return fail(text_at(args[0], args[1]).value_or("fails"));
    case BACKSTEP_STOP:
      tell(DebugNote::Stop);
      stop_ = true;
      break;
    case BACKSTEP_MARK:
      tell(DebugNote::Mark);
      break;
    case BACKSTEP_LOG:
      tell(DebugNote::Json);
      break;
    case BACKSTEP_STACK:
      result = tell_stack(args);
      break;
    case BACKSTEP_ON:
      result = on(args);
      break;
    case BACKSTEP_OFF:
      result = off(args[0]);
      break;
    default:
      break;
  }
  ctx.gpr[RAX] = static_cast<uint64_t>(result);
  return Next::GoOn;
}

std::optional<int64_t> DebugWorld::memory_call(uint64_t nr, const uint64_t args[6]) {
  switch (nr) {
    case SYS_brk:
      return memory_.brk(args[0]);
    case SYS_mmap:
      return memory_.mmap(args, real_file(args[4]));
    case SYS_munmap:
      return memory_.munmap(args[0], args[1]);
    case SYS_mprotect:
      return memory_.mprotect(args[0], args[1], args[2]);
    case SYS_mremap:
      return memory_.mremap(args);
    case SYS_madvise:
      return memory_.madvise(args[0], args[1], args[2]);
    default:
      return std::nullopt;
  }
}

int64_t DebugWorld::open_file(uint64_t nr, const uint64_t args[6]) {
  const int shift = nr == SYS_openat ? 1 : 0;
  int folder = AT_FDCWD;
  if (shift && static_cast<int>(args[0]) != AT_FDCWD) {
    folder = real_file(args[0]);
    if (folder < 0) return -EBADF;
  }
  // Without waiting: for the writer of a FIFO, say.
  long flags = nr == SYS_creat ? O_CREAT | O_WRONLY | O_TRUNC : static_cast<long>(args[shift + 1]);
  if (is_silent()) flags &= ~static_cast<long>(O_TRUNC | O_EXCL);
  const auto mode = static_cast<long>(nr == SYS_creat ? args[1] : args[shift + 2]);
  const bool to_write = (flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC);
  acted_ |= to_write;
  const long fd = hot::syscall6(SYS_openat, folder, static_cast<long>(args[shift]),
                                flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, mode, 0, 0);
  if (fd == -EACCES && is_confined_to_its_files()) tell_of_confinement(args[shift]);
  if (hot::is_error(fd)) return fd;
  Fd file(static_cast<int>(fd));
  if (is_of_a_process(file.get(), to_write)) return -EACCES;
  int number = 3;
  while (files_.count(number)) number++;
  files_[number] = std::move(file);
  return number;
}

// Once. (What a C library opens for itself, time zones say, is nothing to talk about.)
void DebugWorld::tell_of_confinement(Address path) {
  const auto name = string_at(path, PATH_MAX);
  if (told_of_confinement_ || !name || name->starts_with("/etc/") || name->starts_with("/usr/")) return;
  told_of_confinement_ = true;
  complain(
      fmt::format("opens '{}': the recording comes from elsewhere, so its replay, and debug code in it, can "
                  "open no files but its own; print instead",
                  *name));
}

// As if it had been written.
int64_t DebugWorld::silent_write(uint64_t nr, const uint64_t args[6]) {
  if (nr != SYS_writev) return static_cast<int64_t>(args[2]);
  int64_t total = 0;
  for (uint64_t i = 0; i < std::min<uint64_t>(args[2], IOV_MAX); i++) {
    iovec part;
    if (!bs_guarded_copy(&part, reinterpret_cast<const void*>(args[1] + i * sizeof part), sizeof part))
      return -EFAULT;
    total += static_cast<int64_t>(part.iov_len);
  }
  return total;
}

std::optional<int64_t> DebugWorld::write_call(uint64_t nr, const uint64_t args[6]) {
  if (nr != SYS_write && nr != SYS_writev && nr != SYS_pwrite64) return std::nullopt;
  const bool ours = args[0] == 1 || args[0] == 2;
  const int fd = real_file(args[0]);
  if (!ours && fd < 0) return -EBADF;
  if (!ours && is_silent()) return silent_write(nr, args);
  if (!ours) {
    uint64_t changed[6];
    std::copy_n(args, 6, changed);
    changed[0] = static_cast<uint64_t>(fd);
    return hot::syscall(nr, changed);
  }
  if (nr == SYS_pwrite64) return -ESPIPE;
  if (nr == SYS_write) return output(static_cast<int>(args[0]), args[1], args[2]);
  int64_t total = 0;
  for (uint64_t i = 0; i < std::min<uint64_t>(args[2], IOV_MAX); i++) {
    iovec part;
    if (!bs_guarded_copy(&part, reinterpret_cast<const void*>(args[1] + i * sizeof part), sizeof part))
      return -EFAULT;
    const int64_t n =
        output(static_cast<int>(args[0]), reinterpret_cast<Address>(part.iov_base), part.iov_len);
    if (n < 0) return n;
    total += n;
  }
  return total;
}

std::optional<int64_t> DebugWorld::file_call(uint64_t nr, const uint64_t args[6]) {
  if (nr == SYS_open || nr == SYS_openat || nr == SYS_creat) return open_file(nr, args);
  if (nr == SYS_close) return files_.erase(static_cast<int>(args[0])) ? 0 : -EBADF;
  if (nr == SYS_ioctl) return -ENOTTY;
  if (nr == SYS_fcntl) {
    const bool asks = args[1] == F_GETFL || args[1] == F_GETFD;
    if (args[0] < 3) return asks ? O_RDWR : 0;
    return asks && real_file(args[0]) >= 0 ? fcntl(real_file(args[0]), static_cast<int>(args[1])) : -EBADF;
  }
  if (auto result = write_call(nr, args)) return result;
  const auto* call = std::find_if(std::begin(kPassed), std::end(kPassed),
                                  [&](const Passed& p) { return static_cast<uint64_t>(p.nr) == nr; });
  if (call == std::end(kPassed)) return std::nullopt;
  uint64_t changed[6];
  std::copy_n(args, 6, changed);
  if (call->file != kNone) {
    uint64_t& file = changed[call->file];
    const bool here = is_directory_call(nr) && static_cast<int>(file) == AT_FDCWD;
    if (nr == SYS_read && file == 0) return 0;  // there is nothing to be read
    if (!here && file < 3 && (nr == SYS_newfstatat || nr == SYS_fstat)) {
      // Its standard streams are like a pipe's end.
    } else if (!here) {
      const int real = real_file(file);
      if (real < 0) return -EBADF;
      file = static_cast<uint64_t>(real);
    }
  }
  if (call->out != kNone && args[call->out]) {
    const uint64_t size = call->size_in == kNone ? static_cast<uint64_t>(call->size) : args[call->size_in];
    if (!DebugMemory::owns(args[call->out], size)) return -EFAULT;
  }
  if (nr == SYS_gettimeofday) changed[1] = 0;
  if (changes_files(nr)) {
    acted_ = true;
    if (is_silent()) return 0;
  }
  return hot::syscall(nr, changed);
}

// What a program learns of itself and its one thread, and small things that are not worth an error.
std::optional<int64_t> DebugWorld::identity_call(uint64_t nr, const uint64_t args[6]) {
  constexpr uint64_t kSetFs = 0x1002, kFirstOfLibc = 32,
                     kLastOfLibc = 33;  // signals that libc keeps for threads
  Context& ctx = context();
  switch (nr) {
    case SYS_arch_prctl:
      if (args[0] != kSetFs) return -EINVAL;
      ctx.fs_base = args[1];
      return 0;
    case SYS_set_tid_address:
      return getpid();
    case SYS_prlimit64: {
      if (args[2]) return -EPERM;
      uint64_t changed[6] = {0, args[1], 0, args[3], 0, 0};
      if (args[3] && !DebugMemory::owns(args[3], sizeof(rlimit))) return -EFAULT;
      return hot::syscall(nr, changed);
    }
    case SYS_futex: {
      const uint64_t op = args[1] & FUTEX_CMD_MASK;
      if (op != FUTEX_WAIT && op != FUTEX_WAIT_BITSET) return op == FUTEX_WAKE ? 0 : -ENOSYS;
      uint32_t value = 0;
      if (!bs_guarded_copy(&value, reinterpret_cast<const void*>(args[0]), sizeof value)) return -EFAULT;
      if (value != static_cast<uint32_t>(args[2])) return -EAGAIN;
      return std::nullopt;  // for ever: refusal()
    }
    case SYS_rt_sigaction:
      if (args[0] != kFirstOfLibc && args[0] != kLastOfLibc) return std::nullopt;
      return 0;
    case SYS_set_robust_list:
    case SYS_rt_sigprocmask:
    case SYS_sched_yield:
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
      return 0;
    default:
      return std::nullopt;
  }
}

// What ends the call; nullopt: the call is just not there.
std::optional<std::string> DebugWorld::refusal(uint64_t nr, const uint64_t args[6]) const {
  switch (nr) {
    case SYS_exit:
    case SYS_exit_group:
      return fmt::format("ends its program: exit({})", static_cast<int>(args[0]));
    case SYS_clone:
    case SYS_clone3:
    case SYS_fork:
    case SYS_vfork:
      return "starts a thread or a process; debug code has one thread, whose work is over when it returns";
    case SYS_execve:
    case SYS_execveat:
      return "starts another program";
    case SYS_kill:
    case SYS_tkill:
      return signal_text(args[1]);
    case SYS_tgkill:
      return signal_text(args[2]);
    case SYS_rt_sigaction:
    case SYS_rt_sigsuspend:
    case SYS_sigaltstack:
    case SYS_pause:
      return "wants to handle signals; there are none in debug code";
    case SYS_futex:
      return "waits for a lock that nobody can give back (held by a call that was ended?)";
    case SYS_close:
      return args[0] < 3 ? std::optional(fmt::format("closes descriptor {}, its output", args[0]))
                         : std::nullopt;
    default:
      return std::nullopt;
  }
}

DebugWorld::Next DebugWorld::on_call() {
  Context& ctx = context();
  const uint64_t nr = ctx.gpr[RAX];
  uint64_t args[6];
  guest::syscall_args(ctx, args);
  if (nr >= BACKSTEP_READY && nr < BACKSTEP_END) return request(nr, args);
  std::optional<int64_t> result;
  const bool its_output = nr == SYS_close && args[0] < 3;
  if (!its_output) {
    result = memory_call(nr, args);
    if (!result) result = file_call(nr, args);
    if (!result) result = identity_call(nr, args);
  }
  if (!result)
    if (auto sentence = refusal(nr, args)) return fail(*sentence);
  ctx.gpr[RAX] = static_cast<uint64_t>(result.value_or(-ENOSYS));
  return Next::GoOn;
}

}  // namespace backstep::replayer
