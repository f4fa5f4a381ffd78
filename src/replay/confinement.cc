// Replaying a recording runs its author's code. That code runs from the cache, its memory is not ours and its
// system calls are answered from the log; but this rests on checks which were written by people, and a log
// can say anything. So the kernel is told what no replay ever needs, before anything of the recording is
// looked at in this process:
//
//   seccomp     a list of the system calls that a replay makes; all others fail with EPERM. Of `ioctl` only
//               what counts written pages (never TIOCSTI, which would type into the user's terminal), of
//               `clone` no namespaces, and of what can be about other processes only what is about this one.
//   Landlock    files, by folders; signals and abstract sockets of others; and with it the kernel keeps
//               the process from the memory of all that are not confined like it. Only for recordings from
//               elsewhere: debug code of the user's own may read and write files, and what is our own has run
//               here before.
//
// Both are for ever and are inherited, and neither needs rights. A kernel without Landlock (before 5.13)
// leaves files open to a stranger's recording; docs/security.md says so.
#include "replay/confinement.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "engine/translations.h"
#include "recording/checkpoint_file.h"
#include "recording/made_here.h"
#include "recording/shared_folder.h"
#include "replay/written_pages.h"

namespace backstep::replayer {
namespace {

// --- system calls ---

constexpr uint32_t kCalls[] = {
    // Talk, and what was opened.
    SYS_read, SYS_write, SYS_pread64, SYS_pwrite64, SYS_readv, SYS_writev, SYS_preadv, SYS_pwritev, SYS_lseek,
    SYS_close, SYS_close_range, SYS_dup, SYS_dup2, SYS_dup3, SYS_poll, SYS_ppoll, SYS_select, SYS_recvmsg,
    SYS_sendmsg, SYS_recvfrom, SYS_sendto, SYS_socketpair, SYS_setsockopt, SYS_pipe2, SYS_shutdown,
    SYS_memfd_create, SYS_userfaultfd, SYS_flock, SYS_utimensat, SYS_ftruncate, SYS_fallocate, SYS_fsync,
    SYS_fdatasync, SYS_copy_file_range,
    // Files.
    SYS_open, SYS_openat, SYS_stat, SYS_lstat, SYS_fstat, SYS_newfstatat, SYS_statx, SYS_access,
    SYS_faccessat, SYS_faccessat2, SYS_readlink, SYS_readlinkat, SYS_getdents64, SYS_getcwd, SYS_mkdir,
    SYS_mkdirat, SYS_unlink, SYS_unlinkat, SYS_rename, SYS_renameat, SYS_renameat2, SYS_fchmod, SYS_fchown,
    SYS_fgetxattr, SYS_fsetxattr, SYS_statfs, SYS_fstatfs,
    // Memory.
    SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_brk, SYS_mincore, SYS_msync,
    // Itself.
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack, SYS_rt_sigpending,
    SYS_arch_prctl, SYS_prctl, SYS_getpid, SYS_gettid, SYS_getppid, SYS_getpgid, SYS_setpgid, SYS_getuid,
    SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getrandom, SYS_uname, SYS_sysinfo, SYS_getrlimit, SYS_setrlimit,
    SYS_getrusage, SYS_times, SYS_time, SYS_gettimeofday, SYS_clock_gettime, SYS_clock_getres,
    SYS_clock_nanosleep, SYS_nanosleep, SYS_setitimer, SYS_getitimer, SYS_timer_create, SYS_timer_settime,
    SYS_timer_delete, SYS_timer_gettime, SYS_sched_yield, SYS_sched_getaffinity, SYS_futex,
    SYS_set_robust_list, SYS_get_robust_list, SYS_set_tid_address, SYS_rseq, SYS_restart_syscall, SYS_fork,
    SYS_vfork, SYS_wait4, SYS_exit, SYS_exit_group};

// What these are allowed with: this number as that argument, all of them.
struct Only {
  uint32_t nr;
  int argument;
  uint32_t value;
};
constexpr Only kOnly[] = {
    {SYS_setpriority, 0, PRIO_PROCESS},  // checkpoints are written in the background: itself, and not all
    {SYS_setpriority, 1, 0},             // processes of the user
    {SYS_prlimit64, 0, 0},               // libc's getrlimit; another's limits are as good as a signal
};
// A descriptor's owner is sent a signal when something happens, whoever that is, and any that one likes.
constexpr uint32_t kOwnersOfDescriptors[] = {F_SETOWN, F_SETOWN_EX, F_SETSIG, F_SETLEASE, F_NOTIFY};

// Numbers of requests to /proc/PID/pagemap and userfaultfd; the last of what terminals are asked.
constexpr uint32_t kPagemapScan = 0xc0606610;
constexpr uint32_t kUserfaultKind = 0xaa;
constexpr uint32_t kTerminalSettings = 0x5401, kTerminalSize = 0x5413, kBytesThere = 0x541b;
constexpr uint32_t kNamespaces = 0x7e020080;  // all CLONE_NEW*

class Program {
 public:
  void add(uint16_t code, uint32_t k) { list_.push_back({code, 0, 0, k}); }
  void load(size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)); }
  void answer(uint32_t action) { add(BPF_RET | BPF_K, action); }
  // If what was loaded is `value` (or has one of its bits), `action`.
  void answer_if(uint16_t test, uint32_t value, uint32_t action) {
    list_.push_back({static_cast<uint16_t>(BPF_JMP | test | BPF_K), 0, 1, value});
    answer(action);
  }
  void answer_unless(uint16_t test, uint32_t value, uint32_t action) {
    list_.push_back({static_cast<uint16_t>(BPF_JMP | test | BPF_K), 1, 0, value});
    answer(action);
  }
  void load_argument(int n) { load(offsetof(seccomp_data, args) + 8 * static_cast<size_t>(n)); }
  // `rules`, which end with an answer, are for this system call alone. Afterwards its number is loaded still.
  template <typename Rules>
  void for_call(uint32_t nr, Rules rules) {
    list_.push_back({BPF_JMP | BPF_JEQ | BPF_K, 0, 0, nr});
    const size_t test = list_.size() - 1;
    rules();
    list_[test].jf = static_cast<uint8_t>(list_.size() - test - 1);
  }
  bool install() {
    const sock_fprog program{static_cast<unsigned short>(list_.size()), list_.data()};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program) == 0 ||
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
  }

 private:
  std::vector<sock_filter> list_;
};

