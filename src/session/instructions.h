// How often each instruction of a run was executed.
#pragma once
#include <map>

#include "session/session.h"

namespace backstep::session {

struct InstructionCounts {
  std::map<Address, uint64_t> executed;  // how often control came to each instruction that was executed
  uint64_t total = 0;
  uint64_t gone = 0;  // bytes of executed code that had been unmapped when it was looked at, and do not count
};

InstructionCounts count_instructions(Session& session, const Stretch& stretch, const Watcher& watcher);

}  // namespace backstep::session
