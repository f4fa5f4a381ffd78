// Agent expressions in both worlds: what the hot one may include.
#pragma once
#include <cstddef>
#include <cstdint>

#include "engine/context.h"
#include "replay/bytecode.h"

namespace backstep::replayer {

// Conditions of gdb on memory and general registers.
inline Value evaluate(const uint8_t* code, size_t size, const Context& ctx, ReadMemory read,
                      const void* argument) {
  return evaluate(code, size, Surroundings{.ctx = ctx, .read = read, .argument = argument});
}
// Bytes behind an operation; -1: not known.
int operands_of(uint8_t operation);
// Memory that only the guest can have mapped: what the hot world may read.
bool read_hot(uint64_t address, uint64_t* to, unsigned size, const void*);

// One of a breakpoint's expressions; the last one's code is null.
struct HotCode {
  const uint8_t* code;
  size_t size;
};
// engine::Hooks::condition_hot; the condition is a list of HotCode.
bool condition_hot(const Context& ctx, const void* condition);

}  // namespace backstep::replayer
