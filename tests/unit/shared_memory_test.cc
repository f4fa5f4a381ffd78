// The protocol of record/shared_memory.h, with real processes.
#include "record/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "temp_dir.h"

namespace backstep::recorder {
namespace {

using Hold = SharedObject::Hold;
using test::TempDir;
constexpr uint64_t kPages = 4;

void pass(int fd) {
  ASSERT_EQ(write(fd, "", 1), 1);
}
void await(int fd) {
  char byte;
  ASSERT_EQ(read(fd, &byte, 1), 1);
}

// Somebody wanted to ask a process for a page and was interrupted between the two steps of that. Meanwhile
// the process has looked at what it was asked for, has fallen asleep, and something was taken from it: it
// must learn that, whatever the late asker writes where.
TEST(SharedMemory, ASleeperLearnsWhatWasTakenInSpiteOfALateAsker) {
  TempDir folder;
  const std::string control = folder.path() + "/control";
  Fd memory(memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(memory.get(), kPages * SharedObject::kPageSize), 0);
  SharedObject object(folder.path(), "control", memory.get(), 0, kPages * SharedObject::kPageSize);
  object.leave_alone();
  object.attach_child();
  int to_child[2], to_parent[2];
  ASSERT_EQ(pipe(to_child), 0);
  ASSERT_EQ(pipe(to_parent), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    object.become_child();
    object.acquire(1, Hold::Write, [] {});
    object.asked();
    object.fall_asleep();
    pass(to_parent[1]);
    await(to_child[0]);
    const auto told = object.awake();
    const bool knows = object.hold(1) == Hold::None && std::find(told.begin(), told.end(), 1) != told.end();
    _exit(knows ? 0 : 1);
  }
  await(to_parent[0]);
  object.acquire(1, Hold::Write, [] {});
  EXPECT_EQ(object.hold(1), Hold::Write);
  Fd file(open(control.c_str(), O_RDWR | O_CLOEXEC));
  auto* header = static_cast<SharedHeader*>(
      mmap(nullptr, sizeof(SharedHeader), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
  ASSERT_NE(header, MAP_FAILED);
  const auto seat = std::find_if(std::begin(header->seats), std::end(header->seats),
                                 [&](const Seat& s) { return s.pid == static_cast<uint32_t>(child); });
  ASSERT_NE(seat, std::end(header->seats));
  constexpr uint32_t kOther = 2 + 1;
  seat->pages[0] = kOther;  // the late one
  pass(to_child[1]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the sleeper believes that it still has the page";
  munmap(header, sizeof *header);
}

// Processes come and go, and the control file with them: whoever comes while the last one leaves must not be
// left with a file that others do not see, nor may two believe that each is alone.
TEST(SharedMemory, WhoComesWhileTheLastLeavesIsNotAloneWithAnother) {
  TempDir folder;
  Fd memory(memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(memory.get(), kPages * SharedObject::kPageSize), 0);
  auto* inside = static_cast<int*>(
      mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(inside, MAP_FAILED);
  std::vector<pid_t> children;
  for (int i = 0; i < 4; i++) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    signal(SIGTRAP, SIG_IGN);  // others ask us for what we have; we give it back soon
    int meetings = 0;
    for (int round = 0; round < 250; round++) {
      SharedObject object(folder.path(), "control", memory.get(), 0, kPages * SharedObject::kPageSize);
      object.acquire(0, Hold::Write, [] {});
      meetings += __atomic_fetch_add(inside, 1, __ATOMIC_SEQ_CST) != 0;
      usleep(static_cast<useconds_t>(round * 7 % 50));
      __atomic_fetch_sub(inside, 1, __ATOMIC_SEQ_CST);
      object.detach();
      usleep(static_cast<useconds_t>((round * 13 + i * 29) % 150));
    }
    _exit(meetings != 0);
  }
  for (pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "two had the page at the same time";
  }
  munmap(inside, sizeof(int));
}

}  // namespace
}  // namespace backstep::recorder
