// Types of a program's variables, from DWARF, and how bytes of such a type look.
//
// Typedefs and const/volatile are looked through when a type is read, so that a Type is what it is made of. A
// Type is only a description: it needs neither the file nor its debug information to format bytes. Targets of
// pointers are read when something asks for them (Types::target), or one list node would read half of the
// program's types.
#pragma once
#include <elfutils/libdw.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace backstep::symbols {

class Code;
class Types;
struct Module;

struct Type {
  enum class Kind : uint8_t {
    Void,
    Bool,
    Char,  // integers that are shown as characters
    Integer,
    Float,
    Pointer,
    Reference,
    Array,
    Struct,  // class and union as well
    Enum,
    Function,
    Other,  // known to DWARF, not to us: complex numbers, pointers to members…
  };
  struct Member {
    std::string
        name;  // empty: an anonymous struct, whose members count as those of this one, or a base class
    const Type* type = nullptr;
    uint64_t offset = 0;    // bytes; of a bit-field: of the unit that it is read with
    uint8_t bit_size = 0;   // 0: not a bit-field
    uint8_t bit_shift = 0;  // from the lowest bit of that unit
    uint8_t unit = 0;       // its size in bytes
    bool base = false;
    bool virtual_base = false;                  // where it is, is known only at run time: `location`
    std::shared_ptr<const Code> location = {};  // address of the whole -> of the base; null: not understood
    bool artificial = false;                    // the compiler's own (vtable pointer)
  };
  struct Enumerator {
    std::string name;
    uint64_t value = 0;  // sign-extended if the type is signed
  };

  Kind kind = Kind::Void;
  bool is_signed = false;
  bool is_union = false;
  bool incomplete = false;           // only declared
  bool passed_by_reference = false;  // C++: it has a copy constructor or destructor of its own
  bool cpp = false;                  // of C++: a class may have base classes
  std::string name;                  // as one writes it; empty: it has none
  uint64_t size = 0;                 // bytes
  const Type* element = nullptr;     // of arrays
  std::optional<uint64_t> count;     // elements of arrays; none: unknown bound
  std::vector<Member> members;
  std::vector<std::string> statics;  // names of static members
  std::vector<Enumerator> enumerators;

  bool scalar() const;    // one word: bool, characters, integers, floats up to 8 bytes, enums, pointers
  bool integral() const;  // bool, characters, integers, enums
  bool text() const;      // array of char
  bool character() const { return kind == Kind::Char && size == 1; }
  std::string text_name() const;  // for sentences: "struct point", "int *"

  // Where the text of a libstdc++ std::string is: offset of the pointer to it.
  std::optional<uint64_t> string_pointer() const;

 private:
  friend class Types;
  const Type* target_ = nullptr;  // of pointers, references and functions (what they return), if asked for
  std::optional<Dwarf_Die> target_die_;
  std::optional<Dwarf_Die> class_die_;  // of a class: where it is described
  const Module* module_ = nullptr;
};

// Keeps the types of its program alive as long as somebody has one of them.
using TypeRef = std::shared_ptr<const Type>;

// What only the whole program knows of its types.
class Definitions {
 public:
  virtual ~Definitions() = default;
  // The definition of a struct or enum that is only declared in its unit. Null: there is none.
  virtual std::optional<std::pair<const Module*, Dwarf_Die>> definition_of(const Module* module,
                                                                           Dwarf_Die declaration) = 0;
  // "ns::Class"; empty: it has no name that is known outside of functions.
  virtual std::string qualified(const Module* module, Dwarf_Die die) = 0;
};

// All types that were asked for, each once.
class Types : public std::enable_shared_from_this<Types> {
 public:
  static std::shared_ptr<Types> make(Definitions* definitions = nullptr);

  const Type* at(const Module* module, Dwarf_Die die);  // any type DIE
  const Type* of(const Module* module,
                 Dwarf_Die* die);        // DW_AT_type of a variable, function…; void if it has none
  const Type* target(const Type* type);  // what a pointer or reference refers to, a function returns
  // Each unit of a program describes the classes that it uses, so one class can be several Types.
  bool same_class(const Type* a, const Type* b);
  std::string qualified(const Type* type);  // "ns::Class", or what else it is called

  // Types that need no DWARF.
  const Type* nothing();
  const Type* boolean();
  const Type* integer(unsigned size, bool is_signed);  // named as in C: "int", "unsigned long"
  const Type* character();
  const Type* floating(unsigned size);  // 4, 8, 16
  const Type* pointer_to(const Type* target);
  const Type* array_of(const Type* element, uint64_t count);
  const Type* function();
  // "unsigned long", "char"…, of words in any order; null: not a type that C has by itself.
  const Type* builtin(std::vector<std::string> words);

  TypeRef ref(const Type* type) { return TypeRef(shared_from_this(), type); }
  // The definitions are not asked any more: they may go.
  void forget_definitions() { definitions_ = nullptr; }

 private:
  Type* add(Type type);
  const Type* read(const Module* module, Dwarf_Die die, unsigned depth);
  void fill(Type& type, const Module* module, Dwarf_Die die, unsigned depth);
  void fill_base(Type& type, Dwarf_Die die);
  const Type* read_array(const Module* module, Dwarf_Die die, unsigned depth);
  void fill_struct(Type& type, const Module* module, Dwarf_Die die, unsigned depth);
  void fill_member(Type& type, const Module* module, Dwarf_Die member, unsigned depth);
  void fill_enum(Type& type, const Module* module, Dwarf_Die die, unsigned depth);

  std::vector<std::unique_ptr<Type>> all_;
  std::map<std::pair<const Module*, const void*>, const Type*> known_;  // by the address of the DIE
  std::map<std::string, const Type*> plain_;                            // those that need no DWARF
  Definitions* definitions_ = nullptr;
};

// How a value looks to people: 42, 'a' (97), "text", 0x1234, {x = 1, y = 2}, RED, true, 1.5. Too few bytes:
// what is missing is left out.
std::string format(const Type& type, std::span<const uint8_t> bytes);
nlohmann::json to_json(const Type& type, std::span<const uint8_t> bytes);
// "text" with what cannot be printed escaped; `more`: there was more of it.
std::string quoted(std::span<const uint8_t> bytes, bool more);

nlohmann::json text_json(std::span<const uint8_t> bytes);

}  // namespace backstep::symbols
