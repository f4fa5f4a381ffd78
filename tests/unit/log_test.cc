// Logs that are read while they are written.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "recording/library.h"
#include "recording/log_reader.h"
#include "recording/log_writer.h"
#include "recording/tree.h"
#include "temp_dir.h"

namespace backstep::recording {
namespace {

class LiveLog : public ::testing::Test {
 protected:
  test::TempDir dir_;
  Recording recording_{dir_.path()};
  Tree tree_{recording_};
  std::string path_ = recording_.log_path(1);

  static int count(LogReader& log) {
    int n = 0;
    for (Event e; log.next(e);) n++;
    return n;
  }
};

TEST_F(LiveLog, TheEndOfItsProcessDoesNotHurtReaders) {
  LogWriter writer(path_, {}, tree_);
  writer.note("one");
  writer.note("two");
  LogReader before(path_);
  writer.end(EndKind::Exit, 0, 0, 0);  // cuts the chunk to what it holds
  EXPECT_EQ(count(before), 2);
  EXPECT_FALSE(before.damage()) << *before.damage();
  LogReader after(path_);
  EXPECT_EQ(count(after), 3);
  EXPECT_FALSE(after.damage()) << *after.damage();
  EXPECT_LT(after.file().size(), before.file().size());
}

TEST_F(LiveLog, LaterChunksAreReadAsTheyWere) {
  LogWriter writer(path_, {}, tree_);
  const std::string text(4000, 'x');
  int written = 0;
  while (writer.size() < 5 << 20) writer.note(text), written++;
  LogReader before(path_);
  writer.note(text);
  writer.end(EndKind::Exit, 0, 0, 0);
  EXPECT_EQ(count(before), written);
  EXPECT_FALSE(before.damage()) << *before.damage();
  LogReader after(path_);
  EXPECT_EQ(count(after), written + 2);
}

// At whatever moment of its closing a recorder is killed, what it has written can be read.
TEST_F(LiveLog, KilledWhileItEnds) {
  for (int i = 0; i < 200; i++) {
    std::filesystem::remove(path_);
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      LogWriter writer(path_, {}, tree_);
      writer.note("one");
      (void)!write(ready[1], "", 1);
      writer.end(EndKind::Exit, 0, 0, 0);
      pause();
    }
    char byte;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]), close(ready[1]);
    LogReader live(path_);
    for (int k = 0; k < i * 100; k++) asm volatile("");
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    LogReader log(path_);
    const int events = count(log);
    EXPECT_TRUE(events == 1 || events == 2) << events;
    EXPECT_FALSE(log.damage()) << *log.damage();
    EXPECT_GE(count(live), 1);
    EXPECT_FALSE(live.damage()) << *live.damage();
  }
}

}  // namespace
}  // namespace backstep::recording
