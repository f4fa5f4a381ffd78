// Rights that the program gives up.
//
// Before a call that may take the right to write the recording away from this process (setuid), or the sight
// of it (chroot), all is prepared so that it can go on: the recording's folder is kept open, the user that
// the process becomes is let in (recording/shared_folder.h), and file contents go into the recording itself
// if the store cannot be written any more. Nothing of this is done before it is needed: most programs never
// come here, and a descriptor that is not there cannot be noticed.
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <linux/capability.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>

#include "base/room_for_fds.h"
#include "record/recorder.h"
#include "record/rights.h"
#include "recording/shared_folder.h"

namespace backstep::recorder {

using namespace guest;

namespace {

// The user that files are opened as behind this call; none: as before.
std::optional<uid_t> next_user(uint64_t nr, const uint64_t args[6]) {
  constexpr auto kUnchanged = static_cast<uid_t>(-1);
  const auto user = static_cast<uid_t>(nr == SYS_setreuid || nr == SYS_setresuid ? args[1] : args[0]);
  const bool sets = nr == SYS_setuid || nr == SYS_setreuid || nr == SYS_setresuid || nr == SYS_setfsuid;
  if (!sets || user == kUnchanged || user == geteuid()) return std::nullopt;
  return user;
}

// Does the call change rights that each thread has for itself?
bool is_of_thread(uint64_t nr) {
  for (int one : {SYS_setuid, SYS_setreuid, SYS_setresuid, SYS_setfsuid, SYS_setgid, SYS_setregid,
                  SYS_setresgid, SYS_setfsgid, SYS_setgroups, SYS_capset, SYS_landlock_restrict_self})
    if (nr == static_cast<uint64_t>(one)) return true;
  return false;
}

// The kernel will not let just anybody become that user: nor shall the user be let in then.
bool may_become(uid_t user) {
  uid_t real = 0, effective = 0, saved = 0;
  getresuid(&real, &effective, &saved);
  return user == real || user == effective || user == saved || has_capability(CAP_SETUID);
}

}  // namespace

bool has_capability(int capability) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  return syscall(SYS_capget, &header, data) == 0 && data[capability / 32].effective >> capability % 32 & 1;
}

std::pair<uint64_t, uint64_t> root_now() {
  struct stat st {};
  return stat("/", &st) == 0 ? std::pair<uint64_t, uint64_t>{st.st_dev, st.st_ino}
                             : std::pair<uint64_t, uint64_t>{};
}

int64_t Recorder::do_rights(const Syscall& row, uint64_t nr, const uint64_t args[6]) {
  // Also without a log of its own: shared memory takes files of the folder, too.
  keep_folder();
  if (auto user = next_user(nr, args); user && *user != 0 && may_become(*user)) let_in(*user);
  announce_change();
  const int64_t result =
      nr == SYS_unshare || nr == SYS_setns ? do_namespaces(row, nr, args) : execute(row, nr, args);
  log_call(row, nr, args, result);
  const bool pids = nr == SYS_unshare && args[0] & CLONE_NEWPID;  // the bodies have the rest already
  if (is_of_thread(nr) && result >= 0 && !pids) call_in_body(nr, args);
  choose_store();
  for (auto& [key, object] : objects_)
    if (!vfork_) object->tell_user();
  return result;
}

// Whose children live in another pid namespace can start no more threads: those that we may need are started
// before. But what else is unshared comes before that: a new user namespace can only be had without threads,
// and ours need the rest, too.
int64_t Recorder::do_namespaces(const Syscall& row, uint64_t nr, const uint64_t args[6]) {
  uint64_t rest[6];
  std::copy(args, args + 6, rest);
  const bool pids = nr == SYS_unshare ? args[0] & CLONE_NEWPID : args[1] == CLONE_NEWPID;
  const bool may_be_pids = pids || (nr == SYS_setns && args[1] == 0);
  if (bs_record.threads && !vfork_ && !may_be_pids && !bs_record.lodger) return do_own_world(row, nr, args);
  if (vfork_ || !pids) {
    const int64_t result = execute(row, nr, args);
    pids_unshared_ |= nr == SYS_setns && args[1] == 0 && result == 0;
    return result;
  }
  if (nr == SYS_unshare && args[0] != CLONE_NEWPID) {
    const uint64_t first[6] = {args[0] & ~static_cast<uint64_t>(CLONE_NEWPID)};
    if (const int64_t result = execute(row, nr, first); result != 0) return result;
    rest[0] = CLONE_NEWPID;
  }
  start_threads();
  for (const auto& [name, task] : turns_.tasks())
    if (!task->body) {
      task->body = std::make_unique<Body>();
      if (!start_body(*task->body)) task->body.reset();
    }
  const int64_t result = execute(row, nr, rest);
  pids_unshared_ |= result == 0;
  return result;
}

