// A condition that never holds is asked at every pass of its place; the interpreter takes 40 ns for that,
// most of them to get out of translated code and back. So conditions of the usual kind (registers, memory,
// constants; arithmetic, comparisons, && and ||) become machine code in front of the question, as its filter
// (engine/breaks_hot.cc): only where they hold, or where nobody can say without the memory map, the question
// is asked. What is asked is decided by the interpreter as before, so a filter may say "perhaps" whenever it
// likes; "no" it must only say where the interpreter would.
//
// The words of the bytecode's stack live in registers, the deepest in rcx, where the result is wanted. The
// values that the guest has in these lie in the context. Memory is read only where read_hot() would; the
// fault handler takes a fault as "perhaps". Jumps lead forwards only, as those of && and || do.
#include "replay/condition_code.h"

#include <initializer_list>
#include <iterator>
#include <map>

#include "engine/cache.h"
#include "engine/emit.h"
#include "replay/agent_expression_hot.h"
#include "replay/bytecode.h"

namespace backstep::replayer {
namespace {

class FilterCompiler {
 public:
  explicit FilterCompiler(std::span<const uint8_t> code) : code_(code) {}

  std::vector<uint8_t> run() {
    size_t at = 0;
    while (at < code_.size()) {
      if (!arrive(at)) return {};
      const uint8_t op = code_[at];
      const int operands = operands_of(op);
      if (operands < 0 || at + 1 + static_cast<size_t>(operands) > code_.size()) return {};
      uint64_t operand = 0;
      for (int i = 1; i <= operands; i++) operand = operand << 8 | code_[at + static_cast<size_t>(i)];
      at += 1 + static_cast<size_t>(operands);
      if (!emit(op, operand, at) || out_.size() > engine::kMostFilter) return {};
    }
    if (reachable_ || !jumps_.empty()) return {};
    if (!asks_.empty()) {
      for (size_t site : asks_)
        if (!land(site)) return {};
      out({0xb9, 1, 0, 0, 0});  // mov ecx, 1
    }
    for (size_t site : ends_)
      if (!land(site)) return {};
    if (out_.size() > engine::kMostFilter) return {};
    return std::move(out_);
  }

 private:
  static constexpr int kWords[] = {RCX, RAX, RDX};
  static constexpr unsigned kDepth = std::size(kWords);
  static constexpr uint8_t kWide = 0x48;  // REX.W

  void out(std::initializer_list<int> bytes) {
    for (int b : bytes) out_.push_back(static_cast<uint8_t>(b));
  }
  void out32(uint64_t v) {
    for (int i = 0; i < 4; i++) out_.push_back(static_cast<uint8_t>(v >> 8 * i));
  }
  // A short jump; where it leads is said by land().
  size_t jump(int opcode) {
    out({opcode, 0});
    return out_.size();
  }
  bool land(size_t site) {
    const size_t distance = out_.size() - site;
    out_[site - 1] = static_cast<uint8_t>(distance);
    return distance <= 127;
  }

  int top(unsigned below = 0) const { return kWords[depth_ - 1 - below]; }
  static int both(int reg, int rm) { return 0xc0 | reg << 3 | rm; }
  bool pops(unsigned n) const { return depth_ >= n; }

  // Jumps to this place end here; all of them must have left as much on the stack.
  bool arrive(size_t at) {
    auto [first, last] = jumps_.equal_range(at);
    for (auto j = first; j != last; ++j) {
      if (reachable_ && depth_ != j->second.depth) return false;
      reachable_ = true;
      depth_ = j->second.depth;
      if (!land(j->second.site)) return false;
    }
    jumps_.erase(first, last);
    return reachable_;
  }
  bool jump_to(int opcode, uint64_t target, size_t behind) {
    if (target < behind) return false;
    jumps_.emplace(target, Jump{jump(opcode), depth_});
    return true;
  }

  bool push_register(uint64_t number) {
    static constexpr int kOrder[16] = {RAX, RBX, RCX, RDX, RSI, RDI, RBP, RSP,
                                       R8,  R9,  R10, R11, R12, R13, R14, R15};
    if (number > 15 || depth_ == kDepth) return false;
    const int from = kOrder[number], to = kWords[depth_++];
    uint32_t slot = 0;
    if (from == RAX) slot = BACKSTEP_FIELD(spill_rax);
    if (from == RCX) slot = BACKSTEP_FIELD(spill_rcx);
    if (from == RDX) slot = BACKSTEP_FIELD(spill_rdx);
    if (slot) {
      out({kWide, 0x8b, 0x04 | to << 3, 0x25}), out32(slot);
    } else {
      out({kWide | from >> 3 << 2, 0x89, both(from & 7, to)});
    }
    return true;
  }

  bool push_constant(uint64_t value) {
    if (depth_ == kDepth) return false;
    const int to = kWords[depth_++];
    const bool wide = value >> 32;
    if (wide) out({kWide});
    out({0xb8 | to}), out32(value);
    if (wide) out32(value >> 32);
    return true;
  }

  bool binary(std::initializer_list<int> opcode, bool operand_first = false) {
    if (!pops(2)) return false;
    const int a = top(1), b = top();
    out({kWide}), out(opcode);
    out({operand_first ? both(a, b) : both(b, a)});
    depth_--;
    return true;
  }
  // The flags say it, as setCC knows them; the top becomes 0 or 1.
  bool flag(int set) {
    out({0x0f, set, both(0, top())});
    out({0x0f, 0xb6, both(top(), top())});  // movzx
    return true;
  }
  void test() { out({kWide, 0x85, both(top(), top())}); }

