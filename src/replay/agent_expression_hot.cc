// A small stack machine. Conditions are evaluated here, in the replaying process, so that a breakpoint whose
// condition is false a million times costs no million messages to the debugger.
//
// It runs in two places. Translated code asks in the hot world (engine/breaks_hot.cc), where the memory map
// cannot be looked at: there it reads only what lies where nobody but the guest has memory, and whatever is
// not plainly false is left to the host, which asks again.
#include "replay/agent_expression_hot.h"

#include <initializer_list>

#include "base/hot.h"
#include "engine/entry.h"
#include "engine/layout.h"

namespace backstep::replayer {
namespace {

struct Shape {
  int8_t operands = -1;  // bytes behind the operation; -1: no such operation
  uint8_t taken = 0;     // words from the stack (kText…: at least)
};

struct Shapes {
  Shape of[256];

  constexpr void set(int8_t operands, uint8_t taken, std::initializer_list<int> operations) {
    for (int op : operations) of[op] = {operands, taken};
  }
  constexpr Shapes() {
    set(0, 2,
        {kAdd, kSub, kMul, kDivSigned, kDivUnsigned, kRemSigned, kRemUnsigned, kLsh, kRshSigned, kRshUnsigned,
         kBitAnd, kBitOr, kBitXor, kEqual, kLessSigned, kLessUnsigned, kSwap});
    set(0, 1, {kLogNot, kBitNot, kRef8, kRef16, kRef32, kRef64, kEnd, kDup, kPop});
    set(0, 3, {kRot});
    set(1, 1, {kExt, kZeroExt});
    set(1, 0, {kConst8, kPick});
    set(2, 0, {kConst16, kGoto, kReg});
    set(2, 1, {kIfGoto});
    set(4, 0, {kConst32});
    set(8, 0, {kConst64});
    set(1, 0, {kState, kVector});
    set(0, 0, {kFail});
    set(1, 1, {kTextEqual, kTextContains});
    set(0, 2, {kFloatAdd, kFloatSub, kFloatMul, kFloatDiv, kFloatLess, kFloatLessEqual, kFloatEqual});
    set(0, 1,
        {kFloatNeg, kFloatFromSigned, kFloatFromUnsigned, kFloatToSigned, kFloatToUnsigned, kFloatWiden,
         kFloatNarrow, kFloatRef80});
  }
};
constexpr Shapes kShapes;

}  // namespace

int operands_of(uint8_t op) {
  return kShapes.of[op].operands;
}

namespace {

// gdb's numbering of the general registers.
bool register_value(const Context& ctx, uint64_t number, uint64_t* value) {
  static constexpr int kOrder[16] = {RAX, RBX, RCX, RDX, RSI, RDI, RBP, RSP,
                                     R8,  R9,  R10, R11, R12, R13, R14, R15};
  if (number > 17) return false;
  *value = number < 16 ? ctx.gpr[kOrder[number]] : number == 16 ? ctx.rip : ctx.rflags;
  return true;
}

constexpr Value unknown(Unknown why, uint64_t value = 0) {
  return {false, value, why};
}

// A text in memory against one in the code.
class Text {
 public:
  Text(const Surroundings& around, uint64_t address, const uint64_t* words, unsigned size)
      : around_(around), address_(address), words_(words), size_(size) {}

  Value equal() {
    for (unsigned i = 0; i < size_; i++) {
      const int c = at(i);
      if (c < 0) return unknown(Unknown::Memory, address_ + i);
      if (c != wanted(i)) return {true, 0};
    }
    const int c = at(size_);
    return c < 0 ? unknown(Unknown::Memory, address_ + size_) : Value{true, c == 0};
  }

  Value contains() {
    constexpr uint64_t kFurthest = 16384;
    for (uint64_t start = 0; start < kFurthest; start++) {
      for (unsigned i = 0;; i++) {
        if (i == size_) return {true, 1};
        const int c = at(start + i);
        if (c < 0) return unknown(Unknown::Memory, address_ + start + i);
        if (c != wanted(i)) {
          if (c == 0) return {true, 0};
          break;
        }
      }
    }
    return {true, 0};
  }

