// Are the files that the recorded program consisted of still those that lie where it had them?
#pragma once
#include <string>
#include <vector>

#include "symbols/program.h"

namespace backstep::probe {

// Lines [first, last] of a source file as the recorded program's line table has them, and where they are now.
struct MovedLines {
  std::string file;
  int first = 0, last = 0, now = 0;  // now: where the first of them is
};

struct ChangedFunction {
  std::string name, file;
  int line = 0;                     // in the recorded program; 0: not known
  uint64_t recorded = 0, size = 0;  // bytes, in the recorded program and now; 0: there is none
};

struct BinaryCheck {
  enum State {
    Same,       // in every section
    Described,  // the same code and data; what describes them (debug information, build ID) differs
    Changed,    // another program
    Missing,    // there is no file any more, or it is no ELF file
  };
  std::string name, file;  // as the program knew it; what it was compared with
  State state = Same;
  std::vector<std::string> sections;  // that differ, or are in one of the two only
  std::vector<MovedLines> moved;
  std::vector<ChangedFunction> functions;
};

// `recorded`: a file of the recorded program, one of `program`'s modules; `file`: what is compared with it.
BinaryCheck check_binary(const symbols::Program& program, const symbols::Module& recorded,
                         const std::string& file);

}  // namespace backstep::probe
