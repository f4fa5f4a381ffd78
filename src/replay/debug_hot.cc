// See debug_hot.h. General registers, flags, the FS base, x87, SSE and AVX registers and the tick counter are
// exchanged. What else there is stays in the CPU: registers of AVX-512, of which debug code has none (the
// engine counts in them), and the GS base, which is the engine's.
#include "replay/debug_hot.h"

#include "engine/cache.h"
#include "engine/entry.h"
#include "replay/replay_hot.h"
#include "replay/taps_hot.h"

namespace backstep::replayer {

HotDebug bs_debug;

namespace {

constexpr uint64_t kVectors = 7;  // x87, SSE, AVX
constexpr uint64_t kX87 = 1, kSse = 2, kAvx = 4;
// In the area that XSAVE writes.
constexpr unsigned kMxcsrAt = 24, kX87Registers = 32, kLow = 160, kBits = 512, kHigh = 576;

uint64_t bits_of(const unsigned char* xsave) {
  uint64_t bits;
  __builtin_memcpy(&bits, xsave + kBits, sizeof bits);
  return bits;
}

// Which of these the CPU has in use: the others are as they are at the start of a process, and a program that
// stores its registers can see that they are.
uint64_t in_use() {
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
  return low & kVectors;
}

// XSAVE takes the time of 500 instructions, and XRSTOR that of 1,000. Nearly always there is nothing in the
// x87 registers; the others are stored one by one, as XSAVE lays them out.
void save_vectors(SetAside& g) {
  const uint64_t bits = in_use();
  uint32_t mxcsr_mask;  // is there once XSAVE has been used
  __builtin_memcpy(&mxcsr_mask, g.xsave + kMxcsrAt + sizeof mxcsr_mask, sizeof mxcsr_mask);
  g.quick = mxcsr_mask && (bits & kSse) != 0 && (bits & kX87) == 0;
  if (!g.quick) {
    asm volatile("xsave64 %0" : "=m"(g.xsave) : "a"(static_cast<uint32_t>(kVectors)), "d"(0) : "memory");
    return;
  }
  asm volatile(
      ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
      "vmovdqu %%xmm\\n, 160+16*\\n(%0)\n"
      "vextractf128 $1, %%ymm\\n, 576+16*\\n(%0)\n"
      ".endr\n"
      "stmxcsr 24(%0)"
      :
      : "r"(g.xsave)
      : "memory");
  static constexpr uint16_t kControl = 0x37f;  // of x87, at the start
  __builtin_memset(g.xsave, 0, kMxcsrAt);
  __builtin_memset(g.xsave + kX87Registers, 0, kLow - kX87Registers);
  __builtin_memcpy(g.xsave, &kControl, sizeof kControl);
  __builtin_memcpy(g.xsave + kBits, &bits, sizeof bits);
}

void restore_vectors(const SetAside& g) {
  const uint64_t bits = bits_of(g.xsave) & kVectors;
  if (g.quick) {
    if (bits & kAvx)
      asm volatile(
          ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
          "vmovdqu 160+16*\\n(%0), %%xmm\\n\n"
          "vinsertf128 $1, 576+16*\\n(%0), %%ymm\\n, %%ymm\\n\n"
          ".endr\n"
          "ldmxcsr 24(%0)"
          :
          : "r"(g.xsave)
          : "memory");
    else
      asm volatile(
          "vzeroupper\n"
          ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
          "movdqu 160+16*\\n(%0), %%xmm\\n\n"
          ".endr\n"
          "ldmxcsr 24(%0)"
          :
          : "r"(g.xsave)
          : "memory");
    if (in_use() == bits) return;  // else debug code has used x87
  }
  asm volatile("xrstor64 %0" : : "m"(g.xsave), "a"(static_cast<uint32_t>(kVectors)), "d"(0) : "memory");
}

// Is all there that this way needs? (A quick leg may be in vain: it ends before debug code does anything.)
bool can_enter(const Context& ctx) {
  constexpr uint64_t kNeeded = kHaveFsgsbase | kVectorCounter | kHaveAvx;
  return bs_debug.ready && bs_debug.knows_in_use && !bs_debug.running &&
         (ctx.features & kNeeded) == kNeeded && !engine::bs_cache.evex_seen && !ctx.stop_request &&
         !bs_replay.timer;
}

}  // namespace

void tell_debug(const HotDebug& d, const DebugEvent& event, const unsigned char* xsave) {
  backstep_registers& r = *kDebugRegisters;
  for (unsigned i = 0; i < 16; i++) r.gpr[i] = d.guest.gpr[i];
  r.rip = d.at.pc, r.rflags = d.guest.rflags;
  r.fs_base = d.guest.fs_base, r.gs_base = d.guest.gs_base;
  r.tick = d.at.tick, r.event = d.at.event;
  r.thread = static_cast<uint64_t>(d.thread);
  r.vector = nullptr;
  r.address = event.address, r.number = event.number;
  r.value[0] = event.value[0], r.value[1] = event.value[1];
  if (!xsave) return;
  const uint64_t bits = bits_of(xsave);
  auto* const zero = reinterpret_cast<uint64_t*>(kDebugVectors);
  for (unsigned i = 0; i < 16 * 32 / 8; i++) zero[i] = 0;
  for (unsigned i = 0; i < 16; i++) {
    if (bits & kSse) __builtin_memcpy(kDebugVectors + 32 * i, xsave + kLow + 16 * i, 16);
    if (bits & kAvx) __builtin_memcpy(kDebugVectors + 32 * i + 16, xsave + kHigh + 16 * i, 16);
  }
  r.vector = kDebugVectors;
}

bool enter_debug_hot(Context& ctx, const HotTap& tap) {
  HotDebug& d = bs_debug;
  if (!can_enter(ctx)) return false;
  engine::bs_cache.in_probe = true;
  const uint32_t code = engine::find(tap.function).cache;
  if (!code) {
    engine::bs_cache.in_probe = false;
    return false;
  }
  SetAside& g = d.guest;
  save_vectors(g);
  asm volatile("vmovdqu64 %%xmm31, %0" : "=m"(g.counter));
  asm volatile("rdfsbase %0" : "=r"(g.fs_base));
  for (unsigned i = 0; i < 16; i++) g.gpr[i] = ctx.gpr[i];
  g.rip = ctx.rip, g.rflags = ctx.rflags, g.gs_base = ctx.gs_base;
  g.tick = ctx.tick, g.limit = ctx.limit;
  g.all_vectors = g.evex_seen = false;
  d.at = {ctx.tick, bs_taps.event_base + bs_replay.event, ctx.rip};
  d.thread = bs_taps.thread;
  d.tap = tap.owner, d.number = tap.number, d.function = tap.function;
  d.resume = engine::kExits[ctx.exit].patch;
  d.flushes = engine::bs_cache.stats.flushes;
  d.running = d.on_hot = true;
  d.rung = 0;
  d.calls++;
  DebugEvent event;
  event.value[1] = g.gpr[RAX];
  tell_debug(d, event, tap.vector ? g.xsave : nullptr);

  for (uint64_t& r : ctx.gpr) r = 0;
  ctx.gpr[RDI] = reinterpret_cast<uint64_t>(kDebugRegisters);
  ctx.gpr[RSI] = tap.cookie;
  ctx.gpr[RSP] = d.stack - sizeof(uint64_t);
  *reinterpret_cast<uint64_t*>(ctx.gpr[RSP]) = d.done;
  ctx.rflags = 0x202;
  ctx.gs_base = 0;
  ctx.rip = tap.function;
  ctx.limit = ~0ull;
  ctx.target = kNoTarget;
  if (!g.quick) asm volatile("fninit");
  static constexpr uint32_t kMxcsr = 0x1f80;
  asm volatile("ldmxcsr %0; vzeroupper" : : "m"(kMxcsr));
  asm volatile("vpxorq %xmm31, %xmm31, %xmm31");
  asm volatile("wrfsbase %0" : : "r"(d.fs_base));
  engine::bs_cache.detour = code;
  return true;
}

bool debug_syscall_hot(Context& ctx) {
  HotDebug& d = bs_debug;
  if (ctx.gpr[RAX] != BACKSTEP_DONE || !engine::bs_cache.in_probe || !d.on_hot || engine::bs_cache.frozen ||
      engine::bs_cache.stats.flushes != d.flushes || engine::bs_cache.evex_seen)
    return false;
  SetAside& g = d.guest;
  restore_vectors(g);
  asm volatile("vmovdqu64 %0, %%xmm31" : : "m"(g.counter));
  asm volatile("wrfsbase %0" : : "r"(g.fs_base));
  for (unsigned i = 0; i < 16; i++) ctx.gpr[i] = g.gpr[i];
  ctx.rip = g.rip, ctx.rflags = g.rflags, ctx.gs_base = g.gs_base;
  ctx.tick = g.tick, ctx.limit = g.limit;
  ctx.target = kNoTarget;
  ctx.cont = d.resume;
  engine::bs_cache.in_probe = false;
  engine::bs_cache.answered = {g.tick, g.rip};
  d.running = d.on_hot = false;
  return true;
}

}  // namespace backstep::replayer
