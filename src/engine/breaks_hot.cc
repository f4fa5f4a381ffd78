// Breakpoints: int3 over the first byte of an instruction's translation.
//
// Every instruction has one place in the cache (nothing is translated twice, and with keep_jumps no jump is
// elided), so the byte there is passed whenever the guest is about to execute it, however control came. The
// signal handler (faults_hot.cc) finds the guest's registers exact at that boundary. Setting and removing a
// breakpoint changes one byte: no code is thrown away, so a checkpoint that was made without breakpoints can
// be continued with some at no cost. Stepping runs a translation of its own (transient) and meets none.
#include "base/hot.h"
#include "engine/cache.h"

namespace backstep::engine {
namespace {

uint8_t* byte_at(uint32_t cache) {
  return reinterpret_cast<uint8_t*>(static_cast<uint64_t>(cache));
}

void patch(Break& b) {
  uint32_t cache = find(b.pc).cache;
  if (!cache) return;
  b.cache = cache;
  b.byte = *byte_at(cache);
  *byte_at(cache) = 0xcc;
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
  if (Break* b = find_break(pc)) {
    b->users++;
    return true;
  }
  if (bs_cache.break_count == kMaxBreaks) return false;
  Break& b = bs_cache.breaks[bs_cache.break_count++];
  b = {pc, 0, 1, 0};
  remove_trap();  // it may have saved the byte that we change
  patch(b);
  return true;
}

void remove_break(Address pc) {
  Break* b = find_break(pc);
  if (!b || --b->users) return;
  remove_trap();
  if (b->cache) *byte_at(b->cache) = b->byte;
  *b = bs_cache.breaks[--bs_cache.break_count];
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
}

bool data_watched(Address page) {
  for (uint32_t i = 0; i < bs_cache.data_page_count; i++)
    if (bs_cache.data_pages[i] == page) return true;
  return false;
}

}  // namespace backstep::engine
