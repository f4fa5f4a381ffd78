// Conditions as gdb sends them: bytecode of its agent expressions ("The GDB Agent Expression Mechanism").
#pragma once
#include <cstdint>
#include <vector>

#include "engine/context.h"
#include "guest/process.h"
#include "replay/until.h"

namespace backstep::replayer {

// --- both worlds (agent_expression_hot.cc) ---

// Reads guest memory for an expression; false: it cannot be read.
using ReadMemory = bool (*)(uint64_t address, uint64_t* to, unsigned size, const void* argument);
struct Value {
  bool known = false;  // false: bad code, or memory that cannot be read
  uint64_t value = 0;
};
// Runs an expression on the registers of the current thread.
Value evaluate(const uint8_t* code, size_t size, const Context& ctx, ReadMemory read, const void* argument);
// Bytes behind an operation; -1: not known.
int operands_of(uint8_t operation);

// engine::Hooks::condition_hot; the condition is a HotCondition.
struct HotCondition {
  const std::vector<uint8_t>* first;
  size_t count;
};
bool condition_hot(const Context& ctx, const void* condition);

// --- the host's ---

// Can it be run? False: unknown operations.
bool valid(const std::vector<uint8_t>& code);
// An expression that fails counts as true: better to stop than to miss.
bool holds(const std::vector<uint8_t>& code, guest::Process& process);

}  // namespace backstep::replayer
