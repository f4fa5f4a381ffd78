// Which memory an expression reads, if that is the same memory at all times.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/context.h"

namespace backstep::session {

struct ReadRange {
  Address address = 0;
  uint64_t size = 0;
};

// Of bytecode; nullopt: it also reads what is elsewhere at other times (through pointers, of a thread's own,
// in registers), or the time itself.
std::optional<std::vector<ReadRange>> fixed_reads(std::span<const uint8_t> code);

}  // namespace backstep::session
