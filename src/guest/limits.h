// The guest's own limits on memory: RLIMIT_AS, RLIMIT_DATA, RLIMIT_STACK. The kernel's, for the process that
// is both of us, are as high as they can be: it would count our tables, which are gigabytes of addresses.
// Of RLIMIT_NOFILE the kernel has the soft limit; the hard one is kept here, so that we can open what we need
// above that. Only a recorder has any: what it refused because of them is in the log, where a replay finds
// it.
#pragma once
#include <cstdint>

namespace backstep::guest {

struct Limit {
  static constexpr uint64_t kNone = ~0ull;  // RLIM_INFINITY
  uint64_t soft = kNone, hard = kNone;
  friend bool operator==(const Limit&, const Limit&) = default;
};

struct Limits {
  Limit space, data, stack, files;
};

}  // namespace backstep::guest
