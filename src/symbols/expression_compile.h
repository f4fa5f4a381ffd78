// From the tree of an expression to typed operands and bytecode.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "symbols/classes.h"
#include "symbols/expression.h"
#include "symbols/expression_operand.h"
#include "symbols/expression_syntax.h"
#include "symbols/variables.h"

namespace backstep::symbols {

class Compilation : public TypeNames {
 public:
  Compilation(Variables& variables, const std::string& text, const Site& site, const EventVariables& event);

  // All throw ExpressionError; OptimizedOut where a value is needed that is nowhere.
  Operand run();                      // the whole expression
  Word word(const Operand& operand);  // as a value to calculate with
  Code address(const Operand& operand);
  Code truth(const Operand& operand);
  // The words of a struct that is not in memory.
  Code words(const Operand& operand);
  // Where the text of a char*, char[] or std::string is; empty: it is none of them.
  std::optional<Code> text_address(const Operand& operand);
  [[noreturn]] void fail(size_t column, const std::string& sentence) const;
  const EventVariables& event() const { return event_; }

  const Type* type_named(const std::string& name, bool top) override;
  bool is_variable(const std::string& name) override;

 private:
  Operand eval(const Node& node);
  Operand name(const Node& node);
  std::optional<Operand> find(const std::string& name, const std::string& file, bool top, size_t column);
  std::optional<Operand> member_of_this(const std::string& name, size_t column);
  [[noreturn]] void unknown_name(const Node& node);
  Operand dollar(const Node& node);
  std::optional<Operand> machine_register(const std::string& name);
  std::optional<Operand> call_argument(const std::string& name);
  Operand state(const Node& node, bool offered, replayer::StateWord word, const Type* type);
  Operand unary(const Node& node);
  Operand binary(const Node& node);
  Operand compare_text(const Node& node, const Operand& a, const Operand& b);
  Operand pointer_arithmetic(const Node& node, const Operand& a, const Operand& b);
  Operand choice(const Node& node);
  Operand member(const Node& node);
  // Empty: there is none of that name. Class::name as well.
  std::optional<Operand> member(const Operand& of, const std::string& name, size_t column);
  Operand part(const Operand& of, const Subobject& part, size_t column);
  Word class_pointer(const Word& pointer, const Type* to, size_t column, bool may_go_down);
  void join_pointers(Word& a, Word& b, size_t column);
  Operand index(const Node& node);
  Operand cast(const Node& node);
  Operand dereferenced(const Operand& pointer, size_t column);
  Operand referred(Operand operand);  // a reference stands for what it refers to
  Operand value(const Word& word, const Node& node);
  Operand operand(const Variable& variable, const std::string& name, size_t column);
  Word arithmetic_word(const Operand& operand, const std::string& op, size_t column);
  uint64_t size_for_arithmetic(const Operand& pointer, size_t column);

  Variables& variables_;
  Types& types_;
  Arithmetic arithmetic_;
  Classes classes_;
  const std::string& text_;
  Site site_;
  const EventVariables& event_;
  unsigned depth_ = 0;
};

}  // namespace backstep::symbols
