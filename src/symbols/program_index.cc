// Symbol tables first: they are small, name nearly every function, and lead to the one unit of the DWARF that
// knows more about it. Only what symbol tables cannot say, the inlined copies of a function or the code of a
// line, needs all units; a program of 30 MB has a few hundred of them, which takes some tenths of a second,
// once.
#include "symbols/program_index.h"

#include <dwarf.h>
#include <gelf.h>

#include <algorithm>
#include <functional>
#include <tuple>

#include "symbols/program_names.h"

namespace backstep::symbols {
namespace {

constexpr size_t kMostUnits = 1 << 20;
constexpr size_t kMostUnitRanges = 1 << 22;  // of all units
constexpr size_t kMostLineRows = 1 << 25;    // likewise; hostile units share one line table

uint32_t hash_of(std::string_view text) {
  return static_cast<uint32_t>(std::hash<std::string_view>()(text));
}

}  // namespace

ModuleIndex::ModuleIndex(const ElfFile* elf) : elf_(elf) {}

std::vector<Range> ModuleIndex::executable() const {
  std::vector<Range> ranges;
  size_t count = 0;
  if (elf_getphdrnum(elf_->elf(), &count) != 0) return ranges;
  for (size_t i = 0; i < count; i++) {
    GElf_Phdr segment;
    if (!gelf_getphdr(elf_->elf(), static_cast<int>(i), &segment)) break;
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X))
      ranges.push_back({segment.p_vaddr, segment.p_vaddr + segment.p_memsz});
  }
  return ranges;
}

void ModuleIndex::read_units() const {
  if (std::exchange(have_units_, true) || !elf_ || !elf_->dwarf()) return;
  std::vector<Range> loaded = executable();
  std::vector<RangeMap::Entry> entries;
  Dwarf_CU* unit = nullptr;
  Dwarf_Die die;
  uint8_t type = 0;
  for (size_t n = 0; n < kMostUnits; n++) {
    if (dwarf_get_units(elf_->dwarf(), unit, &unit, nullptr, &type, &die, nullptr) != 0) break;
    if (type == DW_UT_type || type == DW_UT_split_type) continue;
    std::vector<Range> code;
    Dwarf_Addr base = 0, start = 0, end = 0;
    for (ptrdiff_t at = 0;
         entries.size() < kMostUnitRanges && (at = dwarf_ranges(&die, at, &base, &start, &end)) > 0;) {
      // What the linker left out is at 0 or thereabouts.
      if (start >= end ||
          !std::any_of(loaded.begin(), loaded.end(), [&](const Range& r) { return r.contains(start); }))
        continue;
      code.push_back({start, end});
      entries.push_back({{start, end}, 0, static_cast<uint32_t>(units_.size())});
    }
    if (code.empty()) continue;
    std::sort(code.begin(), code.end(), [](const Range& a, const Range& b) { return a.start < b.start; });
    units_.emplace_back(die, std::move(code));
  }
  unit_ranges_ = RangeMap(std::move(entries));
}

const std::deque<Unit>& ModuleIndex::units() const {
  read_units();
  return units_;
}

const Unit* ModuleIndex::unit_at(uint64_t address) const {
  read_units();
  uint32_t found = unit_ranges_.find(address);
  return found == RangeMap::kNone ? nullptr : &units_[found];
}

void ModuleIndex::read_symbol_names() const {
  if (std::exchange(have_symbols_, true) || !elf_) return;
  std::vector<std::string_view> names;
  const std::vector<Symbol>& symbols = elf_->symbols();
  for (uint32_t i = 0; i < symbols.size(); i++) {
    if (!symbols[i].code) continue;
    names.clear();
    identifiers(symbols[i].name, names);
    for (std::string_view name : names) symbol_names_.emplace_back(hash_of(name), i);
  }
  std::sort(symbol_names_.begin(), symbol_names_.end());
  symbol_names_.erase(std::unique(symbol_names_.begin(), symbol_names_.end()), symbol_names_.end());
}

std::vector<const Symbol*> ModuleIndex::symbols_like(std::string_view identifier) const {
  read_symbol_names();
  std::vector<const Symbol*> found;
  // Operators are not written out in symbols.
  if (identifier.starts_with("operator")) {
    for (const Symbol& symbol : elf_->symbols())
      if (symbol.code && symbol.name.starts_with("_Z")) found.push_back(&symbol);
    return found;
  }
  if (identifier.starts_with('~')) identifier.remove_prefix(1);
  uint32_t hash = hash_of(identifier);
  for (auto at = std::lower_bound(symbol_names_.begin(), symbol_names_.end(), std::pair(hash, 0u));
       at != symbol_names_.end() && at->first == hash; ++at)
    found.push_back(&elf_->symbols()[at->second]);
  return found;
}

const std::string& ModuleIndex::demangled(const Symbol& symbol) const {
  auto [at, added] = demangled_.try_emplace(&symbol);
  if (added) at->second = demangle(std::string(symbol.name));
  return at->second;
}

