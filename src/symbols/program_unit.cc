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

constexpr size_t kDeepestScope = 128;  // nesting of blocks and namespaces
constexpr size_t kMostRanges = 4096;   // of one scope

const char* text_of(Dwarf_Die* die, unsigned name) {
  Dwarf_Attribute attribute;
  return dwarf_formstring(dwarf_attr_integrate(die, name, &attribute));
}

const char* linkage_of(Dwarf_Die* die) {
  const char* name = text_of(die, DW_AT_linkage_name);
  return name ? name : text_of(die, DW_AT_MIPS_linkage_name);
}

// DW_AT_entry_pc is an address or, in DWARF 5, a distance from the first one.
uint64_t entry_of(Dwarf_Die* die, std::span<const Range> ranges) {
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
    unit_.prefixes_.push_back({});
    const char* producer = text_of(&unit_.die_, DW_AT_producer);
    gnu_ = producer && strstr(producer, "GNU");
  }

  void read() {
    Level top;
    if (dwarf_child(&unit_.die_, &top.die) == 0) walk(top);
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
          enter(here, below) && levels.size() < kDeepestScope && dwarf_child(&here.die, &below.die) == 0;
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
      unit_.scopes_[here.scope].is_block = true;
      if (gnu_ && !unit_.location_lists_) unit_.location_lists_ = is_location_list(&here.die);
    } else if (tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type ||
               tag == DW_TAG_enumeration_type || tag == DW_TAG_typedef || tag == DW_TAG_label) {
      unit_.scopes_[here.scope].is_block = true;
    }
  }

  bool function(Level& here, Level& below) {
    if (scope(Scope::kFunction, here, below)) return true;
    // Neither a declaration nor the common part of inlined copies has code, but functions that are local to
    // it may.
    below.scope = RangeMap::kNone;
    if (here.prefix != 0 && !dwarf_hasattr(&here.die, DW_AT_linkage_name))
      abstract_[dwarf_dieoffset(&here.die)] = here.prefix;
    return !dwarf_hasattr(&here.die, DW_AT_declaration) && dwarf_haschildren(&here.die);
  }

  bool scope(Scope::Kind kind, Level& here, Level& below) {
    Scope scope;
    scope.first_range = static_cast<uint32_t>(unit_.ranges_.size());
    read_ranges(&here.die);
    scope.range_count = static_cast<uint32_t>(unit_.ranges_.size()) - scope.first_range;
    if (scope.range_count == 0) return false;
    scope.kind = kind;
    scope.is_block = kind != Scope::kBlock;
    scope.parent = here.scope;
    scope.die = dwarf_dieoffset(&here.die);
    scope.entry = entry_of(&here.die, unit_.ranges(scope));
    if (kind != Scope::kBlock) name(scope, here);
    if (kind == Scope::kInlined) call(scope, &here.die);
    scope.depth = here.scope == RangeMap::kNone ? 0 : unit_.scopes_[here.scope].depth + 1;
    below.scope = static_cast<uint32_t>(unit_.scopes_.size());
    below.prefix = 0;
    unit_.scopes_.push_back(scope);
    return true;
  }

  // What the linker left out has the address 0 or another that is not in this unit.
  void read_ranges(Dwarf_Die* die) {
    Dwarf_Addr base = 0, start = 0, end = 0;
    size_t count = 0;
    // Many scopes may point to one long list.
    size_t most = unit_.ranges_.size() < kMostRanges + 16 * unit_.scopes_.size() ? kMostRanges : 1;
    for (ptrdiff_t at = 0; count++ < most && (at = dwarf_ranges(die, at, &base, &start, &end)) > 0;)
      if (start < end && contains(unit_.code_, start)) unit_.ranges_.push_back({start, end});
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
    if (dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &attribute), &value) == 0 && value < UINT32_MAX)
      scope.call_file = static_cast<uint32_t>(value);
  }

  uint32_t extend(uint32_t prefix, Dwarf_Die* die, int tag) {
    const char* name = dwarf_diename(die);
    if (!name && tag != DW_TAG_namespace) return prefix;
    unit_.prefixes_.push_back({prefix, name ? name : "(anonymous namespace)"});
    return static_cast<uint32_t>(unit_.prefixes_.size() - 1);
  }

  const Unit& unit_;
  bool gnu_ = false;
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

// Decides which rows gdb keeps: in the order of the table, one row after the other.
class Unit::Keeper {
 public:
  bool keep(std::vector<LineRow>& before, const LineRow& row, bool discriminator) {
    if (row.line != last_line_ || row.file != file_) discriminated_ = false;
    discriminated_ |= discriminator;
    bool other_file = row.file != file_ || row.end;
    // What begins no statement does not push away one of another file at its address.
    bool ignored = !row.end &&
                   (row.line <= 0 || (other_file && row.address == address_ && !row.statement && statement_));
    bool kept = !row.end && !ignored && (other_file || row.line != last_line_ || !discriminated_);
    if (other_file && !ignored) drop_empty(before, row.address);
    if (!ignored) {
      file_ = row.end ? nullptr : row.file;
      last_line_ = row.end ? 0 : row.line;
    }
    if (row.address != address_) statement_ = false;
    address_ = row.address;
    statement_ |= row.statement;
    return kept;
  }

