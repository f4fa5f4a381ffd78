// What an instruction does to data, byte by byte.
//
// Zydis says which operands an instruction reads and writes; that is enough for what is *computed*: every
// byte of the result depends on every input. For instructions that only move bytes, that would mix up what
// has nothing to do with each other (a struct copied by a vector register), so those are described here:
// moves, pushes, string instructions, extensions, byte swaps, shifts by whole bytes, and the vector
// instructions with which compilers and the C library put values together. An instruction that is not in
// these lists is computed, which is never wrong, only less precise.
#include "session/flow_effects.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "engine/context.h"
#include "guest/operand_address.h"

namespace backstep::session {
namespace {

using replayer::StepRecord;

constexpr uint64_t kVectorBytes = 64;

struct Bytes {
  Loc first;
  uint64_t count = 0;
};

ByteSource copy_of(const Loc& from) {
  return {ByteSource::Copy, from, 0};
}

ByteSource constant(uint8_t value) {
  return {ByteSource::Constant, {}, value};
}

// The bytes of a register that data can be in; count 0: none that is followed.
Bytes bytes_of(ZydisRegister reg) {
  const auto id = static_cast<uint64_t>(ZydisRegisterGetId(reg));
  const Loc general{Loc::General, id * 64}, vector{Loc::Vector, id * 64};
  switch (ZydisRegisterGetClass(reg)) {
    case ZYDIS_REGCLASS_GPR8: {
      const bool high = reg >= ZYDIS_REGISTER_AH && reg <= ZYDIS_REGISTER_BH;
      if (high) return {{Loc::General, static_cast<uint64_t>(reg - ZYDIS_REGISTER_AH) * 64 + 1}, 1};
      // Zydis counts the high ones in between.
      const uint64_t number = reg >= ZYDIS_REGISTER_SPL ? static_cast<uint64_t>(reg - ZYDIS_REGISTER_SPL) + 4
                                                        : static_cast<uint64_t>(reg - ZYDIS_REGISTER_AL);
      return {{Loc::General, number * 64}, 1};
    }
    case ZYDIS_REGCLASS_GPR16:
      return {general, 2};
    case ZYDIS_REGCLASS_GPR32:
      return {general, 4};
    case ZYDIS_REGCLASS_GPR64:
      return {general, 8};
    case ZYDIS_REGCLASS_XMM:
      return {vector, 16};
    case ZYDIS_REGCLASS_YMM:
      return {vector, 32};
    case ZYDIS_REGCLASS_ZMM:
      return {vector, 64};
    case ZYDIS_REGCLASS_MMX:
      return {{Loc::Other, id * 64}, 8};
    case ZYDIS_REGCLASS_X87:
      return {{Loc::Other, id * 64}, 10};
    case ZYDIS_REGCLASS_MASK:
      return {{Loc::Other, (16 + id) * 64}, 8};
    default:
      return {};
  }
}

// Everything that is needed while one instruction is described.
class Describer {
 public:
  Describer(const DecodedStep& decoded, const StepRecord& step) : d_(decoded), in_(decoded.in), step_(step) {}

  Effect run() {
    if (!d_.valid) return {};
    if (no_effect()) return {};
    note_operands();
    describe_moves();
    return std::move(effect_);
  }

 private:
  static bool reads(const ZydisDecodedOperand& o) { return o.actions & ZYDIS_OPERAND_ACTION_MASK_READ; }
  static bool writes(const ZydisDecodedOperand& o) { return o.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE; }
  bool is_vex() const { return in_.encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY; }
  bool masked() const {
    return in_.avx.mask.reg != ZYDIS_REGISTER_NONE && in_.avx.mask.reg != ZYDIS_REGISTER_K0;
  }

  // A repeated instruction whose count is 0, a move whose condition does not hold, a nop.
  bool no_effect() const {
    if (guest::is_repeated(in_) && in_.meta.category == ZYDIS_CATEGORY_STRINGOP) {
      const uint64_t count = in_.address_width == 32 ? step_.gpr[RCX] & 0xffff'ffff : step_.gpr[RCX];
      return count == 0;
    }
    return in_.meta.category == ZYDIS_CATEGORY_NOP || in_.meta.category == ZYDIS_CATEGORY_WIDENOP ||
           in_.mnemonic == ZYDIS_MNEMONIC_NOP || in_.mnemonic == ZYDIS_MNEMONIC_ENDBR64;
  }

  Bytes place_of(const ZydisDecodedOperand& o) const {
    if (o.type == ZYDIS_OPERAND_TYPE_REGISTER) return bytes_of(o.reg.value);
    if (o.type != ZYDIS_OPERAND_TYPE_MEMORY || o.mem.type == ZYDIS_MEMOP_TYPE_AGEN ||
        o.mem.type == ZYDIS_MEMOP_TYPE_VSIB)
      return {};
    const guest::OperandState state{step_.gpr, step_.at.pc, step_.rflags, step_.fs_base, step_.gs_base};
    const auto m = guest::operand_memory(in_, d_.operands, o, state);
    Loc first{Loc::Memory, m.start};
    // The address is computed behind the pop.
    const bool explicit_one = o.visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT;
    if (in_.mnemonic == ZYDIS_MNEMONIC_POP && explicit_one && o.mem.base == ZYDIS_REGISTER_RSP)
      first.where += m.length;
    return {first, m.length};
  }

  uint64_t immediate(const ZydisDecodedOperand& o) const {
    return o.imm.is_signed ? static_cast<uint64_t>(o.imm.value.s) : o.imm.value.u;
  }

