// Where the debug information of a stripped file is: with the distribution's other -dbg files, or with a
// debuginfod server.
#pragma once
#include <string>

namespace backstep::symbols {

// Where a distribution installs it, be it there or not. `id`: the file's build id in hex.
std::string installed_debug_file(const std::string& id);

// What gdb, or we, have fetched from a debuginfod server before; else, if $DEBUGINFOD_URLS names servers,
// fetches it, which is told on stderr. Empty: nobody has it. `name`: of the file, for that line.
std::string fetched_debug_file(const std::string& id, const std::string& name);

}  // namespace backstep::symbols
