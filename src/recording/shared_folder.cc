// ACLs are written as the kernel wants them, in the extended attributes of its own. Two facts about them:
// the group bits of a file's mode are its *mask* then, the most that users who are let in can do (so a new
// file must have them); and a *default* list of a folder is what its new files begin with.
#include "recording/shared_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/fd.h"

namespace backstep::recording {
namespace {

constexpr std::string_view kDescriptors = "/proc/self/fd/";
constexpr mode_t kGiven = S_ISVTX;  // a folder that was given away: so is what is made in it
constexpr char kAccess[] = "system.posix_acl_access", kDefault[] = "system.posix_acl_default";

struct AclEntry {
  enum Tag : uint16_t { Owner = 1, User = 2, Group = 4, Mask = 16, Others = 32 };
  uint16_t tag, rights;
  uint32_t user;
};
constexpr uint32_t kAclVersion = 2, kNobodySpecial = ~0u;
constexpr uint16_t kRead = 4, kReadWrite = 6, kSearch = 1;

std::string acl_of(const std::set<uid_t>& users, uint16_t rights) {
  std::vector<AclEntry> entries{{AclEntry::Owner, rights, kNobodySpecial}};
  for (uid_t user : users) entries.push_back({AclEntry::User, rights, user});
  entries.push_back({AclEntry::Group, 0, kNobodySpecial});
  entries.push_back({AclEntry::Mask, rights, kNobodySpecial});
  entries.push_back({AclEntry::Others, 0, kNobodySpecial});
  std::string bytes(reinterpret_cast<const char*>(&kAclVersion), sizeof kAclVersion);
  bytes.append(reinterpret_cast<const char*>(entries.data()), entries.size() * sizeof entries[0]);
  return bytes;
}

// Those who were let in.
std::set<uid_t> users_of(int folder) {
  std::set<uid_t> users;
  char bytes[65536];  // the longest that there are
  const ssize_t n = fgetxattr(folder, kAccess, bytes, sizeof bytes);
  for (ssize_t at = sizeof kAclVersion; at + static_cast<ssize_t>(sizeof(AclEntry)) <= n;
       at += sizeof(AclEntry)) {
    AclEntry entry;
    __builtin_memcpy(&entry, bytes + at, sizeof entry);
    if (entry.tag == AclEntry::User) users.insert(entry.user);
  }
  return users;
}

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

bool set_acl(int fd, const char* kind, const std::string& acl) {
  return fsetxattr(fd, kind, acl.data(), acl.size(), 0) == 0;
}

bool give(int fd, uid_t user) {
  return fchown(fd, user, static_cast<gid_t>(-1)) == 0;
}

// The mask that others need who were let in. A shared file has it from the first moment: they may open it at
// once. (If nobody was let in it is the group's right, but the group cannot enter the folder.)
mode_t with_mask(mode_t mode) {
  return mode | (mode & S_IRWXU) >> 3;
}

// After a file was made: what was done to its folder before this look is done to the file here; what is done
// later is done to the file as well, as it is in the folder now.
void adopt(const std::string& path, int fd, mode_t mode, bool shared) {
  struct stat folder {};
  const Place parent(parent_of(path));
  if (fstatat(parent.folder, parent.name.c_str(), &folder, 0) != 0) folder = {};
  if (folder.st_mode & S_IRWXG && fgetxattr(fd, kAccess, nullptr, 0) > 0) {
    if (shared)
      mode = with_mask(mode);
    else if (folder.st_uid != geteuid() && set_acl(fd, kAccess, acl_of({folder.st_uid}, kReadWrite)))
      return;
  }
  if (folder.st_mode & kGiven && shared) {
    if (mode & S_IXUSR) mode |= kGiven;
    if (folder.st_uid != geteuid()) give(fd, folder.st_uid);
  }
  fchmod(fd, mode);
}

int make(const std::string& path, int flags, mode_t mode, bool shared) {
  const Place place(path);
  for (;;) {
    int fd =
        openat(place.folder, place.name.c_str(), flags | O_CREAT | O_EXCL, shared ? with_mask(mode) : mode);
    if (fd >= 0) {
      adopt(path, fd, mode, shared);
      return fd;
    }
    if (errno != EEXIST || flags & O_EXCL) return -1;
    // Who was let in has no say in which other files we write.
    fd = openat(place.folder, place.name.c_str(), flags | O_NOFOLLOW);
    if (fd >= 0 || errno != ENOENT) return fd;
  }
}

// Does something to all shared files of a folder, and those in it. (Its `tree` and so on; see library.h.)
template <class Action>
void for_shared(int folder, bool all, const Action& action) {
  const int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* list = copy >= 0 ? fdopendir(copy) : nullptr;
  if (!list) return;
  while (const dirent* entry = readdir(list)) {
    const std::string_view name = entry->d_name;
    const bool shared = name == "tree" || name == "store-keys" || name.starts_with("shown") ||
                        name.starts_with("shared-") || name == "files" || name == "checkpoints" ||
                        name == "lock";
    if (!(all || shared) || name == "." || name == "..") continue;
    const Fd file(openat(copy, entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat st {};
    if (!file || fstat(file.get(), &st) != 0 || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))) continue;
    action(file.get(), st);
    if (S_ISDIR(st.st_mode)) for_shared(file.get(), all || name == "files", action);
  }
  closedir(list);
}

bool let_in_all(int folder, const std::set<uid_t>& users) {
  const std::string all = acl_of(users, kReadWrite | kSearch);
  auto open_up = [&](int fd) { return set_acl(fd, kDefault, all) && set_acl(fd, kAccess, all); };
  if (!open_up(folder)) return false;
  for_shared(folder, false, [&](int fd, const struct stat& st) {
    if (S_ISDIR(st.st_mode))
      open_up(fd);
    else
      set_acl(fd, kAccess, acl_of(users, st.st_mode & S_IWUSR ? kReadWrite : kRead));
  });
  return true;
}

bool give_all(int folder, const struct stat& st, uid_t user) {
  if (st.st_uid != geteuid()) return st.st_uid == user;
  auto give_folder = [&](int fd) { return fchmod(fd, 0700 | kGiven) == 0 && give(fd, user); };
  if (!give_folder(folder)) return false;
  for_shared(folder, false, [&](int fd, const struct stat& file) {
    if (S_ISDIR(file.st_mode))
      give_folder(fd);
    else
      give(fd, user);
  });
  return true;
}

}  // namespace

Place::Place(const std::string& path) : folder(AT_FDCWD), name(path) {
  if (!path.starts_with(kDescriptors)) return;
  const char* end = path.data() + path.size();
  int fd = -1;
  auto [rest, err] = std::from_chars(path.data() + kDescriptors.size(), end, fd);
  if (err != std::errc{} || (rest != end && *rest != '/')) return;
  folder = fd;
  name = rest == end || rest + 1 == end ? "." : std::string(rest + 1, end);
}

std::string path_of_fd(int fd) {
  return fmt::format("{}{}", kDescriptors, fd);
}

int open_file(const std::string& path, int flags) {
  const Place place(path);
  // Below a descriptor is a recording, where nobody makes links for us.
  return openat(place.folder, place.name.c_str(), place.folder == AT_FDCWD ? flags : flags | O_NOFOLLOW);
}

bool remove_file(const std::string& path) {
  const Place place(path);
  return unlinkat(place.folder, place.name.c_str(), 0) == 0;
}

int move_file(const std::string& from, const std::string& to) {
  const Place source(from), target(to);
  return renameat(source.folder, source.name.c_str(), target.folder, target.name.c_str());
}

int make_file(const std::string& path, int flags, mode_t mode) {
  return make(path, flags, mode, false);
}

int make_shared_file(const std::string& path, int flags, mode_t mode) {
  return make(path, flags, mode, true);
}

bool make_shared_folder(const std::string& path) {
  const Place place(path);
  if (mkdirat(place.folder, place.name.c_str(), with_mask(0700)) != 0) return errno == EEXIST;
  if (const Fd fd(open_file(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)); fd) adopt(path, fd.get(), 0700, true);
  return true;
}

uint64_t folder_size(const std::string& path) {
  uint64_t bytes = 0;
  std::error_code ec;
  for (const auto& file : std::filesystem::directory_iterator(path, ec)) {
    const auto n = file.file_size(ec);
    if (!ec) bytes += n;
  }
  return bytes;
}

uint64_t remove_folder(const std::string& path) {
  const uint64_t bytes = folder_size(path);
  std::error_code ec;
  std::filesystem::remove_all(path, ec);
  if (ec) throw Error(fmt::format("cannot remove {}: {}", path, errno_text(ec.value())));
  return bytes;
}

bool may_write(const std::string& folder) {
  const Place place(folder);
  return faccessat(place.folder, place.name.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
}

bool let_in(const std::string& folder, uid_t user) {
  const Fd fd(open_file(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat st {};
  if (!fd || fstat(fd.get(), &st) != 0) return false;
  std::set<uid_t> users = users_of(fd.get());
  if (st.st_uid == user || users.contains(user)) return true;
  flock(fd.get(), LOCK_EX);  // two at once would forget each other's
  users = users_of(fd.get());
  users.insert(user);
  users.insert(st.st_uid);  // it has no other right to what the others make
  if (let_in_all(fd.get(), users)) return true;
  return errno == EOPNOTSUPP && give_all(fd.get(), st, user);
}

void let_use(const std::string& file, uid_t user) {
  const Fd fd(open_file(file, O_RDONLY | O_CLOEXEC));
  struct stat st {};
  if (!fd || fstat(fd.get(), &st) != 0 || st.st_uid == user) return;
  if (!set_acl(fd.get(), kAccess, acl_of({user, st.st_uid}, kReadWrite)) && errno == EOPNOTSUPP)
    give(fd.get(), user);
}

}  // namespace backstep::recording
