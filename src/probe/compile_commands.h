// How a source file of the program is compiled.
#pragma once
#include <string>
#include <vector>

namespace backstep::probe {

struct CompileCommand {
  std::string folder;              // where the compiler runs; empty: here
  std::vector<std::string> flags;  // those that say what the source means
  bool c = false;                  // C, not C++
};

// From compile_commands.json in the file's folder, one above it, or a folder "build" there; only the
// language, by the file's name, if there is none. `given`: flags from the command line, which replace it.
CompileCommand compile_command(const std::string& path, const std::vector<std::string>& given);

// A command taken apart as a shell would.
std::vector<std::string> words_of(const std::string& command);

}  // namespace backstep::probe
