// The program of a recorded process: which ELF files it mapped, and where.
#pragma once
#include "recording/library.h"
#include "symbols/program.h"
#include "timeline/log_index.h"

namespace backstep::session {

std::vector<symbols::Module> modules_of(const timeline::LogIndex& log, const recording::Library& library,
                                        const recording::Recording& recording);

// The bytes of code that a module has in [start, end), from its file; fewer if it does not have all.
std::vector<uint8_t> code_of(const symbols::Module& module, Address start, Address end);

}  // namespace backstep::session
