// A stranger can put anything into a recording, so nothing in it can say that it is ours. What a stranger
// cannot choose is which inode its folder gets here, and when that was made: so the user's own cache folder
// has an empty file for each folder that a recorder of this user has made, with file system, inode and time
// of birth as its name. A copy of a recording is a stranger's, and so is everything when the cache folder is
// gone: that costs no more than rights which a replay can do without.
#include "recording/made_here.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstring>

#include "base/fd.h"
#include "engine/translations.h"

namespace backstep::recording {
namespace {

// Its id, which most have from their superblock. Numbers of devices are given anew when the machine starts,
// to btrfs, overlays and what is behind a mapper more often than not in another order.
uint64_t file_system(const std::string& dir, const struct statx& st) {
  struct statfs fs {};
  uint64_t id = 0;
  static_assert(sizeof fs.f_fsid == sizeof id);
  if (statfs(dir.c_str(), &fs) == 0) std::memcpy(&id, &fs.f_fsid, sizeof id);
  return id ? id : makedev(st.stx_dev_major, st.stx_dev_minor);
}

// Empty: there is no such note, and can be none, as on file systems that do not know when a file was born.
std::string note_path(const std::string& dir, bool make_folder) {
  struct statx st {};
  constexpr unsigned kWanted = STATX_INO | STATX_BTIME | STATX_UID;
  if (statx(AT_FDCWD, dir.c_str(), 0, kWanted, &st) != 0 || (st.stx_mask & kWanted) != kWanted ||
      st.stx_uid != geteuid())
    return {};
  std::string folder = engine::translations_folder();
  if (folder.empty()) return {};
  folder += "/made-here";
  if (make_folder) mkdir(folder.c_str(), 0700);
  return fmt::format("{}/{:x}-{:x}-{:x}.{:09}", folder, file_system(dir, st), st.stx_ino, st.stx_btime.tv_sec,
                     st.stx_btime.tv_nsec);
}

}  // namespace

void note_made_here(const std::string& dir) {
  const std::string path = note_path(dir, true);
  if (!path.empty()) Fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)).reset();
}

bool was_made_here(const std::string& dir) {
  const std::string path = note_path(dir, false);
  struct stat st {};
  return !path.empty() && lstat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid();
}

void forget_made_here(const std::string& dir) {
  const std::string path = note_path(dir, false);
  if (!path.empty()) unlink(path.c_str());
}

}  // namespace backstep::recording