constexpr uint32_t kAllow = SECCOMP_RET_ALLOW, kRefuse = SECCOMP_RET_ERRNO | EPERM,
                   kUnknown = SECCOMP_RET_ERRNO | ENOSYS;

bool confine_calls() {
  Program p;
  p.load(offsetof(seccomp_data, arch));
  p.answer_unless(BPF_JEQ, AUDIT_ARCH_X86_64, SECCOMP_RET_KILL_PROCESS);
  p.load(offsetof(seccomp_data, nr));
  for (uint32_t nr : kCalls) p.answer_if(BPF_JEQ, nr, kAllow);
  p.answer_if(BPF_JEQ, SYS_clone3, kUnknown);  // libc then takes the older one
  p.for_call(SYS_clone, [&] {
    p.load_argument(0);
    p.answer_if(BPF_JSET, kNamespaces, kRefuse);
    p.answer(kAllow);
  });
  for (uint32_t nr : {SYS_setpriority, SYS_prlimit64})
    p.for_call(nr, [&] {
      for (const Only& only : kOnly) {
        if (only.nr != nr) continue;
        p.load_argument(only.argument);
        p.answer_unless(BPF_JEQ, only.value, kRefuse);
      }
      p.answer(kAllow);
    });
  p.for_call(SYS_fcntl, [&] {
    p.load_argument(1);
    for (uint32_t command : kOwnersOfDescriptors) p.answer_if(BPF_JEQ, command, kRefuse);
    p.answer(kAllow);
  });
  p.for_call(SYS_ioctl, [&] {
    p.load_argument(1);
    for (uint32_t request : {kPagemapScan, kTerminalSettings, kTerminalSize, kBytesThere})
      p.answer_if(BPF_JEQ, request, kAllow);
    p.add(BPF_ALU | BPF_AND | BPF_K, 0xff00);
    p.answer_if(BPF_JEQ, kUserfaultKind << 8, kAllow);
    p.answer(kRefuse);
  });
  p.answer(kRefuse);
  return p.install();
}

