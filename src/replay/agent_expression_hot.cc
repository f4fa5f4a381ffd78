// A small stack machine. Conditions are evaluated here, in the replaying process, so that a breakpoint whose
// condition is false a million times costs no million messages to the debugger.
//
// It runs in two places. Translated code asks in the hot world (engine/breaks_hot.cc), where the memory map
// cannot be looked at: there it reads only what lies where nobody but the guest has memory, and whatever is
// not plainly false is left to the host, which asks again.
#include "replay/agent_expression_hot.h"

#include "base/hot.h"
#include "engine/entry.h"
#include "engine/layout.h"

namespace backstep::replayer {
namespace {

enum Op : uint8_t {
  kAdd = 0x02,
  kSub,
  kMul,
  kDivSigned,
  kDivUnsigned,
  kRemSigned,
  kRemUnsigned,
  kLsh,
  kRshSigned,
  kRshUnsigned,
  kLogNot = 0x0e,
  kBitAnd,
  kBitOr,
  kBitXor,
  kBitNot,
  kEqual,
  kLessSigned,
  kLessUnsigned,
  kExt,
  kRef8,
  kRef16,
  kRef32,
  kRef64,
  kIfGoto = 0x20,
  kGoto,
  kConst8,
  kConst16,
  kConst32,
  kConst64,
  kReg,
  kEnd,
  kDup,
  kPop,
  kZeroExt,
  kSwap,
  kPick = 0x32,
  kRot,
};

// Arithmetic on the two topmost values.
bool joins_two(uint8_t op) {
  switch (op) {
    case kAdd:
    case kSub:
    case kMul:
    case kDivSigned:
    case kDivUnsigned:
    case kRemSigned:
    case kRemUnsigned:
    case kLsh:
    case kRshSigned:
    case kRshUnsigned:
    case kBitAnd:
    case kBitOr:
    case kBitXor:
    case kEqual:
    case kLessSigned:
    case kLessUnsigned:
      return true;
    default:
      return false;
  }
}

}  // namespace

int operands_of(uint8_t op) {
  if (joins_two(op)) return 0;
  switch (op) {
    case kExt:
    case kZeroExt:
    case kConst8:
    case kPick:
      return 1;
    case kIfGoto:
    case kGoto:
    case kConst16:
    case kReg:
      return 2;
    case kConst32:
      return 4;
    case kConst64:
      return 8;
    case kLogNot:
    case kBitNot:
    case kRef8:
    case kRef16:
    case kRef32:
    case kRef64:
    case kEnd:
    case kDup:
    case kPop:
    case kSwap:
    case kRot:
      return 0;
    default:
      return -1;
  }
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

// How many values an operation takes from the stack.
unsigned taken_by(uint8_t op) {
  if (joins_two(op)) return 2;
  switch (op) {
    case kSwap:
      return 2;
    case kLogNot:
    case kBitNot:
    case kExt:
    case kZeroExt:
    case kRef8:
    case kRef16:
    case kRef32:
    case kRef64:
    case kIfGoto:
    case kEnd:
    case kDup:
    case kPop:
      return 1;
    case kRot:
      return 3;
    default:
      return 0;
  }
}

// Memory that only the guest can have mapped.
bool read_hot(uint64_t address, uint64_t* to, unsigned size, const void*) {
  constexpr uint64_t kLow = 0x10000;
  const bool image = address >= kLow && address <= layout::kImagesEnd - size;
  const bool data = address >= layout::kDataStart && address <= layout::kDataEnd - size;
  return (image || data) && bs_guarded_load(to, reinterpret_cast<const void*>(address), size);
}

}  // namespace

Value evaluate(const uint8_t* code, size_t size, const Context& ctx, ReadMemory read, const void* argument) {
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
    const int n = operands_of(op);
    if (n < 0 || pc + static_cast<size_t>(n) > size) return {};
    const uint64_t operand = fetch(n);
    const unsigned pops = taken_by(op);
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
        if (sb == 0 || (sb == -1 && sa == INT64_MIN)) return {};
        binary(static_cast<uint64_t>(sa / sb));
        break;
      case kDivUnsigned:
        if (b == 0) return {};
        binary(a / b);
        break;
      case kRemSigned:
        if (sb == 0 || (sb == -1 && sa == INT64_MIN)) return {};
        binary(static_cast<uint64_t>(sa % sb));
        break;
      case kRemUnsigned:
        if (b == 0) return {};
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
        if (!read(b, &v, 1u << (op - kRef8), argument)) return {};
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
        if (!register_value(ctx, operand, &stack[depth])) return {};
        depth++;
        break;
      }
      case kEnd:
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
      default:
        return {};
    }
  }
  return {};
}

bool condition_hot(const Context& ctx, const void* condition) {
  for (auto* c = static_cast<const HotCode*>(condition); c->code; c++) {
    const Value v = evaluate(c->code, c->size, ctx, read_hot, nullptr);
    if (!v.known || v.value) return true;
  }
  return false;
}

}  // namespace backstep::replayer
