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
//
// A prefix that nobody wants any more begins with a jump over itself; two bytes bring it back.
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

constexpr uint8_t kAsk[2] = {0xc7, 0x04};    // as Emitter::store_imm32 begins
constexpr uint8_t kCount[2] = {0x48, 0x89};  // as Emitter::store begins

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

void begin_prefix(const Break& b, const uint8_t (&bytes)[2]) {
  Emitter e{byte_at(b.prefix)};
  e.raw(bytes);
}

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
  const uint8_t skip[2] = {0xeb, static_cast<uint8_t>(b.prefix_size - 2)};
  if (b.prefix) begin_prefix(b, skip);
}

bool wanted(const Break& b) {
  return b.users || b.asked || b.counting;
}

void put_in(Break& b) {
  const uint32_t cache = wanted(b) ? find(b.pc).cache : 0;
  if (!cache) return;
  if (b.prefix == cache && b.prefix_size == kQuestionSize) {
    begin_prefix(b, kAsk);
    return;
  }
  if (b.prefix == cache && b.counting) begin_prefix(b, kCount);
  if (b.prefix != cache || b.users || b.asked) set_trap(b, cache);
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

bool ask_at(Address pc, const void* what) {
  Break* b = find_or_make(pc);
  if (!b) return false;
  b->asked = what;
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
    if (!cache || cache == b.prefix) continue;
    flush();
    return;
  }
}

void emit_prefix(Emitter& e, Address pc) {
  Break* b = bs_cache.inline_breaks ? find_break(pc) : nullptr;
  if (!b || b->prefix || (!b->asked && !b->counting)) return;
  b->prefix = e.address();
  if (b->counting && !b->asked) {
    static constexpr uint8_t kAddOne[] = {0x48, 0x8d, 0x40, 0x01};  // lea rax, [rax+1]
    const auto count = reinterpret_cast<uint64_t>(&b->count);
    e.store(RAX, BACKSTEP_FIELD(spill_rax));
    e.u8(0x48), e.u8(0xa1), e.u64(count);  // mov rax, [count]
    e.raw(kAddOne);
    e.u8(0x48), e.u8(0xa3), e.u64(count);  // mov [count], rax
    e.load(RAX, BACKSTEP_FIELD(spill_rax));
  } else {
    const uint32_t id = bs_cache.exits++;
    e.store_imm32(BACKSTEP_FIELD(exit), id);
    e.jump(pad_address(Pad::HostOp));
    kExits[id] = {pc, e.address(), ExitKind::Break, 0, 0};
  }
  b->prefix_size = static_cast<uint8_t>(e.address() - b->prefix);
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

bool data_watched(Address page) {
  for (uint32_t i = 0; i < bs_cache.data_page_count; i++)
    if (bs_cache.data_pages[i] == page) return true;
  return false;
}

}  // namespace backstep::engine
