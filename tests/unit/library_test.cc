// The library gives out names, finds recordings, removes them, and never takes file contents from under
// another one.
#include "recording/library.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "temp_dir.h"

namespace backstep::recording {
namespace {

namespace fs = std::filesystem;
using test::TempDir;
using test::write_file;

// A recording with one stored file.
Recording make(const Library& library, const std::string& program, const std::string& contents,
               const std::string& output = "") {
  Recording r = library.create(program, output);
  describe_start({program}).save(r.manifest_path());
  std::string file = library.dir() + "/../contents";
  write_file(file, contents);
  Fd fd(open(file.c_str(), O_RDONLY));
  Store store = library.store();
  r.add_key(store.add(fd.get()));
  return r;
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Library, LiesWhereTheEnvironmentSays) {
  setenv("BACKSTEP_DIR", "/a/b", 1);
  setenv("XDG_DATA_HOME", "/x", 1);
  setenv("HOME", "/h", 1);
  EXPECT_EQ(Library::standard().dir(), "/a/b");
  unsetenv("BACKSTEP_DIR");
  EXPECT_EQ(Library::standard().dir(), "/x/backstep");
  setenv("XDG_DATA_HOME", "relative", 1);
  EXPECT_EQ(Library::standard().dir(), "/h/.local/share/backstep");
  unsetenv("XDG_DATA_HOME");
  EXPECT_EQ(Library::standard().dir(), "/h/.local/share/backstep");
  unsetenv("HOME");
  EXPECT_THROW(Library::standard(), Error);
}

TEST(Library, NumbersRecordingsPerProgramAndPointsLatestToTheNewest) {
  TempDir dir;
  Library library(dir / "lib");
  EXPECT_EQ(make(library, "/usr/bin/sort", "1").name(), "sort-1");
  EXPECT_EQ(make(library, "sort", "1").name(), "sort-2");
  EXPECT_EQ(make(library, "./my prog", "1").name(), "my_prog-1");
  EXPECT_EQ(make(library, "sort-2", "1").name(), "sort-2-1");
  EXPECT_EQ(make(library, ".hidden", "1").name(), "_.hidden-1");
  EXPECT_EQ(make(library, "sort", "1").name(), "sort-3");
  EXPECT_EQ(library.resolve("").name(), "sort-3");
  EXPECT_EQ(library.resolve("latest").name(), "sort-3");
  EXPECT_EQ(library.list().size(), 6u);
  EXPECT_EQ(library.list().back().name(), "sort-3");
}

TEST(Library, FolderOfARecordingIsPrivate) {
  TempDir dir;
  Library library(dir / "lib");
  struct stat st;
  ASSERT_EQ(stat(make(library, "sort", "1").dir().c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0700u);
}

TEST(Library, ResolvesNamesAndPaths) {
  TempDir dir;
  Library library(dir / "lib");
  Recording sort = make(library, "sort", "1");
  Recording out = make(library, "sort", "1", dir / "out");
  EXPECT_EQ(library.resolve("sort-1").dir(), sort.dir());
  EXPECT_EQ(library.resolve(sort.dir() + "/").dir(), sort.dir());
  EXPECT_EQ(library.resolve(dir / "out").dir(), out.dir());
  EXPECT_EQ(library.resolve("").dir(), out.dir());
  EXPECT_NE(error_of([&] { library.resolve("none"); }).find("there is no recording 'none'"),
            std::string::npos);
  EXPECT_NE(error_of([&] { library.resolve(dir.path()); }).find("is not a recording"), std::string::npos);
  EXPECT_NE(error_of([&] { Library(dir / "new").resolve(""); }).find("there is no recording in"),
            std::string::npos);
}

TEST(Library, RefusesAnOutputFolderThatExistsOrCannotBeMade) {
  TempDir dir;
  Library library(dir / "lib");
  fs::create_directory(dir / "out");
  EXPECT_NE(error_of([&] { library.create("sort", dir / "out"); }).find("exists already"), std::string::npos);
  EXPECT_NE(error_of([&] { library.create("sort", dir / "no/such/out"); }).find("No such file"),
            std::string::npos);
}

TEST(Library, RemovesRecordingsAndContentsThatNobodyNeeds) {
  TempDir dir;
  Library library(dir / "lib");
  Recording a = make(library, "sort", "only a");
  Recording b = make(library, "sort", "only b");
  Recording out = make(library, "sort", "elsewhere", dir / "out");
  std::string key_a = *a.keys().begin(), key_b = *b.keys().begin(), key_out = *out.keys().begin();

  library.remove(b);
  EXPECT_EQ(library.resolve("").dir(), out.dir());
  EXPECT_EQ(library.collect_garbage(), 0u);  // too young
  EXPECT_GT(library.collect_garbage(std::chrono::seconds(-1)), 0u);
  EXPECT_TRUE(library.store().has(key_a));
  EXPECT_FALSE(library.store().has(key_b));
  EXPECT_TRUE(library.store().has(key_out));  // a recording outside the library counts too

  library.remove(out);
  EXPECT_EQ(library.resolve("").dir(), a.dir());
  library.collect_garbage(std::chrono::seconds(-1));
  EXPECT_FALSE(library.store().has(key_out));
  library.remove(a);
  EXPECT_TRUE(library.list().empty());
  EXPECT_THROW(library.resolve(""), Error);
}

TEST(Library, RemovesNothingThatIsNotARecording) {
  TempDir dir;
  Library library(dir / "lib");
  fs::create_directory(dir / "precious");
  EXPECT_THROW(library.remove(Recording(dir / "precious")), Error);
  EXPECT_TRUE(fs::exists(dir / "precious"));
}

TEST(Library, DiscardsARecordingThatNeverBegan) {
  TempDir dir;
  Library library(dir / "lib");
  Recording first = make(library, "sort", "1");
  Recording second = library.create("sort");
  EXPECT_THROW(library.remove(second), Error);
  library.discard(second);
  EXPECT_FALSE(fs::exists(second.dir()));
  EXPECT_EQ(library.resolve("").dir(), first.dir());
}

TEST(Library, PacksARecordingSoThatItNeedsNoStore) {
  TempDir dir;
  Library library(dir / "lib");
  Recording a = make(library, "sort", "contents");
  std::string key = *a.keys().begin();
  EXPECT_EQ(library.pack(a), 8u);
  EXPECT_EQ(library.pack(a), 0u);
  fs::remove_all(library.store().dir());
  EXPECT_EQ(library.contents_path(a, key), Store(a.files_path()).path(key));
  Fd fd(library.open_contents(a, key));
  EXPECT_TRUE(fd);
  EXPECT_THROW(library.open_contents(a, std::string(32, '0')), Error);
}

TEST(Library, PackNoticesDamagedContents) {
  TempDir dir;
  Library library(dir / "lib");
  Recording a = make(library, "sort", "contents");
  std::string stored = library.store().path(*a.keys().begin());
  chmod(stored.c_str(), 0600);
  write_file(stored, "c0ntents");
  EXPECT_NE(error_of([&] { library.pack(a); }).find("damaged"), std::string::npos);
}

TEST(Recording, KnowsItsProcessesAndSize) {
  TempDir dir;
  Recording r(dir.path());
  write_file(r.log_path(1), "12345");
  write_file(r.log_path(12), "1");
  write_file(dir / "process-x.log", "");
  EXPECT_EQ(r.processes(), (std::vector<uint64_t>{1, 12}));
  EXPECT_EQ(r.size(), 6u);
}

}  // namespace
}  // namespace backstep::recording
