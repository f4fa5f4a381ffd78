// Taps that are met in translated code: asked, counted and written down without leaving it.
//
// What cannot be decided here (memory that only the memory map tells about, floating point, a log that is
// full, a stop) is left to the host, all of it: either everything that is to happen at a place happens here,
// or nothing.
#include "replay/taps_hot.h"

#include "engine/cache.h"
#include "engine/entry.h"
#include "replay/debug_hot.h"
#include "replay/replay_hot.h"

namespace backstep::replayer {

HotTaps bs_taps;

namespace {

enum class Verdict { No, Yes, Unsure };

Verdict holds(const HotTap& tap, const Surroundings& around) {
  if (!tap.conditions) return Verdict::Yes;
  for (const HotCode* c = tap.conditions; c->code; c++) {
    const Value v = evaluate(c->code, c->size, around);
    if (!v.known) return Verdict::Unsure;
    if (v.value) return Verdict::Yes;
  }
  return Verdict::No;
}

void put32(uint8_t*& to, uint32_t v) {
  __builtin_memcpy(to, &v, sizeof v);
  to += sizeof v;
}

// False: it cannot be read here.
bool write_value(uint8_t*& to, const HotValue& value, const Surroundings& around) {
  if (value.capture == Capture::Words) return false;
  const Value v = evaluate(value.code, value.size, around);
  if (!v.known) return false;
  if (value.capture == Capture::Scalar) {
    put32(to, sizeof v.value);
    __builtin_memcpy(to, &v.value, sizeof v.value);
    to += sizeof v.value;
    return true;
  }
  uint8_t* const length = to;
  to += sizeof(uint32_t);
  const bool text = value.capture == Capture::Text;
  uint32_t n = 0;
  for (uint64_t word = 0; n < value.most; n++) {
    if (!around.read(v.value + n, &word, 1, around.argument)) return false;
    if (text && !word) break;
    *to++ = static_cast<uint8_t>(word);
  }
  __builtin_memcpy(length, &n, sizeof n);
  return true;
}

bool write_record(uint8_t*& to, const HotTap& tap, const Surroundings& around) {
  if (tap.stack || static_cast<uint64_t>(bs_taps.end - to) < tap.longest) return false;
  const Context& ctx = around.ctx;
  uint8_t* const start = to;
  to += sizeof(TapRecord);
  for (uint32_t i = 0; i < tap.value_count; i++)
    if (!write_value(to, tap.values[i], around)) return false;
  const TapRecord record{static_cast<uint32_t>(to - start),
                         tap.number,
                         ctx.tick,
                         bs_taps.event_base + bs_replay.event,
                         ctx.rip,
                         bs_taps.thread,
                         tap.value_count};
  __builtin_memcpy(start, &record, sizeof record);
  return true;
}

}  // namespace

void bring_up_to_date(HotPlace& place, Tick tick) {
  if (tick < place.change) return;
  place.change = ~0ull;
  for (HotTap** at = &place.current; *at;) {
    if ((*at)->to <= tick)
      *at = (*at)->next;
    else
      at = &(*at)->next;
  }
  while (place.later && place.later->from <= tick) {
    HotTap* const tap = place.later;
    place.later = tap->next;
    if (tap->to <= tick) continue;
    HotTap** at = &place.current;
    while (*at && (*at)->number < tap->number) at = &(*at)->next;
    tap->next = *at;
    *at = tap;
  }
  for (const HotTap* t = place.current; t; t = t->next)
    if (t->to < place.change) place.change = t->to;
  if (place.later && place.later->from < place.change) place.change = place.later->from;
}

bool reached_hot(Context& ctx, const void* what) {
  if (bs_debug.running) return false;  // in a function that debug code has called
  if (engine::bs_cache.vector) asm volatile("vmovq %%xmm31, %0" : "=m"(ctx.tick));
  Surroundings around{.ctx = ctx, .read = read_hot};
  around.set(kStateTick, ctx.tick);
  around.set(kStateThread, static_cast<uint64_t>(bs_taps.thread));
  around.set(kStateFsBase, ctx.fs_base);
  around.set(kStateGsBase, ctx.gs_base);
  // The place is ours to change: what is counted is in it.
  auto* const place = static_cast<HotPlace*>(const_cast<void*>(what));
  bring_up_to_date(*place, ctx.tick);
  const HotTap* runs = nullptr;
  uint8_t* to = bs_taps.p;
  for (HotTap* t = place->current; t; t = t->next) {
    const Verdict verdict = holds(*t, around);
    t->met = verdict == Verdict::Yes;
    if (verdict == Verdict::No) continue;
    if (verdict == Verdict::Unsure || t->action == Tap::Stop) return true;
    if (t->action == Tap::Run) {
      if (runs) return true;
      runs = t;
    }
    if (t->action == Tap::Log && !write_record(to, *t, around)) return true;
  }
  if (runs && !enter_debug_hot(ctx, *runs)) return true;
  bs_taps.p = to;
  for (HotTap* t = place->current; t; t = t->next) t->matches += t->met ? 1 : 0;
  return false;
}

}  // namespace backstep::replayer
