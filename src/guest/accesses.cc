// Zydis knows the operands of every instruction, hidden ones too (push, string instructions); the
// translator's own decoder does not need to. Only used where a watched page, or one that others write, was
// touched.
#include "guest/accesses.h"

#include <algorithm>
#include <cstring>

#include "engine/entry.h"
#include "guest/operand_address.h"

namespace backstep::guest {
namespace {

uint64_t value_of(ZydisRegister reg, const OperandState& state, Address next) {
  if (reg == ZYDIS_REGISTER_NONE) return 0;
  if (reg == ZYDIS_REGISTER_RIP) return next;
  if (reg == ZYDIS_REGISTER_EIP) return next & 0xffff'ffff;
  const ZydisRegisterClass cls = ZydisRegisterGetClass(reg);
  const auto id = static_cast<unsigned>(ZydisRegisterGetId(reg));
  if (cls == ZYDIS_REGCLASS_GPR64 && id < 16) return state.gpr[id];
  if (cls == ZYDIS_REGCLASS_GPR32 && id < 16) return state.gpr[id] & 0xffff'ffff;
  if (reg == ZYDIS_REGISTER_AL) return state.gpr[RAX] & 0xff;  // xlat
  return 0;
}

struct Vector {
  uint8_t bytes[32] = {};
  int64_t element(unsigned i, unsigned size) const {  // with its sign
    int64_t wide = 0;
    int32_t narrow = 0;
    if (size == 1) return static_cast<int8_t>(bytes[i]);
    std::memcpy(&narrow, bytes + 4 * i, 4);
    if (size == 4) return narrow;
    std::memcpy(&wide, bytes + 8 * i, 8);
    return wide;
  }
};

// xmm and ymm registers up to 15, as they were saved.
Vector vector_of(ZydisRegister reg, const Context& ctx) {
  constexpr unsigned kBits = 512, kLow = 160, kHigh = 576;
  Vector v;
  const auto id = static_cast<unsigned>(ZydisRegisterGetId(reg));
  uint64_t bits;
  std::memcpy(&bits, ctx.xsave + kBits, sizeof bits);
  if (id > 15) return v;
  if (bits & 2) std::memcpy(v.bytes, ctx.xsave + kLow + 16 * id, 16);
  if (bits & 4) std::memcpy(v.bytes + 16, ctx.xsave + kHigh + 16 * id, 16);
  return v;
}

bool is_masked_move(ZydisMnemonic m) {
  return m == ZYDIS_MNEMONIC_VMASKMOVPS || m == ZYDIS_MNEMONIC_VMASKMOVPD || m == ZYDIS_MNEMONIC_VPMASKMOVD ||
         m == ZYDIS_MNEMONIC_VPMASKMOVQ;
}
bool is_masked_byte_move(ZydisMnemonic m) {
  return m == ZYDIS_MNEMONIC_MASKMOVDQU || m == ZYDIS_MNEMONIC_VMASKMOVDQU;
}

// The elements that a gather of AVX2 or a masked move touches: those whose mask has its upper bit. `start`:
// the operand without its index.
std::vector<Accessed> masked_elements(const ZydisDecodedInstruction& in, const ZydisDecodedOperand* operands,
                                      const ZydisDecodedOperand& memory, Accessed whole, const Context& ctx) {
  const bool gather = memory.mem.type == ZYDIS_MEMOP_TYPE_VSIB, bytes = is_masked_byte_move(in.mnemonic);
  const bool wide = in.mnemonic == ZYDIS_MNEMONIC_VMASKMOVPD || in.mnemonic == ZYDIS_MNEMONIC_VPMASKMOVQ ||
                    in.mnemonic == ZYDIS_MNEMONIC_VGATHERDPD || in.mnemonic == ZYDIS_MNEMONIC_VGATHERQPD ||
                    in.mnemonic == ZYDIS_MNEMONIC_VPGATHERDQ || in.mnemonic == ZYDIS_MNEMONIC_VPGATHERQQ;
  const unsigned size = bytes ? 1 : wide ? 8 : 4;
  const bool long_index =
      in.mnemonic == ZYDIS_MNEMONIC_VGATHERQPD || in.mnemonic == ZYDIS_MNEMONIC_VGATHERQPS ||
      in.mnemonic == ZYDIS_MNEMONIC_VPGATHERQQ || in.mnemonic == ZYDIS_MNEMONIC_VPGATHERQD;
  // Gathers and stores: data, memory, mask; of a store the mask is in the middle; masked loads likewise.
  const ZydisDecodedOperand& mask = gather ? operands[2] : operands[1];
  const Vector chosen = vector_of(mask.reg.value, ctx);
  const Vector index = gather ? vector_of(memory.mem.index, ctx) : Vector();
  unsigned count = 0;
  if (gather) {
    const unsigned vector = operands[0].size / 8,
                   indices = ZydisRegisterGetWidth(ZYDIS_MACHINE_MODE_LONG_64, memory.mem.index) / 8;
    count = std::min(vector / size, indices / (long_index ? 8 : 4));
  } else {
    count = static_cast<unsigned>(whole.length) / size;
  }
  std::vector<Accessed> list;
  for (unsigned i = 0; i < count; i++) {
    if (chosen.element(i, size) >= 0) continue;
    Accessed a = whole;
    a.length = size;
    a.start += gather ? static_cast<uint64_t>(index.element(i, long_index ? 8 : 4)) * memory.mem.scale
                      : uint64_t{i} * size;
    list.push_back(a);
  }
  return list;
}

bool is_bit_test(const ZydisDecodedInstruction& in) {
  return in.mnemonic == ZYDIS_MNEMONIC_BT || in.mnemonic == ZYDIS_MNEMONIC_BTS ||
         in.mnemonic == ZYDIS_MNEMONIC_BTR || in.mnemonic == ZYDIS_MNEMONIC_BTC;
}

}  // namespace

OperandMemory operand_memory(const ZydisDecodedInstruction& in, const ZydisDecodedOperand* operands,
                             const ZydisDecodedOperand& op, const OperandState& state) {
  constexpr uint64_t kDirection = 0x400;
  const Address next = state.pc + in.length;
  OperandMemory m;
  m.start = value_of(op.mem.base, state, next) + value_of(op.mem.index, state, next) * op.mem.scale +
            (op.mem.disp.has_displacement ? static_cast<uint64_t>(op.mem.disp.value) : 0);
  if (in.address_width == 32) m.start &= 0xffff'ffff;
  if (op.mem.segment == ZYDIS_REGISTER_FS) m.start += state.fs_base;
  if (op.mem.segment == ZYDIS_REGISTER_GS) m.start += state.gs_base;
  m.length = op.size / 8;
  if (is_bit_test(in) && operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER) {
    // The bit's number reaches beyond the operand.
    auto bit = static_cast<int64_t>(state.gpr[ZydisRegisterGetId(operands[1].reg.value) & 15]);
    if (op.size == 32) bit = static_cast<int32_t>(bit);
    if (op.size == 16) bit = static_cast<int16_t>(bit);
    m.start += static_cast<uint64_t>((bit >> (op.size == 64   ? 6
                                              : op.size == 32 ? 5
                                                              : 4)) *
                                     static_cast<int64_t>(m.length));
  }
  const bool writes = op.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
  const bool pushes =
      writes && op.visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN && op.mem.base == ZYDIS_REGISTER_RSP;
  if (pushes) m.start -= m.length;
  if (is_repeated(in)) {
    const uint64_t count = in.address_width == 32 ? state.gpr[RCX] & 0xffff'ffff : state.gpr[RCX];
    if (count > 0 && (state.rflags & kDirection)) m.start -= (count - 1) * m.length;
    m.length *= count;
  }
  return m;
}

Instruction instruction_at_rip() {
  const Context& ctx = context();
  Instruction result;
  uint8_t code[15] = {};
  size_t available = 0;
  while (available < sizeof code &&
         bs_guarded_copy(code + available, reinterpret_cast<const void*>(ctx.rip + available), 1))
    available++;
  ZydisDecoder decoder;
  ZydisDecodedInstruction in;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code, available, &in, operands))) return result;
  constexpr uint64_t kDirection = 0x400;
  const OperandState state{ctx.gpr, ctx.rip, ctx.rflags, ctx.fs_base, ctx.gs_base};
  result.known = true;
  result.backwards = ctx.rflags & kDirection;
  result.repeated = is_repeated(in);
  result.locked = in.attributes & ZYDIS_ATTRIB_HAS_LOCK;
  result.masked = (in.avx.mask.reg != ZYDIS_REGISTER_NONE && in.avx.mask.reg != ZYDIS_REGISTER_K0) ||
                  in.mnemonic == ZYDIS_MNEMONIC_MASKMOVQ;
  const bool evex = in.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX;
  for (unsigned i = 0; i < in.operand_count; i++) {
    const ZydisDecodedOperand& op = operands[i];
    if (op.type != ZYDIS_OPERAND_TYPE_MEMORY || op.mem.type == ZYDIS_MEMOP_TYPE_AGEN) continue;
    const bool gather = op.mem.type == ZYDIS_MEMOP_TYPE_VSIB;
    if (gather && evex) result.known = false;
    const OperandMemory memory = operand_memory(in, operands, op, state);
    Accessed a;
    a.start = memory.start, a.length = memory.length;
    a.read = op.actions & ZYDIS_OPERAND_ACTION_MASK_READ;
    a.write = op.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
    if (a.write && in.mnemonic == ZYDIS_MNEMONIC_XCHG) result.locked = true;
    if (!evex && (gather || is_masked_move(in.mnemonic) || is_masked_byte_move(in.mnemonic))) {
      for (const Accessed& element : masked_elements(in, operands, op, a, ctx))
        result.accesses.push_back(element);
      continue;
    }
    if (result.repeated) {
      if (a.length == 0) continue;
      result.times = in.address_width == 32 ? ctx.gpr[RCX] & 0xffff'ffff : ctx.gpr[RCX];
    }
    result.accesses.push_back(a);
  }
  return result;
}

}  // namespace backstep::guest
