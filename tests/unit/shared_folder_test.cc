// A recording's folder promises: whatever the program's umask is, files are for who makes them; whoever was
// let in can use those that are shared, and nobody else; and a folder that is kept open is reached without
// its path.
#include "recording/shared_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/fd.h"
#include "temp_dir.h"

namespace backstep::recording {
namespace {

using test::read_file;
using test::TempDir;
using test::write_file;

mode_t mode_of(const std::string& path) {
  struct stat st {};
  EXPECT_EQ(stat(path.c_str(), &st), 0) << path;
  return st.st_mode & 07777;
}

bool has_acl(const std::string& path) {
  return getxattr(path.c_str(), "system.posix_acl_access", nullptr, 0) > 0;
}

// Does its file system have such things at all?
bool could_have_acl(const std::string& path) {
  return getxattr(path.c_str(), "system.posix_acl_access", nullptr, 0) >= 0 || errno != EOPNOTSUPP;
}

uid_t owner_of(const std::string& path) {
  struct stat st {};
  EXPECT_EQ(stat(path.c_str(), &st), 0) << path;
  return st.st_uid;
}

TEST(SharedFolder, FilesAreForWhoMakesThemWhateverTheUmaskIs) {
  TempDir dir;
  const std::string base = dir.path() + "/rec";
  ASSERT_EQ(mkdir(base.c_str(), 0700), 0);
  for (mode_t mask : {0000, 0022, 0777}) {
    const mode_t before = umask(mask);
    const std::string name = base + "/" + std::to_string(mask);
    EXPECT_TRUE(Fd(make_file(name + "-own", O_RDWR | O_CLOEXEC)));
    EXPECT_TRUE(Fd(make_shared_file(name + "-shared", O_RDWR | O_CLOEXEC)));
    EXPECT_TRUE(Fd(make_shared_file(name + "-shared", O_RDWR | O_CLOEXEC))) << "a second time";
    EXPECT_FALSE(Fd(make_file(name + "-own", O_RDWR | O_EXCL | O_CLOEXEC))) << "a second time, as the first";
    EXPECT_TRUE(make_shared_folder(name + "-folder"));
    EXPECT_TRUE(make_shared_folder(name + "-folder"));
    umask(before);
    EXPECT_EQ(mode_of(name + "-own"), 0600u);
    EXPECT_EQ(mode_of(name + "-shared"), 0600u);
    EXPECT_EQ(mode_of(name + "-folder"), 0700u);
  }
}

TEST(SharedFolder, WhoWasLetInCanUseWhatIsSharedAndNothingElse) {
  TempDir dir;
  const std::string base = dir.path() + "/rec";
  ASSERT_EQ(mkdir(base.c_str(), 0700), 0);
  write_file(base + "/tree", "1");
  write_file(base + "/process-1.log", "2");
  chmod((base + "/process-1.log").c_str(), 0600);
  const uid_t other = 12345;
  if (!could_have_acl(base)) {
    // Then the folder and what is shared are given to one user, which only root may do.
    const bool root = geteuid() == 0;
    EXPECT_EQ(let_in(base, other), root);
    EXPECT_EQ(owner_of(base), root ? other : geteuid());
    EXPECT_EQ(owner_of(base + "/tree"), root ? other : geteuid());
    EXPECT_EQ(owner_of(base + "/process-1.log"), geteuid());
    EXPECT_EQ(mode_of(base + "/process-1.log"), 0600u);
    EXPECT_FALSE(let_in(base, other + 1)) << "a second user";
    return;
  }
  // The owner may do that, also without being root.
  EXPECT_TRUE(let_in(base, other));
  EXPECT_TRUE(has_acl(base));
  EXPECT_TRUE(let_in(base, other)) << "a second time";
  EXPECT_TRUE(let_in(base, other + 1));
  EXPECT_TRUE(has_acl(base + "/tree"));
  EXPECT_FALSE(has_acl(base + "/process-1.log"));
  EXPECT_EQ(mode_of(base), 0770u) << "the mask: as much as users can get who are named";
  EXPECT_EQ(mode_of(base + "/tree"), 0660u);
  EXPECT_EQ(mode_of(base + "/process-1.log"), 0600u);

  Fd(make_file(base + "/process-2.log", O_RDWR | O_CLOEXEC)).reset();
  Fd(make_shared_file(base + "/shown", O_RDWR | O_CLOEXEC)).reset();
  EXPECT_TRUE(make_shared_folder(base + "/files"));
  Fd(make_shared_file(base + "/files/contents", O_RDWR | O_CLOEXEC, 0400)).reset();
  EXPECT_EQ(mode_of(base + "/process-2.log"), 0600u);
  EXPECT_EQ(mode_of(base + "/shown"), 0660u);
  EXPECT_EQ(mode_of(base + "/files"), 0770u);
  EXPECT_EQ(mode_of(base + "/files/contents"), 0440u);
}

TEST(SharedFolder, AFolderThatIsKeptOpenIsReachedWithoutItsPath) {
  TempDir dir;
  const std::string base = dir.path() + "/rec";
  ASSERT_EQ(mkdir(base.c_str(), 0700), 0);
  const Fd fd(open(base.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  ASSERT_TRUE(fd);
  const std::string kept = path_of_fd(fd.get());
  std::filesystem::rename(base, dir.path() + "/moved");
  EXPECT_TRUE(may_write(kept));
  EXPECT_TRUE(Fd(make_file(kept + "/one", O_RDWR | O_CLOEXEC)));
  EXPECT_EQ(move_file(kept + "/one", kept + "/two"), 0);
  EXPECT_TRUE(Fd(open_file(kept + "/two", O_RDONLY | O_CLOEXEC)));
  EXPECT_EQ(mode_of(dir.path() + "/moved/two"), 0600u);
  EXPECT_TRUE(remove_file(kept + "/two"));
  EXPECT_FALSE(remove_file(kept + "/two"));
}

TEST(SharedFolder, PathsAreTakenApartOnlyBelowADescriptor) {
  EXPECT_EQ(Place("/a/b").folder, AT_FDCWD);
  EXPECT_EQ(Place("/a/b").name, "/a/b");
  EXPECT_EQ(Place("/proc/self/fd/12/a/b").folder, 12);
  EXPECT_EQ(Place("/proc/self/fd/12/a/b").name, "a/b");
  EXPECT_EQ(Place("/proc/self/fd/12").folder, 12);
  EXPECT_EQ(Place("/proc/self/fd/12").name, ".");
  EXPECT_EQ(Place("/proc/self/fd/12x/a").folder, AT_FDCWD);
  EXPECT_EQ(Place("/proc/self/fd/").folder, AT_FDCWD);
}

}  // namespace
}  // namespace backstep::recording
