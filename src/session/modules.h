// The program of a recorded process: which ELF files it mapped, and where.
#pragma once
#include "recording/library.h"
#include "symbols/program.h"
#include "timeline/log_index.h"

namespace backstep::session {

std::vector<symbols::Module> modules_of(const timeline::LogIndex& log, const recording::Library& library,
                                        const recording::Recording& recording);

}  // namespace backstep::session
