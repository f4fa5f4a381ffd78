// In a symbol table the local names of a source file stand behind an entry with the file's name. Libraries of
// the system are left out: debug code has its own.
#include "probe/program_symbols.h"

#include <gelf.h>

#include "base/error.h"
#include "session/modules.h"

namespace backstep::probe {

ProgramSymbols::ProgramSymbols(const symbols::Program& program) {
  for (const symbols::Module& module : program.modules()) {
    if (session::is_of_the_system(module.name)) continue;
    Elf* elf = nullptr;
    try {
      elf = module.elf().elf();
    } catch (const Error&) {
      continue;
    }
    for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
      GElf_Shdr header;
      if (!gelf_getshdr(section, &header) || header.sh_entsize == 0) continue;
      if (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM) continue;
      Elf_Data* table = elf_getdata(section, nullptr);
      std::string file;
      for (size_t i = 0; table && i < table->d_size / header.sh_entsize; i++) {
        GElf_Sym symbol;
        if (!gelf_getsym(table, static_cast<int>(i), &symbol)) continue;
        const char* name = elf_strptr(elf, header.sh_link, symbol.st_name);
        if (!name) continue;
        const int type = GELF_ST_TYPE(symbol.st_info);
        const bool local = GELF_ST_BIND(symbol.st_info) == STB_LOCAL;
        if (type == STT_FILE) file = name;
        if (symbol.st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_OBJECT)) continue;
        entries_[name].push_back({symbol.st_value + module.bias, local ? file : ""});
      }
    }
  }
}

std::optional<uint64_t> ProgramSymbols::address(const std::string& name, const std::string& file) const {
  auto found = entries_.find(name);
  if (found == entries_.end()) return {};
  const std::string last = file.substr(file.rfind('/') + 1);
  for (const Entry& e : found->second)
    if (!e.file.empty() && e.file.substr(e.file.rfind('/') + 1) == last) return e.address;
  return shared(name);
}

std::optional<uint64_t> ProgramSymbols::shared(const std::string& name) const {
  auto found = entries_.find(name);
  if (found == entries_.end()) return {};
  for (const Entry& e : found->second)
    if (e.file.empty()) return e.address;
  return {};
}

}  // namespace backstep::probe
