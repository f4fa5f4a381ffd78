// Read by program headers where that is possible: section headers may have been stripped.
#include "symbols/elf_facts.h"

namespace backstep::symbols {

std::vector<GElf_Phdr> segments_of(Elf* elf) {
  std::vector<GElf_Phdr> segments;
  size_t count = 0;
  if (elf_getphdrnum(elf, &count) != 0) return segments;
  for (size_t i = 0; i < count; i++) {
    GElf_Phdr segment;
    if (gelf_getphdr(elf, static_cast<int>(i), &segment)) segments.push_back(segment);
  }
  return segments;
}

std::vector<GElf_Dyn> dynamic_section(Elf* elf) {
  std::vector<GElf_Dyn> entries;
  for (const GElf_Phdr& segment : segments_of(elf)) {
    if (segment.p_type != PT_DYNAMIC) continue;
    Elf_Data* data =
        elf_getdata_rawchunk(elf, static_cast<int64_t>(segment.p_offset), segment.p_filesz, ELF_T_DYN);
    GElf_Dyn entry;
    for (int n = 0; data && gelf_getdyn(data, n, &entry) && entry.d_tag != DT_NULL; n++)
      entries.push_back(entry);
  }
  return entries;
}

// The C library can be run as a program, too, but it has a name as a library. A program that is linked
// statically as a PIE has no interpreter; what the linker notes of it tells.
bool is_executable(Elf* elf) {
  GElf_Ehdr header;
  if (!gelf_getehdr(elf, &header)) return false;
  bool program = header.e_type == ET_EXEC, named = false;
  for (const GElf_Phdr& segment : segments_of(elf)) program |= segment.p_type == PT_INTERP;
  for (const GElf_Dyn& entry : dynamic_section(elf)) {
    named |= entry.d_tag == DT_SONAME;
    program |= entry.d_tag == DT_FLAGS_1 && (entry.d_un.d_val & DF_1_PIE);
  }
  return program && !named;
}

std::optional<GElf_Sym> find_symbol(Elf* elf, const std::string& name, bool dynamic) {
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (!gelf_getshdr(section, &header) || header.sh_entsize == 0) continue;
    if (header.sh_type != SHT_DYNSYM && (dynamic || header.sh_type != SHT_SYMTAB)) continue;
    Elf_Data* table = elf_getdata(section, nullptr);
    for (size_t i = 0; table && i < table->d_size / header.sh_entsize; i++) {
      GElf_Sym symbol;
      if (!gelf_getsym(table, static_cast<int>(i), &symbol) || symbol.st_shndx == SHN_UNDEF) continue;
      const int type = GELF_ST_TYPE(symbol.st_info);
      if (type != STT_OBJECT && type != STT_FUNC && type != STT_NOTYPE && type != STT_TLS) continue;
      const char* found = elf_strptr(elf, header.sh_link, symbol.st_name);
      if (found && name == found) return symbol;
    }
  }
  return {};
}

}  // namespace backstep::symbols
