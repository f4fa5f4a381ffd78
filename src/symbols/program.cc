// Every question goes to the modules' indexes and comes back with guest addresses. What a module's file does
// not say is missing from the answer; a file that cannot be read says nothing.
#include "symbols/program.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/nearest.h"
#include "symbols/elf_facts.h"
#include "symbols/program_index.h"
#include "symbols/program_names.h"
#include "symbols/thread_locals.h"
#include "symbols/unwind_rules.h"
#include "symbols/variables.h"

namespace backstep::symbols {
namespace {

Function from_symbol(const Module& module, const ModuleIndex& index, const Symbol& symbol) {
  Function f;
  f.full = index.demangled(symbol);
  // A C symbol is a name already, whatever it looks like ("f.cold").
  f.name = symbol.name == f.full ? f.full.substr(0, f.full.find('@', 1))
                                 : std::string(split_name(f.full).qualified);
  Range range = index.range_of(symbol);
  f.entry = f.body = range.start + module.bias;
  f.ranges = {{range.start + module.bias, range.end + module.bias}};
  f.module = &module;
  f.ifunc = symbol.ifunc;
  return f;
}

Function from_scope(const Module& module, const ModuleIndex& index, const Unit& unit, const Scope& scope) {
  Function f;
  f.inlined = scope.kind == Scope::kInlined;
  f.name = unit.qualified(scope);
  f.full = unit.full(scope);
  f.entry = scope.entry + module.bias;
  f.body = index.body(unit, scope) + module.bias;
  for (const Range& range : unit.ranges(scope))
    f.ranges.emplace_back(range.start + module.bias, range.end + module.bias);
  auto first = std::find_if(f.ranges.begin(), f.ranges.end(),
                            [&](const auto& r) { return f.entry >= r.first && f.entry < r.second; });
  if (first != f.ranges.end()) std::rotate(f.ranges.begin(), first, first + 1);
  // gcc leaves out the mangled name of what is local to a function.
  const Symbol* symbol = scope.linkage || f.inlined ? nullptr : index.elf()->symbol_at(scope.entry);
  if (symbol && symbol->start == scope.entry && symbol->name.starts_with("_Z")) {
    f.full = index.demangled(*symbol);
    f.name = split_name(f.full).qualified;
  }
  if (const char* file = unit.file_of(scope)) f.file = file;
  f.line = unit.line_of(scope);
  f.module = &module;
  return f;
}

// The functions of one module that were asked for.
class Search {
 public:
  Search(const Module& module, const ModuleIndex& index, std::string_view name, bool inlined,
         bool only_entries)
      : module_(module),
        index_(index),
        asked_(split_file(name)),
        split_(split_name(asked_.function)),
        inlined_(inlined),
        only_entries_(only_entries && asked_.file.empty()) {}

  std::vector<Function> run() {
    if (split_.parts.empty() || split_.parts.back().empty()) return {};
    std::string_view last = without_arguments(split_.parts.back());
    for (const Symbol* symbol : index_.symbols_like(last)) consider(*symbol);
    // Parts of a function that were split off stand for it only if it is gone.
    if (found_.empty())
      for (const Symbol* symbol : fragments_) add(*symbol);
    if (inlined_ || !index_.elf()->all_symbols())
      for (auto [unit, scope] : index_.scopes_named(last)) consider(*unit, *scope);
    return std::move(found_);
  }

 private:
  void consider(const Symbol& symbol) {
    CloneName clone = split_clone(symbol.name);
    if (symbol.name.starts_with("_")) {
      const std::string& name = index_.demangled(symbol);
      if (!matches(split_, name == symbol.name ? split_name(clone.base) : split_name(name))) return;
    } else if (!matches(split_, split_name(clone.base))) {
      return;
    }
    if (clone.fragment)
      fragments_.push_back(&symbol);
    else
      add(symbol);
  }

