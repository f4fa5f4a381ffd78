// Bytecode while it is being put together. Jumps only go forwards and count steps, so that a piece of code
// means the same wherever it is put.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "replay/bytecode.h"

namespace backstep::symbols {

class Code {
 public:
  Code& op(replayer::Op operation, uint64_t operand = 0) {
    steps_.push_back({operation, operand});
    return *this;
  }
  Code& constant(uint64_t value);
  Code& reg(unsigned gdb_number) { return op(replayer::kReg, gdb_number); }
  Code& state(replayer::StateWord word) { return op(replayer::kState, word); }
  Code& load(uint64_t size);                    // address -> 1, 2, 4 or 8 bytes there
  Code& extend(uint64_t bits, bool is_signed);  // of the word on top, only so many bits count
  Code& offset(uint64_t bytes);                 // adds to an address
  Code& append(const Code& code);
  // A word of the state becomes a number that is known.
  Code& fix(replayer::StateWord word, uint64_t value);
  // Over the next so many steps.
  Code& skip(size_t steps) { return op(replayer::kGoto, steps); }
  Code& skip_if(size_t steps) { return op(replayer::kIfGoto, steps); }

  bool uses(replayer::StateWord word) const {
    return std::any_of(steps_.begin(), steps_.end(),
                       [&](const Step& step) { return step.op == replayer::kState && step.operand == word; });
  }
  bool empty() const { return steps_.empty(); }
  size_t size() const { return steps_.size(); }
  // With kEnd behind it. Empty: it is too long.
  std::vector<uint8_t> bytes() const;

 private:
  struct Step {
    replayer::Op op;
    uint64_t operand;
  };
  std::vector<Step> steps_;
};

}  // namespace backstep::symbols