  // Of an operand that is moved: its i-th byte.
  ByteSource byte(const ZydisDecodedOperand& o, uint64_t i) const {
    if (o.type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
      return constant(i < 8 ? static_cast<uint8_t>(immediate(o) >> (8 * i)) : 0);
    return copy_of(place_of(o).first + i);
  }

  void note_address(const ZydisDecodedOperand& o) {
    for (ZydisRegister r : {o.mem.base, o.mem.index}) {
      const Bytes b = bytes_of(r);
      if (b.count && r != ZYDIS_REGISTER_RSP) effect_.inputs.push_back({b.first, b.count, true});
    }
  }

  void note_operands() {
    const bool pushes = in_.meta.category == ZYDIS_CATEGORY_PUSH || in_.meta.category == ZYDIS_CATEGORY_POP ||
                        in_.meta.category == ZYDIS_CATEGORY_CALL || in_.meta.category == ZYDIS_CATEGORY_RET;
    for (unsigned i = 0; i < in_.operand_count; i++) {
      const ZydisDecodedOperand& o = d_.operands[i];
      if (o.type == ZYDIS_OPERAND_TYPE_IMMEDIATE) effect_.constants.push_back(immediate(o));
      if (o.type == ZYDIS_OPERAND_TYPE_MEMORY) note_address(o);
      const Bytes b = place_of(o);
      if (b.count == 0) continue;
      const bool stack = pushes && o.type == ZYDIS_OPERAND_TYPE_REGISTER &&
                         o.visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN && o.reg.value == ZYDIS_REGISTER_RSP;
      if (writes(o)) {
        Written w{b.first, b.count};
        if (o.type == ZYDIS_OPERAND_TYPE_REGISTER) widen(w);
        effect_.written.push_back(std::move(w));
      }
      if (reads(o) && !stack) effect_.inputs.push_back({b.first, b.count, false});
    }
    if (in_.mnemonic == ZYDIS_MNEMONIC_LEA) {
      // Here the registers of the address are what is computed with.
      for (FlowInput& i : effect_.inputs) i.address = false;
      const auto& m = d_.operands[1].mem;
      if (m.disp.has_displacement) effect_.constants.push_back(static_cast<uint64_t>(m.disp.value));
    }
    if (!in_.cpu_flags) return;
    const ZydisAccessedFlagsMask changed =
        in_.cpu_flags->modified | in_.cpu_flags->set_0 | in_.cpu_flags->set_1 | in_.cpu_flags->undefined;
    if (changed && !shifts_by_nothing()) {
      if (changed & ZYDIS_CPUFLAG_CF) effect_.written.push_back({{Loc::Flags, 0}, 1});
      if (changed & ~(ZYDIS_CPUFLAG_CF | ZYDIS_CPUFLAG_DF | ZYDIS_CPUFLAG_IF))
        effect_.written.push_back({{Loc::Flags, 1}, 1});
    }
    // Conditional jumps and moves are control: what they move does not come from the flags.
    const auto category = in_.meta.category;
    if (category == ZYDIS_CATEGORY_CMOV || category == ZYDIS_CATEGORY_COND_BR) return;
    constexpr ZydisAccessedFlagsMask kData =
        ZYDIS_CPUFLAG_PF | ZYDIS_CPUFLAG_AF | ZYDIS_CPUFLAG_ZF | ZYDIS_CPUFLAG_SF | ZYDIS_CPUFLAG_OF;
    if (in_.cpu_flags->tested & ZYDIS_CPUFLAG_CF) effect_.inputs.push_back({{Loc::Flags, 0}, 1, false});
    if (in_.cpu_flags->tested & kData) effect_.inputs.push_back({{Loc::Flags, 1}, 1, false});
  }

  bool shifts_by_nothing() const {
    const auto category = in_.meta.category;
    if (category != ZYDIS_CATEGORY_SHIFT && category != ZYDIS_CATEGORY_ROTATE) return false;
    const ZydisDecodedOperand& o =
        d_.operands[in_.mnemonic == ZYDIS_MNEMONIC_SHLD || in_.mnemonic == ZYDIS_MNEMONIC_SHRD ? 2 : 1];
    const uint64_t mask = d_.operands[0].size == 64 ? 63 : 31;
    if (o.type == ZYDIS_OPERAND_TYPE_IMMEDIATE) return (immediate(o) & mask) == 0;
    return o.type == ZYDIS_OPERAND_TYPE_REGISTER && o.reg.value == ZYDIS_REGISTER_CL &&
           (step_.gpr[RCX] & mask) == 0;
  }

  // What a write to a part of a register does to the rest of it.
  void widen(Written& w) const {
    uint64_t whole = w.count;
    if (w.first.kind == Loc::General && w.count == 4) whole = 8;
    if (w.first.kind == Loc::Vector && is_vex()) whole = kVectorBytes;
    if (whole == w.count) return;
    w.sources.assign(w.count, ByteSource{});
    w.sources.resize(whole, {ByteSource::Extension, w.first + (w.count - 1), 0});
    w.count = whole;
  }

  // The first operand that is written gets these bytes; what is behind them is an extension.
  void set(size_t index, std::vector<ByteSource> sources) {
    if (index >= effect_.written.size()) return;
    Written& w = effect_.written[index];
    if (w.sources.empty()) w.sources.assign(w.count, ByteSource{});
    for (size_t i = 0; i < sources.size() && i < w.sources.size(); i++) w.sources[i] = sources[i];
  }

  std::vector<ByteSource> take(const ZydisDecodedOperand& o, uint64_t from, uint64_t count) const {
    std::vector<ByteSource> list;
    for (uint64_t i = 0; i < count; i++) list.push_back(byte(o, from + i));
    return list;
  }
  static void append(std::vector<ByteSource>& list, const std::vector<ByteSource>& more) {
    list.insert(list.end(), more.begin(), more.end());
  }
  static void pad(std::vector<ByteSource>& list, size_t count) {
    const Loc last = list.empty() ? Loc{} : list.back().from;
    if (list.size() < count) list.resize(count, {ByteSource::Extension, last, 0});
  }

  uint64_t size_of(const ZydisDecodedOperand& o) const { return o.size / 8; }
  bool is_memory(unsigned i) const { return d_.operands[i].type == ZYDIS_OPERAND_TYPE_MEMORY; }
  bool same_registers(unsigned a, unsigned b) const {
    return d_.operands[a].type == ZYDIS_OPERAND_TYPE_REGISTER &&
           d_.operands[b].type == ZYDIS_OPERAND_TYPE_REGISTER &&
           d_.operands[a].reg.value == d_.operands[b].reg.value;
  }

  void describe_moves() {
    if (masked()) return;
    if (describe_general() || describe_vector_move()) return;
    describe_shuffle();
  }

  void move(const ZydisDecodedOperand& to, const ZydisDecodedOperand& from) {
    const uint64_t n = std::min(size_of(to), size_of(from));
    auto list = take(from, 0, from.type == ZYDIS_OPERAND_TYPE_IMMEDIATE ? size_of(to) : n);
    pad(list, size_of(to));
    set(0, std::move(list));
  }

  bool condition_holds() const;
  bool describe_general();
  bool describe_arithmetic();
  bool describe_strings();
  bool describe_vector_move();
  void describe_shuffle();
  void unpack(unsigned element, bool high);
  void set_constant(uint8_t value) {
    if (effect_.written.empty()) return;
    set(0, std::vector<ByteSource>(size_of(d_.operands[0]), constant(value)));
  }

  const DecodedStep& d_;
  const ZydisDecodedInstruction& in_;
  const StepRecord& step_;
  Effect effect_;
};

bool Describer::condition_holds() const {
  const uint64_t f = step_.rflags;
  const bool cf = f & 1, pf = f & 4, zf = f & 0x40, sf = f & 0x80, of = f & 0x800;
  switch (in_.mnemonic) {
    case ZYDIS_MNEMONIC_CMOVB:
      return cf;
    case ZYDIS_MNEMONIC_CMOVNB:
      return !cf;
    case ZYDIS_MNEMONIC_CMOVBE:
      return cf || zf;
    case ZYDIS_MNEMONIC_CMOVNBE:
      return !cf && !zf;
    case ZYDIS_MNEMONIC_CMOVZ:
      return zf;
    case ZYDIS_MNEMONIC_CMOVNZ:
      return !zf;
    case ZYDIS_MNEMONIC_CMOVS:
      return sf;
    case ZYDIS_MNEMONIC_CMOVNS:
      return !sf;
    case ZYDIS_MNEMONIC_CMOVP:
      return pf;
    case ZYDIS_MNEMONIC_CMOVNP:
      return !pf;
    case ZYDIS_MNEMONIC_CMOVO:
      return of;
    case ZYDIS_MNEMONIC_CMOVNO:
      return !of;
    case ZYDIS_MNEMONIC_CMOVL:
      return sf != of;
    case ZYDIS_MNEMONIC_CMOVNL:
      return sf == of;
    case ZYDIS_MNEMONIC_CMOVLE:
      return zf || sf != of;
    default:  // CMOVNLE
      return !zf && sf == of;
  }
}

bool Describer::describe_general() {
  const ZydisDecodedOperand* o = d_.operands;
  if (in_.meta.category == ZYDIS_CATEGORY_CMOV && in_.mnemonic >= ZYDIS_MNEMONIC_CMOVB &&
      in_.mnemonic <= ZYDIS_MNEMONIC_CMOVZ) {
    // Without its condition it writes what was there.
    move(o[0], condition_holds() ? o[1] : o[0]);
    return true;
  }
  switch (in_.mnemonic) {
    case ZYDIS_MNEMONIC_MOV:
    case ZYDIS_MNEMONIC_MOVZX:
    case ZYDIS_MNEMONIC_MOVSX:
    case ZYDIS_MNEMONIC_MOVSXD:
    case ZYDIS_MNEMONIC_MOVNTI:
      move(o[0], o[1]);
      return true;
    case ZYDIS_MNEMONIC_CBW:
    case ZYDIS_MNEMONIC_CWDE:
    case ZYDIS_MNEMONIC_CDQE: {
      const uint64_t from = in_.mnemonic == ZYDIS_MNEMONIC_CBW    ? 1
                            : in_.mnemonic == ZYDIS_MNEMONIC_CWDE ? 2
                                                                  : 4;
      std::vector<ByteSource> list;
      for (uint64_t i = 0; i < from; i++) list.push_back(copy_of({Loc::General, RAX * 64 + i}));
      pad(list, 8);
      set(0, std::move(list));
      return true;
    }
    case ZYDIS_MNEMONIC_CWD:
    case ZYDIS_MNEMONIC_CDQ:
    case ZYDIS_MNEMONIC_CQO: {
      const uint64_t n = in_.mnemonic == ZYDIS_MNEMONIC_CWD ? 2 : in_.mnemonic == ZYDIS_MNEMONIC_CDQ ? 4 : 8;
      set(0, std::vector<ByteSource>(8, {ByteSource::Extension, {Loc::General, RAX * 64 + n - 1}, 0}));
      return true;
    }
    case ZYDIS_MNEMONIC_PUSH:
    case ZYDIS_MNEMONIC_POP:
    case ZYDIS_MNEMONIC_LEAVE:
    case ZYDIS_MNEMONIC_CALL:
      for (unsigned w = 0; w < effect_.written.size(); w++) {
        Written& written = effect_.written[w];
        if (written.first.kind == Loc::General && written.first.number() == RSP &&
            !(in_.mnemonic == ZYDIS_MNEMONIC_POP && w == 0 &&
              bytes_of(o[0].reg.value).first == written.first))
          continue;
        std::vector<ByteSource> list;
        for (uint64_t i = 0; i < written.count; i++) {
          if (in_.mnemonic == ZYDIS_MNEMONIC_CALL)
            list.push_back(constant(static_cast<uint8_t>((step_.at.pc + in_.length) >> (8 * i))));
          else if (in_.mnemonic == ZYDIS_MNEMONIC_PUSH)
            list.push_back(byte(o[0], i));
          else
            list.push_back(
                copy_of({Loc::Memory, step_.gpr[in_.mnemonic == ZYDIS_MNEMONIC_LEAVE ? RBP : RSP] + i}));
        }
        if (in_.mnemonic == ZYDIS_MNEMONIC_CALL && written.first.kind != Loc::Memory) continue;
        set(w, std::move(list));
      }
      return true;
    case ZYDIS_MNEMONIC_XCHG:
      if (effect_.written.size() < 2) return true;  // with itself
      set(0, take(o[1], 0, size_of(o[1])));
      set(1, take(o[0], 0, size_of(o[0])));
      return true;
    case ZYDIS_MNEMONIC_XADD:
      if (effect_.written.size() >= 2) set(1, take(o[0], 0, size_of(o[0])));
      return true;
    case ZYDIS_MNEMONIC_BSWAP:
    case ZYDIS_MNEMONIC_MOVBE: {
      auto list = take(o[in_.mnemonic == ZYDIS_MNEMONIC_BSWAP ? 0 : 1], 0, size_of(o[0]));
      std::reverse(list.begin(), list.end());
      set(0, std::move(list));
      return true;
    }
    case ZYDIS_MNEMONIC_LEA: {
      const auto& m = o[1].mem;
      if (m.base == ZYDIS_REGISTER_RIP) {
        const uint64_t address = step_.at.pc + in_.length + static_cast<uint64_t>(m.disp.value);
        std::vector<ByteSource> list;
        for (uint64_t i = 0; i < size_of(o[0]); i++)
          list.push_back(constant(static_cast<uint8_t>(address >> (8 * i))));
        set(0, std::move(list));
      } else if (m.index == ZYDIS_REGISTER_NONE && m.disp.value == 0 && in_.address_width == 64) {
        const Bytes b = bytes_of(m.base);
        std::vector<ByteSource> list;
        for (uint64_t i = 0; i < size_of(o[0]) && i < b.count; i++) list.push_back(copy_of(b.first + i));
        set(0, std::move(list));
      }
      return true;
    }
    default:
      return describe_arithmetic() || describe_strings();
  }
}

// Arithmetic that leaves bytes as they are, or makes constants.
bool Describer::describe_arithmetic() {
  const ZydisDecodedOperand* o = d_.operands;
  const uint64_t n = size_of(o[0]);
  switch (in_.mnemonic) {
    case ZYDIS_MNEMONIC_XOR:
    case ZYDIS_MNEMONIC_SUB:
      if (!same_registers(0, 1)) return false;
      set_constant(0);
      return true;
    case ZYDIS_MNEMONIC_AND:
    case ZYDIS_MNEMONIC_OR: {
      if (same_registers(0, 1)) {
        set(0, take(o[0], 0, n));
        return true;
      }
      if (o[1].type != ZYDIS_OPERAND_TYPE_IMMEDIATE) return false;
      const uint64_t mask = immediate(o[1]);
      const bool is_and = in_.mnemonic == ZYDIS_MNEMONIC_AND;
      std::vector<ByteSource> list;
      for (uint64_t i = 0; i < n; i++) {
        const auto bits = static_cast<uint8_t>(mask >> (8 * i));
        if (bits == (is_and ? 0xff : 0))
          list.push_back(byte(o[0], i));
        else if (bits == (is_and ? 0 : 0xff))
          list.push_back(constant(bits));
        else
          list.push_back({});
      }
      set(0, std::move(list));
      return true;
    }
    case ZYDIS_MNEMONIC_SHL:
    case ZYDIS_MNEMONIC_SHR:
    case ZYDIS_MNEMONIC_ROL:
    case ZYDIS_MNEMONIC_ROR: {
      if (o[1].type != ZYDIS_OPERAND_TYPE_IMMEDIATE) return false;
      const uint64_t bits = immediate(o[1]) & (n == 8 ? 63 : 31);
      if (bits % 8) return false;
      const bool left = in_.mnemonic == ZYDIS_MNEMONIC_SHL || in_.mnemonic == ZYDIS_MNEMONIC_ROL;
      const bool rotates = in_.mnemonic == ZYDIS_MNEMONIC_ROL || in_.mnemonic == ZYDIS_MNEMONIC_ROR;
      const uint64_t by = bits / 8;
      std::vector<ByteSource> list;
      for (uint64_t i = 0; i < n; i++) {
        const uint64_t from = left ? i - by : i + by;
        if (rotates)
          list.push_back(byte(o[0], from % n));
        else
          list.push_back(from < n ? byte(o[0], from) : constant(0));
      }
      set(0, std::move(list));
      return true;
    }
    case ZYDIS_MNEMONIC_PXOR:
    case ZYDIS_MNEMONIC_XORPS:
    case ZYDIS_MNEMONIC_XORPD:
      if (!same_registers(0, 1)) return false;
      set_constant(0);
      return true;
    case ZYDIS_MNEMONIC_VPXOR:
    case ZYDIS_MNEMONIC_VPXORD:
    case ZYDIS_MNEMONIC_VPXORQ:
    case ZYDIS_MNEMONIC_VXORPS:
    case ZYDIS_MNEMONIC_VXORPD:
      if (!same_registers(1, 2)) return false;
      set_constant(0);
      return true;
    case ZYDIS_MNEMONIC_PCMPEQB:
    case ZYDIS_MNEMONIC_PCMPEQW:
    case ZYDIS_MNEMONIC_PCMPEQD:
      if (!same_registers(0, 1)) return false;
      set_constant(0xff);
      return true;
    default:
      return false;
  }
}

bool Describer::describe_strings() {
  constexpr uint64_t kDirection = 0x400;
  const bool movs = in_.mnemonic == ZYDIS_MNEMONIC_MOVSB || in_.mnemonic == ZYDIS_MNEMONIC_MOVSW ||
                    (in_.mnemonic == ZYDIS_MNEMONIC_MOVSD && in_.meta.category == ZYDIS_CATEGORY_STRINGOP) ||
                    in_.mnemonic == ZYDIS_MNEMONIC_MOVSQ;
  const bool stos = in_.mnemonic == ZYDIS_MNEMONIC_STOSB || in_.mnemonic == ZYDIS_MNEMONIC_STOSW ||
                    in_.mnemonic == ZYDIS_MNEMONIC_STOSD || in_.mnemonic == ZYDIS_MNEMONIC_STOSQ;
  const bool lods = in_.mnemonic == ZYDIS_MNEMONIC_LODSB || in_.mnemonic == ZYDIS_MNEMONIC_LODSW ||
                    in_.mnemonic == ZYDIS_MNEMONIC_LODSD || in_.mnemonic == ZYDIS_MNEMONIC_LODSQ;
  if (!movs && !stos && !lods) return false;
  const Bytes from = place_of(d_.operands[1]);
  if (lods) {
    if (!guest::is_repeated(in_)) set(0, take(d_.operands[1], 0, from.count));
    return true;
  }
  if (effect_.written.empty() || effect_.written[0].first.kind != Loc::Memory) return true;
  Written& to = effect_.written[0];
  if (movs) {
    // What was copied earlier in the same run may be read again (dst in front of src by less than its
    // length): then the bytes repeat with the distance of the two.
    to.sources = {copy_of(from.first)};
    const uint64_t distance = to.first.where - from.first.where;
    if (!(step_.rflags & kDirection) && distance > 0 && distance < to.count) to.period = distance;
    return true;
  }
  to.sources = take(d_.operands[1], 0, size_of(d_.operands[1]));
  to.period = size_of(d_.operands[1]);
  return true;
}

bool Describer::describe_vector_move() {
  const ZydisDecodedOperand* o = d_.operands;
  std::vector<ByteSource> list;
  switch (in_.mnemonic) {
    case ZYDIS_MNEMONIC_MOVAPS:
    case ZYDIS_MNEMONIC_MOVAPD:
    case ZYDIS_MNEMONIC_MOVUPS:
    case ZYDIS_MNEMONIC_MOVUPD:
    case ZYDIS_MNEMONIC_MOVDQA:
    case ZYDIS_MNEMONIC_MOVDQU:
    case ZYDIS_MNEMONIC_LDDQU:
    case ZYDIS_MNEMONIC_MOVNTDQ:
    case ZYDIS_MNEMONIC_MOVNTDQA:
    case ZYDIS_MNEMONIC_MOVNTPS:
    case ZYDIS_MNEMONIC_MOVNTPD:
    case ZYDIS_MNEMONIC_MOVNTQ:
    case ZYDIS_MNEMONIC_VMOVAPS:
    case ZYDIS_MNEMONIC_VMOVAPD:
    case ZYDIS_MNEMONIC_VMOVUPS:
    case ZYDIS_MNEMONIC_VMOVUPD:
    case ZYDIS_MNEMONIC_VMOVDQA:
    case ZYDIS_MNEMONIC_VMOVDQU:
    case ZYDIS_MNEMONIC_VMOVDQA32:
    case ZYDIS_MNEMONIC_VMOVDQA64:
    case ZYDIS_MNEMONIC_VMOVDQU8:
    case ZYDIS_MNEMONIC_VMOVDQU16:
    case ZYDIS_MNEMONIC_VMOVDQU32:
    case ZYDIS_MNEMONIC_VMOVDQU64:
    case ZYDIS_MNEMONIC_VLDDQU:
    case ZYDIS_MNEMONIC_VMOVNTDQ:
    case ZYDIS_MNEMONIC_VMOVNTPS:
    case ZYDIS_MNEMONIC_VMOVNTPD:
    case ZYDIS_MNEMONIC_VMOVNTDQA:
    case ZYDIS_MNEMONIC_MOVQ:
    case ZYDIS_MNEMONIC_MOVD:
    case ZYDIS_MNEMONIC_VMOVQ:
    case ZYDIS_MNEMONIC_VMOVD: {
      const bool quad = in_.mnemonic == ZYDIS_MNEMONIC_MOVQ || in_.mnemonic == ZYDIS_MNEMONIC_VMOVQ;
      const bool dword = in_.mnemonic == ZYDIS_MNEMONIC_MOVD || in_.mnemonic == ZYDIS_MNEMONIC_VMOVD;
      const uint64_t most = quad ? 8 : dword ? 4 : kVectorBytes;
      list = take(o[1], 0, std::min({size_of(o[0]), size_of(o[1]), most}));
      pad(list, size_of(o[0]));
      set(0, std::move(list));
      return true;
    }
    case ZYDIS_MNEMONIC_MOVSS:
    case ZYDIS_MNEMONIC_MOVSD:
    case ZYDIS_MNEMONIC_VMOVSS:
    case ZYDIS_MNEMONIC_VMOVSD: {
      const bool single = in_.mnemonic == ZYDIS_MNEMONIC_MOVSS || in_.mnemonic == ZYDIS_MNEMONIC_VMOVSS;
      const uint64_t n = single ? 4 : 8;
      if (is_memory(0)) {
        set(0, take(o[1], 0, n));
      } else if (is_memory(1)) {
        list = take(o[1], 0, n);
        pad(list, 16);
        if (effect_.written[0].count < 16) effect_.written[0].count = 16;
        set(0, std::move(list));
      } else if (is_vex()) {
        list = take(o[2], 0, n);
        append(list, take(o[1], n, 16 - n));
        set(0, std::move(list));
      } else {
        effect_.written[0].count = n;
        effect_.written[0].sources.clear();
        set(0, take(o[1], 0, n));
      }
      return true;
    }
    case ZYDIS_MNEMONIC_MOVLPS:
    case ZYDIS_MNEMONIC_MOVLPD:
    case ZYDIS_MNEMONIC_MOVHPS:
    case ZYDIS_MNEMONIC_MOVHPD:
    case ZYDIS_MNEMONIC_MOVHLPS:
    case ZYDIS_MNEMONIC_MOVLHPS: {
      const bool to_high = in_.mnemonic == ZYDIS_MNEMONIC_MOVHPS || in_.mnemonic == ZYDIS_MNEMONIC_MOVHPD ||
                           in_.mnemonic == ZYDIS_MNEMONIC_MOVLHPS;
      if (is_memory(0)) {
        set(0, take(o[1], to_high ? 8 : 0, 8));
        return true;
      }
      Written& w = effect_.written[0];
      w.first = bytes_of(o[0].reg.value).first + (to_high ? 8 : 0);
      w.count = 8;
      w.sources.clear();
      set(0, take(o[1], in_.mnemonic == ZYDIS_MNEMONIC_MOVHLPS ? 8 : 0, 8));
      return true;
    }
    case ZYDIS_MNEMONIC_VMOVLPS:
    case ZYDIS_MNEMONIC_VMOVLPD:
    case ZYDIS_MNEMONIC_VMOVHPS:
    case ZYDIS_MNEMONIC_VMOVHPD:
    case ZYDIS_MNEMONIC_VMOVHLPS:
    case ZYDIS_MNEMONIC_VMOVLHPS: {
      const bool high = in_.mnemonic == ZYDIS_MNEMONIC_VMOVHPS || in_.mnemonic == ZYDIS_MNEMONIC_VMOVHPD;
      if (is_memory(0)) {
        list = take(o[1], high ? 8 : 0, 8);
      } else if (in_.mnemonic == ZYDIS_MNEMONIC_VMOVHLPS) {
        list = take(o[2], 8, 8);
        append(list, take(o[1], 8, 8));
      } else if (high || in_.mnemonic == ZYDIS_MNEMONIC_VMOVLHPS) {
        list = take(o[1], 0, 8);
        append(list, take(o[2], 0, 8));
      } else {
        list = take(o[2], 0, 8);
        append(list, take(o[1], 8, 8));
      }
      set(0, std::move(list));
      return true;
    }
    default:
      return false;
  }
}

// Elements of two sources, one of each in turn; in each 16 bytes by themselves.
void Describer::unpack(unsigned element, bool high) {
  const bool three = is_vex();
  const ZydisDecodedOperand &a = d_.operands[three ? 1 : 0], &b = d_.operands[three ? 2 : 1];
  std::vector<ByteSource> list;
  for (uint64_t lane = 0; lane < size_of(d_.operands[0]); lane += 16)
    for (uint64_t i = 0; i < 8 / element; i++) {
      const uint64_t at = lane + (high ? 8 : 0) + i * element;
      append(list, take(a, at, element));
      append(list, take(b, at, element));
    }
  set(0, std::move(list));
}

void Describer::describe_shuffle() {
  const ZydisDecodedOperand* o = d_.operands;
  std::vector<ByteSource> list;
  const uint64_t n = size_of(o[0]);
  switch (in_.mnemonic) {
    case ZYDIS_MNEMONIC_PUNPCKLBW:
    case ZYDIS_MNEMONIC_VPUNPCKLBW:
      return unpack(1, false);
    case ZYDIS_MNEMONIC_PUNPCKLWD:
    case ZYDIS_MNEMONIC_VPUNPCKLWD:
      return unpack(2, false);
    case ZYDIS_MNEMONIC_PUNPCKLDQ:
    case ZYDIS_MNEMONIC_VPUNPCKLDQ:
    case ZYDIS_MNEMONIC_UNPCKLPS:
    case ZYDIS_MNEMONIC_VUNPCKLPS:
      return unpack(4, false);
    case ZYDIS_MNEMONIC_PUNPCKLQDQ:
    case ZYDIS_MNEMONIC_VPUNPCKLQDQ:
    case ZYDIS_MNEMONIC_UNPCKLPD:
    case ZYDIS_MNEMONIC_VUNPCKLPD:
      return unpack(8, false);
    case ZYDIS_MNEMONIC_PUNPCKHBW:
    case ZYDIS_MNEMONIC_VPUNPCKHBW:
      return unpack(1, true);
    case ZYDIS_MNEMONIC_PUNPCKHWD:
    case ZYDIS_MNEMONIC_VPUNPCKHWD:
      return unpack(2, true);
    case ZYDIS_MNEMONIC_PUNPCKHDQ:
    case ZYDIS_MNEMONIC_VPUNPCKHDQ:
    case ZYDIS_MNEMONIC_UNPCKHPS:
    case ZYDIS_MNEMONIC_VUNPCKHPS:
      return unpack(4, true);
    case ZYDIS_MNEMONIC_PUNPCKHQDQ:
    case ZYDIS_MNEMONIC_VPUNPCKHQDQ:
    case ZYDIS_MNEMONIC_UNPCKHPD:
    case ZYDIS_MNEMONIC_VUNPCKHPD:
      return unpack(8, true);
    case ZYDIS_MNEMONIC_PSHUFD:
    case ZYDIS_MNEMONIC_VPSHUFD:
      for (uint64_t lane = 0; lane < n; lane += 16)
        for (unsigned i = 0; i < 4; i++)
          append(list, take(o[1], lane + 4 * (immediate(o[2]) >> (2 * i) & 3), 4));
      break;
    case ZYDIS_MNEMONIC_PSLLDQ:
    case ZYDIS_MNEMONIC_PSRLDQ:
      for (uint64_t i = 0; i < 16; i++) {
        const uint64_t by = immediate(o[1]) & 0xff;
        const uint64_t from = in_.mnemonic == ZYDIS_MNEMONIC_PSLLDQ ? i - by : i + by;
        list.push_back(from < 16 ? byte(o[0], from) : constant(0));
      }
      break;
    case ZYDIS_MNEMONIC_PINSRB:
    case ZYDIS_MNEMONIC_PINSRW:
    case ZYDIS_MNEMONIC_PINSRD:
    case ZYDIS_MNEMONIC_PINSRQ:
    case ZYDIS_MNEMONIC_VPINSRB:
    case ZYDIS_MNEMONIC_VPINSRW:
    case ZYDIS_MNEMONIC_VPINSRD:
    case ZYDIS_MNEMONIC_VPINSRQ: {
      const ZydisMnemonic m = in_.mnemonic;
      const uint64_t size = m == ZYDIS_MNEMONIC_PINSRB || m == ZYDIS_MNEMONIC_VPINSRB   ? 1
                            : m == ZYDIS_MNEMONIC_PINSRW || m == ZYDIS_MNEMONIC_VPINSRW ? 2
                            : m == ZYDIS_MNEMONIC_PINSRD || m == ZYDIS_MNEMONIC_VPINSRD ? 4
                                                                                        : 8;
      const bool three = is_vex();
      const ZydisDecodedOperand &old = o[three ? 1 : 0], &fresh = o[three ? 2 : 1], &where = o[three ? 3 : 2];
      const uint64_t at = size * (immediate(where) & (n / size - 1));
      list = take(old, 0, n);
      for (uint64_t i = 0; i < size; i++) list[at + i] = byte(fresh, i);
      break;
    }
    case ZYDIS_MNEMONIC_PEXTRB:
    case ZYDIS_MNEMONIC_PEXTRW:
    case ZYDIS_MNEMONIC_PEXTRD:
    case ZYDIS_MNEMONIC_PEXTRQ:
    case ZYDIS_MNEMONIC_VPEXTRB:
    case ZYDIS_MNEMONIC_VPEXTRW:
    case ZYDIS_MNEMONIC_VPEXTRD:
    case ZYDIS_MNEMONIC_VPEXTRQ: {
      const ZydisMnemonic m = in_.mnemonic;
      const uint64_t size = m == ZYDIS_MNEMONIC_PEXTRB || m == ZYDIS_MNEMONIC_VPEXTRB   ? 1
                            : m == ZYDIS_MNEMONIC_PEXTRW || m == ZYDIS_MNEMONIC_VPEXTRW ? 2
                            : m == ZYDIS_MNEMONIC_PEXTRD || m == ZYDIS_MNEMONIC_VPEXTRD ? 4
                                                                                        : 8;
      list = take(o[1], size * (immediate(o[2]) & (16 / size - 1)), size);
      pad(list, n);
      break;
    }
    case ZYDIS_MNEMONIC_VINSERTF128:
    case ZYDIS_MNEMONIC_VINSERTI128:
      list = take(o[1], 0, 32);
      for (uint64_t i = 0; i < 16; i++) list[16 * (immediate(o[3]) & 1) + i] = byte(o[2], i);
      break;
    case ZYDIS_MNEMONIC_VEXTRACTF128:
    case ZYDIS_MNEMONIC_VEXTRACTI128:
      list = take(o[1], 16 * (immediate(o[2]) & 1), 16);
      break;
    case ZYDIS_MNEMONIC_VPBROADCASTB:
    case ZYDIS_MNEMONIC_VPBROADCASTW:
    case ZYDIS_MNEMONIC_VPBROADCASTD:
    case ZYDIS_MNEMONIC_VPBROADCASTQ:
    case ZYDIS_MNEMONIC_VBROADCASTSS:
    case ZYDIS_MNEMONIC_VBROADCASTSD:
    case ZYDIS_MNEMONIC_VBROADCASTF128:
    case ZYDIS_MNEMONIC_VBROADCASTI128:
    case ZYDIS_MNEMONIC_MOVDDUP: {
      const ZydisMnemonic m = in_.mnemonic;
      const uint64_t size = m == ZYDIS_MNEMONIC_VPBROADCASTB                                           ? 1
                            : m == ZYDIS_MNEMONIC_VPBROADCASTW                                         ? 2
                            : m == ZYDIS_MNEMONIC_VPBROADCASTD || m == ZYDIS_MNEMONIC_VBROADCASTSS     ? 4
                            : m == ZYDIS_MNEMONIC_VBROADCASTF128 || m == ZYDIS_MNEMONIC_VBROADCASTI128 ? 16
                                                                                                       : 8;
      for (uint64_t i = 0; i < n; i++) list.push_back(byte(o[1], i % size));
      break;
    }
    case ZYDIS_MNEMONIC_SHUFPS:
      for (unsigned i = 0; i < 4; i++)
        append(list, take(o[i < 2 ? 0 : 1], 4 * (immediate(o[2]) >> (2 * i) & 3), 4));
      break;
    case ZYDIS_MNEMONIC_SHUFPD:
      for (unsigned i = 0; i < 2; i++) append(list, take(o[i], 8 * (immediate(o[2]) >> i & 1), 8));
      break;
    case ZYDIS_MNEMONIC_PALIGNR:
      for (uint64_t i = 0; i < 16; i++) {
        const uint64_t from = i + (immediate(o[2]) & 0xff);
        list.push_back(from < 16 ? byte(o[1], from) : from < 32 ? byte(o[0], from - 16) : constant(0));
      }
      break;
    default:
      return;
  }
  set(0, std::move(list));
}

}  // namespace

ByteSource Written::source_of(uint64_t byte) const {
  if (sources.empty()) return {};
  if (period) byte %= period;
  if (byte < sources.size()) return sources[byte];
  ByteSource last = sources.back();
  if (last.kind == ByteSource::Copy) last.from = last.from + (byte - (sources.size() - 1));
  return last;
}

uint64_t register_bit(const Loc& loc) {
  switch (loc.kind) {
    case Loc::General:
      return 1ull << loc.number();
    case Loc::Vector:
      return 1ull << (16 + loc.number());
    case Loc::Other:
      return 1ull << 48;
    case Loc::Flags:
      return 1ull << 49;
    default:
      return 0;
  }
}

std::string register_name(const Loc& first, uint64_t bytes) {
  static const char* const kWide[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                      "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
  static const char* const kHalf[] = {"eax", "ecx", "edx",  "ebx",  "esp",  "ebp",  "esi",  "edi",
                                      "r8d", "r9d", "r10d", "r11d", "r12d", "r13d", "r14d", "r15d"};
  const unsigned n = first.number(), at = first.byte();
  switch (first.kind) {
    case Loc::General:
      if (at == 0 && bytes == 8) return kWide[n & 15];
      if (at == 0 && bytes == 4) return kHalf[n & 15];
      if (bytes == 1) return fmt::format("byte {} of {}", at, kWide[n & 15]);
      return fmt::format("bytes {} to {} of {}", at, at + bytes - 1, kWide[n & 15]);
    case Loc::Vector: {
      const char* name = at + bytes <= 16 ? "xmm" : at + bytes <= 32 ? "ymm" : "zmm";
      if (at == 0) return fmt::format("{}{}", name, n);
      return fmt::format("bytes {} to {} of {}{}", at, at + bytes - 1, name, n);
    }
    case Loc::Other:
      return n < 16 ? fmt::format("st{}/mm{}", n, n) : fmt::format("k{}", n - 16);
    case Loc::Flags:
      return first.where == 0 ? "carry flag" : "flags";
    default:
      return fmt::format("{:#x}", first.where);
  }
}

Decoder::Decoder() {
  ZydisDecoderInit(&decoder_, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  ZydisFormatterInit(&formatter_, ZYDIS_FORMATTER_STYLE_INTEL);
}

void Decoder::fill(DecodedStep& d, std::span<const uint8_t> code) const {
  d.valid = ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder_, code.data(), code.size(), &d.in, d.operands));
  if (!d.valid) return;
  d.is_call = d.in.mnemonic == ZYDIS_MNEMONIC_SYSCALL;
  for (unsigned i = 0; i < d.in.operand_count; i++) {
    const ZydisDecodedOperand& o = d.operands[i];
    if (!(o.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)) continue;
    if (o.type == ZYDIS_OPERAND_TYPE_MEMORY) d.stores = true;
    if (o.type == ZYDIS_OPERAND_TYPE_REGISTER)
      if (const Bytes b = bytes_of(o.reg.value); b.count) d.registers |= register_bit(b.first);
  }
  if (d.in.cpu_flags) d.registers |= 1ull << 49;
}

const DecodedStep& Decoder::decode(const StepRecord& step) {
  auto& slot = known_[step.at.pc];
  if (slot && std::memcmp(slot->code, step.code, sizeof slot->code) == 0) return *slot;
  slot = std::make_unique<DecodedStep>();
  std::memcpy(slot->code, step.code, sizeof slot->code);
  fill(*slot, {step.code, step.length});
  return *slot;
}

Decoder::Writes Decoder::writes(std::span<const uint8_t> code) const {
  DecodedStep d;
  fill(d, code);
  return {d.registers, d.is_call};
}

Effect Decoder::effect(const StepRecord& step) {
  return Describer(decode(step), step).run();
}

std::string Decoder::text(const StepRecord& step) {
  const DecodedStep& d = decode(step);
  char buffer[160];
  if (!d.valid || !ZYAN_SUCCESS(ZydisFormatterFormatInstruction(&formatter_, &d.in, d.operands,
                                                                d.in.operand_count_visible, buffer,
                                                                sizeof buffer, step.at.pc, nullptr)))
    return "?";
  return buffer;
}

}  // namespace backstep::session
