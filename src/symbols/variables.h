// Variables of a program, by name at a place in its code: where each is kept there, as bytecode.
//
// Scopes are asked from the inside out: blocks and parameters of the innermost function (inlined ones count
// as functions), then names outside of functions: of the same unit, of the same module, of the others.
#pragma once
#include <elfutils/libdw.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/expression_code.h"
#include "symbols/program.h"
#include "symbols/types.h"
#include "symbols/variables_globals.h"

namespace backstep::symbols {

struct Scope;
class Unit;

// Where a value is.
struct Storage {
  enum class Kind : uint8_t {
    Memory,    // `code` pushes its address
    Value,     // `code` pushes the value itself; bits beyond the size of its type do not count
    Pieces,    // it is in several places
    Implicit,  // a pointer to a variable that is not in memory: `die`, so many bytes into it
    Gone,      // nowhere, and `why`
  };
  struct Piece {
    uint64_t offset = 0, size = 0;  // bytes
    Kind kind = Kind::Gone;         // Memory, Value or Gone
    Code code = {};
  };
  Kind kind = Kind::Gone;
  Code code = {};
  std::vector<Piece> pieces = {};
  Dwarf_Die die = {};
  int64_t offset = 0;
  std::string why = {};
};

struct Variable {
  const Type* type = nullptr;
  Storage storage = {};
  // Where it is described: its own DIE; of an enumerator that of the enum, of a function that of the
  // function. Null: nowhere.
  const Module* module = nullptr;
  Dwarf_Die die = {};
};

// A place in the code, and what is known of it.
struct Site {
  uint64_t pc = 0;  // guest address
  const Module* module = nullptr;
  uint64_t address = 0;             // in the file's headers
  const Unit* unit = nullptr;       // null: no debug information
  const Scope* block = nullptr;     // the innermost; null: none
  const Scope* function = nullptr;  // the real one around it
};

class Variables : public Definitions {
 public:
  explicit Variables(const Program& program);
  ~Variables() override;

  Types& types() { return *types_; }
  // `outer`: the block is that of a function so many calls out of the innermost inlined one.
  Site site(uint64_t pc, unsigned outer = 0) const;
  // How many of the functions that were inlined at `pc` begin there and are called in `line`: where that line
  // was asked for, the place is still the caller's. 0 as a line: none was.
  unsigned begin_at(uint64_t pc, int line) const;

  std::optional<Variable> local(const Site& site, const std::string& name);
  // Outside of functions; `file`: only of units whose path ends so; `top`: not in the namespaces around the
  // site. Throws Error (a sentence) if several could be meant.
  std::optional<Variable> global(const Site& site, const std::string& name, const std::string& file,
                                 bool top);
  // "struct x", "enum x" and typedefs; null: there is none.
  const Type* type_named(const Site& site, const std::string& name, bool top = false);
  // Where functions and types of that name are described: all there are from the innermost namespace that has
  // one.
  using Described = std::pair<const Module*, Dwarf_Die>;
  std::vector<Described> functions_named(const Site& site, const std::string& name);
  std::optional<Described> type_described(const Site& site, const std::string& name, bool top = false);
  // "ns::Class", also of what is only declared; empty: it has no name that is known outside of functions.
  std::string qualified(const Module* module, Dwarf_Die die) override;
  // Variables whose type is not known: a symbol of that name, its address.
  std::optional<Variable> symbol(const std::string& name);
  // The variable behind an implicit pointer.
  std::optional<Variable> pointee(const Site& site, const Storage& pointer);

  std::vector<std::string> nearest(const Site& site, const std::string& name,
                                   const std::vector<std::string>& others);
  // Names of a site's parameters and locals.
  struct Named {
    std::string name;
    bool parameter;
  };
  std::vector<Named> locals(const Site& site);

  // By the calling convention, with the registers of a function's entry and of its return. Types are those of
  // the function around the site, if it has debug information. Throw Error: a sentence.
  Variable argument(const Site& site, unsigned number);
  Variable result(const Site& site);

  std::optional<std::pair<const Module*, Dwarf_Die>> definition_of(const Module* module,
                                                                   Dwarf_Die declaration) override;
  // Units that nothing is known of because their debug information is elsewhere.
  const std::vector<std::string>& split_units(const Module* module) { return globals(module).split_units(); }

 private:
  struct Candidate {
    const Module* module;
    Globals::Entry entry;
  };
  const Globals& globals(const Module* module);
  std::vector<std::string> prefixes(const Site& site);
  std::vector<Candidate> candidates(const Site& site, const std::string& name, const std::string& file,
                                    bool types);
  Variable variable(const Site& site, const Module* module, Dwarf_Die die);
  Variable of_entry(const Site& site, const Module* module, const Globals::Entry& entry,
                    const std::string& name);
  std::optional<uint64_t> in_executable(const Module* module, const std::string& symbol);
  std::optional<Variable> in_scope(const Site& site, const Scope& scope, const std::string& name);
  std::string available(const Site& site, Dwarf_Attribute location);
  bool at_entry(const Site& site) const;
  std::optional<Dwarf_Die> function_die(const Site& site) const;

  const Program& program_;
  std::shared_ptr<Types> types_;
  std::map<const Module*, std::unique_ptr<Globals>> globals_;
};

// DWARF's description of where something is -> bytecode.
Storage location(const Program& program, const Site& site, const Module* module, Dwarf_Attribute attribute);
// A thread-local variable, so many bytes into the block of its module.
Storage thread_local_at(const Program& program, const Module& module, uint64_t offset);

}  // namespace backstep::symbols