  void add(const Symbol& symbol) {
    const Unit* unit = only_entries_ && !symbol.label ? nullptr : index_.unit_at(symbol.start);
    const Scope* scope = unit ? unit->function_at(symbol.start) : nullptr;
    if (scope && scope->entry != symbol.start) {
      // A label inside a function, or its part elsewhere, which has been found by its entry.
      if (!symbol.label) return;
      scope = nullptr;
    }
    Function f = scope ? from_scope(module_, index_, *unit, *scope) : from_symbol(module_, index_, symbol);
    f.ifunc = symbol.ifunc;
    // Of several names for one function, the one that was asked for.
    if (scope && !matches(split_, split_name(f.full))) {
      Function named = from_symbol(module_, index_, symbol);
      f.name = named.name;
      f.full = named.full;
    }
    keep(std::move(f), unit);
  }

  void consider(const Unit& unit, const Scope& scope) {
    if (scope.kind == Scope::kInlined && !inlined_) return;
    std::string full = unit.full(scope);
    if (!matches(split_, split_name(full))) return;
    keep(from_scope(module_, index_, unit, scope), &unit);
  }

  void keep(Function f, const Unit* unit) {
    if (!asked_.file.empty()) {
      std::string clean = f.file.empty() ? "" : clean_path(f.file, unit ? unit->folder() : "");
      if (!path_ends_with(clean, asked_.file)) return;
    }
    if (seen_.emplace(f.entry, f.inlined).second) found_.push_back(std::move(f));
  }

  const Module& module_;
  const ModuleIndex& index_;
  AskedFunction asked_;
  SplitName split_;
  bool inlined_, only_entries_;
  std::vector<const Symbol*> fragments_;
  std::vector<Function> found_;
  std::set<std::pair<uint64_t, bool>> seen_;
};

}  // namespace

const ElfFile& Module::elf() const {
  if (opened) return *opened;
  if (!failure.empty()) throw Error(failure);
  try {
    opened = std::make_shared<const ElfFile>(file, name);
  } catch (const Error& e) {
    failure = e.what();
    throw;
  }
  return *opened;
}

Program::Program(std::vector<Module> modules) : modules_(std::move(modules)) {
  std::stable_sort(modules_.begin(), modules_.end(),
                   [](const Module& a, const Module& b) { return a.start < b.start; });
  indexes_.resize(modules_.size());
}

Program::~Program() = default;
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;

const Module* Program::module_at(uint64_t address) const {
  auto after = std::upper_bound(modules_.begin(), modules_.end(), address,
                                [](uint64_t a, const Module& m) { return a < m.start; });
  while (after != modules_.begin())
    if (address < (--after)->end) return &*after;
  return nullptr;
}

const ModuleIndex* Program::index(const Module& module) const {
  auto& index = indexes_[static_cast<size_t>(&module - modules_.data())];
  if (!index) {
    const ElfFile* elf = nullptr;
    try {
      elf = &module.elf();
    } catch (const Error&) {  // a font, a locale: programs map all kinds of files
    }
    index = std::make_unique<ModuleIndex>(elf);
  }
  return index->elf() ? index.get() : nullptr;
}

const ModuleIndex* Program::index_at(uint64_t address, const Module*& module) const {
  module = module_at(address);
  return module ? index(*module) : nullptr;
}

FrameRules& Program::frame_rules() const {
  if (!frame_rules_) frame_rules_ = std::make_unique<FrameRules>();
  return *frame_rules_;
}

ThreadLocals& Program::thread_locals() const {
  if (!thread_locals_) thread_locals_ = std::make_unique<ThreadLocals>(modules_);
  return *thread_locals_;
}

std::vector<Function> Program::functions(const std::string& name, bool inlined) const {
  return find_functions(name, inlined, false);
}

std::vector<Function> Program::entries(const std::string& name) const {
  return find_functions(name, false, true);
}

std::vector<Function> Program::find_functions(const std::string& name, bool inlined,
                                              bool only_entries) const {
  std::vector<Function> all;
  for (const Module& module : modules_) {
    const ModuleIndex* names = index(module);
    if (!names) continue;
    for (Function& f : Search(module, *names, name, inlined, only_entries).run()) all.push_back(std::move(f));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Function& a, const Function& b) { return a.entry < b.entry; });
  return all;
}

