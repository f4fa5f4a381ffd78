#include "symbols/expression_code.h"

#include "replay/agent_expression_hot.h"

namespace backstep::symbols {

using namespace replayer;

Code& Code::constant(uint64_t value) {
  if (value < 1u << 8) return op(kConst8, value);
  if (value < 1u << 16) return op(kConst16, value);
  if (value >> 32 == 0) return op(kConst32, value);
  return op(kConst64, value);
}

Code& Code::load(uint64_t size) {
  return op(size == 1 ? kRef8 : size == 2 ? kRef16 : size == 4 ? kRef32 : kRef64);
}

Code& Code::extend(uint64_t bits, bool is_signed) {
  if (bits == 0 || bits >= 64) return *this;
  return op(is_signed ? kExt : kZeroExt, bits);
}

Code& Code::offset(uint64_t bytes) {
  return bytes ? constant(bytes).op(kAdd) : *this;
}

Code& Code::append(const Code& code) {
  if (&code == this) return append(Code(code));
  steps_.insert(steps_.end(), code.steps_.begin(), code.steps_.end());
  return *this;
}

Code& Code::fix(StateWord word, uint64_t value) {
  for (Step& step : steps_)
    if (step.op == kState && step.operand == word) step = {kConst64, value};
  return *this;
}

std::vector<uint8_t> Code::bytes() const {
  constexpr size_t kFurthest = 65535;  // that a jump can say
  std::vector<size_t> position;
  size_t end = 0;
  for (const Step& step : steps_) {
    position.push_back(end);
    end += 1 + static_cast<size_t>(operands_of(step.op));
  }
  position.push_back(end);
  if (end >= kFurthest) return {};
  std::vector<uint8_t> out;
  for (size_t i = 0; i < steps_.size(); i++) {
    const Step& step = steps_[i];
    const bool jump = step.op == kGoto || step.op == kIfGoto;
    const uint64_t operand = jump ? position[i + 1 + step.operand] : step.operand;
    out.push_back(step.op);
    for (int n = operands_of(step.op); n-- > 0;) out.push_back(static_cast<uint8_t>(operand >> 8 * n));
  }
  out.push_back(kEnd);
  return out;
}

}  // namespace backstep::symbols
