// Names for addresses: which function and which source line an address of an ELF file belongs to.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct Dwarf;  // elfutils'
struct Elf;

namespace backstep::symbols {

// What is known about one address. Every part may be missing.
struct Place {
  std::string function;  // demangled
  uint64_t offset = 0;   // of the address into `function`
  std::string inlined;   // innermost function inlined there, if any
  std::string file;      // source file, as the compiler was given it
  int line = 0;          // 0: unknown

  std::string text() const;  // "main+0x1c (demo.c:42)", "" if nothing is known
};

// A function or a label in the code, from a symbol table.
struct Symbol {
  uint64_t start = 0, size = 0;  // size 0: not known
  uint64_t limit = 0;            // end of its section
  int rank = 0;        // of several names for one address, the best: global before weak before local
  bool code = false;   // in a section that can be executed
  bool label = false;  // has no type
  bool ifunc = false;
  std::string_view name;  // as it stands in the file, which must stay open

  // A symbol without a size reaches to the end of its section.
  bool covers(uint64_t address) const {
    return address >= start && (size > 0 ? address - start < size : address < limit);
  }
};

// One ELF file with its symbols and debug information. A separate debug file is used when it is there: that
// of the distribution (.build-id/…), or the one the file names (.gnu_debuglink) next to where it was mapped
// from, or what a debuginfod server has (debug_files.h).
class ElfFile {
 public:
  // Throws Error if the file cannot be read or is not ELF. `mapped`: the path that the program knew it by.
  explicit ElfFile(const std::string& path, const std::string& mapped = "");
  ~ElfFile();
  ElfFile(ElfFile&&) noexcept;
  ElfFile& operator=(ElfFile&&) noexcept;

  // Address (as in the file's own headers) of a byte of the file, if it is loaded.
  std::optional<uint64_t> address_of(uint64_t file_offset) const;
  Place at(uint64_t address) const;
  // By position in the file; nothing is known about bytes that are not loaded.
  Place at_offset(uint64_t file_offset) const;
  std::string build_id() const;  // hex; empty if there is none
  // What a variable is initialised with, by its name in the symbol table; nullopt: no such variable of that
  // size.
  std::optional<std::vector<uint8_t>> data(const std::string& name, size_t size) const;

  // Ascending by address; at one address the best name is the last.
  const std::vector<Symbol>& symbols() const;
  // Whether they are from a .symtab, which names local functions as well.
  bool all_symbols() const;
  const Symbol* symbol_at(uint64_t address) const;
  // What the file has for an address, at most `size` bytes; empty: nothing.
  std::string_view bytes(uint64_t address, size_t size) const;

  // For the rest of this layer. The file itself, and its debug information (of the separate file, if that is
  // there); null: it has none.
  Elf* elf() const;
  Dwarf* dwarf() const;

 private:
  struct Files;
  std::unique_ptr<Files> files_;
};

// "foo(int)" for "_Z3fooi"; other names as they are.
std::string demangle(const std::string& name);

}  // namespace backstep::symbols
