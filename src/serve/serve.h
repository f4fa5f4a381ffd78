// `backstep replay` with a debugger.
#pragma once
#include <vector>

#include "replay/replay.h"

namespace backstep::serve {

// --serve: a gdb server at options.serve, until it is ended by a signal or a gdb says `kill`.
int serve(const ReplayOptions& options);
// Becomes gdb (exec), connected to a server in a child process. `others`: further inferiors of the same gdb,
// each with a server of its own, where `at` says.
int start_gdb(const ReplayOptions& options, const std::vector<ReplayOptions>& others = {});

}  // namespace backstep::serve
