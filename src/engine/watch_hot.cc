// Store checks: in front of every translated instruction that may write to memory, its address is looked up.
// First its page, by 16 bits of its number, in a map of 64 KB. As with tick checks (translate_hot.cc) no flag
// is touched and nothing branches: what gives the borrowed register its value back is a load that runs into
// the fence where the map has a 1.
//
//   mov [spill], reg; lea reg, <operand>; rorx reg, reg, 12; movzx reg32, reg16
//   movzx reg32, byte [map + reg]; mov reg, [spill + reg*8]
//
// The fault handler then makes the check at that place a jump to its stub (widen_store_check), for good: code
// that has written to a watched page (or one with the same 16 bits) once will do so again. The stub compares
// the address with the hull of all watched bytes. Inside: a hot exit looks at the ranges themselves, and only
// what may touch one of them goes to the client (Stop::Watched), which executes that instruction alone and
// compares. Nothing is protected, and nothing traps twice, so it matters little how busy the rest of a
// watched page is.
//
//   mov [watch_rax], rax; lahf; seto al; mov [watch_flags], rax; mov rax, [watch_rax]
//   lea rax, <operand>; sub rax, [watch_low]; cmp rax, [watch_span]; jb exit
//   mov rax, [watch_flags]; add al, 0x7f; sahf; mov rax, [watch_rax]
//
// Debug code has the same checks with the sense inverted: it may write to its own memory only. That is two
// zones (layout::kProbe, kProbeData). The second one consists of whole pieces of 4 GB, so that the map has an
// exact answer for it by the bits 32 to 47 of the address (an operand with other bits above faults by
// itself); the first one, where its variables are, is found by the stub, or while translating if the address
// is in the instruction. At the ends of both are pages without access, so nothing that begins inside reaches
// what is outside.
//
// What writes where is told by the table in isa/stores_hot.cc: unknown instructions with a memory operand
// count as stores, and a few strange ones always go to the client.
#include "base/hot.h"
#include "engine/cache.h"
#include "engine/emit.h"
#include "isa/decode.h"
#include "isa/stores.h"

