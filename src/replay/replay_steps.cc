// Every step of a stretch, written down.
//
// Whoever follows a value from register to register needs each instruction that was executed, with the
// registers in front of it. A debugger's steps cost a message each; here the replaying process makes them on
// its own and hands over all of them at once. Steps are those of all threads, and what comes from the log
// between two instructions is a step, too, so that nothing happens that no record stands for.
#include <algorithm>
#include <cstring>

#include "replay/replayer.h"

namespace backstep::replayer {

std::vector<StepRecord> Replayer::steps_until(const Position& end, size_t most, uint64_t* dropped) {
  std::vector<StepRecord> steps;
  *dropped = 0;
  while (!outcome_ && position() < end) {
    const Context& ctx = context();
    StepRecord& s = steps.emplace_back();
    s = {};
    s.at = position();
    s.thread = process_.current().name;
    s.what = resume_call_ ? StepRecord::Resumed : at_goal() ? StepRecord::Due : StepRecord::Executed;
    if (bs_guarded_copy(s.code, reinterpret_cast<const void*>(s.at.pc), 15)) {
      s.length = 15;
    } else {
      while (s.length < 15 &&
             bs_guarded_copy(s.code + s.length, reinterpret_cast<const void*>(s.at.pc + s.length), 1))
        s.length++;
    }
    std::memcpy(s.gpr, ctx.gpr, sizeof s.gpr);
    s.rflags = ctx.rflags, s.fs_base = ctx.fs_base, s.gs_base = ctx.gs_base;
    advance({}, true);
    const Position now = position();
    s.moved = now.tick != s.at.tick || now.pc != s.at.pc;
    // The last ones are the ones that are wanted.
    if (steps.size() >= 2 * most) {
      *dropped += steps.size() - most;
      steps.erase(steps.begin(), steps.end() - static_cast<ptrdiff_t>(most));
    }
    if (look_up()) break;
  }
  if (steps.size() > most) {
    *dropped += steps.size() - most;
    steps.erase(steps.begin(), steps.end() - static_cast<ptrdiff_t>(most));
  }
  return steps;
}

}  // namespace backstep::replayer
