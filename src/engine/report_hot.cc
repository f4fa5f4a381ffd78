// Translated code that says what it loads and stores.
//
// Producing must be cheap. So a block is a stretch that is entered at its start and left at its end only
// (Cache::report), which borrows two registers for all of it, one as the pointer into the buffer:
//
//   mov [spill], rdi; mov [spill+8], rsi; mov rdi, [report_at]
//   vmovq [rdi+40], xmm31; mov qword [rdi], number        the tick, then the block: see below
//   mov [rdi+8], rbx; mov rax, [rbx+16]; mov [rdi+16], rax  a load: its base, itself, what it has loaded
//   mov rsi, [rax+8]; mov [rdi+24], rsi; mov [rdi+32], rcx; mov [rax+8], rcx     a store
//   lea rdi, [rdi+48]; mov [report_at], rdi; mov rdi, [spill]; mov rsi, [spill+8]
//
// Nothing is written twice: the word that has the value of a register serves for all addresses that are made
// of it until it changes (rax above was loaded, so its word is there), the stack pointer is followed through
// pushes and pops, and what code says itself (RIP-relative addresses, constants, return addresses) is known
// to the reader. No flag is touched. There is no check for room either: the first word that is written is the
// last one of the record, and behind the buffer lies a page without access. The fault leads to
// Engine::after_fault, and the block begins again with an empty buffer.
//
// What cannot be reported so goes to the client, which executes the instruction alone (Stop::Watched) and
// looks at its operands: string instructions, gathers, masks, operands of the guest's own GS segment.
//
// A fault in the middle finds the registers borrowed. They are given back, and the record is cut at the
// instruction. If it was our own look at memory that faulted (the store behind it would have, too, but the
// kernel says then that a *write* has failed) the client executes that instruction alone.
#include "engine/report.h"

#include "base/hot.h"
#include "engine/emit.h"
#include "engine/entry.h"
#include "engine/operand.h"
#include "isa/stores.h"

