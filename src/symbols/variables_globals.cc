#include "symbols/variables_globals.h"

#include <dwarf.h>

namespace backstep::symbols {
namespace {

constexpr unsigned kDeepestNamespace = 32;  // namespaces in namespaces

bool has(Dwarf_Die die, unsigned attribute) {
  return dwarf_hasattr(&die, attribute);
}

std::string own_name(Dwarf_Die die) {
  const char* name = dwarf_diename(&die);
  return name ? name : "";
}

}  // namespace

std::string die_name(Dwarf_Die die) {
  Dwarf_Attribute attribute;
  const char* name = dwarf_formstring(dwarf_attr_integrate(&die, DW_AT_name, &attribute));
  return name ? name : "";
}

// A declaration's flag is not that of its definition.
bool die_flag(Dwarf_Die die, unsigned name) {
  Dwarf_Attribute attribute;
  bool value = false;
  if (name == DW_AT_declaration)
    return dwarf_attr(&die, name, &attribute) && dwarf_formflag(&attribute, &value) == 0 && value;
  return dwarf_attr_integrate(&die, name, &attribute) && dwarf_formflag(&attribute, &value) == 0 && value;
}

Dwarf_Die die_origin(Dwarf_Die die) {
  for (int steps = 0; steps < 8; steps++) {
    Dwarf_Attribute attribute;
    Dwarf_Die next;
    if (!dwarf_attr(&die, DW_AT_specification, &attribute) &&
        !dwarf_attr(&die, DW_AT_abstract_origin, &attribute))
      break;
    if (!dwarf_formref_die(&attribute, &next)) break;
    die = next;
  }
  return die;
}

Globals::Globals(Dwarf* dwarf) {
  Dwarf_CU *unit = nullptr, *next = nullptr;
  Dwarf_Die die, half;
  uint8_t kind = 0;
  for (; dwarf && dwarf_get_units(dwarf, unit, &next, nullptr, &kind, &die, &half) == 0; unit = next) {
    if (kind == DW_UT_skeleton || has(die, DW_AT_GNU_dwo_name) || has(die, DW_AT_dwo_name)) {
      split_.push_back(own_name(die));
      continue;
    }
    if (kind == DW_UT_split_compile || kind == DW_UT_split_type) continue;
    read(die, "", die.addr, 0);
  }
  // A definition may stand before the class that declares it.
  const auto definitions = std::move(definitions_);
  for (const auto& [die, owner] : definitions) add_code_or_data(die, "", owner);
}

const std::vector<Globals::Entry>& Globals::named(const std::string& name) const {
  static const std::vector<Entry> kNone;
  auto found = entries_.find(name);
  return found == entries_.end() ? kNone : found->second;
}

const std::string* Globals::qualified(const Dwarf_Die& die) const {
  auto found = declared_.find(die_origin(die).addr);
  return found == declared_.end() ? nullptr : &found->second;
}

void Globals::add(const std::string& name, Entry::Kind kind, Dwarf_Die die, const void* unit) {
  entries_[name].push_back({kind, die_flag(die, DW_AT_external), die, unit});
}

void Globals::read(Dwarf_Die parent, const std::string& prefix, const void* unit, unsigned depth) {
  if (depth > kDeepestNamespace) return;
  each_child(parent, [&](Dwarf_Die child) { read_one(child, prefix, unit, depth); });
}

void Globals::read_one(Dwarf_Die die, const std::string& prefix, const void* unit, unsigned depth) {
  const int tag = dwarf_tag(&die);
  switch (tag) {
    case DW_TAG_namespace: {
      const std::string name = own_name(die);
      read(die, name.empty() ? prefix : prefix + name + "::", unit, depth + 1);
      break;
    }
    case DW_TAG_variable:
    case DW_TAG_member:
    case DW_TAG_subprogram:
      if (has(die, DW_AT_specification))
        definitions_.emplace_back(die, unit);
      else
        add_code_or_data(die, prefix, unit);
      break;
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
    case DW_TAG_enumeration_type: {
      const std::string* outer = qualified(die);
      const std::string own = own_name(die), name = outer ? *outer : prefix + own;
      if (!own.empty() || outer) {
        if (!prefix.empty()) declared_.emplace(die.addr, name);
        if (!die_flag(die, DW_AT_declaration)) add(name, Entry::Kind::Type, die, unit);
      }
      if (tag == DW_TAG_enumeration_type) {
        read_enumerators(die, prefix, name, unit);
      } else if (!own.empty() || outer) {
        read(die, name + "::", unit, depth + 1);
      }
      break;
    }
    case DW_TAG_typedef:
    case DW_TAG_base_type:
      if (const std::string name = own_name(die); !name.empty())
        add(prefix + name, Entry::Kind::Type, die, unit);
      break;
    default:
      break;
  }
}

void Globals::add_code_or_data(Dwarf_Die die, const std::string& prefix, const void* unit) {
  const int tag = dwarf_tag(&die);
  const std::string* outer = qualified(die);
  const std::string name = outer ? *outer : prefix + die_name(die);
  if (!prefix.empty()) declared_.emplace(die.addr, name);
  if (tag == DW_TAG_subprogram) {
    if (has(die, DW_AT_low_pc) || has(die, DW_AT_ranges)) add(name, Entry::Kind::Function, die, unit);
  } else if (has(die, DW_AT_location) || has(die, DW_AT_const_value) ||
             (tag == DW_TAG_variable && !die_flag(die, DW_AT_declaration))) {
    add(name, Entry::Kind::Variable, die, unit);
  }
}

void Globals::read_enumerators(Dwarf_Die die, const std::string& prefix, const std::string& name,
                               const void* unit) {
  const bool scoped = die_flag(die, DW_AT_enum_class);
  each_child(die, [&](Dwarf_Die child) {
    if (dwarf_tag(&child) != DW_TAG_enumerator) return;
    if (!scoped) entries_[prefix + own_name(child)].push_back({Entry::Kind::Enumerator, false, die, unit});
    if (name != prefix)
      entries_[name + "::" + own_name(child)].push_back({Entry::Kind::Enumerator, false, die, unit});
  });
}

}  // namespace backstep::symbols