// The kernel keeps rights for each thread. glibc makes all threads of a program change theirs, one after the
// other; what is left is the body of the thread that has the turn.
void Recorder::call_in_body(uint64_t nr, const uint64_t args[6]) {
  const bool made = bs_record.lodger;  // by its body alone
  Body* body = bs_record.threads && !vfork_ && !made ? turns_.current().body.get() : nullptr;
  if (body) call_now(*body, nr, args);
}

void Recorder::keep_folder() {
  int& fd = bs_record.our_fds[kFolderFd];
  if (fd >= 0) return;
  RoomForFds room;
  const int folder = ::open(recording_.dir().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  use_folder(recording::move_fd_high(folder));
  root_ = root_now();
  tell_fds();
}

void Recorder::use_folder(int fd) {
  bs_record.our_fds[kFolderFd] = fd;
  recording_.reach_by(recording::path_of_fd(fd));
  log_.reach_by(recording_.log_path(origin_.process));
}

int Recorder::folder_fd() const {
  return bs_record.our_fds[kFolderFd];
}

void Recorder::let_in(uid_t user) {
  RoomForFds room;
  if (!recording::let_in(recording_.base(), user))
    note_once(fmt::format(
        "user {} cannot be given the right to write the recording: its new processes run unrecorded", user));
  if (!vfork_) recording::let_use(recording_.manifest_path(origin_.process), user);
  if (tree_.users() == 0) tree_.count_user();
}

// The store of all recordings stays closed to a user who may write just this one.
void Recorder::choose_store() {
  if (folder_fd() >= 0 && !store_.is_writable()) store_ = recording::Store(recording_.files_path());
}

// Can the next program be recorded? That takes the recording, and ourselves: file, loader and libraries.
bool Recorder::can_succeed() const {
  auto usable = [](const std::string& file, int how) {
    return faccessat(AT_FDCWD, file.c_str(), how, AT_EACCESS) == 0;
  };
  if (!usable("/proc/self/exe", X_OK)) return false;
  if (folder_fd() < 0) return usable(recording_.dir(), X_OK);
  if (!recording::may_write(recording_.base())) return false;
  // In another root the libraries may be others, or none.
  if (root_ != root_now() && !usable(recording_.dir(), X_OK)) return false;
  auto readable = [](dl_phdr_info* info, size_t, void*) {
    return info->dlpi_name[0] == '/' && faccessat(AT_FDCWD, info->dlpi_name, R_OK, AT_EACCESS) != 0 ? 1 : 0;
  };
  return dl_iterate_phdr(readable, nullptr) == 0;
}

// --- who may send a signal to whom ---

// Processes ask each other for pages of shared memory by signals, which the kernel refuses between users.
// Then they ring a bell (SharedObject::call). Who needs one must know that before it is rung.
void Recorder::announce_change() {
  if (objects_.empty() || vfork_ || !has_capability(CAP_KILL)) return;
  if (tree_.users() == 0) tree_.count_user();
  for (auto& [key, object] : objects_) object->tell_change();
}

void Recorder::hang_bells() {
  if (tree_.users() == 0) return;
  for (auto& [key, object] : objects_) {
    if (!object->needs_bell()) continue;
    constexpr int64_t kPoll = 2'000'000;
    if (open_queue())
      inotify_add_watch(bs_record.our_fds[kQueueFd], object->path().c_str(), IN_ATTRIB);
    else if (timer_ >= 0)
      serve_shared_at(monotonic_ns() + kPoll);  // no bell: look again and again
  }
}

}  // namespace backstep::recorder
