// Debug regions in sources of the program: found, placed in the recorded program, compiled.
#pragma once
#include <map>
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

// A place of a region, and the function that calls the region there.
struct RegionPlace {
  uint64_t pc = 0;
  size_t region = 0;  // of all sources
  std::vector<std::string> names;
  std::string symbol;  // of the region as a function: (closure, null, addresses…) in C++, (addresses…) in C
  Bindings bindings;
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

  const std::vector<Region>& regions() const { return regions_; }
  const std::vector<RegionPlace>& places() const { return places_; }
  const std::vector<std::string>& objects() const { return objects_; }
  const std::map<std::string, uint64_t>& symbols() const { return symbols_; }
  const std::vector<std::string>& notes() const { return notes_; }
  // C++ for the functions of places; the one of place n is NAME(first + n).
  std::string place_functions(size_t first) const;

 private:
  struct Unit;
  void outline(Unit& unit);
  void preprocess(Unit& unit);
  void find_places(Unit& unit, size_t region);
  void choose_names(Unit& unit, size_t region, const std::vector<uint64_t>& pcs);
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
};

}  // namespace backstep::probe
