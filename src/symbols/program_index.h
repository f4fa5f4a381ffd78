// What one ELF file knows, made ready to be asked by name, by line and by address. Addresses are those of the
// file's headers. Each table is made when it is first needed.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "symbols/program_ranges.h"
#include "symbols/program_unit.h"
#include "symbols/symbols.h"

namespace backstep::symbols {

class ModuleIndex {
 public:
  // `elf` must outlive it; null: a file that nothing is known of.
  explicit ModuleIndex(const ElfFile* elf);
  const ElfFile* elf() const { return elf_; }

  // Units of the DWARF that have code.
  const std::deque<Unit>& units() const;
  const Unit* unit_at(uint64_t address) const;

  // Functions and labels in the code whose symbol may have that name as its last or other part.
  std::vector<const Symbol*> symbols_like(std::string_view identifier) const;
  const std::string& demangled(const Symbol& symbol) const;
  Range range_of(const Symbol& symbol) const;

  // Functions and inlined copies of that name, without template arguments. Reads all units.
  using ScopeInUnit = std::pair<const Unit*, const Scope*>;
  std::vector<ScopeInUnit> scopes_named(std::string_view name) const;
  // One of each such name, of those read so far.
  const std::vector<ScopeInUnit>& scope_names() const { return distinct_scopes_; }

  Place place(uint64_t address) const;

  // The end of a function's prologue: where gdb puts the breakpoint on a function.
  uint64_t body(const Unit& unit, const Scope& function) const;

  // Source files and the places where breakpoints on their lines may be.
  struct LineStart {
    int line;
    uint32_t unit, row;
  };
  struct SourceFile {
    std::string path;               // as the compiler was given it
    std::string clean;              // absolute if possible, without ".."
    std::vector<LineStart> starts;  // ascending by line, unit, row
  };
  const std::vector<SourceFile>& files() const;
  // Where breakpoints on a line belong.
  std::vector<uint64_t> breakpoints(const SourceFile& file, int line) const;

 private:
  void read_units() const;
  void read_symbol_names() const;
  void read_scope_names() const;
  std::vector<Range> executable() const;

  const ElfFile* elf_;
  mutable bool have_units_ = false, have_symbols_ = false, have_scopes_ = false, have_files_ = false;
  mutable std::deque<Unit> units_;
  mutable RangeMap unit_ranges_;
  mutable std::vector<std::pair<uint32_t, uint32_t>> symbol_names_;  // hash of an identifier, symbol; sorted
  mutable std::unordered_map<const Symbol*, std::string> demangled_;
  mutable std::vector<std::pair<uint32_t, ScopeInUnit>> scope_names_;  // hash of the name; sorted by it
  mutable std::vector<ScopeInUnit> distinct_scopes_;
  mutable std::vector<SourceFile> files_;
};

}  // namespace backstep::symbols
