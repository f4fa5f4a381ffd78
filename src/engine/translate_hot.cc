// From guest instructions to cache code.
//
// Most instructions are copied. What changes:
//
//   call f          push return-address; tick; jmp f'
//   ret             vmovq xmm29, r11; pop r11; mov r11d, gs:[r11*4]; jmp r11     (tick at the landing)
//   jmp/call r/m    likewise, and the target is stored so that a miss can find it
//   jcc backward    jncc over; tick; jmp target'; over:
//   jcc forward     jcc target'
//   [rip+d]         d adjusted; if out of reach, through a spilled register
//   syscall         mov ecx, next; lea r11, [cont]; jmp pad; cont:
//   cpuid, rdtsc …  mov [exit], id; jmp pad
//
// tick is `vpaddq xmm31, xmm31, xmm30` (6 bytes, no flags, no memory) where the CPU has AVX-512, which is
// hidden from the guest; else load, lea, store through a spilled rax, which keeps flags as well.
//
// With checking on, a tick must also stop the guest at the limit. A compare and branch would need the guest's
// flags, and to keep those costs more than all the rest. So the check is a load that faults at the limit:
//
//   mov [spill], reg; vpaddq xmm31, xmm31, xmm30; vpextrd reg32, xmm31, 3; mov reg, [spill + reg*8]
//
// The upper half of xmm31 counts along, from a start (Context::alarm) that makes it carry into its upper 32
// bits exactly at the limit: reg is 0 and then 1, and what lies behind the spill slot is a page without
// access (layout::kFence). No flags, no branch; at a landing, where r11 must be loaded anyway, there are only
// the extract and an index more. The fault handler finds the place in kChecks. The load takes its time: reg
// should not be one that the loop waits for.
//
// A counter in memory is compared, with flags kept by lahf/seto.
//
// Code is laid down in the order in which it is first executed; a block that ends in a jump to code not
// translated yet has that jump overwritten by its target when execution goes there at once (links_hot.cc).
#include "base/hot.h"
#include "engine/cache.h"
#include "engine/emit.h"
#include "engine/report.h"
#include "isa/decode.h"

namespace backstep::engine {

Cache bs_cache;

namespace {

using isa::Class;
using isa::Insn;

constexpr uint64_t kReserve = 32 << 10;  // one block never needs more than this, stubs included

constexpr unsigned kMaxBlock = 64;

struct Branch {
  uint32_t patch;
  Address target;
};

struct Builder {
  Emitter e;
  unsigned branch_count = 0;
  uint32_t used = 0;               // general registers that the block's instructions name, as far as known
  Branch branches[kMaxBlock + 4];  // left uninitialised: this is on the path of every translation

  Builder() {}  // NOLINT: see above

