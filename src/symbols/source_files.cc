// The line table of each unit begins with a list of all files that it has lines of, headers included. Names
// of folders that were given relative to another one are put together by libdw.
#include "symbols/source_files.h"

#include <dwarf.h>
#include <elfutils/libdw.h>

#include <filesystem>

namespace backstep::symbols {

std::set<std::string> source_files(const ElfFile& file) {
  std::set<std::string> names;
  Dwarf* dwarf = file.dwarf();
  if (!dwarf) return names;
  Dwarf_CU* unit = nullptr;
  Dwarf_Die die;
  while (dwarf_get_units(dwarf, unit, &unit, nullptr, nullptr, &die, nullptr) == 0) {
    Dwarf_Files* files = nullptr;
    size_t count = 0;
    if (dwarf_getsrcfiles(&die, &files, &count) != 0) continue;
    Dwarf_Attribute attribute;
    const char* text = dwarf_formstring(dwarf_attr(&die, DW_AT_comp_dir, &attribute));
    const std::filesystem::path folder = text ? text : "";
    for (size_t i = 0; i < count; i++) {
      const char* name = dwarf_filesrc(files, i, nullptr, nullptr);
      const std::filesystem::path path = name ? (folder / name).lexically_normal() : "";
      if (path.is_absolute()) names.insert(path);
    }
  }
  return names;
}

}  // namespace backstep::symbols