namespace backstep::engine {
namespace {

using isa::Class;
using isa::Insn;
using isa::Load;
using isa::Store;

constexpr uint32_t kSpill = BACKSTEP_FIELD(report_spill);
// An instruction adds at most: the bases of what it loads and stores, what it loads, what was where it
// stores and what is there then.
constexpr unsigned kMostBlock = 64, kMostWordsEach = 5;
static_assert(kMostBlock * kMostWordsEach + 2 <= ReportHead::kMostWords);

bool is_wanted(Address pc) {
  const Cache& c = bs_cache;
  if (!c.report_range_count) return true;
  for (uint32_t i = 0; i < c.report_range_count; i++)
    if (pc >= c.report_ranges[i].start && pc < c.report_ranges[i].end) return true;
  return false;
}

struct Accesses {
  Load load;
  Store store;
  bool loads = false, stores = false;  // … are reported
  bool any() const { return loads || stores; }
};

Accesses accesses_of(const Insn& in, const uint8_t* code, Address pc) {
  Accesses a;
  if (!is_wanted(pc)) return a;
  a.load = isa::load_of(in, code);
  a.store = isa::store_of(in, code);
  a.loads = bs_cache.report_loads && a.load.where != Load::None;
  a.stores = bs_cache.report_stores && a.store.where != Store::None;
  return a;
}

bool can_be_reported(const Accesses& a, const Insn& in, const uint8_t* code, Address pc) {
  if (in.encoding >= 2 || in.gs || in.addrsize || in.cls == Class::Evex || in.cls == Class::Gs) return false;
  if (a.loads && (!a.load.exact || a.load.where == Load::Unknown)) return false;
  if (a.stores) {
    if (!a.store.exact || (a.store.where != Store::Operand && a.store.where != Store::Stack)) return false;
    if (a.store.where == Store::Stack && a.store.size != 8) return false;
    if (a.store.changes & isa::address_registers(in, code)) return false;
  }
  if (!in.fs) return true;
  // The base of FS takes the place of one register.
  const Operand op = operand_of(in, code, pc);
  return op.base < 0 || (op.index < 0 && op.base != RSP);
}

// Not r12, whose use as a base takes another byte.
int some_register(uint32_t free, unsigned seed) {
  for (unsigned i = 0; i < 16; i++) {
    const unsigned reg = (seed + i) & 15;
    if (free >> reg & 1) return static_cast<int>(reg);
  }
  return -1;
}
constexpr uint32_t kBorrowable = isa::kAllRegisters & ~(1u << RSP) & ~(1u << R12);

bool has_two(uint32_t registers) {
  return registers & (registers - 1);
}

// <opcode> reg, [operand]
void emit_operand(Emitter& e, bool fs, bool wide, bool escape, uint8_t opcode, int reg, const Operand& op) {
  const int base = op.base < 0 ? 5 : op.base, index = op.index < 0 ? RSP : op.index;
  const auto rex = static_cast<uint8_t>(wide << 3 | (reg >> 3) << 2 | (index >> 3 & 1) << 1 |
                                        (op.base < 0 ? 0 : base >> 3 & 1));
  if (fs) e.u8(0x64);
  if (rex) e.u8(0x40 | rex);
  if (escape) e.u8(0x0f);
  e.u8(opcode);
  const auto low = static_cast<uint8_t>((reg & 7) << 3);
  const bool sib = op.index >= 0 || op.base < 0 || (base & 7) == RSP;
  const bool small = op.disp >= -128 && op.disp < 128;
  const uint8_t mod = op.base < 0 ? 0 : small ? 0x40 : 0x80;
  e.u8(static_cast<uint8_t>(mod | low | (sib ? 4 : base & 7)));
  if (sib) e.u8(static_cast<uint8_t>(op.scale << 6 | (index & 7) << 3 | (base & 7)));
  if (mod == 0x40) {
    e.u8(static_cast<uint8_t>(op.disp));
  } else {
    e.u32(static_cast<uint32_t>(op.disp));
  }
}

// Up to eight bytes at an operand, as a number.
void emit_value(Emitter& e, int reg, bool fs, const Operand& operand, unsigned size) {
  Operand op = operand;
  const bool far = op.base < 0 && op.index < 0 && op.disp != static_cast<int32_t>(op.disp);
  if (far) {
    e.move_imm64(reg, static_cast<uint64_t>(op.disp));
    op = {.base = reg};
  }
  const bool byte = size == 1, half = size == 2;
  emit_operand(e, fs, size >= 8, byte || half, byte ? 0xb6 : half ? 0xb7 : 0x8b, reg, op);
}

void emit_word(Emitter& e, const Reporting& r, int reg, unsigned word) {  // mov [pointer + word], reg
  emit_operand(e, false, true, false, 0x89, reg, {.base = r.pointer, .disp = 8 * static_cast<int64_t>(word)});
}

// vmovq [pointer + disp32], xmm31
void emit_vector_tick(Emitter& e, Reporting& r) {
  e.u8(0x62), e.u8(r.pointer < 8 ? 0x61 : 0x41), e.u8(0xfd), e.u8(0x08), e.u8(0xd6);
  e.u8(static_cast<uint8_t>(0x80 | 7 << 3 | (r.pointer & 7)));
  r.tick_at = e.p;
  e.u32(0);
}

void emit_memory_tick_word(Emitter& e, Reporting& r) {
  e.load(r.scratch, BACKSTEP_FIELD(tick));
  e.u8(static_cast<uint8_t>(0x48 | (r.scratch >> 3) << 2 | r.pointer >> 3)), e.u8(0x89);
  e.u8(static_cast<uint8_t>(0x80 | (r.scratch & 7) << 3 | (r.pointer & 7)));
  r.tick_at = e.p;
  e.u32(0);
}

void emit_prologue(Reporting& r, Emitter& e) {
  r.start = e.p;
  e.store(r.pointer, kSpill);
  e.store(r.scratch, kSpill + 8);
  e.load(r.pointer, BACKSTEP_FIELD(report_at));
  bs_cache.vector ? emit_vector_tick(e, r) : emit_memory_tick_word(e, r);
  emit_operand(e, false, true, false, 0xc7, 0, {.base = r.pointer});  // mov qword [pointer], head
  r.head_at = e.p;
  e.u32(0);
  report_block(r.unit)->prologue = static_cast<uint16_t>(e.p - r.start);
}

void emit_epilogue(Reporting& r, Emitter& e, Address guest) {
  const uint32_t tick = 8 * r.words;
  __builtin_memcpy(r.tick_at, &tick, sizeof tick);
  const uint32_t head = report_head(r.unit, r.words + 1);
  __builtin_memcpy(r.head_at, &head, sizeof head);
  emit_operand(e, false, true, false, 0x8d, r.pointer, {.base = r.pointer, .disp = tick + 8});  // lea
  e.store(r.pointer, BACKSTEP_FIELD(report_at));
  e.load(r.pointer, kSpill);
  e.load(r.scratch, kSpill + 8);
  ReportBlock& b = *report_block(r.unit);
  b.guest = guest;
  b.sites = static_cast<uint16_t>(r.sites);
  b.words = static_cast<uint16_t>(r.words + 1);
  b.restored = static_cast<uint16_t>(e.p - r.start);
  b.pointer = static_cast<uint8_t>(r.pointer), b.scratch = static_cast<uint8_t>(r.scratch);
}

// The word that has the value of a register, which is put there if there is none.
unsigned word_of(Reporting& r, Emitter& e, int reg) {
  if (!r.known[reg]) {
    r.known[reg] = static_cast<uint16_t>(r.words++);
    r.since[reg] = 0;
    emit_word(e, r, reg, r.known[reg]);
  }
  return r.known[reg];
}

struct Place {
  unsigned at = 0;
  uint64_t add = 0;
};

Place thread_local_place(Reporting& r, Emitter& e, const Operand& op) {
  auto base = [&] {
    if (context().features & kHaveFsgsbase) {
      e.u8(0xf3), e.u8(static_cast<uint8_t>(0x48 | r.scratch >> 3)), e.u8(0x0f), e.u8(0xae);
      e.u8(static_cast<uint8_t>(0xc0 | (r.scratch & 7)));  // rdfsbase
    } else {
      e.load(r.scratch, BACKSTEP_FIELD(fs_base));
    }
  };
  const auto disp = static_cast<uint64_t>(op.disp);
  if (op.base < 0 && op.index < 0) {
    if (!r.known_fs) {
      base();
      r.known_fs = static_cast<uint16_t>(r.words++);
      emit_word(e, r, r.scratch, r.known_fs);
    }
    return {r.known_fs, disp};
  }
  base();
  Operand sum{.base = r.scratch, .index = op.index, .scale = op.scale};
  if (op.index < 0) sum.index = op.base, sum.scale = 0;
  emit_operand(e, false, true, false, 0x8d, r.scratch, sum);
  emit_word(e, r, r.scratch, r.words);
  return {r.words++, disp};
}

Place place_of(Reporting& r, Emitter& e, bool fs, const Operand& op) {
  if (fs) return thread_local_place(r, e, op);
  const auto disp = static_cast<uint64_t>(op.disp);
  if (op.base < 0 && op.index < 0) return {0, disp};
  if (op.index < 0) {
    const unsigned at = word_of(r, e, op.base);
    return {at, disp + static_cast<uint64_t>(r.since[op.base])};
  }
  emit_operand(e, false, true, false, 0x8d, r.scratch, op);
  emit_word(e, r, r.scratch, r.words);
  return {r.words++, 0};
}

bool is_plain_byte(const Insn& in, unsigned reg) {  // not ah, ch, dh, bh
  return in.rex || reg < 4;
}

// The register that has what was loaded, behind the instruction; -1: none.
int loaded_register(const Insn& in) {
  if (in.encoding != 0 || in.cls != Class::Plain) return -1;
  const unsigned reg = (in.modrm >> 3 & 7) | (in.rex & 4) << 1;
  if (in.map == 0) {
    if (in.opcode >= 0x58 && in.opcode <= 0x5f) {
      const int popped = (in.opcode & 7) | (in.rex & 1) << 3;
      return popped == RSP ? -1 : popped;
    }
    if (in.opcode == 0xc9) return RBP;
    if (in.opcode == 0x8b || in.opcode == 0x63) return static_cast<int>(reg);
    return in.opcode == 0x8a && is_plain_byte(in, reg) ? static_cast<int>(reg) : -1;
  }
  const bool extends = in.opcode == 0xb6 || in.opcode == 0xb7 || in.opcode == 0xbe || in.opcode == 0xbf;
  return in.map == 1 && extends ? static_cast<int>(reg) : -1;
}

// The register that is stored, as it is; -1: none.
int stored_register(const Insn& in) {
  if (in.encoding != 0 || in.map != 0) return -1;
  const unsigned reg = (in.modrm >> 3 & 7) | (in.rex & 4) << 1;
  if (in.opcode >= 0x50 && in.opcode <= 0x57) return (in.opcode & 7) | (in.rex & 1) << 3;
  if (in.opcode == 0x89 || (in.opcode == 0x88 && is_plain_byte(in, reg))) return static_cast<int>(reg);
  return -1;
}

bool stored_constant(const Insn& in, const uint8_t* code, Address pc, uint64_t& value) {
  if (in.cls == Class::Call || in.cls == Class::CallInd) {
    value = pc + in.length;
    return true;
  }
  if (in.encoding != 0 || in.map != 0) return false;
  const uint8_t* end = code + in.length;
  if (in.opcode == 0xc6 || in.opcode == 0x6a) {
    value = static_cast<uint64_t>(static_cast<int8_t>(end[-1]));
    return true;
  }
  if (in.opcode != 0xc7 && in.opcode != 0x68) return false;
  int32_t wide;
  int16_t half;
  __builtin_memcpy(&wide, end - 4, 4);
  __builtin_memcpy(&half, end - 2, 2);
  value = static_cast<uint64_t>(in.opsize && !(in.rex & 8) ? half : wide);
  return true;
}

ReportSite& new_site(Reporting& r, unsigned k, Address pc, const Place& place, unsigned size) {
  ReportSite& s = report_sites(r.unit)[r.sites++];
  s = {};
  s.add = place.add;
  s.address_at = static_cast<uint16_t>(place.at);
  s.pc = static_cast<uint16_t>(pc - r.guest);
  s.size = static_cast<uint8_t>(size);
  s.instruction = static_cast<uint8_t>(k);
  return s;
}

void emit_sites(Reporting& r, Emitter& e, unsigned k, const Insn& in, const uint8_t* code, Address pc,
                const Accesses& a) {
  const bool fs = in.fs;
  Place place;
  unsigned loaded = 0;
  if (a.loads) {
    const bool operand = a.load.where == Load::Operand;
    const Operand op = operand                       ? operand_of(in, code, pc)
                       : a.load.where == Load::Frame ? Operand{.base = RBP}
                                                     : Operand{.base = RSP};
    place = place_of(r, e, operand && fs, op);
    loaded = r.words++;
    r.loaded_register = loaded_register(in);
    if (r.loaded_register >= 0) {
      r.loaded = static_cast<uint16_t>(loaded);
    } else {
      emit_value(e, r.scratch, operand && fs, op, a.load.size);
      emit_word(e, r, r.scratch, loaded);
    }
    ReportSite& s = new_site(r, k, pc, place, a.load.size);
    s.old_at = s.new_at = static_cast<uint16_t>(loaded);
  }
  if (!a.stores) return;
  const bool operand = a.store.where == Store::Operand;
  const Operand op = operand ? operand_of(in, code, pc) : Operand{.base = RSP, .disp = -8};
  const bool same = a.loads && operand;  // one that is changed
  if (!same) place = place_of(r, e, operand && fs, op);
  unsigned old = same ? loaded : 0;
  if (!old) {
    old = r.words++;
    emit_value(e, r.scratch, operand && fs, op, a.store.size);
    emit_word(e, r, r.scratch, old);
  }
  ReportSite& s = new_site(r, k, pc, place, a.store.size);
  s.store = true;
  s.old_at = static_cast<uint16_t>(old);
  if (stored_constant(in, code, pc, s.value)) return;
  const int reg = stored_register(in);
  if (reg >= 0) {
    if (r.since[reg]) r.known[reg] = 0;
    s.new_at = static_cast<uint16_t>(word_of(r, e, reg));
    return;
  }
  s.new_at = r.read_back = static_cast<uint16_t>(r.words++);
  r.read_back_size = a.store.size;
}

// By how much it moves the stack pointer; false: not known.
bool moves_stack(const Insn& in, const uint8_t* code, int64_t& by) {
  if (in.encoding != 0 || in.opsize) return false;
  const uint8_t op = in.opcode;
  if (in.map == 1) {
    by = op == 0xa0 || op == 0xa8 ? -8 : 8;
    return op == 0xa0 || op == 0xa8;
  }
  if (in.map != 0) return false;
  if ((op >= 0x50 && op <= 0x57) || op == 0x68 || op == 0x6a || op == 0x9c ||
      (op == 0xff && (in.modrm >> 3 & 7) == 6)) {
    by = -8;
    return true;
  }
  if ((op >= 0x58 && op <= 0x5f && ((op & 7) | (in.rex & 1) << 3) != RSP) || op == 0x9d) {
    by = 8;
    return true;
  }
  // add, sub rsp, constant
  if ((op != 0x83 && op != 0x81) || (in.rex & 9) != 8 || in.modrm >> 6 != 3 || (in.modrm & 7) != RSP)
    return false;
  const unsigned what = in.modrm >> 3 & 7;
  int32_t wide;
  __builtin_memcpy(&wide, code + in.length - 4, 4);
  by = op == 0x83 ? static_cast<int8_t>(code[in.length - 1]) : wide;
  if (what == 5) by = -by;
  return what == 0 || what == 5;
}

// Which words still have the values of registers.
void follow_registers(Reporting& r, const Insn& in, const uint8_t* code) {
  uint32_t changed = isa::registers_of(in, code).changed;
  int64_t by = 0;
  if (changed >> RSP & 1 && moves_stack(in, code, by)) {
    r.since[RSP] += by;
    changed &= ~(1u << RSP);
  }
  const bool leave = in.encoding == 0 && in.map == 0 && in.opcode == 0xc9 && !in.opsize;
  if (leave) {
    r.known[RSP] = r.known[RBP];
    r.since[RSP] = r.since[RBP] + 8;
    changed &= ~(1u << RSP);
  }
  for (unsigned reg = 0; reg < 16; reg++)
    if (changed >> reg & 1) r.known[reg] = 0;
  if (in.map == 1 && in.opcode == 0xae && !in.memory_operand()) r.known_fs = 0;  // wrfsbase
  if (r.loaded) {
    r.known[r.loaded_register] = r.loaded;
    r.since[r.loaded_register] = 0;
  }
}

}  // namespace

void plan_report(Reporting& r, Address start, Address end, Address range_end, unsigned most, bool transient) {
  const Cache& c = bs_cache;
  r.active = true;
  r.guest = start;
  r.unit = c.report_units;
  uint32_t used = 0;
  Address pc = start;
  while (r.count < most && pc < end) {
    if (r.count > 0 && !transient && find(pc).cache) break;
    auto* code = reinterpret_cast<const uint8_t*>(pc);
    const Insn in = isa::decode(code, range_end - pc);
    if ((in.cls == Class::Evex && !c.evex_seen) || in.cls == Class::Bad) break;
    const Accesses a = accesses_of(in, code, pc);
    const isa::Registers named = isa::registers_of(in, code);
    const bool straight = in.cls == Class::Plain;
    const uint32_t more = used | named.address | named.others;
    const uint32_t free = kBorrowable & ~(straight ? more : used | named.address);
    const bool crowded = (a.any() || (r.any && straight)) && !has_two(free);
    if (a.any() && (!can_be_reported(a, in, code, pc) || (crowded && r.count == 0))) {
      r.alone = true;
      r.count++;
      break;
    }
    if (crowded) break;
    r.any |= a.any();
    if (straight || a.any()) used = straight ? more : used | named.address;
    r.count++;
    pc += in.length;
    if (!straight) break;
  }
  const uint32_t free = kBorrowable & ~used;
  const auto seed = static_cast<unsigned>(start * 0x9e37'79b9'7f4a'7c15 >> 60);
  r.pointer = some_register(free, seed);
  r.scratch = some_register(free & ~(1u << r.pointer), seed + 5);
}

void emit_alone(Emitter& e, const Insn& in, Address pc) {
  const uint32_t id = bs_cache.exits++;
  kExits[id] = {pc, 0, ExitKind::Watch, in.length, 0};
  e.store_imm32(BACKSTEP_FIELD(exit), id);
  e.jump(pad_address(Pad::HostOp));
}

void emit_report_before(Reporting& r, Emitter& e, unsigned k, const Insn& in, const uint8_t* code,
                        Address pc) {
  if (!r.any) return;
  uint8_t* const at = e.p;
  const bool last = k + 1 == r.count;
  if (k == 0) emit_prologue(r, e);
  const unsigned first = r.sites;
  r.loaded = r.read_back = 0;
  if (!(last && r.alone)) {
    const Accesses a = accesses_of(in, code, pc);
    if (a.any()) emit_sites(r, e, k, in, code, pc, a);
  }
  if (last && (r.alone || in.cls != Class::Plain)) emit_epilogue(r, e, r.guest);
  for (unsigned i = first; i < r.sites; i++) report_sites(r.unit)[i].front = static_cast<uint8_t>(e.p - at);
  if (last) report_block(r.unit)->last_front = static_cast<uint8_t>(e.p - at);
  r.first_site = first;
  r.at = at;
}

void emit_report_after(Reporting& r, Emitter& e, unsigned k, const Insn& in, const uint8_t* code,
                       Address pc) {
  if (!r.any) return;
  for (unsigned i = r.first_site; i < r.sites; i++)
    report_sites(r.unit)[i].back = static_cast<uint8_t>(e.p - r.at);
  if (in.cls != Class::Plain || (r.alone && k + 1 == r.count)) return;
  if (r.loaded) emit_word(e, r, r.loaded_register, r.loaded);
  if (r.read_back) {
    const bool operand = isa::store_of(in, code).where == Store::Operand;
    const Operand op = operand ? operand_of(in, code, pc) : Operand{.base = RSP};
    emit_value(e, r.scratch, operand && in.fs, op, r.read_back_size);
    emit_word(e, r, r.scratch, r.read_back);
  }
  follow_registers(r, in, code);
  if (k + 1 == r.count) emit_epilogue(r, e, r.guest);
}

ReportFault after_report_fault(const Block& block, uint32_t offset, unsigned k, uint32_t begin) {
  Context& ctx = context();
  const ReportBlock& b = *report_block(block.report);
  const ReportSite* sites = report_sites(block.report);
  ReportFault result;
  auto give_back = [&] {
    ctx.gpr[b.pointer] = ctx.report_spill[0];
    ctx.gpr[b.scratch] = ctx.report_spill[1];
  };
  if (offset < b.prologue) {
    give_back();
    result.full = true;
    return result;
  }
  result.front = k == 0 ? b.prologue : 0;
  if (k + 1 == block.count) result.front = b.last_front;
  for (unsigned i = 0; i < b.sites; i++) {
    if (sites[i].instruction != k) continue;
    result.front = sites[i].front;
    result.ours = offset < begin + sites[i].front || offset >= begin + sites[i].back;
  }
  if (offset < b.restored) {
    give_back();
    ctx.report_at += 8ull * b.words;
  }
  const uint32_t cut = k + 1;
  __builtin_memcpy(reinterpret_cast<uint8_t*>(ctx.report_at) - 8ull * b.words + 4, &cut, sizeof cut);
  return result;
}

void report_context(uint64_t event, uint32_t thread) {
  const ReportContext record{ReportContext::kId, thread, event};
  auto* at = reinterpret_cast<uint8_t*>(context().report_at);
  __builtin_memcpy(at, &record, sizeof record);
  context().report_at += sizeof record;
}

void report_access(const ReportedAccess& access) {
  auto* at = reinterpret_cast<uint8_t*>(context().report_at);
  __builtin_memcpy(at, &access, sizeof access);
  context().report_at += sizeof access;
}

Writer bs_writer;

namespace {

uint64_t first_bytes(Address at, uint64_t size) {
  uint64_t value = 0;
  if (!bs_guarded_copy(&value, reinterpret_cast<const void*>(at), size < 8 ? size : 8)) value = 0;
  return value;
}

}  // namespace

void report_write(Address start, uint64_t size) {
  Writer& w = bs_writer;
  end_write();
  if (!w.writing || !bs_cache.report_stores || !is_wanted(w.pc)) return;
  if (report_room() < sizeof(ReportedAccess)) {
    w.lost = true;
    return;
  }
  constexpr uint64_t kMost = 0xffff'ffff;
  w.open = context().report_at;
  report_access({ReportedAccess::kId, static_cast<uint32_t>(size < kMost ? size : kMost), w.tick, w.event,
                 w.pc, start, first_bytes(start, size), 0, w.thread, true, w.by_kernel});
}

void end_write() {
  if (!bs_writer.open) return;
  auto* record = reinterpret_cast<ReportedAccess*>(bs_writer.open);
  bs_writer.open = 0;
  record->new_value = first_bytes(record->address, record->size);
}

}  // namespace backstep::engine
