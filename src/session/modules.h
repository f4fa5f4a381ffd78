// The program of a recorded process: which ELF files it mapped, and where.
#pragma once
#include "recording/library.h"
#include "symbols/program.h"
#include "timeline/log_index.h"

namespace backstep::session {

std::vector<symbols::Module> modules_of(const timeline::LogIndex& log, const recording::Library& library,
                                        const recording::Recording& recording);

// A library of the distribution's, by where it is.
bool is_of_the_system(const std::string& path);

}  // namespace backstep::session