std::vector<Function> Program::all_functions(const Module& module) const {
  std::vector<Function> all;
  const ModuleIndex* names = index(module);
  if (!names) return all;
  for (const Unit& unit : names->units())
    for (const Scope& scope : unit.scopes())
      if (scope.kind == Scope::kFunction) all.push_back(from_scope(module, *names, unit, scope));
  const Symbol* last = nullptr;
  auto add = [&](const Symbol& symbol) {
    const Unit* unit = names->unit_at(symbol.start);
    if (!unit || !unit->function_at(symbol.start)) all.push_back(from_symbol(module, *names, symbol));
  };
  // The last symbol of an address has the best name. Labels are functions where nothing better covers them.
  for (const Symbol& symbol : names->elf()->symbols()) {
    const Symbol* best = symbol.label ? names->elf()->symbol_at(symbol.start) : nullptr;
    if (!symbol.code || (best && best->start != symbol.start)) continue;
    if (last && last->start != symbol.start) add(*last);
    last = &symbol;
  }
  if (last) add(*last);
  std::stable_sort(all.begin(), all.end(),
                   [](const Function& a, const Function& b) { return a.entry < b.entry; });
  return all;
}

std::vector<LineMatch> Program::lines(const std::string& file, int line) const {
  struct Candidate {
    const Module* module;
    const ModuleIndex* index;
    const ModuleIndex::SourceFile* source;
  };
  std::string asked = clean_path(file, "");
  std::map<std::string, std::vector<Candidate>> by_file;
  for (const Module& module : modules_) {
    const ModuleIndex* names = index(module);
    if (!names) continue;
    for (const ModuleIndex::SourceFile& source : names->files())
      if (path_ends_with(source.clean, asked)) by_file[source.clean].push_back({&module, names, &source});
  }
  std::vector<LineMatch> matches;
  for (const auto& [path, candidates] : by_file) {
    LineMatch match;
    for (const Candidate& c : candidates) {
      auto at = std::lower_bound(c.source->starts.begin(), c.source->starts.end(), line,
                                 [](const ModuleIndex::LineStart& s, int l) { return s.line < l; });
      if (at != c.source->starts.end() && (match.line == 0 || at->line < match.line)) match.line = at->line;
    }
    if (match.line == 0) continue;
    match.file = candidates.front().source->path;
    for (const Candidate& c : candidates)
      for (uint64_t address : c.index->breakpoints(*c.source, match.line))
        match.addresses.push_back(address + c.module->bias);
    std::sort(match.addresses.begin(), match.addresses.end());
    matches.push_back(std::move(match));
  }
  return matches;
}

std::vector<std::string> Program::nearest_functions(const std::string& name, size_t most) const {
  SplitName asked = split_name(split_file(name).function);
  Nearest nearest(without_arguments(asked.parts.back()), most);
  std::vector<std::string_view> names;
  for (const Module& module : modules_) {
    const ModuleIndex* known = index(module);
    if (!known) continue;
    for (const Symbol& symbol : known->elf()->symbols()) {
      if (!symbol.code) continue;
      names.clear();
      identifiers(symbol.name, names);
      if (split_clone(symbol.name).fragment ||
          std::none_of(names.begin(), names.end(), [&](std::string_view n) { return nearest.wants(n); }))
        continue;
      // One of the names in the symbol is near; it may be that of a parameter's type.
      std::string full = from_symbol(module, *known, symbol).name;
      nearest.offer(without_arguments(split_name(full).parts.back()), full);
    }
    for (const auto& [unit, scope] : known->scope_names()) {
      std::string_view own = without_arguments(scope->name);
      if (nearest.wants(own)) nearest.offer(own, unit->qualified(*scope));
    }
  }
  return nearest.names();
}

std::vector<std::string> Program::nearest_files(const std::string& file, size_t most) const {
  std::string_view last = std::string_view(file).substr(file.rfind('/') + 1);
  Nearest nearest(last, most);
  for (const Module& module : modules_)
    if (const ModuleIndex* known = index(module))
      for (const ModuleIndex::SourceFile& source : known->files())
        nearest.offer(std::string_view(source.path).substr(source.path.rfind('/') + 1));
  return nearest.names();
}

bool Program::has_sources() const {
  for (const Module& module : modules_)
    if (const ModuleIndex* known = index(module))
      if (is_executable(module.elf().elf()) && !known->files().empty()) return true;
  return false;
}

