// Room for a few more descriptors than the program's limit (RLIMIT_NOFILE) leaves: the limit is meant for the
// program, not for what we must open beside it. Works as far as the hard limit, or our rights, allow it.
#pragma once
#include <sys/resource.h>

#include <algorithm>

namespace backstep {

class RoomForFds {
 public:
  RoomForFds() {
    constexpr rlim_t kMore = 64;
    if (getrlimit(RLIMIT_NOFILE, &limit_) != 0) return;
    rlimit wanted = limit_;
    wanted.rlim_cur = std::max(limit_.rlim_cur, std::min(limit_.rlim_max, limit_.rlim_cur + kMore));
    rlimit more = wanted;
    more.rlim_cur = more.rlim_max = std::max(wanted.rlim_max, limit_.rlim_cur + kMore);
    // With little room below the hard limit: past it, if we may.
    const bool narrow = wanted.rlim_cur - limit_.rlim_cur < kMore;
    raised_ = (narrow && setrlimit(RLIMIT_NOFILE, &more) == 0) || setrlimit(RLIMIT_NOFILE, &wanted) == 0;
  }
  ~RoomForFds() { give_back(); }
  RoomForFds(const RoomForFds&) = delete;
  RoomForFds& operator=(const RoomForFds&) = delete;

  void give_back() {
    if (raised_) setrlimit(RLIMIT_NOFILE, &limit_);
    raised_ = false;
  }

 private:
  rlimit limit_{};
  bool raised_ = false;
};

}  // namespace backstep
