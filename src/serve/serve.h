// `backstep replay` with a debugger.
#pragma once
#include "replay/replay.h"

namespace backstep::serve {

// --serve: a gdb server at options.serve, until it is ended by a signal or a gdb says `kill`.
int serve(const ReplayOptions& options);
// Becomes gdb (exec), connected to a server in a child process.
int start_gdb(const ReplayOptions& options);

}  // namespace backstep::serve
