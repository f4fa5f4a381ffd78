// Breakpoints: int3 over the first byte of an instruction's translation.
//
// Every instruction has one place in the cache (nothing is translated twice, and with keep_jumps no jump is
// elided), so the byte there is passed whenever the guest is about to execute it, however control came. The
// signal handler (faults_hot.cc) finds the guest's registers exact at that boundary. Setting and removing a
// breakpoint changes one byte: no code is thrown away, so a checkpoint that was made without breakpoints can
// be continued with some at no cost. Stepping runs a translation of its own (transient) and meets none.
//
// A signal takes 4 us, too long for a breakpoint whose condition is false ten million times. One that turns
// out to be met often becomes a *question*: the code is translated anew, with a hot exit in front of the
// instruction that asks the client's condition and goes on if it is false.
//
//   mov [exit], id; jmp pad; instruction
//
// A question that nobody asks any more begins with a jump over itself; two bytes bring it back.
#include "base/hot.h"
#include "engine/cache.h"
#include "engine/emit.h"
#include "engine/hooks.h"

namespace backstep::engine {
namespace {

constexpr uint8_t kAsk[2] = {0xc7, 0x04};                // as Emitter::store_imm32 begins
constexpr uint8_t kSkip[2] = {0xeb, kQuestionSize - 2};  // jmp over it

uint8_t* byte_at(uint32_t cache) {
  return reinterpret_cast<uint8_t*>(static_cast<uint64_t>(cache));
}

void set_question(uint32_t cache, const uint8_t (&bytes)[2]) {
  Emitter e{byte_at(cache)};
  e.raw(bytes);
}

void patch(Break& b) {
  uint32_t cache = find(b.pc).cache;
  if (!cache) return;
  if (question_at(cache)) {
    set_question(cache, kAsk);
    return;
  }
  b.cache = cache;
  b.byte = *byte_at(cache);
  *byte_at(cache) = kTrapByte;
}

Break* find_or_make(Address pc) {
  if (Break* b = find_break(pc)) return b;
  if (bs_cache.break_count == kMaxBreaks) return nullptr;
  Break& b = bs_cache.breaks[bs_cache.break_count++];
  b = {pc, nullptr, 0, 0, 0, false};
  return &b;
}

void drop_if_unused(Break& b) {
  if (b.users || b.condition) return;
  remove_trap();
  if (b.cache) *byte_at(b.cache) = b.byte;
  const uint32_t cache = find(b.pc).cache;
  if (cache && question_at(cache)) set_question(cache, kSkip);
  b = bs_cache.breaks[--bs_cache.break_count];
}

}  // namespace

Break* find_break(Address pc) {
  for (uint32_t i = 0; i < bs_cache.break_count; i++)
    if (bs_cache.breaks[i].pc == pc) return &bs_cache.breaks[i];
  return nullptr;
}

const Break* break_at(uint32_t cache) {
  for (uint32_t i = 0; i < bs_cache.break_count; i++)
    if (bs_cache.breaks[i].cache == cache) return &bs_cache.breaks[i];
  return nullptr;
}

bool add_break(Address pc) {
  Break* b = find_or_make(pc);
  if (!b) return false;
  if (b->users++ == 0 && !b->condition) {
    remove_trap();  // it may have saved the byte that we change
    patch(*b);
  }
  return true;
}

void remove_break(Address pc) {
  Break* b = find_break(pc);
  if (!b || --b->users) return;
  drop_if_unused(*b);
}

bool add_condition(Address pc, const void* condition, bool often) {
  Break* b = find_or_make(pc);
  if (!b) return false;
  b->inlined = often;
  const bool fresh = !b->users && !b->condition;
  b->condition = condition;
  if (fresh) {
    remove_trap();
    patch(*b);
  }
  return true;
}

void remove_condition(Address pc) {
  Break* b = find_break(pc);
  if (!b || !b->condition) return;
  b->condition = nullptr;
  drop_if_unused(*b);
}

void inline_break(Address pc) {
  Break* b = find_break(pc);
  if (!b || !b->condition) return;
  b->inlined = true;
  const uint32_t cache = find(pc).cache;
  if (cache && !question_at(cache)) flush();
}

void emit_question(Emitter& e, Address pc) {
  const Break* b = find_break(pc);
  if (!b || !b->inlined || bs_cache.question_count == kMaxBreaks) return;
  bs_cache.questions[bs_cache.question_count++] = {pc, e.address()};
  const uint32_t id = bs_cache.exits++;
  e.store_imm32(BACKSTEP_FIELD(exit), id);
  e.jump(pad_address(Pad::HostOp));
  kExits[id] = {pc, e.address(), ExitKind::Break, 0, 0};
}

bool question_at(uint32_t cache) {
  for (uint32_t i = 0; i < bs_cache.question_count; i++)
    if (bs_cache.questions[i].cache == cache) return true;
  return false;
}

bool questions_wanted() {
  for (uint32_t i = 0; i < bs_cache.break_count; i++)
    if (bs_cache.breaks[i].inlined) return true;
  return false;
}

bool break_holds(Address pc) {
  const Break* b = find_break(pc);
  if (!b) return false;
  return b->users || bs_hooks.condition_hot(context(), b->condition);
}

void patch_breaks(Address start, Address end) {
  for (uint32_t i = 0; i < bs_cache.break_count; i++) {
    Break& b = bs_cache.breaks[i];
    if (!b.cache && b.pc >= start && b.pc < end) patch(b);
  }
}

void forget_breaks(uint32_t cache_start, uint32_t cache_end) {
  for (uint32_t i = 0; i < bs_cache.break_count; i++) {
    Break& b = bs_cache.breaks[i];
    if (b.cache < cache_start || b.cache >= cache_end) continue;
    *byte_at(b.cache) = b.byte;
    b.cache = 0;
  }
  for (uint32_t i = 0; i < bs_cache.question_count;) {
    const uint32_t cache = bs_cache.questions[i].cache;
    if (cache >= cache_start && cache < cache_end) {
      bs_cache.questions[i] = bs_cache.questions[--bs_cache.question_count];
    } else {
      i++;
    }
  }
}

bool data_watched(Address page) {
  for (uint32_t i = 0; i < bs_cache.data_page_count; i++)
    if (bs_cache.data_pages[i] == page) return true;
  return false;
}

}  // namespace backstep::engine
