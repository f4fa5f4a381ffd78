// One instruction after the other: what a replaying process writes down when it is asked for every step.
#pragma once
#include <cstdint>

#include "replay/until.h"

namespace backstep::replayer {

// The state in front of one step. They are in the order of time, of all threads.
struct StepRecord {
  enum What : uint8_t {
    Executed,  // the instruction at pc; a system call up to its result, or until the turn passes
    Resumed,   // the thread stands in the system call at pc since it had the turn last; now it ends
    Due,       // the instruction is not executed: the log has something for this moment (signal, turn, gap)
  };
  Position at;
  int32_t thread;  // virtual name
  What what;
  uint8_t length;  // bytes of `code` that could be read
  bool moved;      // false: the instruction was only begun (a page of another process came first)
  uint8_t unused;
  uint8_t code[16];
  uint64_t gpr[16];
  uint64_t rflags, fs_base, gs_base;
};
static_assert(sizeof(StepRecord) == 200);

}  // namespace backstep::replayer
