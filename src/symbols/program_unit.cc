// DWARF describes a unit as a tree and a byte-code program. Looking up addresses by the million wants tables,
// so each unit is read once, when it is first asked for, into a list of rows and a list of scopes with a flat
// map of the innermost scope of each address.
//
// The tree may be a lie. We walk it with a stack of our own, of bounded depth, and go on only to entries
// further ahead in the file than any before: so a walk ends, in time proportional to the size of the unit.
//
// Which rows of the line table count for breakpoints follows gdb, so that a line means the same place here
// and there.
#include "symbols/program_unit.h"

#include <dwarf.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "symbols/program_names.h"
#include "symbols/symbols.h"

namespace backstep::symbols {
namespace {

constexpr size_t kDeepest = 128;      // nesting of blocks and namespaces
constexpr size_t kMostRanges = 4096;  // of one scope

const char* text_of(Dwarf_Die* die, unsigned name) {
  Dwarf_Attribute attribute;
  return dwarf_formstring(dwarf_attr_integrate(die, name, &attribute));
}

const char* linkage_of(Dwarf_Die* die) {
  const char* name = text_of(die, DW_AT_linkage_name);
  return name ? name : text_of(die, DW_AT_MIPS_linkage_name);
}

std::vector<Range> ranges_of(Dwarf_Die* die) {
  std::vector<Range> ranges;
  Dwarf_Addr base = 0, start = 0, end = 0;
  for (ptrdiff_t at = 0;
       ranges.size() < kMostRanges && (at = dwarf_ranges(die, at, &base, &start, &end)) > 0;)
    if (start < end) ranges.push_back({start, end});
  return ranges;
}

// DW_AT_entry_pc is an address or, in DWARF 5, a distance from the first one.
uint64_t entry_of(Dwarf_Die* die, const std::vector<Range>& ranges) {
  Dwarf_Attribute attribute;
  uint64_t entry = ranges.front().start;
  if (!dwarf_attr(die, DW_AT_entry_pc, &attribute)) return entry;
  Dwarf_Addr address = 0;
  Dwarf_Word distance = 0;
  if (dwarf_formaddr(&attribute, &address) == 0)
    entry = address;
  else if (dwarf_formudata(&attribute, &distance) == 0)
    entry += distance;
  for (const Range& range : ranges)
    if (range.contains(entry)) return entry;
  return ranges.front().start;
}

bool is_location_list(Dwarf_Die* die) {
  Dwarf_Attribute attribute;
  if (!dwarf_attr(die, DW_AT_location, &attribute)) return false;
  unsigned form = dwarf_whatform(&attribute);
  return form == DW_FORM_sec_offset || form == DW_FORM_loclistx || form == DW_FORM_data4 ||
         form == DW_FORM_data8;
}

bool contains(const std::vector<Range>& sorted, uint64_t address) {
  auto after = std::upper_bound(sorted.begin(), sorted.end(), address,
                                [](uint64_t a, const Range& r) { return a < r.start; });
  return after != sorted.begin() && std::prev(after)->contains(address);
}

}  // namespace

// Walks the tree of a unit and writes down its scopes.
class Unit::Reader {
 public:
  Reader(const Unit& unit) : unit_(unit) {
    unit_.prefixes_.push_back("");
    const char* producer = text_of(&unit_.die_, DW_AT_producer);
    gnu_ = producer && strstr(producer, "GNU");
  }

  void read() {
    Level top;
    if (dwarf_child(&unit_.die_, &top.die) == 0) walk(top);
    std::vector<RangeMap::Entry> entries;
    for (uint32_t i = 0; i < unit_.scopes_.size(); i++) {
      const Scope& scope = unit_.scopes_[i];
      if (scope.kind == Scope::kBlock && !has_locals_[i]) continue;  // gdb makes no block of it
      for (const Range& range : scope.ranges) entries.push_back({range, depths_[i], i});
    }
    unit_.innermost_ = RangeMap(std::move(entries));
  }

