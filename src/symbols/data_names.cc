#include "symbols/data_names.h"

#include <gelf.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"

namespace backstep::symbols {

const std::vector<DataNames::Variable>& DataNames::of(const Module& module) {
  auto [place, fresh] = variables_.try_emplace(&module);
  std::vector<Variable>& list = place->second;
  if (!fresh) return list;
  Elf* elf = nullptr;
  try {
    elf = module.elf().elf();
  } catch (const Error&) {  // not a file that we can read
  }
  for (Elf_Scn* section = nullptr; elf && (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (!gelf_getshdr(section, &header) || header.sh_entsize == 0 ||
        (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM))
      continue;
    Elf_Data* data = elf_getdata(section, nullptr);
    if (!data) continue;
    for (size_t i = 0; i < data->d_size / header.sh_entsize; i++) {
      GElf_Sym symbol;
      if (!gelf_getsym(data, static_cast<int>(i), &symbol) || symbol.st_shndx == SHN_UNDEF) continue;
      if (GELF_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_size == 0) continue;
      const char* name = elf_strptr(elf, header.sh_link, symbol.st_name);
      if (name && *name) list.push_back({symbol.st_value, symbol.st_size, name});
    }
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const Variable& a, const Variable& b) { return a.start < b.start; });
  return list;
}

std::string DataNames::at(uint64_t address) {
  const Module* module = program_.module_at(address);
  if (!module) return "";
  const uint64_t wanted = address - module->bias;
  const auto& all = of(*module);
  auto next = std::upper_bound(all.begin(), all.end(), wanted,
                               [](uint64_t a, const Variable& v) { return a < v.start; });
  if (next == all.begin() || wanted - std::prev(next)->start >= std::prev(next)->size) return "";
  const Variable& v = *std::prev(next);
  const std::string name = demangle(v.name);
  return wanted == v.start ? name : fmt::format("{}+{:#x}", name, wanted - v.start);
}

}  // namespace backstep::symbols
