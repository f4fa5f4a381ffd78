// The file is of our own linker, so little can be wrong with it; but that it is what we asked for (static, at
// a fixed address) is checked, since it will be loaded by its headers.
#include "probe/loaded.h"

#include <elf.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "engine/layout.h"
#include "symbols/symbols.h"

#include <gelf.h>

namespace backstep::probe {

LinkedProgram::LinkedProgram(const std::string& path) {
  const symbols::ElfFile file(path);
  Elf* elf = file.elf();
  GElf_Ehdr header;
  size_t count = 0;
  if (!gelf_getehdr(elf, &header) || header.e_type != ET_EXEC || elf_getphdrnum(elf, &count) != 0)
    throw Error(fmt::format("the linker did not make a static program of the debug code: '{}'", path));
  entry_ = header.e_entry;
  for (size_t i = 0; i < count; i++) {
    GElf_Phdr segment;
    if (!gelf_getphdr(elf, static_cast<int>(i), &segment)) continue;
    if (segment.p_type == PT_INTERP)
      throw Error(fmt::format("the debug code was not linked statically: '{}'", path));
    if (segment.p_type == PT_LOAD) end_ = std::max(end_, layout::page_up(segment.p_vaddr + segment.p_memsz));
  }
  for (const symbols::Symbol& s : file.symbols()) symbols_.emplace(std::string(s.name), s.start);
}

uint64_t LinkedProgram::symbol(const std::string& name) const {
  auto found = symbols_.find(name);
  if (found == symbols_.end()) throw Error(fmt::format("the linked debug code has no '{}'", name));
  return found->second;
}

}  // namespace backstep::probe
