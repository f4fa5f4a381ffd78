// One source file with debug regions, on its way through regions.cc.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "probe/assembly.h"
#include "probe/compile_commands.h"
#include "probe/region_variables.h"
#include "probe/regions.h"
#include "probe/source_lines.h"

namespace backstep::probe {

// A path of the compiler's, which runs in `folder` (empty: here).
std::string absolute(const std::string& folder, const std::string& path);

// A function of the source as it is now …
struct SourceFunction {
  std::string symbol;
  FunctionLines now;
};
// … and in the recorded program.
struct RecordedFunction {
  FunctionLines lines;
  std::string file;
  // Does the line table say where statements begin? (gcc forgets it where it optimises templates.)
  bool marked = false;
  // If not, of each line: the first address in the function and in each of its inlined copies, by where these
  // begin.
  std::map<int, std::map<uint64_t, uint64_t>> first;
};

// A variable that one region declares and another one uses.
struct SharedVariable {
  DeclaredVariable variable;
  unsigned number = 0;  // of all there are
  std::string where;    // it is declared
};

struct Regions::Unit {
  // Of one region.
  struct Work {
    std::vector<std::string> names;  // that are parameters
    std::set<std::string> gone;      // … that have no value; and why
    std::map<std::string, std::string> why;
    bool self = false;
    size_t first_place = 0, places = 0;
    std::vector<std::string> functions;  // for each place: the symbol of the function around it
    // Variables that it declares, that it keeps for later regions, and that it has from earlier ones.
    std::vector<DeclaredVariable> declares;
    std::vector<SharedVariable> keeps, kept;
  };
  std::string path, stem;
  CompileCommand command;
  std::optional<Assembly> outline;
  std::optional<Preprocessed> code;
  size_t first_region = 0;
  std::vector<Work> work;
  std::map<std::string, RecordedFunction>
      recorded;  // functions of this file in the recorded program, by symbol
  bool only_debug_code = false;
};

}  // namespace backstep::probe
