// Conditions as gdb sends them: bytecode of its agent expressions ("The GDB Agent Expression Mechanism").
#pragma once
#include <cstdint>
#include <vector>

#include "guest/process.h"
#include "replay/agent_expression_hot.h"

namespace backstep::replayer {

// Can it be run? False: unknown operations.
bool valid(const std::vector<uint8_t>& code);
// Memory of the guest, as its memory map has it; the argument is a guest::Process.
bool read_mapped(uint64_t address, uint64_t* to, unsigned size, const void* process);

}  // namespace backstep::replayer
