// The files that a log consists of: process-N.log, and if it is long process-N.2.log and so on (format.h).
#pragma once
#include <cstdint>
#include <string>

#include "recording/format.h"

namespace backstep::recording {

inline constexpr uint32_t kPartHeader = 4096;  // PartHeader::header_size

// `log` is the path of the first one.
std::string part_path(const std::string& log, uint32_t part);
// How many there are. One whose first chunk has not been begun does not count.
uint32_t count_parts(const std::string& log);
// The header of the first chunk of an open file, packed or not; false: there is none.
bool read_first_chunk(int fd, uint32_t header_size, ChunkHeader& chunk);

}  // namespace backstep::recording
