// Debug regions in sources of the program: found, placed in the recorded program, compiled.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "probe/binder.h"
#include "probe/build.h"
#include "probe/preprocessed.h"
#include "probe/program_symbols.h"
#include "probe/toolchain.h"

namespace backstep::probe {

class Assembly;
class LineMove;
struct SourceFunction;
struct RecordedFunction;

// A function of a source file, compared with the recorded program.
struct FunctionCheck {
  enum State {
    Same,
    Changed,  // its lines, or its code, by more than debug regions
    NoCode,   // the recorded program has none of it
  };
  std::string name;
  State state = Same;
  int line = 0, recorded = 0;  // where it begins, now and in the recorded program
  std::string why;             // Changed: what shows it
};

// A source file, compared with the recorded program.
struct SourceCheck {
  std::string path;
  std::vector<FunctionCheck> functions;  // in the order of the file
  size_t regions = 0;
  std::string code;  // why its machine code was not compared; empty: it was
};

// A place of a region, and the function that calls the region there.
struct RegionPlace {
  uint64_t pc = 0;
  unsigned outer = 0;  // whose variables are meant, as Variables::site has it
  size_t region = 0;   // of all sources
  std::vector<std::string> names;
  std::string symbol;  // of the region as a function: (closure, null, addresses…) in C++, (addresses…) in C
  Bindings bindings;
  std::string frame = {};  // the address of the function's frame, as C++; empty: nobody asks for it
  bool entry = false;      // where a function begins: variables of regions in it are gone
};

// All sources of one build.
class Regions {
 public:
  Regions(session::Session& session, const Toolchain& tools, Variables& variables, Binder& binder)
      : session_(session),
        tools_(tools),
        variables_(variables),
        binder_(binder),
        program_symbols_(session.program()) {}

  // Compiles a source. Throws Error.
  void add(const SourceFile& source);
  // Only compares it with the recorded program. Throws Error. (regions_check.cc)
  SourceCheck check(const SourceFile& source);

  const std::vector<Region>& regions() const { return regions_; }
  const std::vector<RegionPlace>& places() const { return places_; }
  const std::vector<std::string>& objects() const { return objects_; }
  const std::map<std::string, uint64_t>& symbols() const { return symbols_; }
  const std::vector<std::string>& notes() const { return notes_; }
  // C++ for the functions of places; the one of place n is NAME(first + n).
  std::string place_functions(size_t first) const;

 private:
  struct Unit;
  Unit begin(const SourceFile& source);
  void add_includer(const SourceFile& header);
  static std::optional<LineMove> move_of(const Unit& unit, const SourceFunction& around,
                                         const RecordedFunction& recorded, const std::string& file);
  std::string compare_code(const Unit& unit, std::map<std::string, std::string>& differ) const;
  void outline(Unit& unit);
  void preprocess(Unit& unit);
  void find_places(Unit& unit, size_t region);
  void choose_names(Unit& unit, size_t region);
  void share_variables(Unit& unit);
  void compile(Unit& unit);
  void redirect(Unit& unit, const Assembly& assembly);
  std::vector<std::string> arguments(const Unit& unit, bool probing) const;
  Toolchain::Outcome run(const Unit& unit, const std::vector<std::string>& arguments) const;
  std::string function_for(const Unit& unit, const SourceRegion& region, size_t number) const;

  session::Session& session_;
  const Toolchain& tools_;
  Variables& variables_;
  Binder& binder_;
  ProgramSymbols program_symbols_;
  std::vector<Region> regions_;
  std::vector<RegionPlace> places_;
  std::vector<std::string> objects_, notes_;
  std::map<std::string, uint64_t> symbols_;
  unsigned shared_ = 0;  // variables so far
};

}  // namespace backstep::probe
