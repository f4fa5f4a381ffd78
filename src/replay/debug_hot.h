// The way into debug code and out of it, without leaving the hot world.
//
// Debug code (docs/architecture.md) is called where a tap with the action Run is met. In translated code that
// is a question (engine/breaks_hot.cc), and a call and a return by the host would cost three times as much as
// the question itself. So the guest's registers are put aside here, the module's are loaded, and the engine
// goes on in its code; the request DONE does the reverse. Whatever else happens meanwhile is DebugWorld's.
#pragma once
#include <cstdint>

#include "engine/context.h"
#include "engine/layout.h"
#include "probe/abi.h"
#include "replay/until.h"

namespace backstep::replayer {

struct HotTap;

// The guest while debug code has control.
struct SetAside {
  uint64_t gpr[16];
  Address rip;
  uint64_t rflags, fs_base, gs_base;
  Tick tick, limit;
  uint64_t counter[2];  // xmm31: ticks, and what counts up to the limit (engine/translate_hot.cc)
  bool all_vectors;     // else only x87, SSE and AVX, and the rest is in the CPU as it was
  bool evex_seen;
  bool quick;  // they were stored one by one, since x87 was not in use
  alignas(64) unsigned char xsave[kXsaveSize];
};

struct HotDebug {
  bool ready;         // it can be called
  bool knows_in_use;  // XGETBV says which registers are not as they are at the start
  bool running;       // it has control, or a function of the program that it has called
  // … was called from translated code, and the host has not had to look at it since
  bool on_hot;
  Address done, finish;  // of the module: what it returns to, what is called at the end
  Address stack;         // where it begins
  uint64_t fs_base;
  SetAside guest;
  Position at;  // of the guest
  int32_t thread;
  uint32_t tap;     // that has called, or in whose name (Tap::owner)
  uint32_t number;  // … itself
  Address function;
  uint32_t resume;   // where the guest goes on in the cache …
  uint64_t flushes;  // … if that has not been emptied since
  uint64_t calls;    // so far
  uint32_t rung;     // how often the clock has since it was called
};
extern HotDebug bs_debug;

// What it is called with lies at the beginning of its memory, behind the guard.
inline constexpr uint64_t kDebugGuard = 16 * layout::kPage;
inline backstep_registers* const kDebugRegisters =
    reinterpret_cast<backstep_registers*>(layout::kProbeData + kDebugGuard);
inline unsigned char* const kDebugVectors =
    reinterpret_cast<unsigned char*>(layout::kProbeData + kDebugGuard + 1024);

// What an event has besides registers: see probe/abi.h.
struct DebugEvent {
  Address address = 0;
  uint64_t value[2] = {0, 0};
  uint64_t number = 0;
};
// Fills those in. `xsave`: the guest's vector registers, or null.
void tell_debug(const HotDebug& d, const DebugEvent& event, const unsigned char* xsave);

// Makes the engine go on in the tap's function (Cache::detour). False: the host has to do it.
bool enter_debug_hot(Context& ctx, const HotTap& tap);
// A system call while debug code has control. True: done.
bool debug_syscall_hot(Context& ctx);

}  // namespace backstep::replayer