// --- files ---

bool confined_to_files = false;

// As the kernel's headers have them; those of older systems lack some.
struct Ruleset {
  uint64_t files = 0, net = 0, scoped = 0;
};
struct Beneath {
  uint64_t allowed;
  int32_t parent;
} __attribute__((packed));
constexpr int kVersion = 1, kPathBeneath = 1;
constexpr uint64_t kWriteFile = 1 << 1, kReadFile = 1 << 2, kReadDir = 1 << 3, kRemoveFile = 1 << 5,
                   kMakeRegular = 1 << 8, kTruncate = 1 << 14;

// What each version of the interface knows. Everything that is known is refused unless allowed.
Ruleset all_of(long version) {
  Ruleset all;
  all.files = (1 << 13) - 1;               // execute, write, read, remove, make: version 1
  if (version >= 2) all.files |= 1 << 13;  // move between folders
  if (version >= 3) all.files |= kTruncate;
  if (version >= 5) all.files |= 1 << 15;  // ioctl of devices
  if (version >= 4) all.net = 3;           // bind, connect
  if (version >= 6) all.scoped = 3;        // abstract sockets, signals
  return all;
}

void allow_beneath(const Fd& rules, const std::string& folder, uint64_t what, int flags = 0) {
  const Fd fd(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | flags));
  const Beneath beneath{what, fd.get()};
  // One that is not there gives no rights.
  if (fd) syscall(SYS_landlock_add_rule, rules.get(), kPathBeneath, &beneath, 0);
}

void confine_files(const recording::Library& library, const recording::Recording& recording,
                   bool checkpoints) {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, kVersion);
  if (version < 1) return;
  const Ruleset all = all_of(version);
  const size_t size = version >= 6 ? sizeof all : version >= 4 ? 16 : 8;
  const Fd rules(static_cast<int>(syscall(SYS_landlock_create_ruleset, &all, size, 0)));
  if (!rules) throw Error("cannot confine the replay of a recording from elsewhere: " + errno_text(errno));
  constexpr uint64_t kRead = kReadFile | kReadDir;
  allow_beneath(rules, recording.base(), kRead);
  allow_beneath(rules, library.store().dir(), kRead);
  // Where written pages are counted by soft-dirty bits (written_pages.h), every process clears its own
  // through a file in /proc. To root that folder would be the whole system: its replays do without.
  const bool clears = geteuid() != 0 && !WrittenPages::kernel_counts_by_itself();
  allow_beneath(rules, "/proc", clears ? kRead | kWriteFile : kRead);
  // Kept translations are our own work.
  if (const std::string kept = engine::translations_folder(); !kept.empty())
    allow_beneath(rules, kept, kRead);
  if (checkpoints) {
    const std::string folder = recording::CheckpointFolder::dir(recording);
    recording::make_shared_folder(folder);  // not if the recording cannot be written to; then none are made
    // A stranger could have made that a link to any of the user's folders.
    allow_beneath(rules, folder, (kRead | kWriteFile | kRemoveFile | kMakeRegular | kTruncate) & all.files,
                  O_NOFOLLOW);
  }
  if (syscall(SYS_landlock_restrict_self, rules.get(), 0) != 0)
    throw Error("cannot confine the replay of a recording from elsewhere: " + errno_text(errno));
  confined_to_files = true;
}

}  // namespace

bool is_confined_to_its_files() {
  return confined_to_files;
}

void confine(const recording::Library& library, const recording::Recording& recording, bool checkpoints) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    throw Error("cannot confine the replay (no_new_privs): " + errno_text(errno));
  if (!recording::was_made_here(recording.base())) confine_files(library, recording, checkpoints);
  // Where there is no seccomp there is nothing that could be done.
  confine_calls();
}

}  // namespace backstep::replayer
