// System calls that the table alone does not describe: those that change the guest's memory map or signals,
// make or replace processes, or would show or disturb something of ours.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "base/error.h"
#include "base/room_for_fds.h"
#include "guest/buffers.h"
#include "record/descriptors.h"
#include "record/recorder.h"
#include "recording/writers.h"

namespace backstep::recorder {

using namespace guest;
using recording::EndKind;
using recording::EventKind;
using recording::PieceKind;

namespace {

using layout::kPage;
using layout::page_up;

}  // namespace

void Recorder::log_call(const Syscall& row, uint64_t nr, const uint64_t args[6], int64_t result,
                        bool buffers) {
  uint8_t flags = row.traits & kOutput ? kind_of(args[0]) & 3 : 0;
  if (result == kNotMade) buffers = false;
  while (log_.active() && !log_syscall(row, nr, args, result, flags, buffers))
    if (!log_.reserve(bs_record.needed)) break;
}

// With code pages write-protected, the kernel could not write there: take the protection off where it may
// write.
int64_t Recorder::execute(const Syscall& row, uint64_t nr, const uint64_t args[6]) {
  if (engine::bs_cache.watched_pages | engine::bs_cache.alias_pages) {
    uint64_t capacity = 4096;
    for (int i = 0; i < row.argc; i++)
      if (row.args[i].kind == Arg::Size) capacity = std::max(capacity, args[i]);
    capacity = std::min<uint64_t>(capacity, 1 << 30);
    for (int i = 0; i < row.argc; i++) {
      if (is_scalar(row.args[i].kind) || !args[i]) continue;
      ArgSpec spec = arg_spec(nr, args, i);
      auto prepare = [&](uint64_t a, uint64_t n) { process_.prepare_write(a, a + n); };
      if (spec.kind == Arg::IovOut) {
        for_each_iovec(args[i], args[spec.n], capacity << 10, prepare);
      } else if (spec.kind == Arg::MsgOut) {
        for_each_message_part(args[i], 1 << 30, prepare);
      } else if (spec.kind == Arg::Regset) {
        for_each_iovec(args[i], 1, capacity, prepare);
        prepare(args[i], 16);
      } else {
        prepare(args[i], capacity);
      }
    }
  }
  uint64_t real[6];
  std::copy(args, args + 6, real);
  real[2] = fewer(nr, args);
  // Entries that are left out leave no trace in the rest of the buffer either.
  std::vector<char> before;
  if (nr == SYS_getdents64 && (kind_of(args[0]) & (kFdFolder | kFdTasks))) {
    before.resize(std::min<uint64_t>(args[2], 1 << 20));
    real[2] = before.size();
    if (!bs_guarded_copy(before.data(), reinterpret_cast<const void*>(args[1]), before.size()))
      before.clear();
  }
  execute_plain(row, nr, real);
  if (!before.empty() && bs_record.result > 0)
    bs_record.result = shown_entries(args, bs_record.result, before);
  return bs_record.result;
}

// Nothing is known about this call: it is made, and what it changed in the memory that its arguments point to
// is found by comparing.
int64_t Recorder::unknown_call(uint64_t nr, const uint64_t args[6]) {
  constexpr uint64_t kWindow = 4096, kBehindPointer = 65536, kScanned = 256;
  struct Shadow {
    uint64_t addr;
    std::vector<unsigned char> before;
  };
  std::vector<Shadow> shadows;
  auto watch = [&](uint64_t addr, uint64_t most) {
    const Region* r = process_.map.find(addr);
    if (!r || !(r->prot & PROT_WRITE)) return false;
    uint64_t n = std::min(most, r->end - addr);
    process_.prepare_write(addr, addr + n);
    Shadow s{addr, std::vector<unsigned char>(n)};
    if (!bs_guarded_copy(s.before.data(), reinterpret_cast<const void*>(addr), n)) return false;
    shadows.push_back(std::move(s));
    return true;
  };
  for (int i = 0; i < 6; i++) {
    if (!watch(args[i], kWindow)) continue;
    // Structures with a pointer to the real thing (struct ifreq and the like).
    for (uint64_t at = args[i]; at < args[i] + kScanned; at += 8) {
      uint64_t pointer;
      if (read_guest(at, &pointer) && pointer >= 65536) watch(pointer, kBehindPointer);
    }
  }
  const Syscall& row = syscall_row(nr);
  long result = wait_for(nr, args);
  if (result != -ENOSYS && result != kNotMade)
    note_once(
        fmt::format("system call {} ({}) or its arguments are not in the table; its effects were found by "
                    "comparing memory",
                    nr, row.name ? row.name : "no name"));
  uint64_t most = 256;
  for (const Shadow& s : shadows) most += s.before.size() + 32;  // one piece each
  if (!log_.reserve(most)) return result;
  recording::Appender& log = log_.appender();
  Context& ctx = context();
  uint8_t* at = log.begin(EventKind::Syscall, recording::kInexact, recording::logged_number(nr));
  at = log.put_place(at, ctx.tick, ctx.rip - 2);
  at = recording::put_u32(at, register_digest(ctx));
  at = recording::put_varint(at, recording::zigzag(result));
  for (int i = 0; i < row.argc; i++) at = recording::put_varint(at, args[i]);
  for (const Shadow& s : shadows) {
    auto* now = reinterpret_cast<const unsigned char*>(s.addr);
    size_t first = 0, last = s.before.size();
    while (first < last && s.before[first] == now[first]) first++;
    while (last > first && s.before[last - 1] == now[last - 1]) last--;
    if (first == last) continue;
    *at++ = static_cast<uint8_t>(PieceKind::OutAt) << 3;
    at = recording::put_varint(at, s.addr + first);
    at = recording::put_varint(at, last - first);
    std::memcpy(at, now + first, last - first);
    at += last - first;
  }
  log.commit(at);
  return result;
}

int64_t Recorder::special(const Syscall& row, uint64_t nr, const uint64_t args[6]) {
  int64_t result;
  auto logged = [&](int64_t r, bool buffers = false) {
    log_call(row, nr, args, r, buffers);
    return r;
  };
  switch (nr) {
    case SYS_mmap:
      return do_mmap(args);
    case SYS_munmap:
      return do_munmap(args);
    case SYS_mprotect:
    case SYS_pkey_mprotect:
      return do_mprotect(row, nr, args);
    case SYS_brk:
      return logged(process_.sys_brk(args[0]));
    case SYS_madvise:
      return do_madvise(row, args);
    case SYS_mremap:
      return do_mremap(args);
    case SYS_arch_prctl:
      return do_arch_prctl(row, args);
    case SYS_rt_sigaction: {
      result = process_.sys_rt_sigaction(args);
      const auto signo = static_cast<int>(args[0]);
      // Also if there was no place for the old one.
      if ((result == 0 || result == -EFAULT) && args[1] && signo > 0 && signo <= kSignals &&
          signo != SIGKILL && signo != SIGSTOP) {
        if (!lodger_action(signo)) {
          set_real_action(signo);
          if (fate_of(process_.actions[signo], signo) == Fate::Ignore) forget_signal(signo);
        }
        tell_signals();
      }
      return logged(result);
    }
    case SYS_rt_sigprocmask:
      result = process_.sys_rt_sigprocmask(args);
      log_call(row, nr, args, result, false);
      set_real_mask();  // what was pending arrives now, behind this event
      return result;
    case SYS_sigaltstack:
      return logged(process_.sys_sigaltstack(args[0], args[1]));
    case SYS_rt_sigreturn:
      own_range(context().gpr[RSP], 2 * kPage, SharedObject::Hold::Read);
      log_call(row, nr, args, 0, false);
      if (!process_.sys_rt_sigreturn()) {
        on_fault({SIGSEGV, SI_KERNEL, 0, 0, 13, 0, 0});
      } else {
        set_real_mask();
      }
      return 0;
    case SYS_rt_sigsuspend:
    case SYS_pause:
      return do_suspend(nr, args);
    case SYS_exit:
    case SYS_exit_group:
      finish(EndKind::Exit, static_cast<int>(args[0]) & 0xff, context().rip - 2);
    case SYS_execve:
    case SYS_execveat:
      return do_exec(nr, args);
    case SYS_fork:
    case SYS_vfork:
    case SYS_clone:
      return do_fork(nr, args);
    case SYS_restart_syscall:  // what the kernel would restart is ours
      return logged(-EINTR);
    case SYS_gettid:
      return logged(process_.current().tid);
    case SYS_set_tid_address:
      process_.current().clear_child_tid = args[0];
      return logged(process_.current().tid);
    case SYS_set_robust_list:
      if (args[1] != 24) return logged(-EINVAL);
      process_.current().robust_list = args[0];
      return logged(0);
    case SYS_get_robust_list:
      return logged(do_get_robust_list(args), true);
    case SYS_open:
    case SYS_openat:
    case SYS_openat2:
    case SYS_creat:
      return do_open(nr, args);
    case SYS_truncate:
      result = is_busy_program(AT_FDCWD, args[0], O_WRONLY) ? -ETXTBSY : execute(row, nr, args);
      log_call(row, nr, args, result);
      log_file_change(nr, args, result);
      return result;
    case SYS_readlink:
    case SYS_readlinkat:
      return do_readlink(nr, args);
    case SYS_close:
      result = is_our_fd(args[0]) ? -EBADF : execute(row, nr, args);
      set_kind(args[0], 0);
      return logged(result);
    case SYS_close_range:
      return do_close_range(args);
    case SYS_dup:
      result = execute(row, nr, args);
      if (result >= 0) set_kind(static_cast<uint64_t>(result), kind_of(args[0]));
      return logged(result);
    case SYS_dup2:
    case SYS_dup3:
      if (!is_our_fd(args[0])) make_way(args[1], true);
      result = is_our_fd(args[0]) || is_our_fd(args[1]) ? -EBADF : execute(row, nr, args);
      if (result >= 0) set_kind(static_cast<uint64_t>(result), kind_of(args[0]));
      return logged(result);
    case SYS_fcntl: {
      const bool duplicates = args[1] == F_DUPFD || args[1] == F_DUPFD_CLOEXEC;
      if (duplicates && !is_our_fd(args[0])) make_way(args[2], false);
      result = execute(row, nr, args);
      if (duplicates && result >= 0) {
        set_kind(static_cast<uint64_t>(result), kind_of(args[0]));
        if (result >= bs_record.crowded_from) bs_record.crowded = true;
      }
      return logged(result, true);
    }
    case SYS_prctl:
      return do_prctl(row, args);
    case SYS_prlimit64:
    case SYS_getrlimit:
    case SYS_setrlimit:
      return do_rlimit(row, nr, args);
    case SYS_ptrace:
      return do_ptrace(row, args);
    case SYS_seccomp:
      return logged(do_seccomp(args[0], args[1], args[2], row, args), true);
    case SYS_shmat:
      return do_shmat(args);
    case SYS_shmdt:
      return do_shmdt(args);
    case SYS_remap_file_pages:
      note_once(fmt::format("{} was answered with ENOSYS", row.name));
      return logged(-ENOSYS);
    case SYS_kill:
    case SYS_tkill:
    case SYS_tgkill: {
      auto pid = static_cast<int>(args[0]);
      const auto signo = static_cast<int>(nr == SYS_tgkill ? args[2] : args[1]);
      if (signo == SIGKILL && nr == SYS_kill && pid == 0 && !vfork_ && !detached_)
        close_recording(EndKind::Signal, SIGKILL, context().rip - 2);  // the others of the group die, too
      if (signo == SIGKILL && pid == getpid() && fate(SIGKILL) == Fate::Die) die(SIGKILL, context().rip - 2);
      return logged(do_send_signal(row, nr, args), true);
    }
    case SYS_rt_sigqueueinfo:
    case SYS_rt_tgsigqueueinfo:
    case SYS_pidfd_send_signal:
      return logged(do_send_signal(row, nr, args), true);
    default:  // their relatives, futex, …: the table knows their arguments
      result = execute(row, nr, args);
      return logged(result, true);
  }
}

// The file that a call changes, if it is one that is mapped shared. `result`: of an open.
std::optional<Recorder::ChangedFile> Recorder::changed_file(uint64_t nr, const uint64_t args[6],
                                                            int64_t result) {
  struct stat st {};
  ChangedFile file{};
  file.fd = static_cast<int>(args[0]);
  if (nr == SYS_splice || nr == SYS_copy_file_range) file.fd = static_cast<int>(args[2]);
  const bool by_folder = nr == SYS_openat || nr == SYS_openat2;
  const bool opens = by_folder || nr == SYS_open || nr == SYS_creat;
  if (opens) file.fd = static_cast<int>(result);
  if (nr == SYS_truncate || (opens && result < 0)) {
    auto path = guest_text(args[by_folder ? 1 : 0]);
    const int folder = by_folder ? static_cast<int>(args[0]) : AT_FDCWD;
    if (!path || fstatat(folder, path->c_str(), &st, 0) != 0) return std::nullopt;
  } else if (fstat(file.fd, &st) != 0) {
    return std::nullopt;
  }
  if (!S_ISREG(st.st_mode)) return std::nullopt;
  file.id = {st.st_dev, st.st_ino};
  file.size = static_cast<uint64_t>(st.st_size);
  return file;
}

// How many bytes a call writes at most, if it is one of those that say so.
static std::optional<uint64_t> written_length(uint64_t nr, const uint64_t args[6]) {
  if (nr == SYS_write || nr == SYS_pwrite64) return args[2];
  if (nr != SYS_writev && nr != SYS_pwritev && nr != SYS_pwritev2) return std::nullopt;
  uint64_t length = 0;
  for_each_iovec(args[1], std::min<uint64_t>(args[2], UIO_MAXIOV), ~0ull >> 1,
                 [&](uint64_t, uint64_t n) { length += n; });
  return length;
}

static bool is_positioned(uint64_t nr, const uint64_t args[6]) {
  return nr == SYS_pwrite64 ||
         ((nr == SYS_pwritev || nr == SYS_pwritev2) && static_cast<int64_t>(args[3]) != -1);
}

// Others have a file mapped that this process changes by calls: it takes part as they do, so that its pages
// can be ours for that. (If it maps the file later it begins anew: attach().) False: nobody has, or all who
// do must take us for an outsider.
bool Recorder::take_part_to_write(const ChangedFile& file) {
  const std::string control = control_path(file.id.first, file.id.second);
  const uint64_t extent = shared_control::extent(control);
  if (extent == 0) return false;
  try {
    if (shared_control::is_open(control)) return false;
    if (vfork_) throw Error("its parent takes part, or not");
    RoomForFds room;
    auto object = std::make_unique<SharedObject>(
        recording_.base(), control_name(file.id.first, file.id.second), file.fd, 0, extent * kPage);
    object->file = file.id;
    object->only_written = true;
    objects_[file.id] = std::move(object);
    windows_of_ = nullptr;
    start_sharing();
    hang_bells();
    return true;
  } catch (const Error&) {  // perhaps it is open for writing only
    shared_control::open_to_writer(control);
    return false;
  }
}

// Before a call that may change a file: its pages become ours, so that nobody else reads them meanwhile and
// all who have them learn of the change. Those that this process has mapped are logged behind the call.
void Recorder::own_changed_file(uint64_t nr, const uint64_t args[6]) {
  auto file = changed_file(nr, args, -1);
  if (!file) return;
  auto it = objects_.find(file->id);
  if (it == objects_.end() && take_part_to_write(*file)) it = objects_.find(file->id);
  if (it == objects_.end() || it->second->alone() || it->second->has_view()) return;
  SharedObject& object = *it->second;
  // Others may have mapped more of it.
  if (object.extent() > object.pages()) {
    try {
      RoomForFds room;
      object.extend(file->fd, object.pages() * kPage, object.extent() * kPage);
    } catch (const Error&) {  // it is open for writing only
      object.set_open();
      open_object(object);
      shared_control::open_to_writer(object.path());
      return;
    }
  }
  const uint64_t most = object.pages() * kPage;
  uint64_t first = 0, last = most;
  if (auto length = written_length(nr, args)) {
    if (fcntl(file->fd, F_GETFL) & O_APPEND) {
      first = file->size;  // or behind that, if others append as well
    } else {
      const off_t from = is_positioned(nr, args) ? static_cast<off_t>(args[3]) : lseek(file->fd, 0, SEEK_CUR);
      first = static_cast<uint64_t>(std::max<off_t>(from, 0));
      last = first > most ? most : std::min(most, first + *length);
      first = std::min(first, file->size);  // what is between becomes zero
      // (Who came to a page before it was there must not have it any more, or it would not see it come.)
    }
  } else if (nr == SYS_ftruncate || nr == SYS_truncate) {
    first = std::min(args[1], file->size);
    last = std::min(most, page_up(std::max(args[1], file->size)));
  }
  object.for_each_page(first / kPage, page_up(last) / kPage,
                       [&](uint64_t page) { own_object_page(object, page); });
}

// Which bytes of the file a call has changed: known for plain writes; the whole file for others.
std::pair<uint64_t, uint64_t> Recorder::changed_range(const ChangedFile& file, uint64_t nr,
                                                      const uint64_t args[6], int64_t result) {
  const auto n = static_cast<uint64_t>(result);
  if (is_positioned(nr, args)) {
    // Linux appends, whatever the offset.
    if (fcntl(file.fd, F_GETFL) & O_APPEND) return {file.size - n, file.size};
    return {args[3], args[3] + n};
  }
  if (written_length(nr, args)) {
    const off_t now = lseek(file.fd, 0, SEEK_CUR);
    if (now >= 0 && static_cast<uint64_t>(now) >= n)
      return {static_cast<uint64_t>(now) - n, static_cast<uint64_t>(now)};
  }
  // The new size says it all: what is cut is gone, what is added is zero.
  if (nr == SYS_ftruncate || nr == SYS_truncate) return {0, 0};
  return {0, file.size};
}

void Recorder::log_file_change(uint64_t nr, const uint64_t args[6], int64_t result) {
  if (hot::is_error(result) || !(bs_record.shared_files || nr == SYS_truncate)) return;
  auto file = changed_file(nr, args, result);
  if (!file) return;
  const bool shared = shared_.count(file->id) != 0;
  if (kept_.count(file->id)) {
    const auto [from, to] = changed_range(*file, nr, args, result);
    const bool knows = written_length(nr, args).has_value();
    change_live(file->id, file->fd, file->size, from, to,
                knows ? bytes_written(nr, args, to - from) : std::nullopt);
  }
  if (!shared || !log_.active()) return;
  struct stat st {};
  st.st_dev = file->id.first;
  st.st_ino = file->id.second;
  const uint64_t size = file->size;
  if (!log_.reserve(256)) return;
  recording::Appender& log = log_.appender();
  uint8_t* at = log.begin(EventKind::FileSize, 0, 0);
  for (uint64_t v : {static_cast<uint64_t>(st.st_dev), static_cast<uint64_t>(st.st_ino), size})
    at = recording::put_varint(at, v);
  log.commit(at);
  // Where the file has grown, the rest of its old last page as well: file systems differ in what a mapping
  // shows there.
  uint64_t& old_size = shared_[{st.st_dev, st.st_ino}];
  uint64_t grown_from = size > old_size ? old_size & ~(kPage - 1) : size;
  uint64_t grown_to = size > old_size ? std::min(size, page_up(old_size)) : size;
  if (auto it = objects_.find(file->id); it != objects_.end() && size < old_size)
    it->second->forget_from(page_up(size) / kPage);
  old_size = size;
  const auto [first, last] = changed_range(*file, nr, args, result);
  std::vector<std::pair<uint64_t, uint64_t>> parts;
  process_.map.for_each([&](const Region& r) {
    if (!(r.flags & MAP_SHARED) || r.dev != st.st_dev || r.inode != st.st_ino) return;
    if (SharedObject* object = shared_object(r); object && object->has_view())
      return;  // seen when it is read
    for (auto [from, to] : {std::pair{first, last}, std::pair{grown_from, grown_to}}) {
      uint64_t a = std::max(from, r.offset), b = std::min({to, size, r.offset + (r.end - r.start)});
      if (a < b) parts.emplace_back(r.start + (a - r.offset), b - a);
    }
  });
  for (auto [addr, length] : parts) {
    process_.engine().forget(addr, addr + length);
    log_memory(addr, length);
  }
}

// --- process ---

int64_t Recorder::do_suspend(uint64_t nr, const uint64_t args[6]) {
  const Syscall& row = syscall_row(nr);
  int64_t result = 0;
  if (nr == SYS_rt_sigsuspend) {
    uint64_t mask;
    if (args[1] != 8) {
      result = -EINVAL;
    } else if (!read_guest(args[0], &mask)) {
      result = -EFAULT;
    } else {
      // What came before is delivered under the mask that was there before, so the guest has the new one only
      // when the kernel had it.
      uint64_t real = mask;
      for (int signo : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) real &= ~(1ull << (signo - 1));
      const uint64_t call[6] = {reinterpret_cast<uint64_t>(&real), 8};
      result = wait_for(nr, call);
      if (result == -EINTR) process_.suspend_mask(mask);
    }
  } else {
    result = wait_for(nr, args);
  }
  log_call(row, nr, args, result, false);
  return result;
}

}  // namespace backstep::recorder
