// Which source files a program was made of.
#pragma once
#include <set>
#include <string>

#include "symbols/symbols.h"

namespace backstep::symbols {

// As its debug information names them: absolute paths, where that says in which folder it was compiled.
std::set<std::string> source_files(const ElfFile& file);

}  // namespace backstep::symbols
