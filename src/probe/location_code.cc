// The symbols layer describes places as bytecode for an interpreter (replay/bytecode.h). Debug code is
// compiled anyway, so here each operation becomes a statement on local variables that stand for the cells of
// the interpreter's stack: how deep that is at each operation is known beforehand, since jumps only go
// forwards. The compiler folds it to one instruction or two. Memory is read by plain loads: debug code lives
// in the address space of the program.
#include "probe/location_code.h"

#include <map>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "replay/agent_expression_hot.h"

namespace backstep::probe {
namespace {

using namespace replayer;

struct Step {
  size_t at;
  uint8_t op;
  uint64_t operand;
};

std::vector<Step> steps_of(const symbols::Code& code) {
  const auto bytes = code.bytes();
  if (bytes.empty()) throw Error("where it is kept is too long a story");
  std::vector<Step> steps;
  for (size_t at = 0; at < bytes.size();) {
    Step step{at, bytes[at], 0};
    const int operands = operands_of(step.op);
    for (int i = 0; i < operands; i++)
      step.operand = step.operand << 8 | bytes[at + 1 + static_cast<size_t>(i)];
    at += 1 + static_cast<size_t>(operands);
    steps.push_back(step);
  }
  return steps;
}

std::string register_text(uint64_t number) {
  // gdb's order -> hardware's
  static constexpr int kHardware[] = {0, 3, 1, 2, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15};
  if (number < 16) return fmt::format("r->gpr[{}]", kHardware[number]);
  return number == 16 ? "r->rip" : "r->rflags";
}

class Writer {
 public:
  std::string run(const std::vector<Step>& steps) {
    std::map<size_t, size_t> depth_at;  // of targets of jumps
    for (const Step& step : steps) {
      if (auto known = depth_at.find(step.at); known != depth_at.end()) {
        depth_ = known->second;
        out_ += fmt::format("l{}:;\n", step.at);
      }
      write(step);
      if (step.op == kIfGoto || step.op == kGoto) depth_at[step.operand] = depth_;
    }
    std::string cells;
    for (size_t i = 0; i < most_; i++) cells += fmt::format("{}s{} = 0", i ? ", " : "unsigned long ", i);
    return cells + ";\n" + out_;
  }

 private:
  std::string cell(size_t from_top) const {
    if (from_top >= depth_) throw Error("where it is kept makes no sense");
    return fmt::format("s{}", depth_ - 1 - from_top);
  }
  void push(const std::string& value) {
    out_ += fmt::format("s{} = {};\n", depth_++, value);
    most_ = std::max(most_, depth_);
  }
  void unary(const std::string& format) {
    out_ += fmt::format("{} = {};\n", cell(0), fmt::format(fmt::runtime(format), cell(0)));
  }
  void binary(const std::string& format) {
    const std::string a = cell(1), b = cell(0);
    out_ += fmt::format("{} = {};\n", a, fmt::format(fmt::runtime(format), a, b));
    depth_--;
  }
  void write(const Step& step) {
    const uint64_t n = step.operand;
    switch (step.op) {
      case kAdd:
        return binary("{} + {}");
      case kSub:
        return binary("{} - {}");
      case kMul:
        return binary("{} * {}");
      case kDivSigned:
        return binary("(unsigned long)((long){} / (long){})");
      case kDivUnsigned:
        return binary("{} / {}");
      case kRemSigned:
        return binary("(unsigned long)((long){} % (long){})");
      case kRemUnsigned:
        return binary("{} % {}");
      case kLsh:
        return binary("{1} < 64 ? {0} << {1} : 0");
      case kRshSigned:
        return binary("(unsigned long)((long){0} >> ({1} < 64 ? {1} : 63))");
      case kRshUnsigned:
        return binary("{1} < 64 ? {0} >> {1} : 0");
      case kBitAnd:
        return binary("{} & {}");
      case kBitOr:
        return binary("{} | {}");
      case kBitXor:
        return binary("{} ^ {}");
      case kEqual:
        return binary("{} == {}");
      case kLessSigned:
        return binary("(long){} < (long){}");
      case kLessUnsigned:
        return binary("{} < {}");
      case kLogNot:
        return unary("!{}");
      case kBitNot:
        return unary("~{}");
      case kExt:
        return unary(fmt::format("(unsigned long)((long)({{}} << {0}) >> {0})", 64 - n));
      case kZeroExt:
        return unary(fmt::format("{{}} << {0} >> {0}", 64 - n));
      case kRef8:
        return unary("*(const unsigned char *){}");
      case kRef16:
        return unary("*(const backstep_word16 *){}");
      case kRef32:
        return unary("*(const backstep_word32 *){}");
      case kRef64:
        return unary("*(const backstep_word64 *){}");
      case kConst8:
      case kConst16:
      case kConst32:
      case kConst64:
        return push(fmt::format("{:#x}ul", n));
      case kReg:
        return push(register_text(n));
      case kDup:
        return push(cell(0));
      case kPick:
        return push(cell(n));
      case kPop:
        depth_ -= depth_ ? 1 : 0;
        return;
      case kSwap:
        out_ += fmt::format("{{ unsigned long t = {0}; {0} = {1}; {1} = t; }}\n", cell(0), cell(1));
        return;
      case kRot:
        out_ += fmt::format("{{ unsigned long t = {2}; {2} = {0}; {0} = {1}; {1} = t; }}\n", cell(0), cell(1),
                            cell(2));
        return;
      case kState:
        if (n == kStateFsBase) return push("r->fs_base");
        if (n == kStateGsBase) return push("r->gs_base");
        break;
      case kVector:
        return push(
            fmt::format("((const backstep_word64 *)r->vector)[{}]", (n & 15) * 4 + (n & 0x80 ? 1 : 0)));
      case kFail:
        out_ += "return false;\n";
        return;
      case kIfGoto:
        out_ += fmt::format("if ({}) goto l{};\n", cell(0), n);
        depth_--;
        return;
      case kGoto:
        out_ += fmt::format("goto l{};\n", n);
        return;
      case kEnd:
        out_ += fmt::format("*to = {};\nreturn true;\n", cell(0));
        return;
      default:
        break;
    }
    throw Error("where it is kept cannot be worked out here");
  }

  std::string out_;
  size_t depth_ = 0, most_ = 0;
};

}  // namespace

std::string location_function(const std::string& name, const symbols::Code& code) {
  return fmt::format(
      "static inline bool {}(const backstep_registers *r, unsigned long *to) {{\n(void)r;\n{}}}\n", name,
      Writer().run(steps_of(code)));
}

bool uses_vector(const symbols::Code& code) {
  for (const Step& step : steps_of(code))
    if (step.op == kVector) return true;
  return false;
}

}  // namespace backstep::probe