 private:
  // The entries of one parent, and where we are among them.
  struct Level {
    Dwarf_Die die;
    uint32_t scope = RangeMap::kNone;
    uint32_t prefix = 0;
  };

  void walk(const Level& top) {
    std::vector<Level> levels = {top};
    Dwarf_Off furthest = 0;
    while (!levels.empty()) {
      Level here = levels.back();
      Dwarf_Off offset = dwarf_dieoffset(&here.die);
      if (offset <= furthest) return;  // not a tree
      furthest = offset;
      Level below = here;
      bool descend =
          enter(here, below) && levels.size() < kDeepest && dwarf_child(&here.die, &below.die) == 0;
      if (descend) {
        levels.push_back(below);
        continue;
      }
      while (!levels.empty() && dwarf_siblingof(&levels.back().die, &levels.back().die) != 0)
        levels.pop_back();
    }
  }

  // Takes note of an entry. Whether there may be scopes below it, and what those are part of.
  bool enter(Level& here, Level& below) {
    int tag = dwarf_tag(&here.die);
    if (here.scope != RangeMap::kNone) note_local(tag, here);
    switch (tag) {
      case DW_TAG_subprogram:
        return function(here, below);
      case DW_TAG_inlined_subroutine:
      case DW_TAG_lexical_block:
        return scope(tag == DW_TAG_lexical_block ? Scope::kBlock : Scope::kInlined, here, below) ||
               here.scope != RangeMap::kNone;
      case DW_TAG_namespace:
      case DW_TAG_module:
      case DW_TAG_class_type:
      case DW_TAG_structure_type:
      case DW_TAG_union_type:
      case DW_TAG_interface_type:
        if (!dwarf_haschildren(&here.die)) return false;
        below.prefix = extend(here.prefix, &here.die, tag);
        return true;
      case DW_TAG_try_block:
      case DW_TAG_catch_block:
      case DW_TAG_with_stmt:
        return true;
      default:
        return false;
    }
  }

  void note_local(int tag, Level& here) {
    if (tag == DW_TAG_variable || tag == DW_TAG_formal_parameter) {
      has_locals_[here.scope] = true;
      if (gnu_ && !unit_.location_lists_) unit_.location_lists_ = is_location_list(&here.die);
    } else if (tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type ||
               tag == DW_TAG_enumeration_type || tag == DW_TAG_typedef || tag == DW_TAG_label) {
      has_locals_[here.scope] = true;
    }
  }

  bool function(Level& here, Level& below) {
    if (scope(Scope::kFunction, here, below)) return true;
    // Neither a declaration nor the common part of inlined copies has code, but functions that are local to
    // it may.
    below.scope = RangeMap::kNone;
    if (here.prefix != 0) abstract_[dwarf_dieoffset(&here.die)] = here.prefix;
    return !dwarf_hasattr(&here.die, DW_AT_declaration) && dwarf_haschildren(&here.die);
  }

  bool scope(Scope::Kind kind, Level& here, Level& below) {
    Scope scope;
    scope.ranges = ranges_of(&here.die);
    // What the linker left out has the address 0 or another that is not in this unit.
    std::erase_if(scope.ranges, [&](const Range& r) { return !contains(unit_.code_, r.start); });
    if (scope.ranges.empty()) return false;
    scope.kind = kind;
    scope.parent = here.scope;
    scope.die = dwarf_dieoffset(&here.die);
    scope.entry = entry_of(&here.die, scope.ranges);
    if (kind != Scope::kBlock) name(scope, here);
    if (kind == Scope::kInlined) call(scope, &here.die);
    uint32_t depth = here.scope == RangeMap::kNone ? 0 : depths_[here.scope] + 1;
    below.scope = static_cast<uint32_t>(unit_.scopes_.size());
    below.prefix = 0;
    depths_.push_back(depth);
    has_locals_.push_back(kind != Scope::kBlock);
    unit_.scopes_.push_back(std::move(scope));
    return true;
  }