namespace backstep::engine {
namespace {

using isa::Insn;
using isa::Store;

// lea reg, <the instruction's operand>
void emit_address(Emitter& e, int reg, const Insn& in, const uint8_t* code, Address pc) {
  if (in.disp_at) {
    int32_t disp;
    __builtin_memcpy(&disp, code + in.disp_at, 4);
    Address target = pc + in.length + static_cast<int64_t>(disp);
    e.move_imm64(reg, in.addrsize ? target & 0xffff'ffff : target);
    return;
  }
  uint8_t extend = in.rex & 3;  // X and B
  if (in.encoding == 1) {
    const uint8_t* vex = code + in.opcode_at - 3;
    extend = in.opcode_at >= 3 && vex[0] == 0xc4 ? static_cast<uint8_t>(~vex[1] >> 5 & 3) : 0;
  } else if (in.encoding == 2) {
    extend = static_cast<uint8_t>(~code[in.opcode_at - 3] >> 5 & 3);
  }
  if (in.addrsize) e.u8(0x67);
  e.u8(static_cast<uint8_t>(0x48 | (reg >> 3) << 2 | extend)), e.u8(0x8d);
  e.u8(static_cast<uint8_t>((in.modrm & 0xc7) | (reg & 7) << 3));
  const unsigned mod = in.modrm >> 6;
  unsigned more = mod == 1 ? 1 : mod == 2 ? 4 : 0;
  if ((in.modrm & 7) == 4) {
    if (mod == 0 && (code[in.modrm_at + 1] & 7) == 5) more = 4;
    more++;
  }
  e.bytes(code + in.modrm_at + 1, more);
}

void emit_rax(Emitter& e, uint8_t opcode, uint32_t address) {  // op rax, [abs]
  e.u8(0x48), e.u8(opcode), e.u8(0x04), e.u8(0x25), e.u32(address);
}

constexpr uint32_t kStubSize = 168, kExitSize = 64;  // at most, of the check of a hull and of what leaves

constexpr uint8_t kSaveFlags[] = {0x9f, 0x0f, 0x90, 0xc0};  // lahf; seto al
constexpr uint8_t kRestoreFlags[] = {0x04, 0x7f, 0x9e};     // add al, 0x7f; sahf

void restore(Emitter& e) {
  e.load(RAX, BACKSTEP_FIELD(watch_flags));
  e.raw(kRestoreFlags);
  e.load(RAX, BACKSTEP_FIELD(watch_rax));
}

void leave(Emitter& e, uint32_t exit) {
  e.store_imm32(BACKSTEP_FIELD(exit), exit);
  e.jump(pad_address(Pad::HostOp));
}

bool is_probes(Address pc) {
  return bs_cache.probe && layout::is_probe(pc);
}

// The operand's address, if that is in the instruction.
bool constant_address(const Insn& in, const uint8_t* code, Address pc, Address* address) {
  int32_t disp;
  const bool absolute = in.memory_operand() && (in.modrm & 0xc7) == 4 && in.encoding < 2 &&
                        code[in.modrm_at + 1] == 0x25 && isa::address_registers(in, code) == 0;
  if ((!in.disp_at && !absolute) || in.addrsize || in.fs || in.gs) return false;
  __builtin_memcpy(&disp, code + (absolute ? in.modrm_at + 2 : in.disp_at), 4);
  *address = (absolute ? 0 : pc + in.length) + static_cast<Address>(static_cast<int64_t>(disp));
  return true;
}

// A far RIP-relative operand is copied in a form that the fault handler looks for at the instruction's start.
bool is_far(const Emitter& e, const Insn& in, const uint8_t* code, Address pc) {
  if (!in.disp_at) return false;
  int32_t disp;
  __builtin_memcpy(&disp, code + in.disp_at, 4);
  const auto distance =
      static_cast<int64_t>(pc + static_cast<int64_t>(disp) - reinterpret_cast<uint64_t>(e.p));
  return distance > 0x7000'0000 || distance < -0x7000'0000;
}

// rax is the address: leaves if one of the watched bytes may be near, or what is there is not debug code's
// own.
void emit_comparison(Emitter& e, const Emitter& exit, bool probe) {
  auto in_range = [&](uint8_t jump, uint32_t low, uint32_t span) {
    emit_rax(e, 0x2b, low);
    emit_rax(e, 0x3b, span);
    e.u8(0x0f), e.u8(jump);
    return e.relative(exit.address());
  };
  constexpr uint8_t kBelow = 0x82, kNotBelow = 0x83;
  if (!probe) {
    in_range(kBelow, BACKSTEP_FIELD(watch_low), BACKSTEP_FIELD(watch_span));
    return;
  }
  constexpr uint32_t kWord = sizeof(uint64_t);
  const uint32_t own = in_range(kBelow, BACKSTEP_FIELD(own_low), BACKSTEP_FIELD(own_span));
  emit_rax(e, 0x03, BACKSTEP_FIELD(own_low));
  in_range(kNotBelow, BACKSTEP_FIELD(own_low) + kWord, BACKSTEP_FIELD(own_span) + kWord);
  patch_relative(own, e.address());
}

// Goes on behind the check, or at `exit` if the operand begins between the first and the last watched byte
// (of debug code: if it does not begin in its own memory).
void emit_hull_check(Emitter& e, Emitter& exit, uint32_t id, Store::Where store, const Insn& in,
                     const uint8_t* code, Address pc) {
  e.store(RAX, BACKSTEP_FIELD(watch_rax));
  e.raw(kSaveFlags);
  e.store(RAX, BACKSTEP_FIELD(watch_flags));
  if (store == Store::Stack) {
    e.u8(0x48), e.u8(0x8d), e.u8(0x44), e.u8(0x24), e.u8(0xf8);  // lea rax, [rsp-8]
  } else if (store == Store::Rdi) {
    e.u8(0x48), e.u8(0x89), e.u8(0xf8);  // mov rax, rdi
  } else {
    e.load(RAX, BACKSTEP_FIELD(watch_rax));
    emit_address(e, RAX, in, code, pc);
  }
  if (store != Store::Stack && in.fs) {
    if (context().features & kHaveFsgsbase) {
      e.store(RAX, BACKSTEP_FIELD(watch_address));
      e.u8(0xf3), e.u8(0x48), e.u8(0x0f), e.u8(0xae), e.u8(0xc0);  // rdfsbase rax
      emit_rax(e, 0x03, BACKSTEP_FIELD(watch_address));
    } else {
      emit_rax(e, 0x03, BACKSTEP_FIELD(fs_base));
    }
  }
  if (store != Store::Stack && in.gs) emit_rax(e, 0x03, BACKSTEP_FIELD(gs_base));
  emit_comparison(e, exit, is_probes(pc));
  restore(e);
  exit.store(RAX, BACKSTEP_FIELD(watch_address));
  restore(exit);
  leave(exit, id);
}

// Goes on behind the check, or runs into the fence if the operand's page is in the map. Returns the address
// of the load that does.
uint32_t emit_page_check(Emitter& e, int reg, Store::Where store, const Insn& in, const uint8_t* code,
                         Address pc) {
  const int high = reg >> 3, low = reg & 7;
  const auto both = static_cast<uint8_t>(low << 3 | low);
  auto rex = [&](int bits) {  // of a 32-bit instruction
    if (high) e.u8(static_cast<uint8_t>(0x40 | bits));
  };
  e.store(reg, BACKSTEP_FIELD(spill_r11));
  if (store == Store::Operand && in.disp_at && !in.addrsize) {
    int32_t disp;
    __builtin_memcpy(&disp, code + in.disp_at, 4);
    const Address page = (pc + in.length + static_cast<int64_t>(disp)) >> 12 & 0xffff;
    rex(4), e.u8(0x0f), e.u8(0xb6), e.u8(static_cast<uint8_t>(0x04 | low << 3)), e.u8(0x25);
    e.u32(static_cast<uint32_t>(layout::kWatchMap + page));  // movzx reg32, byte [map + page]
  } else {
    if (store == Store::Stack) {  // lea reg, [rsp-8]
      e.u8(static_cast<uint8_t>(0x48 | high << 2)), e.u8(0x8d), e.u8(static_cast<uint8_t>(0x44 | low << 3));
      e.u8(0x24), e.u8(0xf8);
    } else if (store == Store::Rdi) {  // mov reg, rdi
      e.u8(static_cast<uint8_t>(0x48 | high)), e.u8(0x89), e.u8(static_cast<uint8_t>(0xf8 | low));
    } else {
      emit_address(e, reg, in, code, pc);
    }
    const bool probe = is_probes(pc);
    e.u8(0xc4), e.u8(high ? 0x43 : 0xe3), e.u8(0xfb), e.u8(0xf0), e.u8(0xc0 | both);  // rorx
    e.u8(probe ? 32 : 12);
    rex(5), e.u8(0x0f), e.u8(0xb7), e.u8(0xc0 | both);  // movzx reg32, reg16
    rex(5), e.u8(0x0f), e.u8(0xb6), e.u8(0x80 | both);
    e.u32(probe ? layout::kOwnMap : layout::kWatchMap);
  }
  const uint32_t site = e.address();
  e.u8(high ? 0x4e : 0x48), e.u8(0x8b), e.u8(static_cast<uint8_t>(0x04 | low << 3));
  e.u8(static_cast<uint8_t>(0xc5 | low << 3)), e.u32(BACKSTEP_FIELD(spill_r11));  // mov reg, [spill + reg*8]
  return site;
}

}  // namespace

void emit_store_check(Emitter& e, const Insn& in, const uint8_t* code, Address pc, uint32_t used) {
  const Store written = isa::store_of(in, code);
  if (written.where == Store::None) return;
  Store::Where store = is_far(e, in, code, pc) ? Store::Unknown : written.where;
  const bool probe = is_probes(pc);
  if (Address at; probe && store == Store::Operand && constant_address(in, code, pc, &at)) {
    if (layout::is_probe(at)) return;
    store = Store::Unknown;
  }
  if (probe && store != Store::Stack && in.gs) store = Store::Unknown;
  const uint32_t id = bs_cache.exits++;
  kExits[id] = {pc, 0, ExitKind::Watch, in.length, written.size};
  if (store == Store::Unknown) {
    leave(e, id);
    return;
  }
  const bool segment = store != Store::Stack && (in.fs || in.gs);
  if (segment || !(context().features & kHaveBmi2)) {
    bs_cache.cold -= kExitSize;
    Emitter exit{bs_cache.cold};
    emit_hull_check(e, exit, id, store, in, code, pc);
    kExits[id].patch = e.address();
    return;
  }
  bs_cache.cold -= kStubSize + kExitSize;
  Emitter stub{bs_cache.cold};
  const uint32_t start = e.address();
  const int reg = idle_register(used);
  const uint32_t site = emit_page_check(e, reg, store, in, code, pc);
  kChecks[bs_cache.checks++] = {static_cast<Address>(stub.address()) << 32 | start, site,
                                kStoreCheck | static_cast<uint32_t>(reg)};
  kExits[id].patch = e.address();

  Emitter exit{bs_cache.cold + kStubSize};
  emit_hull_check(stub, exit, id, store, in, code, pc);
  stub.jump(e.address());
}

uint32_t widen_store_check(const Check& check) {
  const auto start = static_cast<uint32_t>(check.target), stub = static_cast<uint32_t>(check.target >> 32);
  Emitter e{reinterpret_cast<uint8_t*>(static_cast<uint64_t>(start))};
  if (*e.p != kTrapByte) e.jump(stub);  // else: this time only
  return stub;
}

void mark_watched(const DataRange* ranges, uint32_t count) {
  auto* map = reinterpret_cast<uint8_t*>(layout::kWatchMap);
  hot::fill32(map, 0, layout::kWatchMapSize / 4);
  for (uint32_t i = 0; i < count; i++) {
    const Address start = ranges[i].start > kWatchReach ? ranges[i].start - kWatchReach : 0;
    const Address pages = ((ranges[i].end - 1) >> 12) - (start >> 12);
    for (Address page = 0; page <= pages && page < layout::kWatchMapSize; page++)
      map[((start >> 12) + page) & 0xffff] = 1;
  }
}

bool watch_matches() {
  const Context& ctx = context();
  const Address address = ctx.watch_low + ctx.watch_address;
  // The first range that ends behind the address; they are in order and apart.
  uint32_t low = 0, high = bs_cache.data_range_count;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    if (bs_cache.data_ranges[middle].end <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low < bs_cache.data_range_count && address + kExits[ctx.exit].size > bs_cache.data_ranges[low].start;
}

}  // namespace backstep::engine
