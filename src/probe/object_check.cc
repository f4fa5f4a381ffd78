// An object file is the program before the linker has put addresses into it: the bytes are those of the
// recorded program but for what relocations cover, and the few instructions that the linker may write anew
// (x86-64 psABI: GOTPCRELX and thread-local storage). What such an address leads to is compared where it is a
// constant that the linker may have put together with others: a string, or a number.
#include "probe/object_check.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <gelf.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "session/modules.h"

namespace backstep::probe {
namespace {

struct Relocation {
  uint64_t offset = 0, type = 0;
  int64_t addend = 0;
  uint32_t symbol = 0;
};

struct Section {
  GElf_Shdr header{};
  std::vector<uint8_t> bytes;
  std::vector<Relocation> relocations;
};

struct Object {
  std::vector<Section> sections;  // by index
  std::vector<GElf_Sym> symbols;
  std::vector<std::string> names;
};

Object read_object(Elf* elf) {
  Object o;
  size_t count = 0;
  if (elf_getshdrnum(elf, &count) != 0) return o;
  o.sections.resize(count);
  for (size_t i = 0; i < count; i++) {
    Elf_Scn* scn = elf_getscn(elf, i);
    Section& s = o.sections[i];
    if (!scn || !gelf_getshdr(scn, &s.header)) continue;
    Elf_Data* data = s.header.sh_type == SHT_NOBITS ? nullptr : elf_getdata(scn, nullptr);
    if (!data || !data->d_buf) continue;
    const auto* bytes = static_cast<const uint8_t*>(data->d_buf);
    if (s.header.sh_type == SHT_PROGBITS) s.bytes.assign(bytes, bytes + data->d_size);
    const size_t entries = s.header.sh_entsize ? data->d_size / s.header.sh_entsize : 0;
    for (size_t n = 0; s.header.sh_type == SHT_SYMTAB && n < entries; n++) {
      GElf_Sym symbol;
      if (!gelf_getsym(data, static_cast<int>(n), &symbol)) continue;
      const char* name = elf_strptr(elf, s.header.sh_link, symbol.st_name);
      o.symbols.push_back(symbol);
      o.names.emplace_back(name ? name : "");
    }
    for (size_t n = 0; s.header.sh_type == SHT_RELA && s.header.sh_info < count && n < entries; n++) {
      GElf_Rela r;
      if (!gelf_getrela(data, static_cast<int>(n), &r)) continue;
      o.sections[s.header.sh_info].relocations.push_back(
          {r.r_offset, GELF_R_TYPE(r.r_info), r.r_addend, static_cast<uint32_t>(GELF_R_SYM(r.r_info))});
    }
  }
  return o;
}

// What the linker may write to: bytes in front of the relocation, and from it on.
std::pair<uint64_t, uint64_t> reach(uint64_t type) {
  switch (type) {
    case R_X86_64_64:
    case R_X86_64_PC64:
    case R_X86_64_DTPOFF64:
    case R_X86_64_TPOFF64:
      return {0, 8};
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
      return {2, 4};
    case R_X86_64_REX_GOTPCRELX:
    case R_X86_64_GOTTPOFF:
    case R_X86_64_GOTPC32_TLSDESC:
    case R_X86_64_TLSDESC_CALL:
      return {3, 4};
    case R_X86_64_TLSGD:
      return {4, 12};
    case R_X86_64_TLSLD:
      return {3, 13};
    default:
      return {0, 4};
  }
}

// The constants that a relative address leads to are the same. (An instruction's end is where its address
// counts from: nearly always behind these four bytes.)
bool same_constant(const Object& object, const Relocation& r, const symbols::Module& module, uint64_t address,
                   std::span<const uint8_t> recorded) {
  if (r.type != R_X86_64_PC32 || r.symbol >= object.symbols.size() || recorded.size() < 4) return true;
  const GElf_Sym& symbol = object.symbols[r.symbol];
  if (GELF_ST_TYPE(symbol.st_info) != STT_SECTION && GELF_ST_BIND(symbol.st_info) != STB_LOCAL) return true;
  if (symbol.st_shndx >= object.sections.size()) return true;
  const Section& section = object.sections[symbol.st_shndx];
  if (!(section.header.sh_flags & SHF_MERGE)) return true;
  const uint64_t from = symbol.st_value + static_cast<uint64_t>(r.addend) + 4;
  int32_t distance = 0;
  std::memcpy(&distance, recorded.data(), sizeof distance);
  const uint64_t to = address + 4 + static_cast<uint64_t>(static_cast<int64_t>(distance));
  if (from >= section.bytes.size()) return true;
  const auto* here = reinterpret_cast<const char*>(section.bytes.data() + from);
  const size_t size = section.header.sh_flags & SHF_STRINGS
                          ? strnlen(here, section.bytes.size() - from) + section.header.sh_entsize
                          : std::min<uint64_t>(section.header.sh_entsize, section.bytes.size() - from);
  return module.elf().bytes(to, size) ==
         std::string_view(here, std::min<uint64_t>(size, section.bytes.size() - from));
}

// Nothing: it is the same.
std::optional<std::string> difference(const Object& object, const GElf_Sym& symbol,
                                      const symbols::Module& module, uint64_t address) {
  const Section& section = object.sections[symbol.st_shndx];
  if (symbol.st_value > section.bytes.size() || symbol.st_size > section.bytes.size() - symbol.st_value)
    return {};
  const uint64_t start = symbol.st_value, size = symbol.st_size;
  std::vector<uint8_t> now(section.bytes.begin() + static_cast<ptrdiff_t>(start),
                           section.bytes.begin() + static_cast<ptrdiff_t>(start + size));
  const symbols::Symbol* known = module.elf().symbol_at(address);
  if (known && known->start == address && known->size && known->size != size)
    return fmt::format("{} bytes of code, {} now", known->size, size);
  const std::string_view there = module.elf().bytes(address, size);
  if (there.size() != size) return "its code has another size";
  std::vector<uint8_t> recorded(there.begin(), there.end());
  for (const Relocation& r : section.relocations) {
    if (r.offset < start || r.offset >= start + size) continue;
    const auto [before, behind] = reach(r.type);
    const uint64_t at = r.offset - start;
    if (!same_constant(object, r, module, address + at, std::span(recorded).subspan(at)))
      return "a constant in it is another one";
    for (uint64_t i = at - std::min(before, at); i < std::min(at + behind, size); i++)
      now[i] = recorded[i] = 0;
  }
  if (now == recorded) return {};
  return GELF_ST_TYPE(symbol.st_info) == STT_FUNC ? "its code is another one"
                                                  : "its first value is another one";
}

std::string_view text_of(Dwarf_Die* die, unsigned name) {
  Dwarf_Attribute attribute;
  const char* text = dwarf_formstring(dwarf_attr(die, name, &attribute));
  return text ? text : "";
}

}  // namespace

Producer producer_of(const symbols::Program& program, const std::string& path) {
  namespace fs = std::filesystem;
  Producer found;
  for (const symbols::Module& module : program.modules()) {
    if (session::is_of_the_system(module.name)) continue;
    Dwarf* dwarf = nullptr;
    try {
      dwarf = module.elf().dwarf();
    } catch (const Error&) {
    }
    Dwarf_CU *unit = nullptr, *next = nullptr;
    Dwarf_Die die;
    for (; dwarf && dwarf_get_units(dwarf, unit, &next, nullptr, nullptr, &die, nullptr) == 0; unit = next) {
      const fs::path name(text_of(&die, DW_AT_name)), folder(text_of(&die, DW_AT_comp_dir));
      if (name.filename() != fs::path(path).filename()) continue;
      const bool here = (folder / name).lexically_normal() == fs::path(path);
      if (!found.compiler.empty() && !here) continue;  // the tree may lie elsewhere now
      const std::string producer(text_of(&die, DW_AT_producer));
      const size_t flags = producer.find(" -");
      found.compiler = producer.substr(0, flags);
      found.flags = flags == std::string::npos ? "" : producer.substr(flags + 1);
      found.version = found.compiler.substr(found.compiler.rfind(' ') + 1);
      if (here) return found;
    }
  }
  return found;
}

std::map<std::string, std::string> differing_symbols(const std::string& path, const std::string& source,
                                                     const symbols::Program& program,
                                                     const ProgramSymbols& symbols) {
  const symbols::ElfFile file(path);
  const Object object = read_object(file.elf());
  std::map<std::string, std::string> differ;
  for (size_t i = 0; i < object.symbols.size(); i++) {
    const GElf_Sym& symbol = object.symbols[i];
    const int type = GELF_ST_TYPE(symbol.st_info);
    if ((type != STT_FUNC && type != STT_OBJECT) || symbol.st_size == 0 ||
        symbol.st_shndx >= object.sections.size() || symbol.st_shndx == SHN_UNDEF)
      continue;
    const auto address = symbols.address(object.names[i], source);
    const symbols::Module* module = address ? program.module_at(*address) : nullptr;
    if (!module) continue;
    if (auto how = difference(object, symbol, *module, *address - module->bias))
      differ[object.names[i]] = std::move(*how);
  }
  return differ;
}

}  // namespace backstep::probe