  // Many copies of one function share its names.
  struct Names {
    const char *name, *linkage;
    uint32_t prefix;
  };
  void name(Scope& scope, Level& here) {
    Dwarf_Attribute attribute;
    Dwarf_Die origin;
    Dwarf_Off key = scope.die;
    bool copy = dwarf_attr(&here.die, DW_AT_abstract_origin, &attribute) ||
                dwarf_attr(&here.die, DW_AT_specification, &attribute);
    if (copy && dwarf_formref_die(&attribute, &origin)) key = dwarf_dieoffset(&origin);
    bool shared = copy && scope.kind == Scope::kInlined;
    if (auto known = names_.find(key); shared && known != names_.end()) {
      scope.name = known->second.name;
      scope.linkage = known->second.linkage;
      scope.prefix = known->second.prefix;
      return;
    }
    scope.name = text_of(&here.die, DW_AT_name);
    scope.linkage = linkage_of(&here.die);
    auto of_origin = abstract_.find(key);
    scope.prefix = copy && of_origin != abstract_.end() ? of_origin->second : here.prefix;
    if (shared) names_[key] = {scope.name, scope.linkage, scope.prefix};
  }

  void call(Scope& scope, Dwarf_Die* die) {
    Dwarf_Attribute attribute;
    Dwarf_Word value = 0;
    if (dwarf_formudata(dwarf_attr(die, DW_AT_call_line, &attribute), &value) == 0 && value < INT32_MAX)
      scope.call_line = static_cast<int>(value);
    if (dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &attribute), &value) != 0) return;
    if (!have_files_) {
      have_files_ = true;
      if (dwarf_getsrcfiles(&unit_.die_, &files_, &file_count_) != 0) file_count_ = 0;
    }
    if (value < file_count_) scope.call_file = dwarf_filesrc(files_, value, nullptr, nullptr);
  }

  uint32_t extend(uint32_t prefix, Dwarf_Die* die, int tag) {
    const char* name = dwarf_diename(die);
    if (!name && tag != DW_TAG_namespace) return prefix;
    if (unit_.prefixes_[prefix].size() > 4096) return prefix;
    unit_.prefixes_.push_back(unit_.prefixes_[prefix] + (name ? name : "(anonymous namespace)") + "::");
    return static_cast<uint32_t>(unit_.prefixes_.size() - 1);
  }

  const Unit& unit_;
  bool gnu_ = false, have_files_ = false;
  Dwarf_Files* files_ = nullptr;
  size_t file_count_ = 0;
  std::vector<uint32_t> depths_;                      // of each scope
  std::vector<bool> has_locals_;                      // likewise
  std::unordered_map<Dwarf_Off, uint32_t> abstract_;  // prefixes of functions without code
  std::unordered_map<Dwarf_Off, Names> names_;
};

std::string Unit::folder() const {
  const char* folder = text_of(&die_, DW_AT_comp_dir);
  return folder ? folder : "";
}

bool Unit::is_llvm() const {
  const char* producer = text_of(&die_, DW_AT_producer);
  return producer && (strstr(producer, "clang") || strstr(producer, "LLVM") || strstr(producer, "flang"));
}

bool Unit::locations_at_entry() const {
  read_scopes();
  return location_lists_;
}

void Unit::read_scopes() const {
  if (std::exchange(have_scopes_, true)) return;
  Reader(*this).read();
}

