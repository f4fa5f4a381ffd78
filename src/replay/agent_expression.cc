// A small stack machine. Conditions are evaluated here, in the replaying process, so that a breakpoint whose
// condition is false a million times costs no million messages to the debugger.
#include "replay/agent_expression.h"

#include "engine/entry.h"

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

// Bytes behind the operation; -1: not known.
int operands(uint8_t op) {
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
    case kLogNot:
    case kBitAnd:
    case kBitOr:
    case kBitXor:
    case kBitNot:
    case kEqual:
    case kLessSigned:
    case kLessUnsigned:
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

// gdb's numbering of the general registers.
std::optional<uint64_t> register_value(unsigned number) {
  static constexpr int kOrder[16] = {RAX, RBX, RCX, RDX, RSI, RDI, RBP, RSP,
                                     R8,  R9,  R10, R11, R12, R13, R14, R15};
  const Context& ctx = context();
  if (number < 16) return ctx.gpr[kOrder[number]];
  if (number == 16) return ctx.rip;
  if (number == 17) return ctx.rflags;
  return std::nullopt;
}

}  // namespace

bool valid(const std::vector<uint8_t>& code) {
  for (size_t at = 0; at < code.size();) {
    int n = operands(code[at]);
    if (n < 0 || at + static_cast<size_t>(n) >= code.size() + (n == 0)) return false;
    if (code[at] == kReg && (code[at + 1] << 8 | code[at + 2]) > 17) return false;
    at += 1 + static_cast<size_t>(n);
  }
  return true;
}

std::optional<uint64_t> evaluate(const std::vector<uint8_t>& code, guest::Process& process) {
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
    if (pc >= code.size()) return std::nullopt;
    const uint8_t op = code[pc++];
    const int n = operands(op);
    if (n < 0 || pc + static_cast<size_t>(n) > code.size()) return std::nullopt;
    const uint64_t argument = fetch(n);
    unsigned pops = 0;
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
      case kSwap:
        pops = 2;
        break;
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
        pops = 1;
        break;
      case kRot:
        pops = 3;
        break;
      default:
        break;
    }
    if (depth < pops || depth + 2 > kDepth) return std::nullopt;
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
        if (sb == 0 || (sb == -1 && sa == INT64_MIN)) return std::nullopt;
        binary(static_cast<uint64_t>(sa / sb));
        break;
      case kDivUnsigned:
        if (b == 0) return std::nullopt;
        binary(a / b);
        break;
      case kRemSigned:
        if (sb == 0 || (sb == -1 && sa == INT64_MIN)) return std::nullopt;
        binary(static_cast<uint64_t>(sa % sb));
        break;
      case kRemUnsigned:
        if (b == 0) return std::nullopt;
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
        if (argument == 0 || argument > 64) return std::nullopt;
        top[0] = static_cast<uint64_t>(static_cast<int64_t>(b << (64 - argument)) >> (64 - argument));
        break;
      case kZeroExt:
        if (argument == 0 || argument > 64) return std::nullopt;
        top[0] = b << (64 - argument) >> (64 - argument);
        break;
      case kRef8:
      case kRef16:
      case kRef32:
      case kRef64: {
        const uint64_t size = 1ull << (op - kRef8);
        uint64_t v = 0;
        if (!process.readable(b, size) || !bs_guarded_copy(&v, reinterpret_cast<const void*>(b), size))
          return std::nullopt;
        top[0] = v;
        break;
      }
      case kIfGoto:
        depth--;
        if (b) pc = argument;
        break;
      case kGoto:
        pc = argument;
        break;
      case kConst8:
      case kConst16:
      case kConst32:
      case kConst64:
        stack[depth++] = argument;
        break;
      case kReg: {
        auto v = register_value(static_cast<unsigned>(argument));
        if (!v) return std::nullopt;
        stack[depth++] = *v;
        break;
      }
      case kEnd:
        return b;
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
        if (argument >= depth) return std::nullopt;
        stack[depth] = stack[depth - 1 - argument];
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
        return std::nullopt;
    }
  }
  return std::nullopt;
}

bool holds(const std::vector<uint8_t>& code, guest::Process& process) {
  auto value = evaluate(code, process);
  return !value || *value != 0;
}

}  // namespace backstep::replayer
