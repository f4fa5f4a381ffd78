// The shadow: which bytes of its memory the guest has written to.
//
// For each byte of guest memory there is one at a fixed distance (layout::kShadowDistance), which is not 0
// once it was written to. Behind a translated store stands another one, with the same operand but for the
// displacement, that puts -1 there:
//
//   mov [rax+rcx*8+16], edx;  mov dword gs:[rax+rcx*8+16+distance], -1
//
// That is one instruction that depends on nothing, touches no flag and no register, and needs no check: where
// the guest has memory there is room for its shadow (Engine::set_shadow), and a store that faults is not
// followed by its mark. The price is a byte of memory for each byte that is written to, and its page fault.
//
// What cannot be marked so goes to the client, which executes the instruction alone and marks what its
// operands say (guest/accesses.h): stores of a size that the table does not know, string instructions,
// addresses that the instruction itself changes, operands that lie far away or in a segment of the guest's
// own.
#include "base/hot.h"
#include "engine/cache.h"
#include "engine/emit.h"
#include "engine/operand.h"
#include "engine/report.h"
#include "isa/decode.h"
#include "isa/stores.h"

namespace backstep::engine {
namespace {

using isa::Insn;
using isa::Store;

// mov <size> gs:[operand + distance], -1
void emit_part(Emitter& e, const Operand& op, int64_t disp, unsigned size) {
  const int base = op.base < 0 ? 5 : op.base, index = op.index < 0 ? RSP : op.index;
  const auto rex =
      static_cast<uint8_t>((size == 8) << 3 | (index >> 3 & 1) << 1 | (op.base < 0 ? 0 : base >> 3 & 1));
  e.u8(0x65);
  if (size == 2) e.u8(0x66);
  if (rex) e.u8(0x40 | rex);
  e.u8(size == 1 ? 0xc6 : 0xc7);
  if (op.index < 0 && op.base >= 0 && (op.base & 7) != RSP) {
    e.u8(static_cast<uint8_t>(0x80 | (base & 7)));
  } else {
    e.u8(op.base < 0 ? 0x04 : 0x84);
    e.u8(static_cast<uint8_t>(op.scale << 6 | (index & 7) << 3 | (base & 7)));
  }
  e.u32(static_cast<uint32_t>(disp));
  if (size == 1) e.u8(0xff);
  if (size == 2) e.u16(0xffff);
  if (size >= 4) e.u32(0xffff'ffff);
}

void emit_marks(Emitter& e, const Operand& op, unsigned size) {
  int64_t disp = op.disp + layout::kShadowDistance;
  while (size) {
    const unsigned part = size >= 8 ? 8 : size >= 4 ? 4 : size >= 2 ? 2 : 1;
    emit_part(e, op, disp, part);
    disp += part;
    size -= part;
  }
}

bool fits(int64_t disp) {
  constexpr int64_t kLongest = 64;
  const int64_t last = disp + layout::kShadowDistance + kLongest;
  return disp + layout::kShadowDistance >= INT32_MIN && last <= INT32_MAX;
}

// Can what it writes be marked behind it?
bool can_be_marked(const Insn& in, const uint8_t* code, Address pc, const Store& store) {
  if (!store.exact || store.where == Store::Rdi || store.where == Store::Unknown) return false;
  if (store.where == Store::Stack) return store.size == 8;
  if (in.encoding >= 2 || in.gs || in.addrsize) return false;
  if (store.changes & isa::address_registers(in, code)) return false;
  const Operand op = operand_of(in, code, pc);
  if (in.fs && (op.index >= 0 || op.base == RSP || (op.base >= 0 && in.disp_at))) return false;
  return fits(op.disp);
}

// The guest's FS base is in a register of the CPU; an operand has room for one more if it has no index.
void emit_thread_local_marks(Emitter& e, Operand op, unsigned size, uint32_t used) {
  const int reg = idle_register(used);
  e.store(reg, BACKSTEP_FIELD(spill_any));
  if (context().features & kHaveFsgsbase) {
    e.u8(0xf3), e.u8(static_cast<uint8_t>(0x48 | reg >> 3)), e.u8(0x0f), e.u8(0xae);
    e.u8(static_cast<uint8_t>(0xc0 | (reg & 7)));  // rdfsbase reg
  } else {
    e.load(reg, BACKSTEP_FIELD(fs_base));
  }
  op.index = op.base;
  op.base = reg;
  emit_marks(e, op, size);
  e.load(reg, BACKSTEP_FIELD(spill_any));
}

}  // namespace

void emit_shadow_question(Emitter& e, const Insn& in, const uint8_t* code, Address pc) {
  const Store store = isa::store_of(in, code);
  if (store.where == Store::None || in.cls == isa::Class::Call || in.cls == isa::Class::CallInd) return;
  if (can_be_marked(in, code, pc, store)) return;
  const uint32_t id = bs_cache.exits++;
  kExits[id] = {pc, 0, ExitKind::Watch, in.length, store.size};
  e.store_imm32(BACKSTEP_FIELD(exit), id);
  e.jump(pad_address(Pad::HostOp));
}

void emit_shadow_mark(Emitter& e, const Insn& in, const uint8_t* code, Address pc) {
  const Store store = isa::store_of(in, code);
  if (store.where == Store::None || in.cls == isa::Class::Call || in.cls == isa::Class::CallInd) return;
  if (!can_be_marked(in, code, pc, store)) return;
  if (store.where == Store::Stack) {
    emit_shadow_push(e);
    return;
  }
  const Operand op = operand_of(in, code, pc);
  if (in.fs) {
    emit_thread_local_marks(e, op, store.size, isa::address_registers(in, code));
  } else {
    emit_marks(e, op, store.size);
  }
}

void emit_shadow_push(Emitter& e) {
  emit_part(e, {.base = RSP}, layout::kShadowDistance, 8);
}

void mark_written(Address start, uint64_t size) {
  if (bs_cache.report && size) report_write(start, size);
  if (!bs_cache.shadow || !size || start + size < start || !layout::has_shadow(start, start + size)) return;
  auto* p = reinterpret_cast<uint8_t*>(layout::shadow_of(start));
  for (; size && reinterpret_cast<uint64_t>(p) % 4; size--) *p++ = 0xff;
  hot::fill32(p, 0xffff'ffff, size / 4);
  for (p += size & ~3ull; size & 3; size--) *p++ = 0xff;
}

}  // namespace backstep::engine
