// One step of unwinding finds the caller's registers from the callee's and the stack. The compiler wrote down
// how, for each instruction, in the call frame information; assembler in libc did so by hand, signal
// trampolines and PLT stubs included. That is all there is to it where it exists. Else there are customs, in
// the order of how sure they are:
//
//   * a call of address 0 pushed a return address and nothing more;
//   * "mov $15,%eax; syscall" is a signal's trampoline, below which the kernel put all registers;
//   * generated code that has made no frame yet has its return address on top of the stack;
//   * a frame pointer points to the caller's, with the return address above it.
//
// A stack is complete if it ends in a frame that says it has no caller. It is a stranger's memory: each step
// must go up, or it ends there. Only a signal handler may run on another stack than what it interrupted.
#include "symbols/unwind.h"

#include <dwarf.h>

#include <array>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "symbols/unwind_rules.h"

namespace backstep::symbols {
namespace {

using Registers = UnwindRegisters;
constexpr uint32_t kAll = (1u << Registers::kCount) - 1;
constexpr uint32_t bit(size_t number) {
  return 1u << number;
}

// The registers of one frame, and how to read what is on the stack.
struct State {
  FrameRegisters registers;
  const ReadStack& read;

  std::optional<uint64_t> word(uint64_t address) const {
    uint64_t value = 0;
    if (!read(address, &value, sizeof value)) return {};
    return value;
  }
  std::optional<uint64_t> get(uint64_t number) const {
    if (number >= Registers::kCount || !(registers.known & bit(number))) return {};
    return registers.values.gpr[number];
  }
  void set(size_t number, std::optional<uint64_t> value) {
    registers.known &= ~bit(number);
    if (value) registers.known |= bit(number);
    registers.values.gpr[number] = value.value_or(0);
  }
  uint64_t rsp() const { return registers.values.gpr[Registers::kRsp]; }
  uint64_t rip() const { return registers.values.gpr[Registers::kRip]; }
};

// DWARF expressions as far as call frame information uses them. Branches are not among them: nothing can
// loop. (Those for registers begin with the CFA on the stack; libdw writes that operation out.)
class Evaluation {
 public:
  Evaluation(const State& state, std::optional<uint64_t> cfa) : state_(state), cfa_(cfa) {}

  std::optional<uint64_t> run(const std::vector<Dwarf_Op>& ops) {
    for (const Dwarf_Op& op : ops)
      if (!step(op)) return {};
    return depth_ > 0 ? std::optional(stack_[depth_ - 1]) : std::nullopt;
  }

 private:
  bool push(std::optional<uint64_t> value) {
    if (!value || depth_ == stack_.size()) return false;
    stack_[depth_++] = *value;
    return true;
  }
  bool pop(uint64_t& value) {
    if (depth_ == 0) return false;
    value = stack_[--depth_];
    return true;
  }

  bool step(const Dwarf_Op& op) {
    if (op.atom >= DW_OP_lit0 && op.atom <= DW_OP_lit31) return push(op.atom - DW_OP_lit0);
    if (op.atom >= DW_OP_breg0 && op.atom <= DW_OP_breg31)
      return push_register(op.atom - DW_OP_breg0, op.number);
    uint64_t a = 0;
    switch (op.atom) {
      case DW_OP_nop:
        return true;
      case DW_OP_bregx:
        return push_register(op.number, op.number2);
      case DW_OP_call_frame_cfa:
        return push(cfa_);
      case DW_OP_addr:
      case DW_OP_const1u:
      case DW_OP_const1s:
      case DW_OP_const2u:
      case DW_OP_const2s:
      case DW_OP_const4u:
      case DW_OP_const4s:
      case DW_OP_const8u:
      case DW_OP_const8s:
      case DW_OP_constu:
      case DW_OP_consts:
        return push(op.number);  // signed ones come extended
      case DW_OP_deref:
        return pop(a) && push(state_.word(a));
      case DW_OP_plus_uconst:
        return pop(a) && push(a + op.number);
      case DW_OP_dup:
        return pop(a) && push(a) && push(a);
      case DW_OP_drop:
        return pop(a);
      case DW_OP_neg:
        return pop(a) && push(-a);
      case DW_OP_not:
        return pop(a) && push(~a);
      default:
        return binary(op.atom);
    }
  }

  bool push_register(uint64_t number, uint64_t offset) {
    std::optional<uint64_t> value = state_.get(number);
    return value && push(*value + offset);
  }

