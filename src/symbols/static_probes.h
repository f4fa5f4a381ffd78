// Static probes (USDT): places that a program has marked with <sys/sdt.h> or <backstep/mark.h>. Each is a
// `nop` in the code and a note in the file that names it and says where its arguments are.
#pragma once
#include <string>
#include <vector>

#include "symbols/program.h"

namespace backstep::symbols {

struct StaticProbe {
  std::string provider, name;
  uint64_t address = 0;                // of the nop, as the guest sees it
  std::vector<std::string> arguments;  // as expressions; what has none (vector registers) is left out
};

// In the order of the file. A file that cannot be read has none, and notes that make no sense are none.
std::vector<StaticProbe> static_probes(const Module& module);

// An argument as the note has it ("-4@%eax", "8@-24(%rbp)", "4@$5") as an expression; empty: it has none.
std::string probe_argument(const std::string& operand);

}  // namespace backstep::symbols
