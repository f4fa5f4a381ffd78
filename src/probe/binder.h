// What the names in debug code mean at a place of the recorded program, as C++ that makes them mean it.
//
// A variable becomes a reference to where it is in the program's memory, or to a copy if it is in a register.
// Functions and variables outside of functions are declared once, with the address that they have in the
// recording as their symbol.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "probe/build.h"
#include "probe/declarations.h"
#include "probe/tokens.h"

namespace backstep::probe {

// At one place.
struct Bindings {
  struct Argument {
    std::string name;         // as debug code writes it
    std::string declaration;  // "int (&n)"
    std::string expression;   // what it refers to, in the function of the place
  };
  std::vector<Argument> arguments;  // of the function that the debug code is
  std::string scope;                // declarations in front of the debug code, inside of that function
  std::string prologue;             // of the function of the place: finds variables; `r` are the registers
  std::string self;  // where the object is that members in the debug code are of; empty: it names none
  bool needs_vector = false;
  std::vector<BoundVariable> variables;
};

class Binder {
 public:
  Binder(Variables& variables, const Names& usual_names, Names used, std::set<unsigned> opaque,
         std::string prefix = "where")
      : variables_(variables),
        prefix_(std::move(prefix)),
        usual_(usual_names),
        declarations_(variables, used, usual_names, std::move(opaque)) {}

  // `where`: the place as the user wrote it, for messages.
  // `outer`: as Variables::site has it.
  Bindings bind(uint64_t pc, unsigned outer, const std::vector<Token>& tokens, const std::string& where);
  // The same without types, for code that has those of its source: arguments are addresses. Only of `names`.
  Bindings bind_addresses(uint64_t pc, unsigned outer, const std::vector<std::string>& names, bool self,
                          const std::string& where);
  // Makes a function of ours a method of the class around the place, before anything is bound; empty: there
  // is none, or it is a library's.
  std::optional<Declarations::Method> add_method(uint64_t pc, unsigned outer, const std::string& declaration);

  // Global: functions that find variables; types and the program's own names.
  const std::string& helpers() const { return helpers_; }
  std::string declarations();
  std::set<std::string> headers() const;
  std::map<std::string, uint64_t> symbols() const;

 private:
  struct Place;
  void name(Place& place, const std::string& name);
  void qualified(Place& place, const std::vector<std::string>& path);
  bool local(Place& place, const std::string& name);
  bool outside(Place& place, const std::string& name, const std::string& as);
  bool type(Place& place, const std::string& name);
  void functions(Place& place, const std::string& name, const std::string& as);
  void bind_storage(Place& place, const std::string& name, const symbols::Variable& variable);
  bool missing(Place& place, const std::string& name, const symbols::Variable& variable);
  std::string address(Place& place, const std::string& name, const symbols::Variable& variable,
                      bool by_reference, std::string* where);
  void gone(Place& place, const std::string& name, const symbols::Variable* variable, const std::string& why);
  std::string word(Place& place, const std::string& name, const symbols::Code& code);
  std::string copy(Place& place, const std::string& name, const symbols::Variable& variable);
  void declare_outside(const std::string& space, const std::string& text);

  Variables& variables_;
  std::string prefix_;  // of names in what is generated
  const Names& usual_;
  Declarations declarations_;
  std::string helpers_, outside_;
  std::set<std::string> declared_;
  std::map<std::string, uint64_t> symbols_;
  std::set<std::string> headers_;
  unsigned count_ = 0;
};

// The text of a C++ string literal.
std::string literal(const std::string& text);

}  // namespace backstep::probe
