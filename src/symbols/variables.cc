#include "symbols/variables.h"

#include <dwarf.h>
#include <gelf.h>

#include <algorithm>
#include <cstring>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/nearest.h"
#include "symbols/elf_facts.h"
#include "symbols/program_index.h"
#include "symbols/program_names.h"

namespace backstep::symbols {
namespace {

using Entry = Globals::Entry;

Dwarf* dwarf_of(const Module* module) {
  try {
    return module->elf().dwarf();
  } catch (const Error&) {
    return nullptr;
  }
}

std::optional<Dwarf_Die> die_at(const Module* module, Dwarf_Off offset) {
  Dwarf_Die die;
  Dwarf* dwarf = module ? dwarf_of(module) : nullptr;
  if (!dwarf || !dwarf_offdie(dwarf, offset, &die)) return {};
  return die;
}

Dwarf_Die unit_of(Dwarf_Die die) {
  Dwarf_Die unit = {};
  dwarf_diecu(&die, &unit, nullptr, nullptr);
  return unit;
}

std::string file_of(const Entry& entry) {
  Dwarf_Die unit = unit_of(entry.die);
  const char* name = dwarf_diename(&unit);
  return name ? name : "";
}

// DW_AT_const_value: the variable is a constant.
Storage constant(Dwarf_Attribute attribute) {
  Dwarf_Sword negative = 0;
  Dwarf_Word value = 0;
  Dwarf_Block block;
  const unsigned form = dwarf_whatform(&attribute);
  if (form == DW_FORM_sdata || form == DW_FORM_implicit_const) {
    if (dwarf_formsdata(&attribute, &negative) == 0)
      return {.kind = Storage::Kind::Value, .code = Code().constant(static_cast<uint64_t>(negative))};
  } else if (dwarf_formudata(&attribute, &value) == 0) {
    return {.kind = Storage::Kind::Value, .code = Code().constant(value)};
  } else if (dwarf_formblock(&attribute, &block) == 0 && block.length > 0 &&
             block.length <= replayer::kMaxCapturedWords * 8) {
    Storage storage{.kind = Storage::Kind::Pieces};
    for (uint64_t i = 0; i < block.length; i += 8) {
      const uint64_t size = std::min<uint64_t>(8, block.length - i);
      uint64_t word = 0;
      std::memcpy(&word, block.data + i, size);
      storage.pieces.push_back({i, size, Storage::Kind::Value, Code().constant(word)});
    }
    return storage;
  }
  return {.why = "its constant value is of a form that is not known"};
}

bool is_list(Dwarf_Attribute attribute) {
  const unsigned form = dwarf_whatform(&attribute);
  return form == DW_FORM_sec_offset || form == DW_FORM_loclistx || form == DW_FORM_data4 ||
         form == DW_FORM_data8;
}

// An offset into the frame below the return address: where unoptimised code stores a parameter that came in a
// register.
bool in_own_frame(Dwarf_Attribute attribute) {
  Dwarf_Op* ops = nullptr;
  size_t count = 0;
  return !is_list(attribute) && dwarf_getlocation(&attribute, &ops, &count) == 0 && count == 1 &&
         ops[0].atom == DW_OP_fbreg && static_cast<int64_t>(ops[0].number) < 0;
}

// A defined symbol of that name; `dynamic`: one that other modules see.
std::string linkage_name(Dwarf_Die die) {
  Dwarf_Attribute attribute;
  const char* name = dwarf_formstring(dwarf_attr_integrate(&die, DW_AT_linkage_name, &attribute));
  return name ? name : die_name(die);
}

bool is_variable(Dwarf_Die die) {
  const int tag = dwarf_tag(&die);
  return tag == DW_TAG_variable || tag == DW_TAG_formal_parameter;
}

}  // namespace

Variables::Variables(const Program& program) : program_(program), types_(Types::make(this)) {}

Variables::~Variables() {
  types_->forget_definitions();  // what was compiled keeps its types
}

Site Variables::site(uint64_t pc, unsigned outer) const {
  Site site{.pc = pc};
  site.module = pc ? program_.module_at(pc) : nullptr;
  if (!site.module) return site;
  site.address = pc - site.module->bias;
  const ModuleIndex* index = program_.index(*site.module);
  site.unit = index ? index->unit_at(site.address) : nullptr;
  if (site.unit) {
    site.block = site.unit->block_at(site.address);
    site.function = site.unit->function_at(site.address);
  }
  for (; outer > 0; outer--) {
    const Scope* copy = site.block;
    while (copy && copy->kind == Scope::kBlock) copy = site.unit->parent(copy);
    if (!copy || copy->kind != Scope::kInlined) break;
    site.block = site.unit->parent(copy);
  }
  return site;
}

unsigned Variables::begin_at(uint64_t pc, int line) const {
  const Site s = line ? site(pc) : Site{};
  unsigned calls = 0, beginning = 0;
  for (const Scope* scope = s.unit ? s.block : nullptr; scope; scope = s.unit->parent(scope)) {
    if (scope->kind != Scope::kInlined) continue;
    calls++;
    if (scope->call_line == line && scope->entry == s.address) beginning = calls;
  }
  return beginning;
}

const Globals& Variables::globals(const Module* module) {
  auto& globals = globals_[module];
  if (!globals) globals = std::make_unique<Globals>(dwarf_of(module));
  return *globals;
}

std::optional<Dwarf_Die> Variables::function_die(const Site& site) const {
  if (!site.function) return {};
  return die_at(site.module, site.function->die);
}

// Whether the parameters may not be in their places yet: in the prologue.
bool Variables::at_entry(const Site& site) const {
  if (!site.function || !site.block || site.block->kind == Scope::kInlined) return false;
  const ModuleIndex* index = program_.index(*site.module);
  return index && site.address >= site.function->entry &&
         site.address < std::max(site.function->entry + 1, index->body(*site.unit, *site.function));
}

// "it is known at lines 10 to 14 and 20", of those where the location says something.
std::string Variables::available(const Site& site, Dwarf_Attribute attribute) {
  if (!site.unit || !is_list(attribute)) return "";
  std::vector<std::pair<int, int>> lines;
  Dwarf_Addr base = 0, start = 0, end = 0;
  Dwarf_Op* ops = nullptr;
  size_t count = 0;
  for (ptrdiff_t at = 0; (at = dwarf_getlocations(&attribute, at, &base, &start, &end, &ops, &count)) > 0;) {
    if (count == 0 || start >= end) continue;
    if (std::any_of(ops, ops + count, [](const Dwarf_Op& op) {
          return op.atom == DW_OP_entry_value || op.atom == DW_OP_GNU_entry_value;
        }))
      continue;
    const LineRow *first = site.unit->row_at(start), *last = site.unit->row_at(end - 1);
    if (!first || !last || first->line == 0 || last->line == 0) continue;
    lines.emplace_back(std::min(first->line, last->line), std::max(first->line, last->line));
  }
  std::sort(lines.begin(), lines.end());
  std::vector<std::string> texts;
  for (size_t i = 0; i < lines.size();) {
    auto [first, last] = lines[i];
    for (; i < lines.size() && lines[i].first <= last + 1; i++) last = std::max(last, lines[i].second);
    texts.push_back(first == last ? fmt::format("{}", first) : fmt::format("{} to {}", first, last));
  }
  if (texts.empty()) return "";
  if (texts.size() > 4) texts.resize(4);
  return fmt::format("; it is known at {} {}",
                     texts.size() == 1 && texts[0].find(' ') == std::string::npos ? "line" : "lines",
                     fmt::join(texts, ", "));
}

Variable Variables::variable(const Site& site, const Module* module, Dwarf_Die die) {
  Variable found{.type = types_->of(module, &die), .module = module, .die = die};
  Dwarf_Attribute attribute;
  if (dwarf_attr_integrate(&die, DW_AT_const_value, &attribute)) {
    found.storage = constant(attribute);
  } else if (dwarf_attr_integrate(&die, DW_AT_location, &attribute)) {
    found.storage = location(program_, site, module, attribute);
    if (found.storage.kind == Storage::Kind::Gone) found.storage.why += available(site, attribute);
  } else {
    found.storage.why = "the compiler kept no value of it";
  }
  return found;
}

std::optional<Variable> Variables::in_scope(const Site& site, const Scope& scope, const std::string& name) {
  auto die = die_at(site.module, scope.die);
  if (!die) return {};
  std::optional<Variable> found;
  unsigned number = 0;
  each_child(*die, [&](Dwarf_Die child) {
    const bool parameter = dwarf_tag(&child) == DW_TAG_formal_parameter;
    const unsigned its_number = parameter ? number++ : 0;
    if (!is_variable(child) || die_name(child) != name) return;
    if (die_flag(child, DW_AT_declaration)) return;  // extern: found outside
    if (found && found->storage.kind != Storage::Kind::Gone) return;
    Dwarf_Attribute place;
    if (parameter && scope.kind == Scope::kFunction && at_entry(site) &&
        dwarf_attr_integrate(&child, DW_AT_location, &place) && in_own_frame(place)) {
      // What comes after the first instruction may use the registers for something else.
      if (site.address == site.function->entry)
        found = argument(site, its_number);
      else
        found = Variable{types_->of(site.module, &child), {.why = "the function has not stored it yet"}};
      found->module = site.module, found->die = child;
      return;
    }
    found = variable(site, site.module, child);
  });
  if (found) return found;
  // A copy of a function leaves out variables that it has no value of.
  const Dwarf_Die origin = die_origin(*die);
  if (origin.addr == die->addr) return {};
  each_child(origin, [&](Dwarf_Die child) {
    if (!found && is_variable(child) && die_name(child) == name && !die_flag(child, DW_AT_declaration))
      found = variable(site, site.module, child);
  });
  return found;
}

std::optional<Variable> Variables::local(const Site& site, const std::string& name) {
  for (const Scope* scope = site.block; scope; scope = site.unit->parent(scope)) {
    if (auto found = in_scope(site, *scope, name)) return found;
    // Enumerators of a type that is declared in the function.
    std::optional<Variable> constant;
    if (auto die = die_at(site.module, scope->die))
      each_child(*die, [&](Dwarf_Die child) {
        if (constant || dwarf_tag(&child) != DW_TAG_enumeration_type) return;
        const Type* type = types_->at(site.module, child);
        for (const auto& e : type->enumerators)
          if (e.name == name)
            constant = Variable{
                type, {.kind = Storage::Kind::Value, .code = Code().constant(e.value)}, site.module, child};
      });
    if (constant) return constant;
    if (scope->kind != Scope::kBlock) break;
  }
  return {};
}

std::vector<Variables::Named> Variables::locals(const Site& site) {
  std::vector<Named> out;
  std::set<std::string> seen;
  for (const Scope* scope = site.block; scope; scope = site.unit->parent(scope)) {
    auto die = die_at(site.module, scope->die);
    auto add = [&](Dwarf_Die child) {
      if (!is_variable(child) || die_flag(child, DW_AT_declaration)) return;
      const std::string name = die_name(child);
      if (!name.empty() && seen.insert(name).second)
        out.push_back({name, dwarf_tag(&child) == DW_TAG_formal_parameter});
    };
    if (die) {
      each_child(*die, add);
      const Dwarf_Die origin = die_origin(*die);
      if (origin.addr != die->addr) each_child(origin, add);
    }
    if (scope->kind != Scope::kBlock) break;
  }
  return out;
}

// "ns::Class::", "ns::", "" for a place in ns::Class::f.
std::vector<std::string> Variables::prefixes(const Site& site) {
  std::vector<std::string> out;
  const Scope* scope = site.block;
  while (scope && scope->kind == Scope::kBlock) scope = site.unit->parent(scope);
  auto die = scope ? die_at(site.module, scope->die) : std::nullopt;
  const std::string* name = die ? globals(site.module).qualified(*die) : nullptr;
  if (name) {
    std::string prefix = *name;
    // Colons in template arguments are not those of scopes.
    int depth = 0;
    for (size_t i = prefix.size(); i-- > 1;) {
      if (prefix[i] == '>') depth++;
      if (prefix[i] == '<') depth--;
      if (depth == 0 && prefix[i] == ':' && prefix[i - 1] == ':') out.push_back(prefix.substr(0, i + 1));
    }
  }
  out.emplace_back();
  return out;
}

std::vector<Variables::Candidate> Variables::candidates(const Site& site, const std::string& name,
                                                        const std::string& file, bool types) {
  std::vector<const Module*> order;
  if (site.module) order.push_back(site.module);
  for (const Module& module : program_.modules())
    if (&module != site.module) order.push_back(&module);
  std::vector<Candidate> out;
  for (const Module* module : order)
    for (const Entry& entry : globals(module).named(name))
      if ((entry.kind == Entry::Kind::Type) == types &&
          (file.empty() || path_ends_with(file_of(entry), file)))
        out.push_back({module, entry});
  return out;
}

// The executable may have its own copy of a library's variable (copy relocation), which is the one that all
// use.
std::optional<uint64_t> Variables::in_executable(const Module* module, const std::string& name) {
  for (const Module& other : program_.modules()) {
    try {
      if (&other == module && is_executable(other.elf().elf())) return {};
      if (&other == module) continue;
      Elf* elf = other.elf().elf();
      if (!is_executable(elf)) continue;
      auto symbol = find_symbol(elf, name, true);
      if (symbol && GELF_ST_TYPE(symbol->st_info) == STT_OBJECT) return symbol->st_value + other.bias;
    } catch (const Error&) {
    }
  }
  return {};
}

Variable Variables::of_entry(const Site& site, const Module* module, const Entry& entry,
                             const std::string& name) {
  Dwarf_Die die = entry.die;
  if (entry.kind == Entry::Kind::Enumerator) {
    const Type* type = types_->at(module, die);
    const size_t colons = name.rfind("::");
    const std::string last = colons == std::string::npos ? name : name.substr(colons + 2);
    for (const auto& e : type->enumerators)
      if (e.name == last)
        return {type, {.kind = Storage::Kind::Value, .code = Code().constant(e.value)}, module, die};
    return {type, {.why = "its value is not known"}};
  }
  if (entry.kind == Entry::Kind::Function) {
    Dwarf_Addr address = 0;
    if (dwarf_entrypc(&die, &address) != 0)
      return {types_->function(), {.why = "it has no code of its own"}, module, die};
    return {types_->function(),
            {.kind = Storage::Kind::Memory, .code = Code().constant(address + module->bias)},
            module,
            die};
  }
  Variable found = variable(site, module, die);
  if (entry.external && found.storage.kind == Storage::Kind::Memory)
    if (auto address = in_executable(module, linkage_name(die)))
      found.storage.code = Code().constant(*address);
  return found;
}

std::optional<Variable> Variables::global(const Site& site, const std::string& name, const std::string& file,
                                          bool top) {
  const auto around = top ? std::vector<std::string>{""} : prefixes(site);
  const void* here = nullptr;
  if (auto die = function_die(site)) here = unit_of(*die).addr;
  for (const std::string& prefix : around) {
    auto all = candidates(site, prefix + name, file, false);
    if (all.empty()) continue;
    // One that has no place in its unit may have one elsewhere.
    auto placed = [](const Candidate& c) {
      Dwarf_Die die = c.entry.die;
      return c.entry.kind != Entry::Kind::Variable || dwarf_hasattr(&die, DW_AT_location) ||
             dwarf_hasattr_integrate(&die, DW_AT_const_value);
    };
    std::stable_partition(all.begin(), all.end(), placed);
    if (placed(all[0])) all.erase(std::find_if_not(all.begin(), all.end(), placed), all.end());
    auto pick = [&](auto is) { return std::find_if(all.begin(), all.end(), is); };
    auto best = pick([&](const Candidate& c) { return c.entry.unit == here; });
    if (best == all.end()) best = pick([](const Candidate& c) { return c.entry.external; });
    if (best == all.end()) {
      best = all.begin();
      std::set<std::string> files;
      for (const Candidate& c : all)
        if (c.entry.kind != Entry::Kind::Enumerator) files.insert(file_of(c.entry));
      if (files.size() > 1) {
        std::vector<std::string> names;
        for (const std::string& f : files)
          names.push_back(fmt::format("\"{}\"::{}", f.substr(f.rfind('/') + 1), name));
        throw Error(fmt::format("there are several '{}': write {}", name, fmt::join(names, " or ")));
      }
    }
    return of_entry(site, best->module, best->entry, prefix + name);
  }
  return {};
}

const Type* Variables::type_named(const Site& site, const std::string& name, bool top) {
  const auto found = type_described(site, name, top);
  return found ? types_->at(found->first, found->second) : nullptr;
}

std::optional<Variables::Described> Variables::type_described(const Site& site, const std::string& name,
                                                              bool top) {
  for (const Scope* scope = site.block; !top && scope; scope = site.unit->parent(scope)) {
    std::optional<Dwarf_Die> found;
    if (auto die = die_at(site.module, scope->die))
      each_child(*die, [&](Dwarf_Die child) {
        const int tag = dwarf_tag(&child);
        const bool type = tag == DW_TAG_structure_type || tag == DW_TAG_union_type ||
                          tag == DW_TAG_class_type || tag == DW_TAG_enumeration_type || tag == DW_TAG_typedef;
        if (type && !found && die_name(child) == name) found = child;
      });
    if (found) return {{site.module, *found}};
    if (scope->kind != Scope::kBlock) break;
  }
  const void* here = nullptr;
  if (auto die = function_die(site)) here = unit_of(*die).addr;
  for (const std::string& prefix : top ? std::vector<std::string>{""} : prefixes(site)) {
    const auto all = candidates(site, prefix + name, "", true);
    if (all.empty()) continue;
    auto best =
        std::find_if(all.begin(), all.end(), [&](const Candidate& c) { return c.entry.unit == here; });
    if (best == all.end()) best = all.begin();
    return {{best->module, best->entry.die}};
  }
  return {};
}

std::vector<Variables::Described> Variables::functions_named(const Site& site, const std::string& name) {
  std::vector<Described> out;
  for (const std::string& prefix : prefixes(site)) {
    for (const Candidate& c : candidates(site, prefix + name, "", false))
      if (c.entry.kind == Entry::Kind::Function) out.emplace_back(c.module, c.entry.die);
    if (!out.empty()) break;
  }
  return out;
}

std::string Variables::qualified(const Module* module, Dwarf_Die die) {
  if (const std::string* name = globals(module).qualified(die)) return *name;
  const std::string name = die_name(die);
  for (const Entry& entry : globals(module).named(name))
    if (entry.die.addr == die.addr) return name;
  return "";
}

std::optional<Variable> Variables::symbol(const std::string& name) {
  for (bool executables : {true, false})
    for (const Module& module : program_.modules()) {
      try {
        Elf* elf = module.elf().elf();
        if (is_executable(elf) != executables) continue;
        auto found = find_symbol(elf, name, false);
        if (!found) continue;
        const int type = GELF_ST_TYPE(found->st_info);
        if (type == STT_TLS)
          return Variable{types_->nothing(), thread_local_at(program_, module, found->st_value)};
        return Variable{
            type == STT_FUNC ? types_->function() : types_->nothing(),
            {.kind = Storage::Kind::Memory, .code = Code().constant(found->st_value + module.bias)}};
      } catch (const Error&) {
      }
    }
  return {};
}

std::optional<Variable> Variables::pointee(const Site& site, const Storage& pointer) {
  if (!site.module) return {};
  return variable(site, site.module, pointer.die);
}

std::vector<std::string> Variables::nearest(const Site& site, const std::string& name,
                                            const std::vector<std::string>& others) {
  Nearest nearest(name, 3);
  for (const Named& local : locals(site)) nearest.offer(local.name);
  for (const std::string& other : others) nearest.offer(other);
  for (const Module& module : program_.modules())
    for (const auto& [global, entries] : globals(&module).all()) {
      if (entries[0].kind != Entry::Kind::Variable && entries[0].kind != Entry::Kind::Enumerator) continue;
      const size_t colons = global.rfind("::");
      nearest.offer(colons == std::string::npos ? global : std::string_view(global).substr(colons + 2),
                    global);
    }
  return nearest.names();
}

std::optional<std::pair<const Module*, Dwarf_Die>> Variables::definition_of(const Module* module,
                                                                            Dwarf_Die declaration) {
  const std::string* qualified = globals(module).qualified(declaration);
  const std::string name = qualified ? *qualified : die_name(declaration);
  if (name.empty()) return {};
  const Site site{.module = module};
  for (const Candidate& c : candidates(site, name, "", true)) {
    Dwarf_Die die = c.entry.die;
    const int tag = dwarf_tag(&die);
    const bool both_enums =
        (tag == DW_TAG_enumeration_type) == (dwarf_tag(&declaration) == DW_TAG_enumeration_type);
    if (tag != DW_TAG_typedef && tag != DW_TAG_base_type && both_enums) return {{c.module, die}};
  }
  return {};
}

}  // namespace backstep::symbols
