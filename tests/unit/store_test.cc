// The store promises: same contents, same key, kept once; an unchanged file is not read again; a file that
// was just touched is never believed; any number of writers, killed or not, leave only whole files behind.
#include "recording/store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/error.h"
#include "base/fd.h"
#include "temp_dir.h"

namespace backstep::recording {
namespace {

using test::read_file;
using test::TempDir;
using test::write_file;

std::string add(Store& store, const std::string& path) {
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return store.add(fd.get());
}

// Makes a file look as if it had not been touched for long. ctime cannot be set, so the test waits for it.
void let_age(const std::string& path) {
  timespec old[2] = {{1000, 1}, {1000, 1}};
  utimensat(AT_FDCWD, path.c_str(), old, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(3100));
}

bool is_on_tmpfs(const std::string& path) {
  struct statfs fs {};
  return statfs(path.c_str(), &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

size_t files_in(const std::string& dir) {
  size_t n = 0;
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator(dir, ec)) n += !entry.path().empty();
  return n;
}

TEST(Store, KeepsContentsUnderTheirHash) {
  TempDir dir;
  Store store(dir / "store");
  write_file(dir / "a", "hello");
  write_file(dir / "b", "hello");
  write_file(dir / "c", "other");
  std::string a = add(store, dir / "a");
  EXPECT_TRUE(is_key(a));
  EXPECT_EQ(a, "b5e9c1ad071b3e7fc779cfaa5e523818");  // XXH3-128 of "hello": the format must not change
  EXPECT_EQ(add(store, dir / "b"), a);
  EXPECT_NE(add(store, dir / "c"), a);
  EXPECT_EQ(read_file(store.path(a)), "hello");
  EXPECT_EQ(store.path(a), dir / ("store/" + a.substr(0, 2) + "/" + a));
  EXPECT_EQ(files_in(dir / "store/tmp"), 0u);
}

TEST(Store, KeepsOnlyWhatIsMappedOfALargeFile) {
  TempDir dir;
  Store store(dir / "store");
  constexpr off_t kSize = 1l << 40, kPart = 1l << 39;
  Fd fd(open((dir / "large").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_EQ(ftruncate(fd.get(), kSize), 0);
  ASSERT_EQ(pwrite(fd.get(), "here", 4, kPart + 5000), 4);
  ASSERT_EQ(pwrite(fd.get(), "not mapped", 10, 100), 10);
  ASSERT_EQ(lseek(fd.get(), 77, SEEK_SET), 77);
  const Extent part{kPart, kPart + 8192};
  const std::string key = store.insert(fd.get(), part);
  EXPECT_TRUE(is_sparse_key(key));
  EXPECT_EQ(lseek(fd.get(), 0, SEEK_CUR), 77);
  EXPECT_EQ(store.insert(fd.get(), part), key);
  EXPECT_TRUE(store.verify(key));
  Fd kept(store.open(key));
  struct stat st {};
  ASSERT_EQ(fstat(kept.get(), &st), 0);
  EXPECT_EQ(st.st_size, kSize);
  EXPECT_LT(kept_bytes(key, st), 1u << 20);
  char text[5] = "";
  EXPECT_EQ(pread(kept.get(), text, 4, kPart + 5000), 4);
  EXPECT_STREQ(text, "here");
  EXPECT_EQ(pread(kept.get(), text, 4, 100), 4);
  EXPECT_EQ(text[0], 0);
  // Zeroes that are no holes make no difference, one byte does.
  const std::string zeroes(4096, '\0');
  ASSERT_EQ(pwrite(fd.get(), zeroes.data(), zeroes.size(), kPart), 4096);
  EXPECT_EQ(store.insert(fd.get(), part), key);
  ASSERT_EQ(pwrite(fd.get(), "x", 1, kPart + 8191), 1);
  EXPECT_NE(store.insert(fd.get(), part), key);
  // Another store gets the same.
  Store other(dir / "other");
  EXPECT_EQ(other.insert_kept(kept.get(), key), key);
  EXPECT_TRUE(other.verify(key));
}

TEST(Store, KeepsProgramsWholeWhateverTheirSize) {
  TempDir dir;
  Store store(dir / "store");
  Fd fd(open((dir / "program").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_EQ(ftruncate(fd.get(), 20 << 20), 0);
  ASSERT_EQ(pwrite(fd.get(), "\177ELF", 4, 0), 4);
  EXPECT_FALSE(is_sparse_key(store.insert(fd.get(), {0, 4096})));
}

TEST(Store, OpensReadOnlyAndCloseOnExec) {
  TempDir dir;
  Store store(dir / "store");
  write_file(dir / "a", "hello");
  Fd fd(store.open(add(store, dir / "a")));
  EXPECT_EQ(fcntl(fd.get(), F_GETFL) & O_ACCMODE, O_RDONLY);
  EXPECT_EQ(fcntl(fd.get(), F_GETFD), FD_CLOEXEC);
}

TEST(Store, KeepsEmptyAndBigAndSparseFiles) {
  TempDir dir;
  Store store(dir / "store");
  write_file(dir / "empty", "");
  std::string empty = add(store, dir / "empty");
  EXPECT_EQ(read_file(store.path(empty)), "");

  std::string big(3'000'001, 'x');
  for (size_t i = 0; i < big.size(); i += 7) big[i] = static_cast<char>(i);
  write_file(dir / "big", big);
  EXPECT_EQ(read_file(store.path(add(store, dir / "big"))), big);

  write_file(dir / "sparse", "start");
  ASSERT_EQ(truncate((dir / "sparse").c_str(), 64 << 20), 0);
  std::string sparse = add(store, dir / "sparse");
  struct stat st;
  ASSERT_EQ(stat(store.path(sparse).c_str(), &st), 0);
  EXPECT_EQ(st.st_size, 64 << 20);
  EXPECT_LT(st.st_blocks * 512, 1 << 20);
  EXPECT_TRUE(store.verify(sparse));
}

TEST(Store, LeavesThePositionOfTheProgramsFdAlone) {
  TempDir dir;
  Store store(dir / "store");
  write_file(dir / "a", "hello");
  Fd fd(open((dir / "a").c_str(), O_RDONLY));
  lseek(fd.get(), 3, SEEK_SET);
  store.add(fd.get());
  EXPECT_EQ(lseek(fd.get(), 0, SEEK_CUR), 3);
}

TEST(Store, KeepsADeletedFileThatIsStillOpen) {
  TempDir dir;
  Store store(dir / "store");
  write_file(dir / "a", "hello");
  Fd fd(open((dir / "a").c_str(), O_RDONLY));
  unlink((dir / "a").c_str());
  EXPECT_EQ(read_file(store.path(store.add(fd.get()))), "hello");
}

TEST(Store, RefusesWhatIsNotARegularFileWithASentence) {
  TempDir dir;
  Store store(dir / "store");
  Fd folder(open(dir.path().c_str(), O_RDONLY | O_DIRECTORY));
  EXPECT_THROW(store.add(folder.get()), Error);
  EXPECT_THROW(store.add(-1), Error);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  Fd in(ends[0]), out(ends[1]);
  EXPECT_THROW(store.add(in.get()), Error);
}

TEST(Store, DoesNotReadAnUnchangedFileTwice) {
  TempDir dir;
  Store store(dir / "store");
  write_file(dir / "a", "hello");
  let_age(dir / "a");
  std::string key = add(store, dir / "a");
  if (is_on_tmpfs(dir / "a")) {  // where the times do not tell
    EXPECT_EQ(files_in(dir / "store/by-id"), 0u);
    return;
  }
  EXPECT_EQ(files_in(dir / "store/by-id"), 1u);

  // Put another key of the same size into the index: if that is what comes back, the file was not read.
  write_file(dir / "b", "jello");
  std::string other = add(store, dir / "b");
  for (const auto& entry : std::filesystem::directory_iterator(dir / "store/by-id")) {
    std::filesystem::remove(entry.path());
    std::filesystem::create_symlink(other, entry.path());
  }
  EXPECT_EQ(add(store, dir / "a"), other);

  // An index entry without its contents is not believed, and is mended.
  std::filesystem::remove(store.path(other));
  EXPECT_EQ(add(store, dir / "a"), key);
  EXPECT_EQ(add(store, dir / "a"), key);
}

TEST(Store, NeverBelievesAFileThatWasJustTouched) {
  TempDir dir;
  Store store(dir / "store");
  // Same inode, size and (forged) mtime: only reading tells the difference.
  for (int round = 0; round < 20; round++) {
    std::string text = "version " + std::to_string(10 + round);
    Fd fd(open((dir / "a").c_str(), O_RDWR | O_CREAT, 0600));
    ASSERT_EQ(pwrite(fd.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    timespec old[2] = {{1000, 1}, {1000, 1}};
    futimens(fd.get(), old);
    EXPECT_EQ(read_file(store.path(store.add(fd.get()))), text);
  }
  EXPECT_EQ(files_in(dir / "store/by-id"), 0u);
}

// Writes through a mapping to pages that have been written to before do not change the times of a file.
TEST(Store, SeesWhatWasWrittenThroughAMapping) {
  TempDir dir;
  Store store(dir / "store");
  const std::string shm = "/dev/shm/backstep-store-test." + std::to_string(getpid());
  for (const std::string& path : {dir / "a", shm}) {
    write_file(path, "first");
    Fd fd(open(path.c_str(), O_RDWR));
    if (!fd) continue;  // no /dev/shm
    auto* text = static_cast<char*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
    text[0] = 'F';
    fd.reset();
    std::this_thread::sleep_for(std::chrono::milliseconds(3100));
    const std::string first = add(store, path);
    EXPECT_EQ(read_file(store.path(first)), "First") << path;
    text[0] = 'f';
    EXPECT_EQ(read_file(store.path(add(store, path))), "first") << path;
    text[0] = 'F';
    munmap(text, 4096);
    EXPECT_EQ(add(store, path), first) << path;
    unlink(path.c_str());
  }
}

TEST(Store, ReplacesContentsThatWereCutShort) {
  TempDir dir;
  Store store(dir / "store");
  write_file(dir / "a", "hello");
  std::string key = add(store, dir / "a");
  chmod(store.path(key).c_str(), 0600);
  ASSERT_EQ(truncate(store.path(key).c_str(), 0), 0);
  EXPECT_FALSE(store.verify(key));
  EXPECT_EQ(add(store, dir / "a"), key);
  EXPECT_TRUE(store.verify(key));
}

TEST(Store, VerifyFindsAFlippedByte) {
  TempDir dir;
  Store store(dir / "store");
  write_file(dir / "a", "hello");
  std::string key = add(store, dir / "a");
  EXPECT_TRUE(store.verify(key));
  chmod(store.path(key).c_str(), 0600);
  write_file(store.path(key), "hallo");
  EXPECT_FALSE(store.verify(key));
  EXPECT_FALSE(store.verify(std::string(32, '0')));
  EXPECT_FALSE(store.verify("../../etc/passwd"));
}

TEST(Store, DoesNotLetABadKeyLeadOutOfIt) {
  TempDir dir;
  Store store(dir / "store");
  EXPECT_THROW(store.path("../../../../etc/passwd"), Error);
  EXPECT_THROW(store.open(""), Error);
  EXPECT_THROW(store.open(std::string(32, '0')), Error);
  EXPECT_FALSE(store.has("x"));
}

TEST(Store, ManyRecordersAtOnceAgree) {
  TempDir dir;
  write_file(dir / "a", std::string(500'000, 'y'));
  std::vector<pid_t> children;
  for (int i = 0; i < 8; i++) {
    pid_t child = fork();
    if (child == 0) {
      Store store(dir / "store");
      for (int round = 0; round < 10; round++) {
        if (!store.verify(add(store, dir / "a"))) _exit(1);
        if (round % 4 == 0) store.collect_garbage({});
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(files_in(dir / "store/tmp"), 0u);
}

TEST(Store, AKilledRecorderLeavesOnlyWholeFiles) {
  TempDir dir;
  std::string text(5'000'000, 'y');
  write_file(dir / "a", text);
  std::filesystem::create_directories(dir / "store");  // a child may be killed before it has made the folder
  for (int round = 0; round < 20; round++) {
    pid_t child = fork();
    if (child == 0) {
      Store store(dir / "store");
      std::string key = add(store, dir / "a");
      unlink(store.path(key).c_str());
      for (;;) unlink(store.path(add(store, dir / "a")).c_str());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5 + round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir / "store"))
      if (is_key(entry.path().filename())) {
        EXPECT_EQ(entry.file_size(), text.size());
      }
  }
  Store store(dir / "store");
  EXPECT_TRUE(store.verify(add(store, dir / "a")));
}

TEST(Store, CollectsOnlyWhatIsUnusedAndNotYoung) {
  TempDir dir;
  Store store(dir / "store");
  write_file(dir / "a", "hello");
  write_file(dir / "b", "other");
  std::string a = add(store, dir / "a"), b = add(store, dir / "b");
  EXPECT_EQ(store.collect_garbage({a}), 0u);
  EXPECT_TRUE(store.has(b));
  timespec old[2] = {{1000, 0}, {1000, 0}};
  utimensat(AT_FDCWD, store.path(b).c_str(), old, 0);
  EXPECT_EQ(add(store, dir / "b"), b);  // in use again
  EXPECT_EQ(store.collect_garbage({a}), 0u);
  utimensat(AT_FDCWD, store.path(b).c_str(), old, 0);
  EXPECT_EQ(store.collect_garbage({a}), 5u);
  EXPECT_TRUE(store.has(a));
  EXPECT_FALSE(store.has(b));
}

}  // namespace
}  // namespace backstep::recording
