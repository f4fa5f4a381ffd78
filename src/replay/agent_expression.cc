// The host's side of conditions: what may be run, and what it says with the memory map at hand.
#include "replay/agent_expression.h"

#include <bit>
#include <cstring>

#include "engine/entry.h"

namespace backstep::replayer {
bool read_mapped(uint64_t address, uint64_t* to, unsigned size, const void* process) {
  return static_cast<const guest::Process*>(process)->readable(address, size) &&
         bs_guarded_load(to, reinterpret_cast<const void*>(address), size);
}

bool float_operation(uint8_t op, uint64_t* a, uint64_t b) {
  const auto x = std::bit_cast<double>(*a), y = std::bit_cast<double>(b);
  auto give = [&](double v) { *a = std::bit_cast<uint64_t>(v); };
  switch (op) {
    case kFloatAdd:
      give(x + y);
      return true;
    case kFloatSub:
      give(x - y);
      return true;
    case kFloatMul:
      give(x * y);
      return true;
    case kFloatDiv:
      give(x / y);
      return true;
    case kFloatNeg:
      give(-x);
      return true;
    case kFloatLess:
      *a = x < y;
      return true;
    case kFloatLessEqual:
      *a = x <= y;
      return true;
    case kFloatEqual:
      *a = x == y;
      return true;
    case kFloatFromSigned:
      give(static_cast<double>(static_cast<int64_t>(*a)));
      return true;
    case kFloatFromUnsigned:
      give(static_cast<double>(*a));
      return true;
    case kFloatToSigned:
      if (!(x > -0x1.0000000000001p63 && x < 0x1p63)) return false;
      *a = static_cast<uint64_t>(static_cast<int64_t>(x));
      return true;
    case kFloatToUnsigned:
      if (!(x > -1 && x < 0x1p64)) return false;
      *a = static_cast<uint64_t>(x);
      return true;
    case kFloatWiden:
      give(std::bit_cast<float>(static_cast<uint32_t>(*a)));
      return true;
    case kFloatNarrow:
      *a = std::bit_cast<uint32_t>(static_cast<float>(x));
      return true;
    case kFloatRef80: {  // a: the mantissa, b: sign and exponent
      long double v = 0;
      std::memcpy(&v, a, 8);
      std::memcpy(reinterpret_cast<char*>(&v) + 8, &b, 2);
      give(static_cast<double>(v));
      return true;
    }
    default:
      return false;
  }
}

Captured capture(const CapturedExpression& expression, const Surroundings& around) {
  uint64_t words[kMaxCapturedWords] = {};
  const uint32_t size = expression.size;
  const bool several = expression.capture == Capture::Words;
  if (several && size > kMaxCapturedWords * 8) return {};
  const Value v =
      evaluate(expression.code.data(), expression.code.size(), around, words, several ? (size + 7) / 8 : 1);
  Captured result{.readable = v.known, .bytes = {}};
  auto give = [&](const void* from, size_t n) {
    result.bytes.assign(static_cast<const uint8_t*>(from), static_cast<const uint8_t*>(from) + n);
  };
  auto unreadable = [&](uint64_t address) {
    result.readable = false;
    give(&address, sizeof address);
  };
  if (!v.known) {
    if (v.why == Unknown::Memory) unreadable(v.value);
    if (v.why == Unknown::Failed) result.bytes = {0};
    return result;
  }
  if (expression.capture == Capture::Scalar) give(&v.value, sizeof v.value);
  if (several) give(words, size);
  if (expression.capture != Capture::Bytes && expression.capture != Capture::Text) return result;
  const bool text = expression.capture == Capture::Text;
  for (uint64_t at = v.value, end = v.value + size; at != end;) {
    const unsigned step = !text && at % 8 == 0 && end - at >= 8 ? 8 : 1;
    uint64_t word = 0;
    if (!around.read(at, &word, step, around.argument)) {
      unreadable(at);
      return result;
    }
    if (text && word == 0) break;
    for (unsigned i = 0; i < step; i++) result.bytes.push_back(static_cast<uint8_t>(word >> 8 * i));
    at += step;
  }
  return result;
}

bool valid(const std::vector<uint8_t>& code) {
  constexpr unsigned kLastRegister = 17;
  for (size_t at = 0; at < code.size();) {
    int n = operands_of(code[at]);
    if (n < 0 || at + static_cast<size_t>(n) >= code.size() + (n == 0)) return false;
    if (code[at] == kReg && static_cast<unsigned>(code[at + 1] << 8 | code[at + 2]) > kLastRegister)
      return false;
    at += 1 + static_cast<size_t>(n);
  }
  return true;
}

}  // namespace backstep::replayer
