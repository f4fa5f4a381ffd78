// Where our own descriptors are. The log, a copy of stderr and what else we keep open have numbers in the
// table that is the program's, too, and the kernel gives out the lowest number that is free: so they must
// always be somewhere above those that the program has.
//
// How far above? As high as the limit allows would keep them out of the way for good, but a fork copies the
// table up to the highest number in it: with the million of descriptors that containers have as their limit
// that is 8 MB, and milliseconds. So they begin at a thousand (or just above a lower limit, which is no
// limit for us if we may raise it for a moment), and move up, to four times as much, when the program comes
// near; and out of the way if it asks for just that number (dup2, F_DUPFD).
//
// They stay where they are while somebody else may have them under their old numbers: threads with tables of
// their own, processes that share one (CLONE_FILES), and the child of a vfork, whose parent goes on with the
// same books. The folder of the recording stays always, because paths go by its number (shared_folder.h).
#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <filesystem>

#include "base/room_for_fds.h"
#include "record/channels_hot.h"
#include "record/recorder.h"

namespace backstep::recorder {

namespace {

constexpr int kMargin = 64;  // so near the program may come

int limit_on_descriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, INT_MAX));
}

int lowest_of_ours() {
  int lowest = INT_MAX;
  for (int fd : bs_record.our_fds)
    if (fd >= 0) lowest = std::min(lowest, fd);
  return lowest;
}

}  // namespace

// From which number on the program is too near. Where they are at the end of all numbers, or behind it, that
// is never.
void Recorder::watch_descriptors() {
  const int lowest = lowest_of_ours(), limit = limit_on_descriptors();
  const bool last = lowest + kMargin >= limit;
  bs_record.crowded_from = last ? INT_MAX : std::max(lowest - kMargin, 0);
}

// False: not all could be moved.
bool Recorder::move_descriptors(int least) {
  bs_record.crowded = false;
  const auto& tasks = turns_.tasks();
  if (vfork_ || files_shared_ || bs_wakeups.moved ||
      std::any_of(tasks.begin(), tasks.end(),
                  [](const auto& task) { return task.second->seat != nullptr; })) {
    bs_record.crowded_from = INT_MAX;
    return false;
  }
  RoomForFds room;
  int* const ours = bs_record.our_fds;
  log_.move_fd(least);
  if (ours[kLogFd] >= 0) ours[kLogFd] = log_.fd();
  for (int slot : {kStderrFd, kQueueFd})
    if (ours[slot] >= 0) ours[slot] = recording::move_fd_high(ours[slot], least);
  stderr_ = ours[kStderrFd];
  tell_fds();
  room.give_back();
  watch_descriptors();
  return true;
}

void Recorder::stay_ahead() {
  if (bs_record.crowded) move_descriptors(4 * std::max(lowest_of_ours(), kMargin));
}

// The program is about to name a number: for one descriptor (dup2), or for the first that may be taken.
void Recorder::make_way(uint64_t number, bool exactly) {
  const auto fd = static_cast<int>(std::min<uint64_t>(number, INT_MAX));
  const auto& ours = bs_record.our_fds;
  const int highest = *std::max_element(std::begin(ours), std::end(ours));
  const bool met = std::find(std::begin(ours), std::end(ours), fd) != std::end(ours);
  const bool near = !exactly && fd >= bs_record.crowded_from && fd <= highest;
  if ((met || near) && fd < limit_on_descriptors()) move_descriptors(std::min(highest, INT_MAX / 4) * 4);
}

void Recorder::name_channels() {
  std::error_code ignored;
  const auto& ours = bs_record.our_fds;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/thread-self/fd", ignored)) {
    const std::string name = entry.path().filename();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    if (fd < 0 || std::find(std::begin(ours), std::end(ours), fd) != std::end(ours)) continue;
    if (log_.reserve(kChannelEvent)) log_channel_at_start(log_.appender(), fd);
  }
}

}  // namespace backstep::recorder
