// Instructions that the guest may not execute itself.
//
// Some have results that the program cannot compute (rdtsc, cpuid, …): `sample` executes them for a
// recording, `apply` puts sampled or logged values into the guest's registers. The others are deterministic
// but would show or disturb the engine's state (xsave, fnstenv, gs base, far returns): `emulate` does those
// in both worlds.
#pragma once
#include <cstdint>
#include <functional>

#include "engine/context.h"
#include "isa/decode.h"

namespace backstep::engine {

// Numbers as they stand in the log.
enum class HostOp : uint16_t {
  None = 0,
  Cpuid = 1,
  Rdtsc = 2,
  Rdtscp = 3,
  Rdrand = 4,
  Rdseed = 5,
  Rdpid = 6,
  Xgetbv = 7
};

struct HostValues {
  unsigned count = 0;
  uint64_t value[4] = {};
};

// --- hot world ---
HostOp host_op_of(const isa::Insn& insn);
// Executes the real instruction. Cpuid: raw values of the machine; the caller hides features.
HostValues sample(HostOp op, const Context& ctx);
// Writes the results and moves rip behind the instruction.
void apply(HostOp op, const isa::Insn& insn, const HostValues& values, Context& ctx);

// --- host world ---
enum class Emulated { Done, IllegalInstruction, MemoryFault, GeneralProtection };
struct GuestAccess {
  std::function<bool(Address, uint64_t)> readable, writable;
};
// Executes the deterministic ones; on a fault `*fault_address` says where and the context is unchanged.
// `xcr0`: the vector state that the guest may see.
Emulated emulate(const isa::Insn& insn, Context& ctx, uint64_t xcr0, const GuestAccess& access,
                 Address* fault_address);

// Address of the memory operand of an instruction at rip.
Address effective_address(const isa::Insn& insn, const Context& ctx);

}  // namespace backstep::engine
