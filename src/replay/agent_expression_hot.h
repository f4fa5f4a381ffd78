// Agent expressions in both worlds: what the hot one may include.
#pragma once
#include <cstddef>
#include <cstdint>

#include "engine/context.h"
#include "replay/bytecode.h"

namespace backstep::replayer {

// Bytes behind an operation; -1: not known.
int operands_of(uint8_t operation);
// Memory that only the guest can have mapped: what the hot world may read.
bool read_hot(uint64_t address, uint64_t* to, unsigned size, const void*);

}  // namespace backstep::replayer
