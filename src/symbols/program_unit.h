// One compilation unit of a file's DWARF, as tables: its line rows and its functions with what is inlined in
// them. Addresses are those of the file's headers.
#pragma once
#include <elfutils/libdw.h>

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "symbols/program_ranges.h"

namespace backstep::symbols {

// One row of the line table: the code from `address` to the next row's belongs to a line.
struct LineRow {
  uint64_t address = 0;
  const char* file = nullptr;  // as libdw keeps it; null: not known
  int line = 0;                // 0: code of no line
  bool statement = false;      // a good place for a breakpoint
  bool end = false;            // the first address behind a piece of code; has no line
  bool kept =
      false;  // gdb keeps it: it is not a mere repetition of the line before, nor empty before another file
};

// A function, an inlined copy of one, or a block of local variables.
struct Scope {
  enum Kind : uint8_t { kFunction, kInlined, kBlock };
  Kind kind = kBlock;
  uint32_t parent = RangeMap::kNone;
  Dwarf_Off die = 0;
  uint64_t entry = 0;
  uint32_t first_range = 0, range_count = 0;  // in the unit's list, see Unit::ranges
  const char* name = nullptr;                 // may be null
  const char* linkage = nullptr;              // mangled; null: none
  uint32_t depth = 0;
  bool is_block = true;    // gdb makes a block of it: it is a function or has local names
  uint32_t prefix = 0;     // index into the unit's prefixes; for those without a mangled name
  int call_line = 0;       // kInlined: where the call was
  uint32_t call_file = 0;  // number in the unit's table of files
};

class Unit {
 public:
  Unit(Dwarf_Die die, std::vector<Range> code) : die_(die), code_(std::move(code)) {}

  const std::vector<Range>& code() const { return code_; }
  // Where the compiler ran; empty: not known.
  std::string folder() const;
  bool is_llvm() const;
  // Whether variables can be found from a function's first instruction on: gcc with location lists, as gdb
  // has it.
  bool locations_at_entry() const;

  const std::vector<LineRow>& rows() const;  // ascending by address
  // The row that an address belongs to, and the end of its code; null: none.
  const LineRow* row_at(uint64_t address) const;
  uint64_t row_end(const LineRow* row) const;

  const std::vector<Scope>& scopes() const;  // parents before children
  // Innermost scope, the innermost that is no block, the real function; null: none.
  const Scope* block_at(uint64_t address) const;
  const Scope* scope_at(uint64_t address) const;
  const Scope* function_at(uint64_t address) const;
  const Scope* parent(const Scope* scope) const;

  // Code of a scope in the order of DWARF: usually the one with the entry comes first. Never empty.
  std::span<const Range> ranges(const Scope& scope) const {
    return {ranges_.data() + scope.first_range, scope.range_count};
  }
  const char* call_file(const Scope& scope) const;  // null: not known

  // "ns::f" and, if the parameters are known, "ns::f(int)".
  const std::string& qualified(const Scope& scope) const;
  std::string full(const Scope& scope) const;
  // Where a scope's function is declared.
  const char* file_of(const Scope& scope) const;
  int line_of(const Scope& scope) const;

 private:
  class Reader;
  class Keeper;
  static const char* file_of(Dwarf_Die* unit, uint64_t number);
  std::string make_qualified(const Scope& scope) const;
  void read_rows() const;
  void read_scopes() const;

  mutable Dwarf_Die die_;
  std::vector<Range> code_;  // sorted
  mutable bool have_rows_ = false, have_scopes_ = false, have_innermost_ = false;
  mutable std::vector<LineRow> rows_;
  mutable std::vector<Scope> scopes_;
  mutable std::vector<Range> ranges_;
  // "ns::Class::": the last part and where the rest is. The first is the empty one.
  struct Prefix {
    uint32_t outer = 0;
    const char* name = nullptr;
  };
  std::string prefix(uint32_t number) const;
  mutable std::vector<Prefix> prefixes_;
  mutable std::unordered_map<const Scope*, std::string> qualified_;
  mutable RangeMap innermost_;  // of the scopes that gdb makes blocks of
  mutable bool location_lists_ = false;
};

}  // namespace backstep::symbols
