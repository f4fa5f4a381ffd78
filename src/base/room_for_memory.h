// Room for our own memory, whatever limits the program is meant to run under. Our tables are gigabytes of
// addresses, of which hardly any become memory.
#pragma once
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>

#include "base/error.h"

namespace backstep {

// Raises the limits of this process as far as it may; throws Error if that is not enough. That of the stack,
// too: a program that is content with a few pages does not mean ours.
inline void make_room_for_memory() {
  constexpr rlim_t kNeeded = 16ull << 30, kStack = 8 << 20;
  struct {
    __rlimit_resource resource;
    const char *what, *option;
  } const memory[] = {{RLIMIT_AS, "address space", "v"}, {RLIMIT_DATA, "data", "d"}};
  for (auto [resource, what, option] : memory) {
    rlimit limit{};
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) continue;
    const rlimit none{RLIM_INFINITY, RLIM_INFINITY}, raised{limit.rlim_max, limit.rlim_max};
    if (setrlimit(resource, &none) == 0) continue;  // needs privileges, unless there is no hard limit
    setrlimit(resource, &raised);
    if (limit.rlim_max >= kNeeded) continue;
    const uint64_t kilobytes = limit.rlim_max >> 10;
    throw Error(fmt::format(
        "the hard limit on {} (ulimit -H{}) is {} KB, and Backstep needs 16 GB of addresses beside the "
        "program, if little memory. To record a program under this limit, let the program set it: "
        "backstep record sh -c 'ulimit -{} {}; exec PROGRAM'",
        what, option, kilobytes, option, kilobytes));
  }
  rlimit stack{};
  if (getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= kStack) return;
  stack.rlim_cur = std::min(stack.rlim_max, kStack);
  setrlimit(RLIMIT_STACK, &stack);
}

inline void try_to_make_room_for_memory() {
  try {
    make_room_for_memory();
  } catch (const Error&) {
    // What we have must do.
  }
}

}  // namespace backstep
