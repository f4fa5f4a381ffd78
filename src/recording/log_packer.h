// Compressing logs: what is written to once, and then only read.
#pragma once
#include <cstdint>
#include <string>

#include "recording/library.h"

namespace backstep::recording {

// Smaller files stay as they are: most logs are, and they are what is read most often.
inline constexpr uint64_t kWorthPacking = 256 << 10;

// A complete file of a log is replaced by one with packed chunks, in one step. False: it is packed already,
// damaged (then it stays what it is), or of a format that knows no packed chunks. Throws Error: no space, no
// rights.
bool pack_part(const std::string& path);

// Does a process still write to this log?
bool is_log_open(const std::string& path);

// Packs what is complete in all logs; bytes that are free now. `follow`: goes on until the recording is
// complete. At most one process does that at a time: the others have nothing to do, or (`wait`) come after
// it.
uint64_t pack_logs(const Recording& recording, bool follow, bool wait);

// Is somebody at it?
bool is_packing(const Recording& recording);

}  // namespace backstep::recording
