// `backstep replay` with a debugger.
#pragma once
#include <vector>

#include "probe/companion.h"
#include "replay/replay.h"

namespace backstep::serve {

// `code` runs along, in processes of the program that is looked at first.
//
// --serve: a gdb server at options.serve, until it is ended by a signal or a gdb says `kill`.
int serve(const ReplayOptions& options, const probe::CompanionCode& code = {});
// Becomes gdb (exec), connected to a server in a child process. `others`: further inferiors of the same gdb,
// each with a server of its own, where `at` says.
int start_gdb(const ReplayOptions& options, const probe::CompanionCode& code = {},
              const std::vector<ReplayOptions>& others = {});

}  // namespace backstep::serve
