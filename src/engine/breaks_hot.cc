// Places in guest code where something is to happen: the guest stops, a client is asked, passes are counted.
//
// The plain form is a breakpoint: int3 over the first byte of an instruction's translation. Every instruction
// has one place in the cache (nothing is translated twice, and with keep_jumps no jump is elided), so the
// byte there is passed whenever the guest is about to execute it, however control came. The signal handler
// (faults_hot.cc) finds the guest's registers exact at that boundary. Setting and removing a breakpoint
// changes one byte: no code is thrown away, so a checkpoint that was made without breakpoints can be
// continued with some at no cost. Stepping runs a translation of its own (transient) and meets none.
//
// A signal takes 4 us, too long for what is passed ten million times. What turns out to be passed often is
// *inlined*: the code is translated anew, with a prefix in front of the instruction. A *question* is a hot
// exit that asks the client and goes on if it has nothing for the host to do; a *counter* just counts:
//
//   mov [exit], id; jmp pad; instruction
//   mov [spill], rax; mov rax, [count]; lea rax, [rax+1]; mov [count], rax; mov rax, [spill]; instruction
//   vpaddq xmm16, xmm16, xmm30; instruction
//
// The first 13 counters are the second form, where the CPU has these registers (as the tick counter does):
// it needs no memory and takes a third of the time. Whatever takes the guest out of the cache stores its
// vector registers; Engine::enter() then adds what they have counted to the books.
//
// Most questions are about a condition that does not hold. The client may give code that finds that out by
// itself, a *filter*, and the question is asked only if it says so:
//
//   save rax, flags, rcx, rdx; filter; restore rax, flags, rdx; jrcxz 1f; restore rcx; question; 1: restore
//   rcx
//
// A prefix that nobody wants any more begins with a jump over itself; its own first bytes bring it back.
//
// The books are plain memory at a fixed address, found through hashes of the guest's and the cache's
// addresses, and entries stay where they are as long as code refers to them. So what a place costs does not
// depend on how many there are.
#include "base/hot.h"
#include "engine/cache.h"
#include "engine/emit.h"
#include "engine/hooks.h"

