// Agent expressions in both worlds: what the hot one may include.
#pragma once
#include <cstddef>
#include <cstdint>

#include "engine/context.h"

namespace backstep::replayer {

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

// One of a breakpoint's expressions; the last one's code is null.
struct HotCode {
  const uint8_t* code;
  size_t size;
};
// engine::Hooks::condition_hot; the condition is a list of HotCode.
bool condition_hot(const Context& ctx, const void* condition);

}  // namespace backstep::replayer
