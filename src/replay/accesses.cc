// Zydis knows the operands of every instruction, hidden ones too (push, string instructions); the
// translator's own decoder does not need to. Only used where a watched page was touched.
#include "replay/accesses.h"

#include <Zydis/Zydis.h>

#include "engine/entry.h"

namespace backstep::replayer {
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

std::vector<Accessed> accesses_at_rip() {
  const Context& ctx = context();
  std::vector<Accessed> result;
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
  const bool repeated =
      in.attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE);
  for (unsigned i = 0; i < in.operand_count; i++) {
    const ZydisDecodedOperand& op = operands[i];
    if (op.type != ZYDIS_OPERAND_TYPE_MEMORY || op.mem.type == ZYDIS_MEMOP_TYPE_AGEN) continue;
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
    const bool pushes =
        a.write && op.visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN && op.mem.base == ZYDIS_REGISTER_RSP;
    if (pushes) a.start -= a.length;
    if (repeated) {
      uint64_t count = in.address_width == 32 ? ctx.gpr[RCX] & 0xffff'ffff : ctx.gpr[RCX];
      if (count == 0) continue;
      constexpr uint64_t kDirection = 0x400;
      if (ctx.rflags & kDirection) a.start -= (count - 1) * a.length;
      a.length *= count;
    }
    // Bit strings reach beyond their operand; vector gathers are taken as touching nothing that is known.
    result.push_back(a);
  }
  return result;
}

}  // namespace backstep::replayer