  bool binary(uint8_t atom) {
    uint64_t a = 0, b = 0;
    if (!pop(b) || !pop(a)) return false;
    auto x = static_cast<int64_t>(a), y = static_cast<int64_t>(b);
    switch (atom) {
      case DW_OP_swap:
        return push(b) && push(a);
      case DW_OP_over:
        return push(a) && push(b) && push(a);
      case DW_OP_plus:
        return push(a + b);
      case DW_OP_minus:
        return push(a - b);
      case DW_OP_mul:
        return push(a * b);
      case DW_OP_and:
        return push(a & b);
      case DW_OP_or:
        return push(a | b);
      case DW_OP_xor:
        return push(a ^ b);
      case DW_OP_shl:
        return push(b < 64 ? a << b : 0);
      case DW_OP_shr:
        return push(b < 64 ? a >> b : 0);
      case DW_OP_eq:
        return push(x == y);
      case DW_OP_ne:
        return push(x != y);
      case DW_OP_ge:
        return push(x >= y);
      case DW_OP_gt:
        return push(x > y);
      case DW_OP_le:
        return push(x <= y);
      case DW_OP_lt:
        return push(x < y);
      default:
        return false;
    }
  }

  const State& state_;
  std::optional<uint64_t> cfa_;
  std::array<uint64_t, 64> stack_{};
  size_t depth_ = 0;
};

std::optional<uint64_t> cfa_of(const FrameRow& row, const State& state) {
  if (!row.cfa_expression.empty()) return Evaluation(state, {}).run(row.cfa_expression);
  std::optional<uint64_t> base = state.get(static_cast<uint64_t>(row.cfa_register));
  if (!base) return {};
  return *base + static_cast<uint64_t>(row.cfa_offset);
}

std::optional<uint64_t> apply(const FrameRule& rule, size_t number, const State& state, uint64_t cfa) {
  switch (rule.kind) {
    case FrameRule::kSame:
      return state.get(number);
    case FrameRule::kUndefined:
      return {};
    case FrameRule::kAtCfa:
      return state.word(cfa + static_cast<uint64_t>(rule.offset));
    case FrameRule::kCfaPlus:
      return cfa + static_cast<uint64_t>(rule.offset);
    case FrameRule::kRegister:
      return state.get(static_cast<uint64_t>(rule.offset));
    case FrameRule::kExpression:
      return Evaluation(state, cfa).run(rule.expression);
    case FrameRule::kAtExpression: {
      std::optional<uint64_t> address = Evaluation(state, cfa).run(rule.expression);
      return address ? state.word(*address) : std::nullopt;
    }
  }
  return {};
}

class Unwinder {
 public:
  Unwinder(const Program& program, const Registers& start, const ReadStack& read)
      : program_(program), state_{{start, kAll}, read} {}

  Stack run(size_t most, std::vector<FrameRegisters>* registers) {
    while (stack_.frames.size() < most) {
      stack_.frames.push_back({state_.rip(), 0, call_site_});
      if (registers) registers->push_back(state_.registers);
      if (!step()) return std::move(stack_);
    }
    stack_.complete = false;
    return std::move(stack_);
  }

 private:
  // To the caller's frame; false: there is none.
  bool step() {
    uint64_t pc = state_.rip();
    const FrameRow* row = program_.frame_rules().at(program_, call_site_ ? pc - 1 : pc);
    if (row) return by_rules(*row);
    if (pc < 4096 && stack_.frames.size() == 1)
      return to(state_.rsp() + 8, state_.registers.values.gpr[Registers::kRbp]);
    if (is_trampoline(pc)) return by_signal_frame();
    return by_custom(pc);
  }

  bool end(bool complete) {
    stack_.complete = complete;
    return false;
  }

  bool by_rules(const FrameRow& row) {
    if (row.signal) stack_.frames.back().call_site = false;
    std::optional<uint64_t> cfa = cfa_of(row, state_);
    if (!cfa) return end(false);
    stack_.frames.back().cfa = *cfa;
    if (row.rules[Registers::kRip].kind == FrameRule::kUndefined) return end(true);
    State next = state_;
    for (size_t i = 0; i < Registers::kCount; i++) next.set(i, apply(row.rules[i], i, state_, *cfa));
    // Nothing says so about rsp, unless it is saved like the others.
    FrameRule::Kind kind = row.rules[Registers::kRsp].kind;
    if (kind == FrameRule::kSame || kind == FrameRule::kUndefined) next.set(Registers::kRsp, *cfa);
    return go(next, row.signal);
  }

  // Moves on to `next` if that can be a caller.
  bool go(const State& next, bool interrupted) {
    constexpr uint32_t needed = bit(Registers::kRip) | bit(Registers::kRsp);
    if ((next.registers.known & needed) != needed) return end(false);
    if (!interrupted && next.rsp() <= state_.rsp()) return end(false);
    if (next.rip() == 0 && !interrupted) return end(true);
    state_.registers = next.registers;
    call_site_ = !interrupted;
    return true;
  }

  // The caller's frame begins at `cfa`, below which is the return address.
  bool to(uint64_t cfa, std::optional<uint64_t> rbp) {
    stack_.frames.back().cfa = cfa;
    State next = state_;
    // All others may have been changed.
    next.registers.known = 0;
    next.set(Registers::kRsp, cfa);
    next.set(Registers::kRbp, rbp);
    next.set(Registers::kRip, state_.word(cfa - 8));
    return go(next, false);
  }