  void branch(uint32_t patch, Address target) { branches[branch_count++] = {patch, target}; }
  void jump(Address target) { branch(e.jump(0), target); }
};

// Registers that an instruction names in its ModRM, SIB or opcode. Only a hint: where it is wrong, code is
// slow.
uint32_t named_registers(const Insn& in, const uint8_t* code) {
  const unsigned r = (in.rex & 4) << 1, x = (in.rex & 2) << 2, b = (in.rex & 1) << 3;
  if (!in.modrm_at) {
    const bool named = in.map == 0 && ((in.opcode & 0xf0) == 0x50 || (in.opcode & 0xf0) == 0xb0);
    return named ? 1u << ((in.opcode & 7) | b) : 0;
  }
  const uint32_t reg = 1u << ((in.modrm >> 3 & 7) | r);
  if (!in.memory_operand() || (in.modrm & 7) != 4) return reg | 1u << ((in.modrm & 7) | b);
  const uint8_t sib = code[in.modrm_at + 1];
  return reg | 1u << ((sib & 7) | b) | 1u << ((sib >> 3 & 7) | x);
}

void emit_count(Emitter& e) {
  static constexpr uint8_t kCount[] = {0x62, 0x01, 0x85, 0x00, 0xd4, 0xfe};  // vpaddq xmm31, xmm31, xmm30
  e.raw(kCount);
}

// Counts and loads `reg` from the spill slot, or stops at the limit.
void emit_count_and_check(Emitter& e, Address target, int reg) {
  const int high = reg >> 3, low = reg & 7;
  emit_count(e);
  e.u8(0x62), e.u8(high ? 0x43 : 0x63), e.u8(0x7d), e.u8(0x08), e.u8(0x16);
  e.u8(static_cast<uint8_t>(0xf8 | low)), e.u8(3);  // vpextrd reg32, xmm31, 3
  kChecks[bs_cache.checks++] = {target, e.address(), static_cast<uint32_t>(reg)};
  e.u8(high ? 0x4e : 0x48), e.u8(0x8b), e.u8(static_cast<uint8_t>(0x04 | low << 3));
  e.u8(static_cast<uint8_t>(0xc5 | low << 3)), e.u32(BACKSTEP_FIELD(spill_r11));  // mov reg, [spill + reg*8]
}

// The counter in memory.
void emit_memory_tick(Emitter& e, Address target) {
  static constexpr uint8_t kSaveFlags[] = {0x9f, 0x0f, 0x90, 0xc0};  // lahf; seto al
  static constexpr uint8_t kRestoreFlags[] = {0x04, 0x7f, 0x9e};     // add al, 0x7f; sahf
  static constexpr uint8_t kAddOne[] = {0x48, 0x8d, 0x40, 0x01};     // lea rax, [rax+1]
  const bool check = bs_cache.check;
  e.store(RAX, BACKSTEP_FIELD(spill_rax));
  if (check) {
    e.raw(kSaveFlags);
    e.store(RAX, BACKSTEP_FIELD(spill_flags));
  }
  e.load(RAX, BACKSTEP_FIELD(tick));
  e.raw(kAddOne);
  e.store(RAX, BACKSTEP_FIELD(tick));
  if (check) {
    e.u8(0x48), e.u8(0x3b), e.u8(0x04), e.u8(0x25), e.u32(BACKSTEP_FIELD(limit));  // cmp rax, [limit]
    // The stop stub restores flags and rax and leaves.
    bs_cache.cold -= 64;
    Emitter stub{bs_cache.cold};
    e.u8(0x0f), e.u8(0x83);  // jae stub
    e.relative(stub.address());
    stub.load(RAX, BACKSTEP_FIELD(spill_flags));
    stub.raw(kRestoreFlags);
    stub.load(RAX, BACKSTEP_FIELD(spill_rax));
    uint32_t id = bs_cache.exits++;
    kExits[id] = {target, 0, ExitKind::TickStop, 0, 0};
    stub.store_imm32(BACKSTEP_FIELD(exit), id);
    stub.jump(pad_address(Pad::Tick));

    e.load(RAX, BACKSTEP_FIELD(spill_flags));
    e.raw(kRestoreFlags);
  }
  e.load(RAX, BACKSTEP_FIELD(spill_rax));
}

// `scratch`: what a check may borrow.
void emit_tick(Emitter& e, Address target, int scratch) {
  if (!bs_cache.vector) {
    emit_memory_tick(e, target);
  } else if (bs_cache.check) {
    e.store(scratch, BACKSTEP_FIELD(spill_r11));
    emit_count_and_check(e, target, scratch);
  } else {
    emit_count(e);
  }
}

void emit_keep_r11(Emitter& e) {
  static constexpr uint8_t kKeep[] = {0x62, 0x41, 0xfd, 0x08, 0x6e, 0xeb};  // vmovq xmm29, r11
  r11_in_vector() ? e.raw(kKeep) : e.store(R11, BACKSTEP_FIELD(spill_r11));
}

void emit_give_r11_back(Emitter& e) {
  static constexpr uint8_t kGiveBack[] = {0x62, 0x41, 0xfd, 0x08, 0x7e, 0xeb};  // vmovq r11, xmm29
  r11_in_vector() ? e.raw(kGiveBack) : e.load(R11, BACKSTEP_FIELD(spill_r11));
}

// Landing prefix: what every indirect branch to `pc` goes through.
void emit_landing(Emitter& e, Address pc) {
  if (bs_cache.vector && bs_cache.check) {
    emit_count_and_check(e, pc, R11);
    return;
  }
  emit_give_r11_back(e);
  emit_tick(e, pc, R11);
}

void emit_push(Emitter& e, Address value) {
  if (value < 0x8000'0000) {
    e.u8(0x68), e.u32(static_cast<uint32_t>(value));
  } else {
    bs_cache.cold -= 16;  // push qword [rip+pool]
    __builtin_memcpy(bs_cache.cold, &value, 8);
    e.u8(0xff), e.u8(0x35);
    e.relative(static_cast<uint32_t>(reinterpret_cast<uint64_t>(bs_cache.cold)));
  }
  if (bs_cache.shadow && !bs_cache.stepping) emit_shadow_push(e);
}

bool reaches(const Emitter& e, unsigned length, Address target, int32_t* disp) {
  int64_t distance = static_cast<int64_t>(target - (reinterpret_cast<uint64_t>(e.p) + length));
  *disp = static_cast<int32_t>(distance);
  return distance == *disp;
}

Address rip_target(const Insn& in, const uint8_t* code, Address pc) {
  int32_t disp;
  __builtin_memcpy(&disp, code + in.disp_at, 4);
  Address target = pc + in.length + static_cast<int64_t>(disp);
  return in.addrsize ? target & 0xffff'ffff : target;
}

// An indirect branch whose target is in r11.
void emit_lookup(Emitter& e, Address pc) {
  if (bs_cache.probe && layout::is_probe(pc)) {
    e.jump(pad_address(Pad::Probe));
  } else {
    e.raw(kLookup);
  }
}

// Copies an instruction, adjusting a RIP-relative operand.
void emit_copy(Emitter& e, const Insn& in, const uint8_t* code, Address pc) {
  if (in.disp_at == 0) {
    e.bytes(code, in.length);
    return;
  }
  Address target = rip_target(in, code, pc);
  int32_t disp;
  if (reaches(e, in.length, target, &disp)) {
    uint8_t* at = e.p;
    e.bytes(code, in.length);
    __builtin_memcpy(at + in.disp_at, &disp, 4);
    return;
  }
  // Out of reach: address in a spilled register. rsi, rdi and rbx are never implicit operands of an
  // instruction with a RIP-relative operand in a way that the choice below would not see (cmpxchg8b/16b
  // use rbx, but then rsi is free).
  unsigned reg = (in.modrm >> 3) & 7;
  unsigned vvvv = 8;
  if (in.encoding == 1) {
    uint8_t last = code[in.opcode_at - 1];
    vvvv = (~last >> 3) & 15;
  }
  static constexpr int kCandidates[] = {RSI, RDI, RBX};
  int scratch = RSI;
  for (int candidate : kCandidates)
    if (static_cast<unsigned>(candidate) != reg && static_cast<unsigned>(candidate) != vvvv) {
      scratch = candidate;
      break;
    }
  e.store(scratch, BACKSTEP_FIELD(spill_any));
  e.move_imm64(scratch, target);
  uint8_t* at = e.p;
  e.bytes(code, in.disp_at);
  at[in.modrm_at] = static_cast<uint8_t>((in.modrm & 0x38) | scratch);
  if (in.rex) at[in.rex_at] &= static_cast<uint8_t>(~1);  // REX.B off
  if (in.encoding == 1 && in.opcode_at >= 3 && code[in.opcode_at - 3] == 0xc4)
    at[in.opcode_at - 2] |= 0x20;  // VEX.B (inverted)
  if (in.encoding == 2) at[in.opcode_at - 3] |= 0x20;
  e.bytes(code + in.disp_at + 4, in.length - in.disp_at - 4u);
  e.load(scratch, BACKSTEP_FIELD(spill_any));
}

// mov r11, <operand of jmp/call r/m>
void emit_load_target(Emitter& e, const Insn& in, const uint8_t* code, Address pc) {
  if (in.disp_at) {
    Address target = rip_target(in, code, pc);
    int32_t disp;
    if (in.fs || in.gs || !reaches(e, 7, target, &disp)) {
      e.move_imm64(R11, target);
      if (in.fs) e.u8(0x64);
      if (in.gs) e.u8(0x65);
      e.u8(0x4d), e.u8(0x8b), e.u8(0x1b);  // mov r11, [r11]
    } else {
      e.u8(0x4c), e.u8(0x8b), e.u8(0x1d), e.u32(static_cast<uint32_t>(disp));
    }
    return;
  }
  if (in.fs) e.u8(0x64);
  if (in.gs) e.u8(0x65);
  if (in.addrsize) e.u8(0x67);
  e.u8(static_cast<uint8_t>(0x4c | (in.rex & 3))), e.u8(0x8b);
  e.u8(static_cast<uint8_t>((in.modrm & 0xc7) | (3 << 3)));
  e.bytes(code + in.modrm_at + 1, in.length - in.modrm_at - 1u);
}

void emit_host_op(Emitter& e, const Insn& in, Address pc) {
  uint32_t id = bs_cache.exits++;
  e.store_imm32(BACKSTEP_FIELD(exit), id);
  e.jump(pad_address(Pad::HostOp));
  kExits[id] = {pc, e.address(), ExitKind::HostOp, in.length, 0};
}

constexpr uint8_t kWriteGs[] = {0xf3, 0x49, 0x0f, 0xae, 0xdb};  // wrgsbase r11

// jmp/call gs:[…]: the guest's GS base while the target is read.
void emit_gs_target(Emitter& e, const Insn& in, const uint8_t* code, Address pc) {
  e.load(R11, BACKSTEP_FIELD(gs_base));
  e.raw(kWriteGs);
  emit_give_r11_back(e);
  emit_load_target(e, in, code, pc);
  e.store(R11, BACKSTEP_FIELD(target));
  e.load(R11, BACKSTEP_FIELD(jump_table));
  e.raw(kWriteGs);
  e.load(R11, BACKSTEP_FIELD(target));
}

void emit_gs(Emitter& e, const Insn& in, const uint8_t* code, Address pc) {
  e.store(R11, BACKSTEP_FIELD(spill_r11));
  e.load(R11, BACKSTEP_FIELD(gs_base));
  e.raw(kWriteGs);
  e.load(R11, BACKSTEP_FIELD(spill_r11));
  emit_copy(e, in, code, pc);
  e.store(R11, BACKSTEP_FIELD(spill_r11));
  e.load(R11, BACKSTEP_FIELD(jump_table));
  e.raw(kWriteGs);
  e.load(R11, BACKSTEP_FIELD(spill_r11));
}

// ud2, to the size of a jump: invalidating a block puts one over its start.
void emit_undefined(Emitter& e) {
  static constexpr uint8_t kUndefined[] = {0x0f, 0x0b, 0x0f, 0x0b, 0x0f, 0x0b};
  static_assert(sizeof kUndefined >= kJumpSize);
  e.raw(kUndefined);
}

// Translates one instruction. Returns true when the block ends with it.
bool emit_instruction(Builder& b, const Insn& in, const uint8_t* code, Address pc) {
  Emitter& e = b.e;
  Address next = pc + in.length;
  Address target = next + static_cast<int64_t>(in.rel);
  switch (in.cls) {
    case Class::Evex:
      if (bs_cache.probe && layout::is_probe(pc)) {
        emit_undefined(e);  // its upper registers are the engine's, or the guest's
        return true;
      }
      if (in.gs && (context().features & kHaveFsgsbase)) {
        emit_gs(e, in, code, pc);
        return false;
      }
      [[fallthrough]];
    case Class::Plain:
      emit_copy(e, in, code, pc);
      return false;
    case Class::Jcc: {
      uint8_t condition = in.opcode & 15;
      if (target > pc) {
        e.u8(0x0f), e.u8(0x80 | condition);
        b.branch(e.relative(0), target);
        return false;
      }
      e.u8(0x70 | (condition ^ 1));
      uint8_t* over = e.p;
      e.u8(0);
      emit_tick(e, target, idle_register(b.used));
      b.jump(target);
      *over = static_cast<uint8_t>(e.p - over - 1);
      return false;
    }
    case Class::Loop: {
      if (in.addrsize) e.u8(0x67);
      if (in.rep || in.repne)
        e.u8(in.rep ? 0xf3 : 0xf2);  // on AMD they override the condition of loope, loopne
      e.u8(in.opcode), e.u8(2);
      e.u8(0xeb);
      uint8_t* over = e.p;
      e.u8(0);
      if (target <= pc) emit_tick(e, target, idle_register(b.used));
      b.jump(target);
      *over = static_cast<uint8_t>(e.p - over - 1);
      return false;
    }
    case Class::Jmp:
      if (target <= pc) emit_tick(e, target, idle_register(b.used));
      b.jump(target);
      return true;
    case Class::Call:
      emit_push(e, next);
      emit_tick(e, target, R10);
      b.jump(target);
      return true;
    case Class::Ret:
      emit_keep_r11(e);
      e.u8(0x41), e.u8(0x5b);  // pop r11
      if (in.opcode == 0xc2) {
        e.u8(0x48), e.u8(0x8d), e.u8(0xa4), e.u8(0x24),
            e.u32(static_cast<uint32_t>(in.rel));  // lea rsp, [rsp+n]
        e.store(R11, BACKSTEP_FIELD(target));
      }
      emit_lookup(e, pc);
      return true;
    case Class::JmpInd:
    case Class::CallInd:
      emit_keep_r11(e);
      if (in.gs && in.memory_operand()) {
        emit_gs_target(e, in, code, pc);
      } else {
        emit_load_target(e, in, code, pc);
      }
      if (in.cls == Class::CallInd) emit_push(e, next);
      e.store(R11, BACKSTEP_FIELD(target));
      emit_lookup(e, pc);
      return true;
    case Class::Syscall:
      if (next < 0x8000'0000) {
        e.u8(0xb9), e.u32(static_cast<uint32_t>(next));
      } else {
        e.move_imm64(RCX, next);
      }
      e.u8(0x4c), e.u8(0x8d), e.u8(0x1d), e.u32(5);  // lea r11, [rip+5]
      e.jump(pad_address(Pad::Syscall));
      return false;
    case Class::Gs:
      if (in.gs && (context().features & kHaveFsgsbase)) {
        emit_gs(e, in, code, pc);
      } else {
        emit_host_op(e, in, pc);
      }
      return false;
    case Class::Trap:
      e.bytes(code, in.length);
      emit_undefined(e);  // should one ever not fault (rdpmc, I/O where the kernel allows it)
      return true;
    case Class::Forbidden:
      emit_undefined(e);
      return true;
    case Class::FarRet:
    case Class::Iret:
    case Class::Bad:
      emit_host_op(e, in, pc);
      return true;
    default:  // everything else that the host answers and then goes on
      emit_host_op(e, in, pc);
      return false;
  }
}

const FetchRange* fetch_range(Address pc) {
  for (const FetchRange& r : bs_cache.fetch)
    if (pc >= r.start && pc < r.end - r.overhang) return &r;
  return nullptr;
}

void watch(PageCode* page) {
  if (page->watched) return;
  hot::syscall6(10 /*mprotect*/, static_cast<long>(page->page), layout::kPage, 1 /*PROT_READ*/, 0, 0, 0);
  page->watched = 1;
  bs_cache.watched_pages++;
}

void fill_chunk(PageCode* page, Address pc) {
  if (pc >= layout::kDirectEnd) return;
  unsigned chunk = (pc >> 10) & 3;
  if (page->filled & (1 << chunk)) return;
  page->filled |= static_cast<uint8_t>(1 << chunk);
  hot::fill32(kJumps + (pc & ~1023ull), pad_address(Pad::Miss), 1024);
}

void add_to_page(PageCode* page, uint32_t block, unsigned start, unsigned end) {
  PageNode* node = page->nodes ? &kNodes[page->nodes] : nullptr;
  if (!node || node->count == 15) {
    uint32_t fresh = bs_cache.nodes++;
    kNodes[fresh].next = page->nodes;
    kNodes[fresh].count = 0;
    page->nodes = fresh;
    node = &kNodes[fresh];
  }
  node->entries[node->count++] = {static_cast<uint16_t>(start), static_cast<uint16_t>(end), block};
}

}  // namespace

void emit_landing_stub(Emitter& e, Address pc, uint32_t block, uint32_t body) {
  emit_landing(e, pc);
  add_link(block, e.jump(body), pc);
}

void reset_fetch() {
  for (FetchRange& r : bs_cache.fetch) r = {};
}

PageCode* page_of(Address pc, bool create) {
  Address page = pc & ~(layout::kPage - 1);
  uint32_t* slot;
  if (pc < layout::kDirectEnd) {
    slot = &kDirectPages[page >> 12];
  } else {
    uint32_t index = static_cast<uint32_t>((page >> 12) * 0x9e3779b1u) % kPageHash;
    while (kWidePages[index] && kPages[kWidePages[index]].page != page) index = (index + 1) % kPageHash;
    slot = &kWidePages[index];
  }
  if (!*slot) {
    if (!create) return nullptr;
    uint32_t fresh = bs_cache.pages++;
    PageCode& p = kPages[fresh];
    p.page = page;
    p.nodes = 0;
    p.filled = 0;
    p.watched = 0;
    for (uint64_t& word : p.starts) word = 0;
    *slot = fresh;
  }
  return &kPages[*slot];
}

uint32_t set_landing(Address pc, uint32_t address) {
  note_entered(pc);
  if (bs_cache.probe && layout::is_probe(pc)) {
    kProbeLandings[pc - layout::kProbe] = address;
  } else if (pc < layout::kDirectEnd) {
    fill_chunk(page_of(pc, true), pc);
    kJumps[pc] = address;
  } else {
    kWide[static_cast<uint16_t>(pc ^ (pc >> 16))] = {pc, address};
  }
  return address;
}

uint32_t new_exit_stub(const Exit& exit) {
  uint32_t id = bs_cache.exits++;
  kExits[id] = exit;
  bs_cache.cold -= 16;
  Emitter stub{bs_cache.cold};
  stub.store_imm32(BACKSTEP_FIELD(exit), id);
  stub.jump(pad_address(Pad::Branch));
  return static_cast<uint32_t>(reinterpret_cast<uint64_t>(bs_cache.cold));
}

Result translate(Address start, bool landing, bool transient, uint32_t* address) {
  Cache& c = bs_cache;
  const FetchRange* range = out_of_reach(start) ? nullptr : fetch_range(start);
  if (!range) return Result::NeedFetch;
  const Address range_start = range->start, range_end = range->end;
  if (static_cast<uint64_t>(c.cold - c.hot) < kReserve || c.pages >= kPageHash / 2 ||
      c.report_units >= kMostReportUnits)
    return Result::NeedFlush;

  PageCode* page = transient ? nullptr : page_of(start, true);
  const Address page_end = (start & ~(layout::kPage - 1)) + layout::kPage;
  const bool probe = c.probe && layout::is_probe(start);
  Builder b;
  b.e.p = c.hot;
  uint32_t exits_before = c.exits, checks_before = c.checks;
  uint8_t* cold_before = c.cold;

  *address = b.e.address();
  if (landing) emit_landing(b.e, start);
  const uint32_t body = b.e.address();
  uint8_t* meta = kMeta + c.meta;
  unsigned count = 0;
  Address pc = start;
  unsigned max = transient ? 1 : c.max_block;
  Reporting report;
  if (c.report && !c.stepping) {
    plan_report(report, start, page_end, range_end, max, transient);
    if (report.count) max = report.count;  // else: nothing can be executed here
  }
  bool ended = false;
  uint32_t tail_patch = 0;
  while (!ended) {
    bool stop = count == max || pc >= page_end;
    if (!stop && count > 0 && (page->starts[(pc & 4095) / 64] >> (pc % 64) & 1) && find(pc).cache)
      stop = true;
    if (stop) {
      b.jump(pc);
      break;
    }
    auto* code = reinterpret_cast<const uint8_t*>(pc);
    Insn in = isa::decode(code, range->end - pc);
    if (in.cls == Class::Evex && !c.evex_seen && !probe) {
      // The block ends in front of it, so that the change happens when control gets there, in every mode.
      if (count == 0) {
        c.exits = exits_before;
        c.checks = checks_before;
        c.cold = cold_before;
        return Result::NeedCounter;
      }
      b.jump(pc);
      break;
    }
    if (in.cls == Class::Bad && count > 0) {
      b.jump(pc);
      break;
    }
    uint8_t* at = b.e.p;
    if (c.check || c.watch || probe) b.used |= named_registers(in, code);
    // What an instruction becomes has at most 255 bytes.
    const bool roomy = !in.gs && !c.watch && (c.vector || !c.check);
    if (c.inline_breaks && !transient) emit_prefix(b.e, pc, roomy);
    if ((c.watch || probe) && !c.stepping) emit_store_check(b.e, in, code, pc, b.used);
    const bool shadow = c.shadow && !c.stepping;
    if (shadow) emit_shadow_question(b.e, in, code, pc);
    if (report.active) emit_report_before(report, b.e, count, in, code, pc);
    if (report.alone && count + 1 == max) {
      emit_alone(b.e, in, pc);
      ended = true;
    } else {
      ended = emit_instruction(b, in, code, pc);
    }
    if (report.active) emit_report_after(report, b.e, count, in, code, pc);
    if (shadow) emit_shadow_mark(b.e, in, code, pc);
    const bool straight = in.cls == Class::Plain || in.cls == Class::Evex || in.cls == Class::Gs;
    meta[2 * count] = in.length;
    meta[2 * count + 1] = static_cast<uint8_t>(b.e.p - at);
    count++;
    pc += in.length;
    if (in.cls == Class::Bad) pc += 1;
    if (c.cover && !ended && !straight) {
      b.jump(pc);
      break;
    }
  }
  if (b.branch_count && b.branches[b.branch_count - 1].patch + 4 == b.e.address())
    tail_patch = b.branches[b.branch_count - 1].patch;

  // Enter the block into the books.
  uint32_t id = c.blocks++;
  kBlocks[id] = {start,
                 body,
                 c.meta,
                 0,
                 static_cast<uint16_t>(pc - start),
                 static_cast<uint16_t>(b.e.address() - body),
                 static_cast<uint16_t>(count),
                 0,
                 range->stable,
                 report.any ? report.unit : 0};
  if (report.any) c.report_units += report_units(report.sites);
  c.meta += 2 * count;
  c.hot = b.e.p;
  c.stats.blocks++;
  c.stats.instructions += count;
  c.tail_exit = 0;
  if (!transient) {
    unsigned offset = start & 4095;
    unsigned end = static_cast<unsigned>(pc - start) + offset;
    add_to_page(page, id, offset, end < 4096 ? end : 4096);
    const unsigned entries = c.report ? 1 : count;
    for (unsigned i = 0, o = offset; i < entries; o += meta[2 * i++])
      page->starts[o / 64] |= 1ull << (o % 64);
    if (!probe) fill_chunk(page, start);
    if (range->writable) watch(page);
    if (end > 4096) {
      PageCode* second = page_of(page_end, true);
      add_to_page(second, id, 0, end - 4096);
      if (range->writable) watch(second);
    }
  }
  // Resolve the branches: linked where the target is known, through an exit stub where not.
  for (unsigned i = 0; i < b.branch_count; i++) {
    Branch br = b.branches[i];
    bool linkable = c.link && !transient;
    // Code that may be kept is kept without links to other ranges: the next process may map others.
    const bool crossing = kBlocks[id].stable && (br.target < range_start || br.target >= range_end);
    if (out_of_reach(br.target)) linkable = false;
    Found f = linkable && !crossing ? find(br.target) : Found{};
    if (f.cache) {
      note_entered(br.target);
      patch_relative(br.patch, f.cache);
      add_link(f.block, br.patch, br.target);
      continue;
    }
    uint32_t stub = new_exit_stub({br.target, linkable ? br.patch : 0, ExitKind::Branch, crossing, 0});
    patch_relative(br.patch, stub);
    if (linkable && !crossing && br.patch == tail_patch) {
      c.tail_exit = c.exits - 1;
      c.tail_block = id;
    }
  }
  if (landing) set_landing(start, *address);
  if (c.break_count && !transient) patch_breaks_of(kBlocks[id]);
  return Result::Ok;
}

}  // namespace backstep::engine