 private:
  // Rows of the file so far that have no code before a change of file: no breakpoint belongs there.
  void drop_empty(std::vector<LineRow>& before, uint64_t address) {
    for (size_t i = before.size(); i > 0 && before[i - 1].address == address && !before[i - 1].end; i--)
      if (before[i - 1].file == file_) before[i - 1].kept = false;
  }

  const char* file_ = nullptr;
  uint64_t address_ = ~0ull;
  int last_line_ = 0;
  bool statement_ = false;      // begins at this address, by one of the rows so far
  bool discriminated_ = false;  // the line was said to have parts
};

void Unit::read_rows() const {
  if (std::exchange(have_rows_, true)) return;
  Dwarf_Lines* lines = nullptr;
  size_t count = 0;
  if (dwarf_getsrclines(&die_, &lines, &count) != 0) return;
  rows_.reserve(count);
  Keeper keeper;
  for (size_t i = 0; i < count; i++) {
    Dwarf_Line* line = dwarf_onesrcline(lines, i);
    LineRow row;
    unsigned discriminator = 0;
    dwarf_lineaddr(line, &row.address);
    dwarf_lineno(line, &row.line);
    dwarf_linebeginstatement(line, &row.statement);
    dwarf_lineendsequence(line, &row.end);
    dwarf_linediscriminator(line, &discriminator);
    if (!contains(code_, row.end && row.address > 0 ? row.address - 1 : row.address)) continue;
    row.file = dwarf_linesrc(line, nullptr, nullptr);
    row.kept = keeper.keep(rows_, row, discriminator != 0);
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
  if (!std::exchange(have_innermost_, true)) {
    std::vector<RangeMap::Entry> entries;
    for (uint32_t i = 0; i < scopes_.size(); i++)
      for (const Range& range : ranges(scopes_[i]))
        if (scopes_[i].is_block) entries.push_back({range, scopes_[i].depth, i});
    innermost_ = RangeMap(std::move(entries));
  }
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

const char* Unit::call_file(const Scope& scope) const {
  return file_of(&die_, scope.call_file);
}

const std::string& Unit::qualified(const Scope& scope) const {
  auto [at, added] = qualified_.try_emplace(&scope);
  if (added) at->second = make_qualified(scope);
  return at->second;
}

std::string Unit::prefix(uint32_t number) const {
  constexpr size_t kLongest = 4096;
  std::string text;
  for (; number != 0 && text.size() < kLongest; number = prefixes_[number].outer)
    text = std::string(prefixes_[number].name, strnlen(prefixes_[number].name, kLongest)) + "::" + text;
  return text;
}

std::string Unit::make_qualified(const Scope& scope) const {
  if (scope.linkage && strncmp(scope.linkage, "_Z", 2) == 0) {
    std::string demangled = demangle(scope.linkage);
    if (demangled != scope.linkage) return std::string(split_name(demangled).qualified);
  }
  return prefix(scope.prefix) + (scope.name ? scope.name : scope.linkage ? scope.linkage : "");
}

std::string Unit::full(const Scope& scope) const {
  std::string demangled = scope.linkage ? demangle(scope.linkage) : "";
  return demangled.empty() || demangled == scope.linkage ? qualified(scope) : demangled;
}

// Not by dwarf_decl_file(), which takes the number 0 for none: in DWARF 5 that is the unit's own file.
const char* Unit::file_of(const Scope& scope) const {
  Dwarf_Die die, unit;
  Dwarf_Attribute attribute;
  Dwarf_Word number = 0;
  Dwarf_Half version = 0;
  if (!dwarf_offdie(dwarf_cu_getdwarf(die_.cu), scope.die, &die) ||
      dwarf_formudata(dwarf_attr_integrate(&die, DW_AT_decl_file, &attribute), &number) != 0 ||
      !dwarf_cu_die(attribute.cu, &unit, &version, nullptr, nullptr, nullptr, nullptr, nullptr) ||
      (number == 0 && version < 5))
    return nullptr;
  return file_of(&unit, number);
}

const char* Unit::file_of(Dwarf_Die* unit, uint64_t number) {
  Dwarf_Files* files = nullptr;
  size_t count = 0;
  if (dwarf_getsrcfiles(unit, &files, &count) != 0 || number >= count) return nullptr;
  return dwarf_filesrc(files, number, nullptr, nullptr);
}

int Unit::line_of(const Scope& scope) const {
  Dwarf_Die die;
  int line = 0;
  if (!dwarf_offdie(dwarf_cu_getdwarf(die_.cu), scope.die, &die) || dwarf_decl_line(&die, &line) != 0)
    return 0;
  return line;
}

}  // namespace backstep::symbols
