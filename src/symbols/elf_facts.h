// What the headers and the dynamic section of an ELF file say, beyond names and lines.
#pragma once
#include <gelf.h>

#include <optional>
#include <string>
#include <vector>

namespace backstep::symbols {

std::vector<GElf_Phdr> segments_of(Elf* elf);
std::vector<GElf_Dyn> dynamic_section(Elf* elf);
// Whether a file is the program, not one of its libraries.
bool is_executable(Elf* elf);
// A variable or function that the file defines, thread-local ones as well; `dynamic`: only if it exports it.
std::optional<GElf_Sym> find_symbol(Elf* elf, const std::string& name, bool dynamic);

}  // namespace backstep::symbols
