// Does a source file still compile to the code that the recorded program has?
#pragma once
#include <map>
#include <string>

#include "probe/program_symbols.h"
#include "symbols/program.h"

namespace backstep::probe {

// How the recorded program's debug information says that a source file was compiled.
struct Producer {
  std::string compiler;  // "GNU C17 14.2.0"
  std::string version;   // "14.2.0"
  std::string flags;     // words; those of the preprocessor are not among them
};
// `path`: of the source, absolute. An empty compiler: nothing is known.
Producer producer_of(const symbols::Program& program, const std::string& path);

// Compares functions and variables of an object file, made of `source`, with those of the recorded program.
// Those that differ, and how; by the names in the symbol table. Throws Error.
std::map<std::string, std::string> differing_symbols(const std::string& object, const std::string& source,
                                                     const symbols::Program& program,
                                                     const ProgramSymbols& symbols);

}  // namespace backstep::probe
