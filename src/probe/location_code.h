// Where a variable is, as C++ that the compiler of debug code reads.
#pragma once
#include <string>

#include "symbols/expression_code.h"

namespace backstep::probe {

// The body of a function `(const backstep_registers* r, uint64_t* to)` that stores the word that `code`
// leaves on top of its stack; it returns false where the word is not known. Throws Error: something in it
// cannot be said in C++.
std::string location_function(const std::string& name, const symbols::Code& code);

// Does it ask for vector registers?
bool uses_vector(const symbols::Code& code);

}  // namespace backstep::probe
