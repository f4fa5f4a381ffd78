// From the text of an expression to its tree. The grammar is C's, without what changes anything:
// docs/expressions.md.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "symbols/types.h"

namespace backstep::symbols {

struct Node {
  enum class Kind : uint8_t {
    Integer,   // value, type
    Floating,  // number, type
    Text,      // text
    Name,      // text, file, top
    Dollar,    // text: without the $
    Unary,     // text: the operator; one child
    Binary,    // two children
    Choice,    // ?: with three
    Member,    // text: the name; arrow
    Index,     // two children
    Cast,      // type; one child
    SizeOf,    // type, or one child
  };
  Kind kind = Kind::Integer;
  size_t column = 0;
  std::string text = {};
  std::string file = {};  // "file.c"::name
  bool top = false;       // ::name
  bool arrow = false;
  uint64_t value = 0;
  double number = 0;
  const Type* type = nullptr;
  std::vector<std::unique_ptr<Node>> children = {};
};

// What the parser has to know of the program: "(x)" may be a cast or a variable in parentheses.
class TypeNames {
 public:
  virtual ~TypeNames() = default;
  virtual const Type* type_named(const std::string& name, bool top) = 0;
  virtual bool is_variable(const std::string& name) = 0;
};

// Throws ExpressionError.
std::unique_ptr<Node> parse(const std::string& text, Types& types, TypeNames& names);

}  // namespace backstep::symbols