 private:
  int wanted(unsigned i) const { return static_cast<uint8_t>(words_[i / 8] >> i % 8 * 8); }
  int at(uint64_t i) const {
    uint64_t c = 0;
    return around_.read(address_ + i, &c, 1, around_.argument) ? static_cast<uint8_t>(c) : -1;
  }

  const Surroundings& around_;
  uint64_t address_;
  const uint64_t* words_;
  unsigned size_;
};

// Both halves of xmm0 to xmm15, as XSAVE stores them. Its header says which parts are in their initial state,
// and may not have been stored.
bool vector_value(const Surroundings& around, uint64_t number, uint64_t* value) {
  constexpr size_t kRegisters = 160, kHeader = 512, kSse = 2;
  const unsigned n = number & 0x7f;
  if (!around.vectors || n > 15) return false;
  const auto* xsave = around.ctx.xsave;
  *value = 0;
  if (!(xsave[kHeader] & kSse)) return true;
  const unsigned char* from = xsave + kRegisters + n * 16 + (number & 0x80 ? 8 : 0);
  for (int i = 7; i >= 0; i--) *value = *value << 8 | from[i];
  return true;
}

// The operations that came with us. `stack` has room for two more words. `known` of the result: go on.
Value own_operation(uint8_t op, uint64_t operand, uint64_t* stack, unsigned& depth,
                    const Surroundings& around) {
  switch (op) {
    case kState:
      if (operand >= kStateWords || !(around.known_state >> operand & 1)) return unknown(Unknown::State);
      stack[depth++] = around.state[operand];
      return {true};
    case kFail:
      return unknown(Unknown::Failed);
    case kTextEqual:
    case kTextContains: {
      const auto words = static_cast<unsigned>((operand + 7) / 8);
      if (depth < words + 1) return unknown(Unknown::BadCode);
      depth -= words;
      Text text(around, stack[depth - 1], stack + depth, static_cast<unsigned>(operand));
      const Value v = op == kTextEqual ? text.equal() : text.contains();
      stack[depth - 1] = v.value;
      return v;
    }
    case kVector:
      if (!vector_value(around, operand, &stack[depth])) return unknown(Unknown::HostOnly);
      depth++;
      return {true};
    case kFloatRef80: {
      if (!around.floats) return unknown(Unknown::HostOnly);
      uint64_t parts[2] = {};
      const uint64_t address = stack[depth - 1];
      if (!around.read(address, &parts[0], 8, around.argument) ||
          !around.read(address + 8, &parts[1], 2, around.argument))
        return unknown(Unknown::Memory, address);
      stack[depth - 1] = parts[0];
      return around.floats(op, &stack[depth - 1], parts[1]) ? Value{true} : unknown(Unknown::Division);
    }
    default: {  // floats
      if (!around.floats) return unknown(Unknown::HostOnly);
      const bool two = kShapes.of[op].taken == 2;
      const uint64_t b = two ? stack[--depth] : 0;
      return around.floats(op, &stack[depth - 1], b) ? Value{true} : unknown(Unknown::Division);
    }
  }
}

}  // namespace

bool read_hot(uint64_t address, uint64_t* to, unsigned size, const void*) {
  constexpr uint64_t kLow = 0x10000;
  const bool image = address >= kLow && address <= layout::kImagesEnd - size;
  const bool data = address >= layout::kDataStart && address <= layout::kDataEnd - size;
  return (image || data) && bs_guarded_load(to, reinterpret_cast<const void*>(address), size);
}

Value evaluate(const uint8_t* code, size_t size, const Surroundings& around) {
  uint64_t word = 0;
  return evaluate(code, size, around, &word, 1);
}

Value evaluate(const uint8_t* code, size_t size, const Surroundings& around, uint64_t* words,
               unsigned count) {
  constexpr unsigned kDepth = 100, kSteps = 100'000;
  uint64_t stack[kDepth];
  unsigned depth = 0;
  size_t pc = 0;
  auto fetch = [&](int n) {  // big-endian
    uint64_t v = 0;
    for (int i = 0; i < n; i++) v = v << 8 | code[pc++];
    return v;
  };
  for (unsigned steps = 0; steps < kSteps; steps++) {
    if (pc >= size) return {};
    const uint8_t op = code[pc++];
    const Shape shape = kShapes.of[op];
    if (shape.operands < 0 || pc + static_cast<size_t>(shape.operands) > size) return {};
    const uint64_t operand = fetch(shape.operands);
    const unsigned pops = shape.taken;
    if (depth < pops || depth + 2 > kDepth) return {};
    uint64_t* top = stack + depth - 1;
    auto binary = [&](uint64_t v) {
      depth--;
      stack[depth - 1] = v;
    };
    const uint64_t b = pops >= 1 ? top[0] : 0, a = pops >= 2 ? top[-1] : 0;
    const auto sa = static_cast<int64_t>(a), sb = static_cast<int64_t>(b);
    switch (op) {
      case kAdd:
        binary(a + b);
        break;
      case kSub:
        binary(a - b);
        break;
      case kMul:
        binary(a * b);
        break;
      case kDivSigned:
        if (sb == 0 || (sb == -1 && sa == INT64_MIN)) return unknown(Unknown::Division);
        binary(static_cast<uint64_t>(sa / sb));
        break;
      case kDivUnsigned:
        if (b == 0) return unknown(Unknown::Division);
        binary(a / b);
        break;
      case kRemSigned:
        if (sb == 0 || (sb == -1 && sa == INT64_MIN)) return unknown(Unknown::Division);
        binary(static_cast<uint64_t>(sa % sb));
        break;
      case kRemUnsigned:
        if (b == 0) return unknown(Unknown::Division);
        binary(a % b);
        break;
      case kLsh:
        binary(b < 64 ? a << b : 0);
        break;
      case kRshSigned:
        binary(static_cast<uint64_t>(sa >> (b < 64 ? b : 63)));
        break;
      case kRshUnsigned:
        binary(b < 64 ? a >> b : 0);
        break;
      case kBitAnd:
        binary(a & b);
        break;
      case kBitOr:
        binary(a | b);
        break;
      case kBitXor:
        binary(a ^ b);
        break;
      case kEqual:
        binary(a == b);
        break;
      case kLessSigned:
        binary(sa < sb);
        break;
      case kLessUnsigned:
        binary(a < b);
        break;
      case kLogNot:
        top[0] = b == 0;
        break;
      case kBitNot:
        top[0] = ~b;
        break;
      case kExt:
        if (operand == 0 || operand > 64) return {};
        top[0] = static_cast<uint64_t>(static_cast<int64_t>(b << (64 - operand)) >> (64 - operand));
        break;
      case kZeroExt:
        if (operand == 0 || operand > 64) return {};
        top[0] = b << (64 - operand) >> (64 - operand);
        break;
      case kRef8:
      case kRef16:
      case kRef32:
      case kRef64: {
        uint64_t v = 0;
        if (!around.read(b, &v, 1u << (op - kRef8), around.argument)) return unknown(Unknown::Memory, b);
        top[0] = v;
        break;
      }
      case kIfGoto:
        depth--;
        if (b) pc = operand;
        break;
      case kGoto:
        pc = operand;
        break;
      case kConst8:
      case kConst16:
      case kConst32:
      case kConst64:
        stack[depth++] = operand;
        break;
      case kReg: {
        if (operand < 32 && (around.lost_registers >> operand & 1)) return unknown(Unknown::State);
        if (!register_value(around.ctx, operand, &stack[depth])) return {};
        depth++;
        break;
      }
      case kEnd:
        if (count > depth) return {};
        for (unsigned i = 0; i < count; i++) words[i] = stack[depth - count + i];
        return {true, b};
      case kDup:
        stack[depth++] = b;
        break;
      case kPop:
        depth--;
        break;
      case kSwap:
        top[0] = a;
        top[-1] = b;
        break;
      case kPick:
        if (operand >= depth) return {};
        stack[depth] = stack[depth - 1 - operand];
        depth++;
        break;
      case kRot: {
        const uint64_t c = top[-2];  // c a b -> b c a
        top[-2] = b;
        top[-1] = c;
        top[0] = a;
        break;
      }
      default: {
        const Value v = own_operation(op, operand, stack, depth, around);
        if (!v.known) return v;
        if (op == kTextContains) steps += 10'000;  // a long way for one operation
      }
    }
  }
  return {};
}

}  // namespace backstep::replayer
