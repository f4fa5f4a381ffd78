// Conditions as gdb sends them: bytecode of its agent expressions ("The GDB Agent Expression Mechanism").
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "guest/process.h"

namespace backstep::replayer {

// Runs the expression on the current thread. nullopt: it cannot be evaluated (bad code, unreadable memory).
std::optional<uint64_t> evaluate(const std::vector<uint8_t>& code, guest::Process& process);
// An expression that fails counts as true: better to stop than to miss.
bool holds(const std::vector<uint8_t>& code, guest::Process& process);

// Can it be run? False: unknown operations.
bool valid(const std::vector<uint8_t>& code);

}  // namespace backstep::replayer
