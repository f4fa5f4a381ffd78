// Files of a recording that are there completely or not at all: written under another name and renamed.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace backstep::recording {

// Makes the folder if need be. What processes that were killed have left behind in it is removed. Throws
// Error.
void write_whole(const std::string& folder, const std::string& name,
                 std::initializer_list<std::span<const uint8_t>> parts);
// As many bytes as there are, `most` at most, from `offset` on. Throws Error.
std::vector<uint8_t> read_part(const std::string& path, uint64_t offset, uint64_t most);

}  // namespace backstep::recording
