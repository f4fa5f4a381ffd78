// The names of a whole process: every ELF file that it mapped, asked as one. Functions by name, code by
// source line, and both ways back from an address.
//
// Addresses are guest addresses throughout; what lies between them and the addresses in a file's headers is
// the module's bias. Everything is read on demand and kept: naming one function of a large program reads its
// symbol table and one compilation unit.
//
// The files belong to a recording, so whatever they say may be a lie: a damaged file yields fewer names. One
// thread at a time may use a Program.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "symbols/symbols.h"

namespace backstep::symbols {

class FrameRules;    // unwind_rules.h
class ModuleIndex;   // program_index.h
class ThreadLocals;  // thread_locals.h
class Unit;          // program_unit.h
struct Scope;

// One ELF file as it was mapped.
struct Module {
  std::string name;             // path the program mapped
  std::string file;             // where its contents are now (the recording's store)
  uint64_t start = 0, end = 0;  // guest addresses it spans
  uint64_t bias = 0;            // guest address - address in the file's headers

  // Opened on first use and kept. Throws Error if it cannot be read or is not ELF, each time.
  const ElfFile& elf() const;

  // What elf() found.
  mutable std::shared_ptr<const ElfFile> opened = {};
  mutable std::string failure = {};
};

struct Function {
  // As in the source; C++: qualified, without parameters ("ns::Class::f"). From the symbol if there is no
  // DWARF.
  std::string name;
  std::string full;  // with parameters, if they are known
  uint64_t entry = 0;
  // Behind the prologue, where gdb would set a breakpoint and arguments are where DWARF says; `entry` if
  // unknown.
  uint64_t body = 0;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;  // [start, end); the one with the entry first
  std::string file;                                   // where it is declared; empty: not known
  int line = 0;
  const Module* module = nullptr;
  bool inlined = false;  // an inlined copy
  bool ifunc = false;    // `entry` is the code that chooses an implementation (STT_GNU_IFUNC)
};

// The code of a source line: one address for each place where a breakpoint belongs (function, inlined copy).
struct LineMatch {
  std::string file;
  int line = 0;
  std::vector<uint64_t> addresses;  // ascending, never empty
};

class Program {
 public:
  explicit Program(std::vector<Module> modules);
  ~Program();
  Program(Program&&) noexcept;
  Program& operator=(Program&&) noexcept;

  const std::vector<Module>& modules() const { return modules_; }  // ascending by `start`
  const Module* module_at(uint64_t address) const;

  // "f", "Class::f", "ns::f", "f(int)", "f<int>", "file.c:f": all functions of that name, ascending by entry.
  // What is not written may be anything: "f" is also "ns::f<int>(char)". `inlined`: inlined copies as well.
  // A module with a full symbol table (.symtab) is taken to name all its functions there.
  std::vector<Function> functions(const std::string& name, bool inlined = false) const;
  // The same functions, of which no more than the entry is asked: where a symbol says it, no debug
  // information is read. (That of a C library is compressed, and takes longer than a short replay.)
  std::vector<Function> entries(const std::string& name) const;
  // Names like the given one, nearest first: for "did you mean".
  std::vector<std::string> nearest_functions(const std::string& name, size_t most = 3) const;
  std::vector<Function> all_functions(const Module& module) const;

  // The file matches by its last path components: several results for an ambiguous one. A line without code
  // stands for the next line of that file that has some.
  std::vector<LineMatch> lines(const std::string& file, int line) const;
  std::vector<std::string> nearest_files(const std::string& file, size_t most = 3) const;
  bool has_sources() const;  // the executable's debug information names some

  // The real function around an address, not what is inlined there.
  std::optional<Function> function_at(uint64_t address) const;
  Place place(uint64_t address) const;  // as ElfFile::at
  struct InlineFrame {
    std::string function, file;
    int line = 0;
  };
  // Innermost first: inlined functions, then the real one; an outer one's line is that of the call.
  std::vector<InlineFrame> frames_at(uint64_t address) const;

  // Which code belongs to which line, ascending by address. Two lines may share code.
  struct LineCode {
    std::string file;
    int line = 0;
    uint64_t start = 0, end = 0;
    bool statement = false;  // a good place to stop at
  };
  std::vector<LineCode> line_table(const Module& module) const;
  std::vector<LineCode> line_table(const Function& function) const;  // of its code alone

  // For the rest of this layer. Null: nothing can be read there. Units and files of `module`'s own addresses.
  const ModuleIndex* index(const Module& module) const;
  FrameRules& frame_rules() const;
  ThreadLocals& thread_locals() const;

 private:
  std::vector<Function> find_functions(const std::string& name, bool inlined, bool only_entries) const;
  const ModuleIndex* index_at(uint64_t address, const Module*& module) const;
  const Function& function_of(const Module&, const ModuleIndex&, const Unit&, const Scope&) const;

  std::vector<Module> modules_;
  mutable std::vector<std::unique_ptr<ModuleIndex>> indexes_;    // null: not asked for yet
  mutable std::unordered_map<const void*, Function> functions_;  // that an address was in, by scope or symbol
  mutable std::unique_ptr<FrameRules> frame_rules_;
  mutable std::unique_ptr<ThreadLocals> thread_locals_;
};

}  // namespace backstep::symbols
