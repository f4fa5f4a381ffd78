// What a system call that writes was given, from the program's memory in front of it: the log has the
// beginning only.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "recording/log_reader.h"

namespace backstep::timeline {

using ReadMemory = std::function<std::vector<uint8_t>(uint64_t address, uint64_t size)>;

// As many bytes as it wrote; fewer, or none: they cannot be read.
std::string written_bytes(const recording::Event& call, const ReadMemory& read);

}  // namespace backstep::timeline
