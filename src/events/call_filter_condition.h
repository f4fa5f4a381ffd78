// A condition, parsed: a tree of nodes (call_filter.h has the language).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "events/call_filter_values.h"

namespace backstep::events {

enum class Truth { No, Yes, Unknown };

struct Node;
using NodePtr = std::unique_ptr<Node>;

enum class Op {
  Number,    // `number`
  Text,      // `text`
  Variable,  // `variable`
  Not,
  Complement,
  Negate,
  Plus,
  // two operands from here on
  Multiply,
  Divide,
  Remainder,
  Add,
  Subtract,
  ShiftLeft,
  ShiftRight,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
  Equal,
  NotEqual,
  Like,
  NotLike,
  BitAnd,
  BitXor,
  BitOr,
  And,
  Or,
};

struct Node {
  Op op{};
  Number number = 0;
  std::string text, pattern;  // a text as it is, and as a pattern, in which what was escaped still is
  bool is_glob = false;       // it has *, ? or [
  Variable variable;
  NodePtr left, right;     // unary: left only
  size_t column = 0;       // of the operator, or of the word
  bool as_texts = false;   // comparisons: of texts
  bool in_parens = false;  // written so
};

struct Condition {
  NodePtr root;
  Truth evaluate(const Call& call) const;
};

// Parses text from `start` on; `calls`: the numbers that the condition is about, `all`: it is about every
// call. Throws FilterError.
std::shared_ptr<const Condition> parse_condition(const std::string& text, size_t start,
                                                 const std::vector<uint16_t>& calls, bool all);

}  // namespace backstep::events
