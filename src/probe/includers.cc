#include "probe/includers.h"

#include <dwarf.h>
#include <elfutils/libdw.h>

#include <filesystem>

#include "base/error.h"
#include "session/modules.h"
#include "symbols/symbols.h"

namespace backstep::probe {
namespace {

namespace fs = std::filesystem;

fs::path path_of(Dwarf_Die* unit, unsigned name) {
  Dwarf_Attribute attribute;
  const char* text = dwarf_formstring(dwarf_attr_integrate(unit, name, &attribute));
  return text ? text : "";
}

Dwarf* dwarf_of(const symbols::Module& module) {
  if (session::is_of_the_system(module.name)) return nullptr;
  try {
    return module.elf().dwarf();
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

std::vector<std::string> includers_of(const symbols::Program& program, const std::string& header) {
  std::vector<std::string> exact, by_name;
  for (const symbols::Module& module : program.modules()) {
    Dwarf* const dwarf = dwarf_of(module);
    Dwarf_CU *unit = nullptr, *next = nullptr;
    Dwarf_Die die;
    for (; dwarf && dwarf_get_units(dwarf, unit, &next, nullptr, nullptr, &die, nullptr) == 0; unit = next) {
      const fs::path folder = path_of(&die, DW_AT_comp_dir);
      const std::string source = (folder / path_of(&die, DW_AT_name)).lexically_normal();
      Dwarf_Files* files = nullptr;
      size_t count = 0;
      if (source == header || dwarf_getsrcfiles(&die, &files, &count) != 0) continue;
      bool here = false, named = false;
      for (size_t i = 0; i < count; i++) {
        const char* name = dwarf_filesrc(files, i, nullptr, nullptr);
        if (!name) continue;
        here |= (folder / name).lexically_normal() == header;
        named |= fs::path(name).filename() == fs::path(header).filename();
      }
      if (here) exact.push_back(source);
      if (named) by_name.push_back(source);
    }
  }
  return exact.empty() ? by_name : exact;
}

}  // namespace backstep::probe
