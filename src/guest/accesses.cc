// Zydis knows the operands of every instruction, hidden ones too (push, string instructions); the
// translator's own decoder does not need to. Only used where a watched page, or one that others write, was
// touched.
#include "guest/accesses.h"

#include <Zydis/Zydis.h>

#include "engine/entry.h"

namespace backstep::guest {
namespace {

uint64_t value_of(ZydisRegister reg, const Context& ctx, Address next) {
  if (reg == ZYDIS_REGISTER_NONE) return 0;
  if (reg == ZYDIS_REGISTER_RIP) return next;
  if (reg == ZYDIS_REGISTER_EIP) return next & 0xffff'ffff;
  const ZydisRegisterClass cls = ZydisRegisterGetClass(reg);
  const auto id = static_cast<unsigned>(ZydisRegisterGetId(reg));
  if (cls == ZYDIS_REGCLASS_GPR64 && id < 16) return ctx.gpr[id];
  if (cls == ZYDIS_REGCLASS_GPR32 && id < 16) return ctx.gpr[id] & 0xffff'ffff;
  return 0;
}

}  // namespace

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
  result.known = true;
  result.backwards = ctx.rflags & kDirection;
  result.repeated = in.attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE);
  result.locked = in.attributes & ZYDIS_ATTRIB_HAS_LOCK;
  result.masked = (in.avx.mask.reg != ZYDIS_REGISTER_NONE && in.avx.mask.reg != ZYDIS_REGISTER_K0) ||
                  in.mnemonic == ZYDIS_MNEMONIC_VMASKMOVPS || in.mnemonic == ZYDIS_MNEMONIC_VMASKMOVPD ||
                  in.mnemonic == ZYDIS_MNEMONIC_VPMASKMOVD || in.mnemonic == ZYDIS_MNEMONIC_VPMASKMOVQ ||
                  in.mnemonic == ZYDIS_MNEMONIC_MASKMOVQ || in.mnemonic == ZYDIS_MNEMONIC_MASKMOVDQU ||
                  in.mnemonic == ZYDIS_MNEMONIC_VMASKMOVDQU;
  const bool bit_test = in.mnemonic == ZYDIS_MNEMONIC_BT || in.mnemonic == ZYDIS_MNEMONIC_BTS ||
                        in.mnemonic == ZYDIS_MNEMONIC_BTR || in.mnemonic == ZYDIS_MNEMONIC_BTC;
  for (unsigned i = 0; i < in.operand_count; i++) {
    const ZydisDecodedOperand& op = operands[i];
    if (op.type != ZYDIS_OPERAND_TYPE_MEMORY || op.mem.type == ZYDIS_MEMOP_TYPE_AGEN) continue;
    if (op.mem.type == ZYDIS_MEMOP_TYPE_VSIB) result.known = false;
    Accessed a;
    a.start = value_of(op.mem.base, ctx, ctx.rip + in.length) +
              value_of(op.mem.index, ctx, ctx.rip + in.length) * op.mem.scale +
              (op.mem.disp.has_displacement ? static_cast<uint64_t>(op.mem.disp.value) : 0);
    if (in.address_width == 32) a.start &= 0xffff'ffff;
    if (op.mem.segment == ZYDIS_REGISTER_FS) a.start += ctx.fs_base;
    if (op.mem.segment == ZYDIS_REGISTER_GS) a.start += ctx.gs_base;
    a.length = op.size / 8;
    a.read = op.actions & ZYDIS_OPERAND_ACTION_MASK_READ;
    a.write = op.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
    if (a.write && in.mnemonic == ZYDIS_MNEMONIC_XCHG) result.locked = true;
    if (bit_test && operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER) {
      // The bit's number reaches beyond the operand.
      auto bit = static_cast<int64_t>(ctx.gpr[ZydisRegisterGetId(operands[1].reg.value) & 15]);
      if (op.size == 32) bit = static_cast<int32_t>(bit);
      if (op.size == 16) bit = static_cast<int16_t>(bit);
      a.start += static_cast<uint64_t>((bit >> (op.size == 64   ? 6
                                                : op.size == 32 ? 5
                                                                : 4)) *
                                       static_cast<int64_t>(a.length));
    }
    const bool pushes =
        a.write && op.visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN && op.mem.base == ZYDIS_REGISTER_RSP;
    if (pushes) a.start -= a.length;
    if (result.repeated) {
      uint64_t count = in.address_width == 32 ? ctx.gpr[RCX] & 0xffff'ffff : ctx.gpr[RCX];
      if (count == 0) continue;
      if (result.backwards) a.start -= (count - 1) * a.length;
      a.length *= count;
    }
    result.accesses.push_back(a);
  }
  return result;
}

}  // namespace backstep::guest
