// Conditions as machine code.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace backstep::replayer {

// A filter for engine::ask_at(): leaves 0 in rcx if the condition does not hold, and anything else if it does
// or if that cannot be said here. Empty: there is none for this bytecode, or it would be too long.
std::vector<uint8_t> filter_of(std::span<const uint8_t> condition);

}  // namespace backstep::replayer
