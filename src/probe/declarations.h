// The types of a recorded program as C++ declarations, from DWARF alone.
//
// Debug code without the program's sources is compiled against these: each struct with the members that the
// recorded program's compiler gave it, at their offsets, which the compiler of the debug code confirms
// (static_assert). What is in a system header is taken from there, so that debug code can hand a FILE * or a
// std::string to its own library.
//
// Only what is asked for is declared, and what follows from that. Behind pointers this goes on only where
// debug code names a member of what they point to.
#pragma once
#include <elfutils/libdw.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "symbols/variables.h"

namespace backstep::probe {

using symbols::Variables;
using Names = std::set<std::string, std::less<>>;

class Declarations {
 public:
  // `used`: the names in the debug code. `known`: what the headers that it is compiled with declare.
  // `opaque`: numbers of types whose layout did not come out right, and which are bytes only (see
  // layout_mark).
  Declarations(Variables& variables, Names used, const Names& known, std::set<unsigned> opaque)
      : variables_(variables), used_(std::move(used)), known_(known), opaque_(std::move(opaque)) {}

  enum class Need : uint8_t { Name, Whole };
  // A declaration of `inner` ("(*x)[3]", "x", "") with the type DIE `type`, or with the type that `die` has.
  std::string declare(const symbols::Module* module, Dwarf_Die type, const std::string& inner, Need need);
  std::string declare_of(const symbols::Module* module, Dwarf_Die die, const std::string& inner, Need need);
  // Parameters of a function or of a function type: "int, char *const, ..."; `skip`: how many to leave out.
  std::string parameters(const symbols::Module* module, Dwarf_Die function, size_t skip);

  // The class that a member function's `this` points to: declares in it a function of ours, "void
  // NAME(PARAMETERS)". Not for classes from headers.
  struct Method {
    std::string owner;  // "::ns::X"
    bool is_const = false;
  };
  std::optional<Method> add_method(const symbols::Module* module, Dwarf_Die this_pointer,
                                   const std::string& declaration);
  // Has that class, or one of its bases, such a member?
  bool has_member(const symbols::Module* module, Dwarf_Die this_pointer, const std::string& name);

  // What stands before the debug code: includes, then declarations.
  std::set<std::string> headers() const { return headers_; }
  std::string text();
  // How the name of an assertion about the layout of a type begins; its number follows.
  static constexpr const char* kLayoutMark = "backstep-layout-";
  // Symbols that the text refers to, and their addresses: for the linker.
  const std::map<std::string, uint64_t>& symbols() const { return symbols_; }

 private:
  struct Struct {
    std::string name, outer;  // as it is called where it is declared; the namespace
    std::string spelled;      // how it is referred to from anywhere
    unsigned number = 0;
    bool header = false, whole = false, busy = false, wanted = false;
    std::string specialization_of;  // "template<typename> struct Box"
    const symbols::Module* module = nullptr;
    Dwarf_Die die = {};
    std::vector<std::string> methods;  // ours
  };
  struct Layout;

  Struct& struct_of(const symbols::Module* module, Dwarf_Die die);
  void name_struct(Struct& s);
  void forward(const Struct& s);
  void define(Struct& s);
  std::string body(Struct& s);
  void opaque_body(Struct& s, std::string& out);
  void member(Layout& layout, const symbols::Module* module, Dwarf_Die member);
  std::string nested_body(const symbols::Module* module, Dwarf_Die type);
  void members_of(Layout& layout, const symbols::Module* module, Dwarf_Die type);
  std::string bases(const symbols::Module* module, Dwarf_Die type);
  void methods_of(Struct& s, std::string& out);
  std::string method(const symbols::Module* module, Dwarf_Die die, const std::string& owner);
  void enum_of(const symbols::Module* module, Dwarf_Die die, std::string& name);
  std::string typedef_of(const symbols::Module* module, Dwarf_Die die, Need need);
  std::string base_type(Dwarf_Die die);
  std::string function_type(const symbols::Module* module, Dwarf_Die type, const std::string& inner);
  std::string array(const symbols::Module* module, Dwarf_Die type, const std::string& inner);
  bool wants(const Struct& s);
  static bool names_member(Dwarf_Die type, const Names& names, unsigned depth);
  bool from_header(Dwarf_Die die, const std::string& qualified);
  void in_namespace(const std::string& outer, const std::string& text);
  std::string outer_of(const std::string& qualified, std::string& last);

  Variables& variables_;
  Names used_;
  const Names& known_;
  std::set<unsigned> opaque_;
  std::string out_;
  std::set<std::string> headers_;
  std::map<std::string, uint64_t> symbols_;
  std::map<const void*, Struct*> by_die_;
  std::map<std::string, Struct*> by_name_;
  std::vector<std::unique_ptr<Struct>> structs_;
  std::set<std::string> typedefs_, templates_;
  std::map<const void*, std::string> enums_;
  std::map<std::string, std::string> enum_names_;
  unsigned depth_ = 0;
};

// Sizes as the compiler has them; 0: not known.
uint64_t size_of(Dwarf_Die type);
uint64_t alignment_of(Dwarf_Die type);
// Without typedefs and qualifiers. A null DIE: void.
Dwarf_Die stripped(Dwarf_Die type);
Dwarf_Die type_of(Dwarf_Die die);  // DW_AT_type; null: it has none
bool is_null(const Dwarf_Die& die);

}  // namespace backstep::probe