std::optional<Function> Program::function_at(uint64_t address) const {
  const Module* module = nullptr;
  const ModuleIndex* names = index_at(address, module);
  if (!names) return {};
  uint64_t here = address - module->bias;
  const Unit* unit = names->unit_at(here);
  const Scope* scope = unit ? unit->function_at(here) : nullptr;
  const Symbol* symbol = scope ? nullptr : names->elf()->symbol_at(here);
  if (!scope && (!symbol || !symbol->code)) return {};
  if (scope) return function_of(*module, *names, *unit, *scope);
  auto [at, added] = functions_.try_emplace(symbol);
  if (added) at->second = from_symbol(*module, *names, *symbol);
  return at->second;
}

const Function& Program::function_of(const Module& module, const ModuleIndex& names, const Unit& unit,
                                     const Scope& scope) const {
  auto [at, added] = functions_.try_emplace(&scope);
  if (added) at->second = from_scope(module, names, unit, scope);
  return at->second;
}

Place Program::place(uint64_t address) const {
  const Module* module = nullptr;
  const ModuleIndex* names = index_at(address, module);
  return names ? names->place(address - module->bias) : Place();
}

std::vector<Program::InlineFrame> Program::frames_at(uint64_t address) const {
  std::vector<InlineFrame> frames;
  const Module* module = nullptr;
  const ModuleIndex* names = index_at(address, module);
  if (!names) return frames;
  uint64_t here = address - module->bias;
  InlineFrame frame;
  if (const Unit* unit = names->unit_at(here)) {
    if (const LineRow* row = unit->row_at(here)) {
      if (row->file) frame.file = row->file;
      frame.line = row->line;
    }
    for (const Scope* scope = unit->scope_at(here); scope; scope = unit->parent(scope)) {
      if (scope->kind == Scope::kBlock) continue;
      bool outermost = scope->kind == Scope::kFunction;
      frame.function = outermost ? function_of(*module, *names, *unit, *scope).name : unit->qualified(*scope);
      frames.push_back(frame);
      if (outermost) return frames;
      const char* file = unit->call_file(*scope);
      frame = {"", file ? file : "", scope->call_line};
    }
  }
  const Symbol* symbol = names->elf()->symbol_at(here);
  if (symbol && symbol->code) frame.function = from_symbol(*module, *names, *symbol).name;
  if (!frame.function.empty() || frame.line > 0) frames.push_back(frame);
  return frames;
}

// The rows of a unit. From the back, so that the end of each is known. A row without code of its own where a
// statement begins has that of the rows behind it: whoever runs those has come past it.
static void add_rows(const Unit& unit, uint64_t bias, std::vector<Program::LineCode>& table) {
  const std::vector<LineRow>& rows = unit.rows();
  uint64_t end = 0;
  for (size_t i = rows.size(); i-- > 0;) {
    const LineRow& row = rows[i];
    bool last_here = i + 1 == rows.size() || rows[i + 1].address != row.address || rows[i + 1].end;
    if (last_here) end = i + 1 < rows.size() ? rows[i + 1].address : row.address;
    if (row.end || row.line <= 0 || !row.file || end <= row.address || (!last_here && !row.statement))
      continue;
    table.push_back({row.file, row.line, row.address + bias, end + bias, row.statement});
  }
}

static void sort_rows(std::vector<Program::LineCode>& table) {
  std::stable_sort(table.begin(), table.end(),
                   [](const auto& a, const auto& b) { return a.start < b.start; });
}

std::vector<Program::LineCode> Program::line_table(const Module& module) const {
  std::vector<LineCode> table;
  const ModuleIndex* names = index(module);
  if (!names) return table;
  for (const Unit& unit : names->units()) add_rows(unit, module.bias, table);
  sort_rows(table);
  return table;
}

std::vector<Program::LineCode> Program::line_table(const Function& function) const {
  std::vector<LineCode> table;
  const Module* module = nullptr;
  const ModuleIndex* names = index_at(function.entry, module);
  const Unit* unit = names ? names->unit_at(function.entry - module->bias) : nullptr;
  if (!unit) return table;
  add_rows(*unit, module->bias, table);
  std::erase_if(table, [&](const LineCode& code) {
    return std::none_of(function.ranges.begin(), function.ranges.end(), [&](const auto& range) {
      return code.start >= range.first && code.start < range.second;
    });
  });
  sort_rows(table);
  return table;
}

}  // namespace backstep::symbols