void Unit::read_rows() const {
  if (std::exchange(have_rows_, true)) return;
  Dwarf_Lines* lines = nullptr;
  size_t count = 0;
  if (dwarf_getsrclines(&die_, &lines, &count) != 0) return;
  rows_.reserve(count);
  int last_line = 0;
  bool discriminated = false;  // the line was said to have parts
  for (size_t i = 0; i < count; i++) {
    Dwarf_Line* line = dwarf_onesrcline(lines, i);
    LineRow row;
    unsigned discriminator = 0;
    dwarf_lineaddr(line, &row.address);
    dwarf_lineno(line, &row.line);
    dwarf_linebeginstatement(line, &row.statement);
    dwarf_lineendsequence(line, &row.end);
    dwarf_lineprologueend(line, &row.prologue_end);
    dwarf_linediscriminator(line, &discriminator);
    if (!contains(code_, row.end && row.address > 0 ? row.address - 1 : row.address)) continue;
    row.file = dwarf_linesrc(line, nullptr, nullptr);
    bool other_file = rows_.empty() || rows_.back().end || rows_.back().file != row.file;
    if (row.line != last_line || other_file) discriminated = false;
    discriminated |= discriminator != 0;
    row.kept = !row.end && row.line > 0 && (other_file || row.line != last_line || !discriminated);
    // Rows without code before a change of file: no breakpoint belongs there.
    if (other_file || row.end)
      for (size_t j = rows_.size(); j > 0 && rows_[j - 1].address == row.address && !rows_[j - 1].end; j--) {
        if (rows_[j - 1].file != rows_.back().file) break;
        rows_[j - 1].kept = false;
      }
    last_line = row.line;
    rows_.push_back(row);
  }
}

const std::vector<LineRow>& Unit::rows() const {
  read_rows();
  return rows_;
}

const LineRow* Unit::row_at(uint64_t address) const {
  read_rows();
  auto after = std::upper_bound(rows_.begin(), rows_.end(), address,
                                [](uint64_t a, const LineRow& r) { return a < r.address; });
  if (after == rows_.begin() || std::prev(after)->end) return nullptr;
  return &*std::prev(after);
}

uint64_t Unit::row_end(const LineRow* row) const {
  const LineRow* next = row;
  while (next != rows_.data() + rows_.size() && next->address == row->address) next++;
  return next == rows_.data() + rows_.size() ? row->address : next->address;
}

const std::vector<Scope>& Unit::scopes() const {
  read_scopes();
  return scopes_;
}

const Scope* Unit::block_at(uint64_t address) const {
  read_scopes();
  uint32_t found = innermost_.find(address);
  return found == RangeMap::kNone ? nullptr : &scopes_[found];
}

const Scope* Unit::scope_at(uint64_t address) const {
  const Scope* scope = block_at(address);
  while (scope && scope->kind == Scope::kBlock) scope = parent(scope);
  return scope;
}

const Scope* Unit::function_at(uint64_t address) const {
  const Scope* scope = block_at(address);
  while (scope && scope->kind != Scope::kFunction) scope = parent(scope);
  return scope;
}

const Scope* Unit::parent(const Scope* scope) const {
  return scope->parent == RangeMap::kNone ? nullptr : &scopes_[scope->parent];
}

std::string Unit::qualified(const Scope& scope) const {
  if (scope.linkage && strncmp(scope.linkage, "_Z", 2) == 0) {
    std::string demangled = demangle(scope.linkage);
    if (demangled != scope.linkage) return std::string(split_name(demangled).qualified);
  }
  return prefixes_[scope.prefix] + (scope.name ? scope.name : scope.linkage ? scope.linkage : "");
}

std::string Unit::full(const Scope& scope) const {
  std::string demangled = scope.linkage ? demangle(scope.linkage) : "";
  return demangled.empty() || demangled == scope.linkage ? qualified(scope) : demangled;
}

const char* Unit::file_of(const Scope& scope) const {
  Dwarf_Die die;
  return dwarf_offdie(dwarf_cu_getdwarf(die_.cu), scope.die, &die) ? dwarf_decl_file(&die) : nullptr;
}

int Unit::line_of(const Scope& scope) const {
  Dwarf_Die die;
  int line = 0;
  if (!dwarf_offdie(dwarf_cu_getdwarf(die_.cu), scope.die, &die) || dwarf_decl_line(&die, &line) != 0)
    return 0;
  return line;
}

}  // namespace backstep::symbols