  bool is_trampoline(uint64_t pc) {
    static constexpr std::array<uint8_t, 9> kLong = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05};
    static constexpr std::array<uint8_t, 7> kShort = {0xb8, 15, 0, 0, 0, 0x0f, 0x05};
    std::array<uint8_t, 9> code{};
    if (!call_site_ && stack_.frames.size() > 1) return false;
    return state_.read(pc, code.data(), code.size()) &&
           (code == kLong || memcmp(code.data(), kShort.data(), kShort.size()) == 0);
  }

  // rsp is at the ucontext that the kernel made: flags, link, and the alternate stack come before the
  // registers.
  bool by_signal_frame() {
    static constexpr std::array<uint8_t, Registers::kCount> kOrder = {8, 9, 10, 11, 12, 13, 14, 15, 5,
                                                                      4, 6, 3,  1,  0,  2,  7,  16};
    stack_.frames.back().call_site = false;
    uint64_t values[Registers::kCount];
    if (!state_.read(state_.rsp() + 40, values, sizeof values)) return end(false);
    State next = state_;
    for (size_t i = 0; i < Registers::kCount; i++) next.set(kOrder[i], values[i]);
    return go(next, true);
  }

  bool by_custom(uint64_t pc) {
    if (is_start(pc)) return end(true);
    std::optional<uint64_t> rbp = state_.get(Registers::kRbp);
    // The first instruction of a function: nothing has been pushed but the return address.
    if (!call_site_ && stack_.frames.size() == 1)
      if (auto function = program_.function_at(pc); function && function->entry == pc)
        return to(state_.rsp() + 8, rbp);
    if (is_frameless(pc)) return to(state_.rsp() + 8, rbp);
    if (!rbp) return end(false);
    if (*rbp == 0 && by_pointer_) return end(true);
    constexpr uint64_t kLargestFrame = 8 << 20;
    if (*rbp % 8 != 0 || *rbp < state_.rsp() || *rbp - state_.rsp() > kLargestFrame) return end(false);
    std::optional<uint64_t> outer = state_.word(*rbp);
    if (!outer) return end(false);
    by_pointer_ = true;
    return to(*rbp + 16, *outer);
  }

  // Generated code at its first instruction, or that has made no frame: the frame pointer is still the
  // caller's, or none. What is on top of the stack may be a return address that a call has left there, so
  // what it leads to has to have been called as well.
  bool is_frameless(uint64_t pc) const {
    if (call_site_ || stack_.frames.size() != 1 || program_.module_at(pc)) return false;
    const auto caller = state_.word(state_.rsp());
    if (!caller || !is_behind_call(*caller)) return false;
    const FrameRow* row = program_.frame_rules().at(program_, *caller - 1);
    if (!row) return false;
    State outer = state_;
    outer.set(Registers::kRsp, state_.rsp() + 8);
    outer.set(Registers::kRip, caller);
    const auto cfa = cfa_of(*row, outer);
    if (!cfa) return false;
    if (row->rules[Registers::kRip].kind == FrameRule::kUndefined) return true;
    const auto next = apply(row->rules[Registers::kRip], Registers::kRip, outer, *cfa);
    return next && is_behind_call(*next);
  }

  // Is the instruction in front of an address of the program a call?
  bool is_behind_call(uint64_t address) const {
    constexpr size_t kLongest = 7;
    const Module* module = program_.module_at(address);
    if (!module || address - kLongest < module->start) return false;
    std::string_view code;
    try {
      code = module->elf().bytes(address - kLongest - module->bias, kLongest);
    } catch (const Error&) {  // its file cannot be read
    }
    if (code.size() < kLongest) return false;
    auto byte = [&](size_t before) { return static_cast<uint8_t>(code[kLongest - before]); };
    if (byte(5) == 0xe8) return true;
    for (size_t length = 2; length <= kLongest; length++) {
      const uint8_t mode = byte(length - 1) >> 6, operation = byte(length - 1) >> 3 & 7,
                    base = byte(length - 1) & 7;
      if (byte(length) != 0xff || operation != 2) continue;
      const bool indexed = mode != 3 && base == 4;
      const size_t distance = mode == 1 ? 1 : mode == 2 || (mode == 0 && base == 5) ? 4 : 0;
      if (length == 2 + (indexed ? 1 : 0) + distance) return true;
    }
    return false;
  }

  bool is_start(uint64_t pc) {
    auto function = program_.function_at(call_site_ ? pc - 1 : pc);
    return function && (function->name == "_start" || function->name == "_dl_start_user");
  }

  const Program& program_;
  State state_;
  Stack stack_;
  bool call_site_ = false;
  bool by_pointer_ = false;  // the way here was by a frame pointer
};

}  // namespace

Stack unwind(const Program& program, const UnwindRegisters& start, const ReadStack& read, size_t most,
             std::vector<FrameRegisters>* registers) {
  if (registers) registers->clear();
  return Unwinder(program, start, read).run(most, registers);
}

}  // namespace backstep::symbols
