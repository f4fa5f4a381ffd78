// Basic blocks: straight pieces of code that are entered at their first instruction and left at their last.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "session/instructions.h"
#include "session/session.h"

namespace backstep::session {

struct Block {
  Address start = 0, end = 0;  // [start, end)
};

// Finds the blocks of functions. A block begins at a function's entry, at the target of a jump, and behind a
// jump, call or return. Where a jump through a register or a table leads to is not in the code: of functions
// that have one, a block also begins where control came, in this run, from elsewhere than from the
// instruction in front.
class Blocks {
 public:
  Blocks(Session& session, const Watcher& watcher) : session_(session), watcher_(watcher) {}

  // In the order of their addresses. One without a file (a JIT's) has none.
  std::vector<Block> of(const symbols::Function& function);
  // Of all functions in which something was executed: those blocks that were.
  std::vector<Block> executed();

 private:
  struct Code;
  const InstructionCounts& counts();

  Session& session_;
  const Watcher& watcher_;
  std::optional<InstructionCounts> counts_;  // made when it is needed
};

}  // namespace backstep::session
