// The architectural state of the guest thread that has the turn, at a fixed address (layout::kHotPage) so
// that translated code and the assembler entry points reach every field by a 32-bit absolute address.
// Only one guest thread of a process runs at a time, so one such page per process is enough; a turn switch
// copies the state out and in.
//
// What holds: while guest code runs from the cache, the registers are in the CPU and the fields below are
// stale except spill slots in use. After an exit to the host all of them are exact: `rip` is the guest
// address of the next instruction to execute, `tick` the number of counted transfers so far.
#pragma once
#include <cstddef>
#include <cstdint>

#include "engine/layout.h"

namespace backstep {

using Tick = uint64_t;
using Address = uint64_t;

// Hardware numbering, as in ModRM/REX.
enum Reg : int { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 };

// One execution of one instruction, for ever. pc == 0: the start of the quantum.
struct ControlPoint {
  Tick tick = 0;
  Address pc = 0;
  friend bool operator==(const ControlPoint&, const ControlPoint&) = default;
};

// XSAVE components of the guest that the engine keeps over host code: x87, SSE, AVX, AVX-512 (3 parts).
inline constexpr uint64_t kSavedComponents = 0xe7;
inline constexpr size_t kXsaveSize = 4096 - 64;  // standard format up to ZMM16-31 needs 2688 bytes

struct alignas(64) Context {
  uint64_t gpr[16];      // 0x00
  Address rip;           // 0x80
  uint64_t rflags;       // 0x88
  uint64_t fs_base;      // 0x90
  uint64_t gs_base;      // 0x98 the guest's; the CPU's GS base is the jump table
  Tick tick;             // 0xa0 in memory-counter mode this *is* the counter; else stored at exits
  uint64_t alarm;        // 0xa8 counted along with tick in xmm31; reaches 1 << 32 at the limit (set at entry)
  Tick limit;            // 0xb0 checked modes stop when tick >= limit; looked at when the cache is entered
  uint64_t spill_rax;    // 0xb8
  uint64_t spill_flags;  // 0xc0
  uint64_t spill_any;    // 0xc8 scratch for rewritten operands
  Address target;        // 0xd0 target of the last indirect jump or call; kNoTarget after a flush
  uint32_t exit;         // 0xd8 which exit stub was taken
  uint32_t reason;       // 0xdc ExitReason, set by the assembler exits
  uint64_t cont;         // 0xe0 cache address behind the system call under way
  uint64_t host_rsp;     // 0xe8 valid while the guest runs
  uint64_t host_fs;      // 0xf0
  uint64_t jump_table;   // 0xf8 = layout::kJumpTable
  uint64_t one[2];       // 0x100 {1, 1}, loaded to xmm30
  uint64_t features;     // 0x110 EngineFeature bits for the assembler
  uint64_t save_mask;    // 0x118 kSavedComponents & XCR0
  uint64_t resume;       // 0x120 cache address to enter
  uint64_t spill_rcx;    // 0x128
  uint64_t spill_rdx;    // 0x130
  uint64_t in_guest;     // 0x138 1 while the CPU runs cache code (signal handlers look here)
  uint64_t
      stop_request;  // 0x140 1: leave the guest at the next instruction boundary; 2: after one instruction
  uint64_t branch_site;  // 0x148 cache address of the indirect branch that misses in the wide table, or 0
  uint64_t watch_rax;    // 0x150 store checks (watch_hot.cc): spilled while they compute
  uint64_t watch_flags;
  uint64_t watch_low;  // addresses in [watch_low, watch_low + watch_span) want a closer look
  uint64_t watch_span;
  uint64_t watch_address;    // the one that did, relative to watch_low
  uint64_t report_at;        // where translated code writes its next record (report.h)
  uint64_t report_spill[2];  // the registers that it borrows for that
  uint64_t own_low[2];       // where debug code may write (watch_hot.cc)
  uint64_t own_span[2];
  uint64_t pad[34];                             // to 0x2c0
  alignas(64) unsigned char xsave[kXsaveSize];  // 0x2c0
  uint64_t rest[431];                           // 0x1280
  // 0x1ff8 r11 of the guest while an indirect branch is under way, or the register that a check borrows.
  // Its place is directly before the fence: a check loads the register back from here or, at the limit,
  // from there.
  uint64_t spill_r11;
};
static_assert(offsetof(Context, xsave) == 0x2c0);
static_assert(offsetof(Context, in_guest) == 0x138);
static_assert(offsetof(Context, spill_r11) == 0x1ff8);
static_assert(layout::kHotPage + sizeof(Context) == layout::kFence);

enum EngineFeature : uint64_t {
  kHaveFsgsbase = 1,   // rdfsbase & co. may be used
  kVectorCounter = 2,  // ticks are counted in xmm31
  kHaveAvx = 4,
  kHaveBmi2 = 8,
};

// Not a canonical address, so no jump can ask for it. entry.S knows the value.
inline constexpr Address kNoTarget = 0x8bad'f00d'0000'0001;

// Bits 47 to 63 are all the same. A branch to another address faults by itself, before it goes anywhere.
inline constexpr bool canonical(Address a) {
  return static_cast<Address>(static_cast<int64_t>(a << 16) >> 16) == a;
}

inline Context& context() {
  return *reinterpret_cast<Context*>(layout::kHotPage);
}

}  // namespace backstep
