// How far apart checkpoints are, and which of them stay.
//
// Making one stops the program, so the distance is at least kShare times what the last one took: that is
// where the 5 % come from that all of them may cost. Pages that the last one did not have come on top, so a
// program that has just filled its memory is not stopped for long.
//
// Nobody knows how long the run will be. When the disk space is used up, every second checkpoint goes, and
// from then on the distance is twice as long. For that, nobody may need the pages of those that go: a
// checkpoint does not share pages with the one before it, but with the one whose index lacks the lowest bit:
//
//   0 <- 1    0 <- 2 <- 3    0 <- 4 <- 5    4 <- 6 <- 7    0 <- 8 …
//
// Odd ones are leaves. When they are gone, those that are left have half their index, and the same order
// holds among them. What changes all the time is stored as often as in a chain; a page that changes once is
// stored again by a few of those that follow.
#include "recording/checkpoint_series.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "base/error.h"
#include "base/room_for_fds.h"

namespace backstep::recording {
namespace {

constexpr double kShare = 20;
constexpr size_t kMostFiles = 500;
constexpr uint64_t kFreeDisk = 256ull << 20;  // is left to the log
constexpr double kSecondsPerPage = 8e-6;      // to hash, compress and write it

}  // namespace

double thread_cpu_seconds() {
  timespec ts{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
  return static_cast<double>(ts.tv_sec) + static_cast<double>(ts.tv_nsec) / 1e9;
}

CheckpointSeries::CheckpointSeries(const Recording& recording, uint64_t process, double seconds,
                                   uint64_t most)
    : recording_(recording), folder_(recording, process), seconds_(seconds), most_(most) {}

double CheckpointSeries::distance(uint64_t pages) const {
  const uint64_t more = pages - std::min(pages, pages_);
  return std::max(seconds_, kShare * (cost_ + static_cast<double>(more) * kSecondsPerPage));
}

// False: there is nothing to remove.
bool CheckpointSeries::thin() {
  // Somebody else's may share pages with ours.
  if (numbers_.size() < 3 || folder_.free_number() != numbers_.back() + 1) return false;
  std::vector<uint64_t> kept;
  for (size_t i = 0; i < numbers_.size(); i++) {
    if (is_leaf(i)) {
      folder_.remove(numbers_[i]);
    } else {
      kept.push_back(numbers_[i]);
    }
  }
  numbers_ = std::move(kept);
  seconds_ *= 2;
  return true;
}

bool CheckpointSeries::make(uint64_t pages, const std::function<void(CheckpointWriter&)>& write) {
  const double start = thread_cpu_seconds();
  RoomForFds room;
  const auto lock = folder_.lock(false);
  struct statvfs disk {};
  if (!lock || (statvfs(folder_.dir().c_str(), &disk) == 0 && disk.f_bavail * disk.f_frsize < kFreeDisk))
    return false;
  const uint64_t used = CheckpointFolder::disk(recording_);
  if ((used >= most_ || numbers_.size() >= kMostFiles) && !thin())
    throw Error(
        fmt::format("the recording has {} MB of checkpoints, which is all that they may take", used >> 20));
  uint64_t left = most_ - std::min(most_, CheckpointFolder::disk(recording_));
  // The program's limit on file sizes (ulimit -f) is ours, too; going beyond it would be a signal for the
  // program.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0) left = std::min<uint64_t>(left, limit.rlim_cur);
  const uint64_t number = folder_.free_number();
  const size_t index = numbers_.size();
  CheckpointWriter writer(folder_, number, index ? numbers_[base_of(index)] : 0, left);
  try {
    write(writer);
  } catch (const Error&) {
    if (!writer.too_large() || !thin()) throw;
    cost_ = std::max(cost_, thread_cpu_seconds() - start);
    return false;
  }
  numbers_.push_back(number);
  cost_ = thread_cpu_seconds() - start;
  pages_ = pages;
  return true;
}

}  // namespace backstep::recording
