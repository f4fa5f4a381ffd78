// The bytecode is gone through with the values that are known without running it: constants, and what is
// calculated from them. Both sides of each branch are taken, so all that may be read is found. An address
// that is not known this way depends on what is in memory.
#include "session/fixed_reads.h"

#include <algorithm>
#include <map>

#include "replay/bytecode.h"

namespace backstep::session {
namespace {

constexpr size_t kMostRounds = 10'000;
constexpr uint64_t kLongDouble = 10;

using KnownWord = std::optional<uint64_t>;
using KnownStack = std::vector<KnownWord>;

class Reads {
 public:
  explicit Reads(std::span<const uint8_t> code) : code_(code) {}

  std::optional<std::vector<ReadRange>> run() {
    flow(0, {});
    for (size_t round = 0; !open_.empty() && round < kMostRounds && fixed_; round++) {
      const size_t at = open_.back();
      open_.pop_back();
      step(at, known_[at]);
    }
    if (!fixed_ || !open_.empty()) return std::nullopt;
    std::sort(ranges_.begin(), ranges_.end(), [](const ReadRange& a, const ReadRange& b) {
      return std::pair(a.address, a.size) < std::pair(b.address, b.size);
    });
    ranges_.erase(std::unique(ranges_.begin(), ranges_.end(),
                              [](const ReadRange& a, const ReadRange& b) {
                                return a.address == b.address && a.size == b.size;
                              }),
                  ranges_.end());
    return ranges_;
  }

 private:
  // Control may come to `at` with this stack; what differs from another way there is not known.
  void flow(size_t at, KnownStack stack) {
    if (at >= code_.size()) return;
    auto [known, fresh] = known_.try_emplace(at, stack);
    if (!fresh) {
      if (known->second.size() != stack.size()) {
        fixed_ = false;
        return;
      }
      bool changed = false;
      for (size_t i = 0; i < stack.size(); i++)
        if (known->second[i] && known->second[i] != stack[i]) known->second[i].reset(), changed = true;
      if (!changed) return;
    }
    open_.push_back(at);
  }

  uint64_t operand(size_t at, unsigned size) {
    uint64_t value = 0;
    for (unsigned i = 0; i < size; i++) value = value << 8 | (at + i < code_.size() ? code_[at + i] : 0);
    return value;
  }
  KnownWord pop(KnownStack& stack) {
    if (stack.empty()) {
      fixed_ = false;
      return std::nullopt;
    }
    const KnownWord top = stack.back();
    stack.pop_back();
    return top;
  }
  void read(const KnownWord& address, uint64_t size) {
    if (!address) {
      fixed_ = false;
    } else {
      ranges_.push_back({*address, size});
    }
  }
  static KnownWord calculated(uint8_t op, const KnownWord& a, const KnownWord& b) {
    using namespace replayer;
    if (!a || !b) return std::nullopt;
    switch (op) {
      case kAdd:
        return *a + *b;
      case kSub:
        return *a - *b;
      case kMul:
        return *a * *b;
      case kBitAnd:
        return *a & *b;
      case kLsh:
        return *b < 64 ? *a << *b : 0;
      default:
        return std::nullopt;
    }
  }

  void step(size_t at, KnownStack s) {
    using namespace replayer;
    const uint8_t op = code_[at];
    unsigned size = 0;
    switch (op) {
      case kConst8:
      case kExt:
      case kZeroExt:
      case kPick:
      case kTextEqual:
        size = 1;
        break;
      case kConst16:
      case kGoto:
      case kIfGoto:
        size = 2;
        break;
      case kConst32:
        size = 4;
        break;
      case kConst64:
        size = 8;
        break;
      default:
        break;
    }
    const uint64_t n = operand(at + 1, size);
    const size_t next = at + 1 + size;
    switch (op) {
      case kConst8:
      case kConst16:
      case kConst32:
      case kConst64:
        s.push_back(n);
        break;
      case kLogNot:
      case kBitNot:
      case kFloatNeg:
      case kFloatFromSigned:
      case kFloatFromUnsigned:
      case kFloatToSigned:
      case kFloatToUnsigned:
      case kFloatWiden:
      case kFloatNarrow:
        pop(s), s.push_back(std::nullopt);
        break;
      case kExt:
      case kZeroExt: {
        const KnownWord a = pop(s);
        s.push_back(a && n == 64 ? a : std::nullopt);
        break;
      }
      case kRef8:
      case kRef16:
      case kRef32:
      case kRef64:
        read(pop(s), 1ull << (op - kRef8)), s.push_back(std::nullopt);
        break;
      case kFloatRef80:
        read(pop(s), kLongDouble), s.push_back(std::nullopt);
        break;
      case kTextEqual:
        for (uint64_t i = 0; i < (n + 7) / 8; i++) pop(s);
        read(pop(s), n + 1), s.push_back(std::nullopt);
        break;
      case kIfGoto:
        pop(s);
        flow(n, s);
        break;
      case kGoto:
        return flow(n, s);
      case kEnd:
      case kFail:
        return;
      case kDup: {
        const KnownWord a = pop(s);
        s.push_back(a), s.push_back(a);
        break;
      }
      case kPop:
        pop(s);
        break;
      case kSwap: {
        const KnownWord b = pop(s), a = pop(s);
        s.push_back(b), s.push_back(a);
        break;
      }
      case kRot: {
        const KnownWord b = pop(s), a = pop(s), c = pop(s);  // c a b -> b c a
        s.push_back(b), s.push_back(c), s.push_back(a);
        break;
      }
      case kPick:
        if (n >= s.size()) {
          fixed_ = false;
          return;
        }
        s.push_back(s[s.size() - 1 - n]);
        break;
      default: {
        const bool binary = (op >= kAdd && op <= kRshUnsigned) || (op >= kBitAnd && op <= kBitXor) ||
                            (op >= kEqual && op <= kLessUnsigned) || (op >= kFloatAdd && op <= kFloatDiv) ||
                            (op >= kFloatLess && op <= kFloatEqual);
        if (!binary) {  // registers, the thread's memory, the time, texts of any length
          fixed_ = false;
          return;
        }
        const KnownWord b = pop(s), a = pop(s);
        s.push_back(calculated(op, a, b));
      }
    }
    flow(next, std::move(s));
  }

  std::span<const uint8_t> code_;
  std::map<size_t, KnownStack> known_;
  std::vector<size_t> open_;
  std::vector<ReadRange> ranges_;
  bool fixed_ = true;
};

}  // namespace

std::optional<std::vector<ReadRange>> fixed_reads(std::span<const uint8_t> code) {
  return Reads(code).run();
}

}  // namespace backstep::session