  bool extend(uint64_t bits, bool sign) {
    if (!pops(1) || bits == 0 || bits > 64) return false;
    const int reg = both(top(), top());
    if (bits == 8) {
      out({kWide, 0x0f, sign ? 0xbe : 0xb6, reg});
    } else if (bits == 16) {
      out({kWide, 0x0f, sign ? 0xbf : 0xb7, reg});
    } else if (bits == 32 && sign) {
      out({kWide, 0x63, reg});
    } else if (bits == 32) {
      out({0x89, reg});
    } else if (bits < 64) {
      const int n = static_cast<int>(64 - bits);
      out({kWide, 0xc1, both(4, top()), n});             // shl
      out({kWide, 0xc1, both(sign ? 7 : 5, top()), n});  // sar, shr
    }
    return true;
  }

  // Where nobody but the guest has memory. The areas end on borders of 256 MB behind which nothing is mapped,
  // so that an operand that begins in one and ends behind it faults.
  bool load(uint8_t op) {
    if (!pops(1) || depth_ == kDepth) return false;
    constexpr int kShift = 28;
    constexpr uint64_t kImages = layout::kImagesEnd >> kShift, kFirst = layout::kDataStart >> kShift,
                       kLast = layout::kDataEnd >> kShift;
    static_assert(kImages << kShift == layout::kImagesEnd && kFirst << kShift == layout::kDataStart &&
                  kLast << kShift == layout::kDataEnd && kImages < 128);
    const int address = top(), high = kWords[depth_];
    out({kWide, 0x89, both(address, high)});
    out({kWide, 0xc1, both(5, high), kShift});                     // shr
    out({kWide, 0x83, both(7, high), static_cast<int>(kImages)});  // cmp
    const size_t image = jump(0x72);                               // jb
    out({kWide, 0x81, both(5, high)}), out32(kFirst);              // sub
    out({kWide, 0x81, both(7, high)}), out32(kLast - kFirst);      // cmp
    asks_.push_back(jump(0x73));                                   // jae
    land(image);
    const int operand = address << 3 | address;  // mov reg, [reg]
    if (op == kRef8) out({0x0f, 0xb6, operand});
    if (op == kRef16) out({0x0f, 0xb7, operand});
    if (op == kRef32) out({0x8b, operand});
    if (op == kRef64) out({kWide, 0x8b, operand});
    return true;
  }

  bool copy_of(uint64_t below) {
    if (below >= depth_ || depth_ == kDepth) return false;
    out({kWide, 0x89, both(top(static_cast<unsigned>(below)), kWords[depth_])});
    depth_++;
    return true;
  }

  bool end() {
    if (!pops(1)) return false;
    if (depth_ > 1) out({kWide, 0x89, both(top(), RCX)});
    reachable_ = false;
    ends_.push_back(jump(0xeb));
    return true;
  }

  // `behind`: where the next operation begins.
  bool emit(uint8_t op, uint64_t operand, size_t behind) {
    switch (op) {
      case kReg:
        return push_register(operand);
      case kConst8:
      case kConst16:
      case kConst32:
      case kConst64:
        return push_constant(operand);
      case kAdd:
        return binary({0x01});
      case kSub:
        return binary({0x29});
      case kBitAnd:
        return binary({0x21});
      case kBitOr:
        return binary({0x09});
      case kBitXor:
        return binary({0x31});
      case kMul:
        return binary({0x0f, 0xaf}, true);
      case kEqual:
        return binary({0x39}) && flag(0x94);
      case kLessSigned:
        return binary({0x39}) && flag(0x9c);
      case kLessUnsigned:
        return binary({0x39}) && flag(0x92);
      case kLogNot:
        if (!pops(1)) return false;
        test();
        return flag(0x94);
      case kBitNot:
        if (!pops(1)) return false;
        out({kWide, 0xf7, both(2, top())});
        return true;
      case kExt:
      case kZeroExt:
        return extend(operand, op == kExt);
      case kRef8:
      case kRef16:
      case kRef32:
      case kRef64:
        return load(op);
      case kDup:
        return copy_of(0);
      case kPick:
        return copy_of(operand);
      case kPop:
        if (!pops(1)) return false;
        depth_--;
        return true;
      case kSwap:
        if (!pops(2)) return false;
        out({kWide, 0x87, both(top(), top(1))});
        return true;
      case kIfGoto:
        if (!pops(1)) return false;
        test();
        depth_--;
        return jump_to(0x75, operand, behind);
      case kGoto:
        reachable_ = false;
        return jump_to(0xeb, operand, behind);
      case kEnd:
        return end();
      default:
        return false;
    }
  }

  struct Jump {
    size_t site;
    unsigned depth;
  };

  std::span<const uint8_t> code_;
  std::vector<uint8_t> out_;
  unsigned depth_ = 0;
  bool reachable_ = true;
  std::multimap<uint64_t, Jump> jumps_;  // by where they lead to
  std::vector<size_t> asks_, ends_;
};

}  // namespace

std::vector<uint8_t> filter_of(std::span<const uint8_t> condition) {
  return FilterCompiler(condition).run();
}

}  // namespace backstep::replayer
