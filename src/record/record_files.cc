// Files that the program opens and that would show, or touch, something of ours: its own entries in /proc,
// those of other recorded processes, and its own memory as a file.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/room_for_fds.h"
#include "record/descriptors.h"
#include "record/proc_files.h"
#include "record/recorder.h"
#include "recording/tree.h"

namespace backstep::recorder {

using namespace guest;

namespace {

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 10 && std::all_of(text.begin(), text.end(), ::isdigit);
}

// A file with this text and nothing behind it.
int64_t file_with(const std::string& text, uint64_t flags, const std::string& name) {
  int fd = memfd_create(name.c_str(), flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
  if (fd < 0) return -errno;
  for (size_t done = 0; done < text.size();) {
    ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  lseek(fd, 0, SEEK_SET);
  fchmod(fd, 0444);
  // With the rights that were asked for (F_GETFL), in the lowest place that is free.
  const auto opened = static_cast<int>(flags & (O_ACCMODE | O_NONBLOCK | O_CLOEXEC));
  if (Fd again(::open(fmt::format("/proc/thread-self/fd/{}", fd).c_str(), opened)); again)
    dup3(again.get(), fd, opened & O_CLOEXEC);
  return fd;
}

// Is the thread's body asleep in the kernel, in the call that it makes for it, or still on its way there? A
// program that reads that a thread sleeps relies on a signal to end its call: one that comes on the way would
// be delivered in front of it, and the call would wait for ever.
bool sleeps_in_call(const Task& task) {
  if (task.wait != Task::Wait::Call || !task.body) return true;
  std::ifstream file(fmt::format("/proc/self/task/{}/syscall", task.body->tid));
  std::string nr, first;
  if (!(file >> nr)) return true;  // there is no /proc
  file >> first;
  // (Bodies that have nothing to do wait for a word of ours.)
  return nr == std::to_string(task.body->call[0]) &&
         first != fmt::format("{}", fmt::ptr(&task.body->command));
}

void show_state(const Task& task, bool current, Shown::Thread& thread) {
  const bool waits = !current && task.wait != Task::Wait::None && sleeps_in_call(task);
  thread.state = task.held ? 't' : waits ? 'S' : 'R';
  if (!waits) return;
  const Thread& t = *task.thread;
  thread.call = fmt::format("{}", task.nr);
  for (uint64_t argument : task.args) thread.call += fmt::format(" {:#x}", argument);
  thread.call += fmt::format(" {:#x} {:#x}\n", t.gpr[RSP], t.rip);
}

}  // namespace

// Relative paths stay what they are, except below a folder of /proc that the program has opened.
std::string Recorder::whole_path(uint64_t dirfd, const std::string& path) const {
  if (path.starts_with('/') || !(kind_of(dirfd) & kFdProc)) return path;
  char folder[4096];
  ssize_t n = readlink(fmt::format("/proc/thread-self/fd/{}", static_cast<int>(dirfd)).c_str(), folder,
                       sizeof folder);
  if (n > 0) return std::string(folder, static_cast<size_t>(n)) + "/" + path;
  // There is no /proc any more (chroot).
  const auto known = proc_folders_.find(static_cast<int>(dirfd));
  return known == proc_folders_.end() ? path : known->second + "/" + path;
}

Shown Recorder::shown() const {
  Shown shown = shown_of(process_);
  shown.exe = start_.exe;
  shown.auxv = start_.auxv;
  shown.layout = program_layout();
  shown.argv = joined(start_.argv);
  for (const auto& [name, task] : turns_.tasks()) {
    if (!bs_record.threads || !task->thread) continue;
    for (Shown::Thread& thread : shown.threads)
      if (thread.tid == task->thread->tid) show_state(*task, task.get() == &turns_.current(), thread);
  }
  // The threads of the parent are not those of its child.
  if (vfork_) shown.threads = {*shown.thread(process_.current().tid)};
  return shown;
}

// Is it one of ours? Those that a recorder has open for a moment, to map a file for its program, lead to the
// store.
bool Recorder::is_hidden_fd(const Shown& process, uint64_t fd) const {
  const auto number = static_cast<int>(fd);
  if (std::find(process.our_fds.begin(), process.our_fds.end(), number) != process.our_fds.end()) return true;
  if (process.pid == getpid()) return false;
  char target[4096];
  const ssize_t n = readlink(fmt::format("{}/fd/{}", process.folder, number).c_str(), target, sizeof target);
  const std::string_view file(target, n > 0 ? static_cast<size_t>(n) : 0);
  return file.starts_with(library_.store().dir() + "/") || file.starts_with(recording_.dir() + "/files/");
}

// A file below /proc/PID of this process or another one that is recorded; nullopt: it is another file.
std::optional<Recorder::ShownFile> Recorder::shown_file(const std::string& path) const {
  auto parsed = parse_proc_path(path, process_.current().tid);
  if (!parsed) return std::nullopt;
  ShownFile found{std::move(*parsed), {}};
  ProcFile& file = found.file;
  if (file.pid != getpid()) {
    if (!may_show_us(file)) return std::nullopt;
    // The folder of a thread can be opened, although it is not listed.
    if (const int owner = is_recorded(file.pid) ? process_of(file.pid) : 0; owner && owner != file.pid) {
      if (!file.tid) file.tid = file.pid;
      file.pid = owner;
    }
  }
  found.own = file.pid == getpid();
  if (found.own) {
    found.process = shown();
  } else if (auto other = published_by(recording_, file.pid, file.tid || !file.name.starts_with("fd"))) {
    if (other->ended && !found.is("status") && !found.is("stat") && !found.is("limits")) return std::nullopt;
    found.process = std::move(*other);
  } else {
    return std::nullopt;
  }
  if (file.tid == found.process.pid) file.tid = 0;
  found.hidden = file.tid && !found.process.thread(file.tid);
  if ((file.name.starts_with("fd/") || file.name.starts_with("fdinfo/")) && file.descriptor() != ~0ull)
    found.hidden |= is_hidden_fd(found.process, file.descriptor());
  return found;
}

// The program that a file like /proc/self/exe or /proc/PID/exe stands for, if that process is recorded.
std::optional<std::string> Recorder::exe_behind(const std::string& path) const {
  if (!path.ends_with("exe")) return std::nullopt;
  auto found = shown_file(path);
  return found && !found->hidden && found->is("exe") ? std::optional(found->process.exe) : std::nullopt;
}

std::optional<std::string> Recorder::proc_text(const ShownFile& found) const {
  const auto& [file, process, own, hidden] = found;
  // What the program has no right to see, or what has gone, is the kernel's to refuse.
  // (A process that has changed its user cannot read all of its own, and some files are not in all kernels.)
  const bool sure =
      own && prctl(PR_GET_DUMPABLE) == 1 && file.name != "smaps_rollup" && file.name != "numa_maps";
  if (!is_text(file) || (!sure && !Fd(::open(kernels_path(file, process).c_str(), O_RDONLY | O_CLOEXEC))))
    return std::nullopt;
  if (auto text = proc_file(file, process)) return text;
  if (file.name == "auxv")
    return std::string(reinterpret_cast<const char*>(process.auxv.data()),
                       process.auxv.size() * sizeof(uint64_t));
  if (auto words = words_in(found)) return words;
  if (file.name == "cmdline" && process.argv) return process.argv;
  if (own) return joined(manifest_.env);
  try {
    const auto manifest = recording::Manifest::load(recording_.manifest_path(process.program));
    return joined(file.name == "cmdline" ? manifest.argv : manifest.env);
  } catch (const Error&) {
    return std::nullopt;  // the recording is being removed
  }
}

// cmdline and environ as they are in the program's memory now; nullopt: it cannot be read.
std::optional<std::string> Recorder::words_in(const ShownFile& found) const {
  const ProgramLayout& at = found.process.layout;
  const RoomForFds room;
  const Fd memory(found.own ? -1 : ::open((found.process.folder + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  // As much as there is, as the kernel does it.
  auto read = [&](uint64_t start, uint64_t end) {
    constexpr uint64_t kMost = 8 << 20, kPage = layout::kPage;
    std::string text;
    while (start < end && text.size() < kMost) {
      char page[kPage];
      const uint64_t n = std::min(end - start, kPage - start % kPage);
      if (found.own ? !bs_guarded_copy(page, reinterpret_cast<const void*>(start), n)
                    : pread(memory.get(), page, n, static_cast<off_t>(start)) != static_cast<ssize_t>(n))
        break;
      text.append(page, n);
      start += n;
    }
    return text;
  };
  if (!at.arg_start || (!found.own && !memory)) return std::nullopt;
  if (found.is("environ")) return read(at.env_start, at.env_end);
  if (!found.is("cmdline")) return std::nullopt;
  if (at.arg_start >= at.arg_end) return "";
  // Programs write over their arguments, and over the environment behind them (setproctitle): then all up to
  // the first zero is the command line.
  const std::string last = read(at.arg_end - 1, at.arg_end);
  if (last.empty() || last[0] == 0) return read(at.arg_start, at.arg_end);
  const bool joined = at.env_start == at.arg_end && at.env_end >= at.env_start;
  const std::string title =
      read(at.arg_start, std::min(joined ? at.env_end : at.arg_end, at.arg_start + layout::kPage));
  return title.substr(0, title.find('\0') == std::string::npos ? title.size() : title.find('\0') + 1);
}

// The file that a call is about to change, if a recorded process executes it. The kernel's other reasons to
// refuse come first.
bool Recorder::is_busy_program(uint64_t folder, uint64_t path, uint64_t flags) const {
  if ((flags & (O_PATH | O_DIRECTORY)) || (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL) ||
      ((flags & O_ACCMODE) == O_RDONLY && !(flags & O_TRUNC)))
    return false;
  const auto given = guest_text(path);
  const auto at = static_cast<int>(folder);
  struct stat st {};
  if (!given || given->empty() ||
      fstatat(at, given->c_str(), &st, flags & O_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0) != 0)
    return false;
  if (!S_ISREG(st.st_mode) || !(st.st_mode & 0111) || faccessat(at, given->c_str(), W_OK, AT_EACCESS) != 0)
    return false;
  RoomForFds room;
  const std::pair<uint64_t, uint64_t> file{st.st_dev, st.st_ino};
  return file == start_.exe_file || is_executed(recording_.base(), file);
}

int64_t Recorder::do_open(uint64_t nr, const uint64_t args[6]) {
  const Syscall& row = syscall_row(nr);
  const bool at = nr == SYS_openat || nr == SYS_openat2;
  auto given = guest_text(args[at ? 1 : 0]);
  const std::string path = given ? whole_path(at ? args[0] : AT_FDCWD, *given) : "";
  uint64_t flags = nr == SYS_open ? args[1] : nr == SYS_openat ? args[2] : 0;
  if (nr == SYS_openat2) read_guest(args[2], &flags);  // the first of struct open_how
  if (nr == SYS_creat) flags = O_CREAT | O_WRONLY | O_TRUNC;
  const bool truncates = flags & O_TRUNC || nr == SYS_creat || nr == SYS_openat2;
  const auto found = shown_file(path);
  // A file that we make is one of this process's.
  const bool ours = !has_own_files_as_lodger();
  const auto text = ours && found && !found->hidden ? proc_text(*found) : std::nullopt;
  const bool own = found && found->own;
  int64_t result;
  uint8_t kind = path.starts_with("/proc/") || path == "/proc" ? kFdProc : 0;
  if (found && found->hidden) {
    result = -ENOENT;
  } else if (text) {
    const bool maps = found->is("maps");
    result = file_with(*text, flags, maps ? fmt::format("proc-{}-maps", found->process.pid) : "proc");
    kind = maps ? kFdMaps : 0;
  } else if (ours && found && found->is("exe")) {
    const int fd = ::open(found->process.exe.c_str(), static_cast<int>(flags));
    result = fd >= 0 ? fd : -errno;
    kind = 0;
  } else if (ours && own && found->file.tid && path.starts_with("/proc/thread-self")) {
    // For the kernel that is the runner.
    const std::string real = fmt::format("/proc/self/task/{}/{}", found->file.tid, found->file.name);
    const int fd = ::open(real.c_str(), static_cast<int>(flags));
    result = fd >= 0 ? fd : -errno;
  } else if (ours && is_busy_program(at ? args[0] : AT_FDCWD, args[at ? 1 : 0], flags)) {
    result = -ETXTBSY;
  } else {
    if (truncates && (bs_record.shared_files || *bs_record.tree_files)) own_changed_file(nr, args);
    result = execute(row, nr, args);
  }
  if (found && (found->is("fd") || found->is("fdinfo"))) kind = kFdFolder | kFdProc;
  if (found && found->is("task")) kind = kFdTasks | kFdProc;
  if (found && found->is("mem") && (flags & O_ACCMODE) != O_RDONLY) {
    kind = kFdMemory;
    if (result >= 0) bs_record.shared_files = true;  // calls that write need a look
  }
  // Other ways to stdout and stderr.
  std::string number = path.starts_with("/dev/fd/") ? path.substr(8) : "";
  if (path == "/dev/stdout") number = "1";
  if (path == "/dev/stderr") number = "2";
  if (own && found->file.name.starts_with("fd/")) number = found->file.name.substr(3);
  if (is_number(number)) kind = kind_of(std::stoul(number)) & 3;
  if (result >= 0) set_kind(static_cast<uint64_t>(result), kind);
  if (result >= 0 && kind & kFdProc) proc_folders_[static_cast<int>(result)] = path;
  if (result >= 0) tell_opened(static_cast<int>(result));
  log_call(row, nr, args, result);
  if (result >= 0 && ours && (flags & O_ACCMODE) != O_RDONLY && !(flags & O_PATH))
    note_writable(static_cast<int>(result));
  if (truncates) log_file_change(nr, args, result);
  return result;
}

int64_t Recorder::do_readlink(uint64_t nr, const uint64_t args[6]) {
  const Syscall& row = syscall_row(nr);
  const int base = nr == SYS_readlink ? 0 : 1;
  auto given = guest_text(args[base]);
  const std::string path = given ? whole_path(base ? args[0] : AT_FDCWD, *given) : "";
  const auto found = shown_file(path);
  int64_t result;
  if (found && found->hidden) {
    result = -ENOENT;
  } else if (found && found->is("exe")) {
    const std::string& exe = found->process.exe;
    uint64_t n = std::min<uint64_t>(exe.size(), args[base + 2]);
    if (static_cast<int>(args[base + 2]) <= 0) {
      result = -EINVAL;
    } else if (!process_.writable(args[base + 1], n)) {
      result = -EFAULT;
    } else {
      std::memcpy(reinterpret_cast<void*>(args[base + 1]), exe.data(), n);
      result = static_cast<int64_t>(n);
    }
  } else {
    result = execute(row, nr, args);
  }
  log_call(row, nr, args, result);
  return result;
}

// stat and its relatives: of /proc/PID/exe that of the program, not of us; what is ours is not there.
std::optional<int64_t> Recorder::do_stat(uint64_t nr, const uint64_t args[6]) {
  constexpr uint64_t kNoFollow = AT_SYMLINK_NOFOLLOW;
  const int base = nr == SYS_stat || nr == SYS_lstat ? 0 : 1;
  auto given = guest_text(args[base]);
  const auto found = given ? shown_file(whole_path(base ? args[0] : AT_FDCWD, *given)) : std::nullopt;
  if (!found) return std::nullopt;
  if (found->hidden) {
    log_call(syscall_row(nr), nr, args, -ENOENT);
    return -ENOENT;
  }
  if (!found->is("exe") || nr == SYS_lstat || (nr == SYS_newfstatat && args[3] & kNoFollow) ||
      (nr == SYS_statx && args[2] & kNoFollow))
    return std::nullopt;
  uint64_t real[6];
  std::copy(args, args + 6, real);
  real[base] = reinterpret_cast<uint64_t>(found->process.exe.c_str());
  const int64_t result = execute(syscall_row(nr), nr, real);
  log_call(syscall_row(nr), nr, args, result);
  return result;
}

// A listing of /proc/PID/fd without our descriptors, or of /proc/PID/task without our threads.
int64_t Recorder::shown_entries(const uint64_t args[6], int64_t size, const std::vector<char>& before) {
  const auto found = shown_file(whole_path(args[0], ""));
  if (!found) return size;  // it has ended
  auto hidden = [&](int number) {
    if (kind_of(args[0]) & kFdFolder) return is_hidden_fd(found->process, static_cast<uint64_t>(number));
    return !found->process.thread(number);
  };
  auto* bytes = reinterpret_cast<char*>(args[1]);
  int64_t kept = 0;
  for (int64_t at = 0; at < size;) {
    uint16_t length;
    std::memcpy(&length, bytes + at + 16, 2);
    const char* name = bytes + at + 19;
    char* end = nullptr;
    const long number = std::strtol(name, &end, 10);
    if (!*name || *end || !hidden(static_cast<int>(number))) {
      if (kept != at) std::memmove(bytes + kept, bytes + at, length);
      kept += length;
    }
    at += length;
  }
  std::copy(before.begin() + kept, before.begin() + size, bytes + kept);
  return kept;
}

int64_t Recorder::do_close_range(const uint64_t args[6]) {
  const Syscall& row = syscall_row(SYS_close_range);
  uint64_t flags = args[2];
  if (flags & CLOSE_RANGE_UNSHARE && bs_record.threads && !vfork_ && !bs_record.lodger &&
      !(flags & ~static_cast<uint64_t>(CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC)) &&
      static_cast<unsigned>(args[0]) <= static_cast<unsigned>(args[1])) {
    const uint64_t own[6] = {CLONE_FILES};
    if (const int64_t err = do_own_world(syscall_row(SYS_unshare), SYS_unshare, own)) {
      log_call(row, SYS_close_range, args, err, false);
      return err;
    }
    flags &= ~static_cast<uint64_t>(CLOSE_RANGE_UNSHARE);
  }
  // Our descriptors are holes in the range.
  auto first = static_cast<unsigned>(args[0]), last = static_cast<unsigned>(args[1]);
  std::vector<unsigned> ours;
  for (int fd : bs_record.our_fds)
    if (fd >= 0 && static_cast<unsigned>(fd) >= first && static_cast<unsigned>(fd) <= last)
      ours.push_back(static_cast<unsigned>(fd));
  std::sort(ours.begin(), ours.end());
  long result = 0;
  uint64_t from = first;
  ours.push_back(last);
  for (size_t i = 0; i < ours.size() && result == 0; i++) {
    bool end = i + 1 == ours.size();
    uint64_t to = end ? last : ours[i] - 1ull;
    const uint64_t part[6] = {from, to, flags};
    if (from <= to || (end && first > last)) result = execute(row, SYS_close_range, part);
    from = ours[i] + 1ull;
  }
  if (result == 0 && !(args[2] & CLOSE_RANGE_CLOEXEC))
    for (uint64_t fd = first; fd <= last && fd < kTrackedFds; fd++) set_kind(fd, 0);
  log_call(row, SYS_close_range, args, result, false);
  return result;
}

}  // namespace backstep::recorder
