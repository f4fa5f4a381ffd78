// Conditions as gdb sends them: bytecode of its agent expressions ("The GDB Agent Expression Mechanism").
#pragma once
#include <cstdint>
#include <vector>

#include "guest/process.h"
#include "replay/agent_expression_hot.h"

namespace backstep::replayer {

// Can it be run? False: unknown operations.
bool valid(const std::vector<uint8_t>& code);
// An expression that fails counts as true: better to stop than to miss.
bool holds(const std::vector<uint8_t>& code, guest::Process& process);

}  // namespace backstep::replayer