Range ModuleIndex::range_of(const Symbol& symbol) const {
  if (symbol.size > 0) return {symbol.start, symbol.start + std::min(symbol.size, ~symbol.start)};
  const std::vector<Symbol>& all = elf_->symbols();
  auto next = std::upper_bound(all.begin(), all.end(), symbol.start,
                               [](uint64_t a, const Symbol& s) { return a < s.start; });
  uint64_t end = std::max(symbol.limit, symbol.start);
  return {symbol.start, next != all.end() ? std::min(end, next->start) : end};
}

std::vector<ModuleIndex::ScopeInUnit> ModuleIndex::scopes_named(std::string_view name) const {
  read_scope_names();
  std::vector<ScopeInUnit> found;
  uint32_t hash = hash_of(name);
  auto at = std::lower_bound(scope_names_.begin(), scope_names_.end(), hash,
                             [](const auto& entry, uint32_t h) { return entry.first < h; });
  for (; at != scope_names_.end() && at->first == hash; ++at) found.push_back(at->second);
  return found;
}

void ModuleIndex::read_scope_names() const {
  if (std::exchange(have_scopes_, true)) return;
  for (const Unit& unit : units())
    for (const Scope& scope : unit.scopes())
      if (scope.name) scope_names_.push_back({hash_of(without_arguments(scope.name)), {&unit, &scope}});
  std::stable_sort(scope_names_.begin(), scope_names_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < scope_names_.size(); i++)
    if (i == 0 || scope_names_[i].first != scope_names_[i - 1].first)
      distinct_scopes_.push_back(scope_names_[i].second);
}

Place ModuleIndex::place(uint64_t address) const {
  Place place;
  if (const Symbol* symbol = elf_->symbol_at(address)) {
    place.function = demangled(*symbol);
    place.offset = address - symbol->start;
  }
  const Unit* unit = unit_at(address);
  if (!unit) return place;
  if (const LineRow* row = unit->row_at(address)) {
    if (row->file) place.file = row->file;
    place.line = row->line;
  }
  for (const Scope* scope = unit->scope_at(address); scope; scope = unit->parent(scope)) {
    if (!scope->name) continue;
    if (scope->kind == Scope::kInlined && place.inlined.empty()) place.inlined = scope->name;
    if (scope->kind == Scope::kFunction && place.function.empty()) {
      place.function = scope->name;
      place.offset = address - scope->entry;
    }
  }
  return place;
}

const std::vector<ModuleIndex::SourceFile>& ModuleIndex::files() const {
  if (std::exchange(have_files_, true)) return files_;
  std::unordered_map<std::string, uint32_t> known;
  size_t total = 0;
  for (uint32_t u = 0; u < units().size(); u++) {
    const std::vector<LineRow>& rows = units_[u].rows();
    if ((total += rows.size()) > kMostLineRows) break;
    std::unordered_map<const char*, uint32_t> of_unit;
    std::string folder = units_[u].folder();
    for (uint32_t r = 0; r < rows.size(); r++) {
      if (!rows[r].kept || !rows[r].statement || !rows[r].file) continue;
      auto [at, added] = of_unit.try_emplace(rows[r].file, 0);
      if (added) {
        std::string clean = clean_path(rows[r].file, folder);
        auto [file, first] = known.try_emplace(clean, static_cast<uint32_t>(files_.size()));
        if (first) files_.push_back({rows[r].file, clean, {}});
        at->second = file->second;
      }
      files_[at->second].starts.push_back({rows[r].line, u, r});
    }
  }
  for (SourceFile& file : files_)
    std::sort(file.starts.begin(), file.starts.end(), [](const LineStart& a, const LineStart& b) {
      return std::tie(a.line, a.unit, a.row) < std::tie(b.line, b.unit, b.row);
    });
  return files_;
}

// As gdb: of the places within one block only the first, since the compiler may have scattered the line over
// it, and none within a prologue.
std::vector<uint64_t> ModuleIndex::breakpoints(const SourceFile& file, int line) const {
  std::vector<uint64_t> addresses;
  std::vector<const Scope*> blocks;
  auto at = std::lower_bound(file.starts.begin(), file.starts.end(), line,
                             [](const LineStart& s, int l) { return s.line < l; });
  for (; at != file.starts.end() && at->line == line; ++at) {
    const Unit& unit = units_[at->unit];
    uint64_t address = unit.rows()[at->row].address;
    const Scope* block = unit.block_at(address);
    if (block && std::find(blocks.begin(), blocks.end(), block) != blocks.end()) continue;
    if (block) blocks.push_back(block);
    const Scope* function = unit.function_at(address);
    if (function && address >= function->entry) {
      uint64_t behind = body(unit, *function);
      if (address < behind) address = behind;
    }
    addresses.push_back(address);
  }
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  return addresses;
}

}  // namespace backstep::symbols