namespace backstep::engine {
namespace {

constexpr uint32_t kLaneSize = 6;

// Open addressing; a slot holds an index, 0: free.
constexpr uint32_t kSlots = 1 << 21;
uint32_t* const kByPc = reinterpret_cast<uint32_t*>(layout::kBreaks + kMaxBreaks * sizeof(Break));
uint32_t* const kByCache = kByPc + kSlots;
static_assert(kMaxBreaks * sizeof(Break) + 2 * kSlots * sizeof(uint32_t) <= layout::kBreaksSize);

uint32_t slot_of(uint64_t key) {
  return static_cast<uint32_t>((key * 0x9e3779b97f4a7c15) >> 43);
}
static_assert(1ull << (64 - 43) == kSlots);

uint64_t key_in(const uint32_t* table, uint32_t index) {
  return table == kByPc ? kBreaks[index].pc : kBreaks[index].cache;
}

uint32_t look_up(const uint32_t* table, uint64_t key) {
  for (uint32_t s = slot_of(key);; s = (s + 1) % kSlots)
    if (!table[s] || key_in(table, table[s]) == key) return table[s];
}

void enter(uint32_t* table, uint32_t index) {
  uint32_t s = slot_of(key_in(table, index));
  while (table[s]) s = (s + 1) % kSlots;
  table[s] = index;
}

// Those behind it that could not have their own slot move up.
void leave(uint32_t* table, uint32_t index) {
  uint32_t hole = slot_of(key_in(table, index));
  while (table[hole] != index) hole = (hole + 1) % kSlots;
  table[hole] = 0;
  for (uint32_t s = (hole + 1) % kSlots; table[s]; s = (s + 1) % kSlots) {
    const uint32_t home = slot_of(key_in(table, table[s]));
    if ((s - home) % kSlots < (s - hole) % kSlots) continue;
    table[hole] = table[s];
    table[s] = 0;
    hole = s;
  }
}

uint8_t* byte_at(uint32_t cache) {
  return reinterpret_cast<uint8_t*>(static_cast<uint64_t>(cache));
}

void begin_prefix(const Break& b) {
  Emitter e{byte_at(b.prefix)};
  e.raw(b.begin);
}

void skip_prefix(const Break& b) {
  Emitter e{byte_at(b.prefix)};
  e.jump(b.prefix + b.prefix_size);
}
static_assert(sizeof(Break::begin) == kJumpSize);

void set_trap(Break& b, uint32_t cache) {
  b.cache = cache;
  b.byte = *byte_at(cache);
  *byte_at(cache) = kTrapByte;
  enter(kByCache, static_cast<uint32_t>(&b - kBreaks));
}

void take_out(Break& b) {
  if (b.cache) {
    *byte_at(b.cache) = b.byte;
    leave(kByCache, static_cast<uint32_t>(&b - kBreaks));
    b.cache = 0;
  }
  if (b.prefix) skip_prefix(b);
}

bool wanted(const Break& b) {
  return b.users || b.asked || b.counting;
}

// vpaddq xmm, xmm, xmm30, where xmm is the register of a lane.
struct LaneCount {
  uint8_t bytes[kLaneSize];
};
LaneCount lane_count(unsigned lane) {
  const unsigned n = lane - 1;  // of xmm16 to xmm31
  return {{0x62, static_cast<uint8_t>(n & 8 ? 0x01 : 0x81), static_cast<uint8_t>(0x85 | (~n & 15) << 3), 0x00,
           0xd4, static_cast<uint8_t>(0xc6 | (n & 7) << 3)}};
}

// 0: all are somebody's.
unsigned lane_of(Break& b) {
  Cache& c = bs_cache;
  if (!c.vector || b.lane) return c.vector ? b.lane : 0;
  for (unsigned i = 0; i < kLanes && !b.lane; i++)
    if (!c.lanes[i]) {
      c.lanes[i] = static_cast<uint32_t>(&b - kBreaks);
      c.lanes_used++;
      b.lane = static_cast<uint8_t>(i + 1);
    }
  return b.lane;
}

// Its register is 0: it was when counting ended, outside of the cache, and nothing has counted in it since.
void give_lane_back(Break& b) {
  if (!b.lane) return;
  bs_cache.lanes[b.lane - 1] = 0;
  bs_cache.lanes_used--;
  b.lane = 0;
}

// Where in a prefix the filter begins: behind what saves registers and flags.
constexpr uint32_t kFilterAt = 36;

// Does the prefix do what is wanted?
bool fits(const Break& b) {
  if (!b.asked) return b.counting && !b.question;
  if (!b.question || b.filter_size == 0) return b.question;  // one without a filter just asks more often
  if (b.filter.size != b.filter_size) return false;
  const uint8_t* made = byte_at(b.prefix + kFilterAt);
  for (uint32_t i = 0; i < b.filter.size; i++)
    if (made[i] != b.filter.code[i]) return false;
  return true;
}

void put_in(Break& b) {
  const uint32_t cache = wanted(b) ? find(b.pc).cache : 0;
  if (!cache) return;
  if (b.prefix != cache || !fits(b)) return set_trap(b, cache);
  begin_prefix(b);
  // A question stops for users, too, unless its filter says that there is nothing to be asked.
  if (b.users && (!b.question || b.filter_size)) set_trap(b, cache);
}

Break* find_or_make(Address pc) {
  if (Break* b = find_break(pc)) return b;
  Cache& c = bs_cache;
  uint32_t index = c.free_break;
  if (index) {
    c.free_break = kBreaks[index].next_free;
  } else if (c.break_top == kMaxBreaks) {
    return nullptr;
  } else {
    index = c.break_top++;
  }
  kBreaks[index] = {};
  kBreaks[index].pc = pc;
  c.break_count++;
  enter(kByPc, index);
  return &kBreaks[index];
}

void drop_if_unused(Break& b) {
  if (wanted(b) || b.prefix) return;
  give_lane_back(b);
  const auto index = static_cast<uint32_t>(&b - kBreaks);
  leave(kByPc, index);
  b = {};
  b.next_free = bs_cache.free_break;
  bs_cache.free_break = index;
  bs_cache.break_count--;
}

// Something of what is wanted there has changed.
void renew(Break& b) {
  remove_trap();  // it may have saved the byte that we change
  take_out(b);
  put_in(b);
  drop_if_unused(b);
}

}  // namespace

Break* find_break(Address pc) {
  const uint32_t index = bs_cache.break_count ? look_up(kByPc, pc) : 0;
  return index ? &kBreaks[index] : nullptr;
}

const Break* break_at(uint32_t cache) {
  const uint32_t index = look_up(kByCache, cache);
  return index ? &kBreaks[index] : nullptr;
}

bool add_break(Address pc) {
  Break* b = find_or_make(pc);
  if (!b) return false;
  if (b->users++ == 0) renew(*b);
  return true;
}

void remove_break(Address pc) {
  Break* b = find_break(pc);
  if (b && --b->users == 0) renew(*b);
}

bool ask_at(Address pc, const void* what, const Filter& filter) {
  Break* b = find_or_make(pc);
  if (!b) return false;
  b->asked = what;
  b->filter = filter;
  renew(*b);
  return true;
}

bool count_at(Address pc) {
  Break* b = find_or_make(pc);
  if (!b) return false;
  b->counting = true;
  b->count = 0;
  renew(*b);
  return true;
}

void forget_asked(Address pc) {
  Break* b = find_break(pc);
  if (!b) return;
  b->asked = nullptr;
  b->filter = {};
  b->counting = false;
  renew(*b);
}

void inline_breaks(bool wanted) {
  bs_cache.inline_breaks = wanted;
  if (!wanted) return;
  for (uint32_t i = 1; i < bs_cache.break_top; i++) {
    const Break& b = kBreaks[i];
    if (!b.asked && !b.counting) continue;
    const uint32_t cache = find(b.pc).cache;
    if (!cache || (cache == b.prefix && fits(b))) continue;
    flush();
    return;
  }
}

namespace {

void emit_counter(Emitter& e, Break& b) {
  if (const unsigned lane = lane_of(b)) {
    const LaneCount code = lane_count(lane);
    e.bytes(code.bytes, kLaneSize);
    return;
  }
  static constexpr uint8_t kAddOne[] = {0x48, 0x8d, 0x40, 0x01};  // lea rax, [rax+1]
  const auto count = reinterpret_cast<uint64_t>(&b.count);
  e.store(RAX, BACKSTEP_FIELD(spill_rax));
  e.u8(0x48), e.u8(0xa1), e.u64(count);  // mov rax, [count]
  e.raw(kAddOne);
  e.u8(0x48), e.u8(0xa3), e.u64(count);  // mov [count], rax
  e.load(RAX, BACKSTEP_FIELD(spill_rax));
}

// Returns where to put the distance to what restores rcx if nothing is to be asked.
uint8_t* emit_filter(Emitter& e, const Filter& filter) {
  static constexpr uint8_t kSaveFlags[] = {0x9f, 0x0f, 0x90, 0xc0};  // lahf; seto al
  static constexpr uint8_t kRestoreFlags[] = {0x04, 0x7f, 0x9e};     // add al, 0x7f; sahf
  e.store(RAX, BACKSTEP_FIELD(spill_rax));
  e.raw(kSaveFlags);
  e.store(RAX, BACKSTEP_FIELD(spill_flags));
  e.store(RCX, BACKSTEP_FIELD(spill_rcx));
  e.store(RDX, BACKSTEP_FIELD(spill_rdx));
  e.bytes(filter.code, filter.size);
  e.load(RAX, BACKSTEP_FIELD(spill_flags));
  e.raw(kRestoreFlags);
  e.load(RAX, BACKSTEP_FIELD(spill_rax));
  e.load(RDX, BACKSTEP_FIELD(spill_rdx));
  e.u8(0xe3), e.u8(0);  // jrcxz
  uint8_t* const over = e.p;
  e.load(RCX, BACKSTEP_FIELD(spill_rcx));
  bs_cache.filters = true;
  return over;
}

void emit_question(Emitter& e, Break& b, bool roomy) {
  b.filter_size = static_cast<uint8_t>(roomy ? b.filter.size : 0);
  uint8_t* const over = b.filter_size ? emit_filter(e, b.filter) : nullptr;
  const uint32_t id = bs_cache.exits++;
  e.store_imm32(BACKSTEP_FIELD(exit), id);
  e.jump(pad_address(Pad::HostOp));
  if (over) {
    over[-1] = static_cast<uint8_t>(e.p - over);
    e.load(RCX, BACKSTEP_FIELD(spill_rcx));
  }
  kExits[id] = {b.pc, e.address(), ExitKind::Break, 0, 0};
}

}  // namespace

void emit_prefix(Emitter& e, Address pc, bool roomy) {
  Break* b = bs_cache.inline_breaks ? find_break(pc) : nullptr;
  if (!b || b->prefix || (!b->asked && !b->counting)) return;
  b->prefix = e.address();
  b->question = b->asked;
  b->filter_size = 0;
  if (b->question) {
    emit_question(e, *b, roomy);
  } else {
    emit_counter(e, *b);
  }
  b->prefix_size = static_cast<uint8_t>(e.address() - b->prefix);
  __builtin_memcpy(b->begin, byte_at(b->prefix), sizeof b->begin);
}

uint32_t behind_filter(uint32_t at) {
  const uint32_t id = block_at(at);
  if (!id) return 0;
  const Block& block = kBlocks[id];
  const uint8_t* meta = kMeta + block.meta;
  Address pc = block.guest;
  uint32_t cache = block.cache;
  for (unsigned i = 0; i < block.count && cache + meta[2 * i + 1] <= at; i++)
    pc += meta[2 * i], cache += meta[2 * i + 1];
  const Break* b = find_break(pc);
  if (!b || b->prefix != cache || at - (cache + kFilterAt) >= b->filter_size) return 0;
  return cache + kFilterAt + b->filter_size;
}

uint32_t prefix_at(Address pc, uint32_t cache) {
  const Break* b = find_break(pc);
  return b && b->prefix == cache ? b->prefix_size : 0;
}

bool prefixes_wanted() {
  return bs_cache.inline_breaks && bs_cache.break_count;
}

bool needs_host(Address pc) {
  const Break* b = find_break(pc);
  if (!b) return false;
  return b->users || (b->asked && bs_hooks.reached_hot(context(), b->asked));
}

void patch_breaks(Address start, Address end) {
  for (uint32_t i = 1; i < bs_cache.break_top; i++) {
    Break& b = kBreaks[i];
    if (wanted(b) && b.pc >= start && b.pc < end) take_out(b), put_in(b);
  }
}

void patch_breaks_of(const Block& block) {
  const uint8_t* meta = kMeta + block.meta;
  Address pc = block.guest;
  for (unsigned i = 0; i < block.count; pc += meta[2 * i++])
    if (Break* b = find_break(pc); b && !b->cache) take_out(*b), put_in(*b);
}

void forget_breaks_of(const Block& block) {
  const uint8_t* meta = kMeta + block.meta;
  Address pc = block.guest;
  for (unsigned i = 0; i < block.count; pc += meta[2 * i++]) {
    Break* b = find_break(pc);
    if (!b || (b->cache - block.cache >= block.cache_size && b->prefix - block.cache >= block.cache_size))
      continue;
    take_out(*b);
    b->prefix = 0;
    drop_if_unused(*b);
  }
}

void forget_all_breaks() {
  for (uint32_t i = 1; i < bs_cache.break_top; i++) {
    Break& b = kBreaks[i];
    if (!b.pc) continue;
    if (b.cache) leave(kByCache, i);
    b.cache = b.prefix = 0;
    drop_if_unused(b);
  }
}

void take_lanes() {
  Context& ctx = context();
  if (!bs_cache.vector) return;
  for (unsigned i = 0; i < kLanes; i++) {
    if (!bs_cache.lanes[i]) continue;
    unsigned char* counted = ctx.xsave + bs_cache.hi16_offset + i * 64;
    uint64_t passes;
    __builtin_memcpy(&passes, counted, sizeof passes);
    kBreaks[bs_cache.lanes[i]].count += passes;
    __builtin_memset(counted, 0, 16);  // both halves count
  }
}

bool data_watched(Address page) {
  for (uint32_t i = 0; i < bs_cache.data_page_count; i++)
    if (bs_cache.data_pages[i] == page) return true;
  return false;
}

}  // namespace backstep::engine
