// What a user asks to be taken to: `goto current backward block_entry 2 where stack=<*,a,b> and
// src=<foo.c:7>`.
//
// A query is only read here; what it means in a recording is found out above (session/query.h). docs/query.md
// has the language.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "events/spec.h"

namespace backstep::events {

// A condition: `and`, `or` and `not` over expressions of the program's variables and over what only a query
// knows, where in the source and in which calls it is.
struct QueryCondition {
  enum class Op : uint8_t {
    Always,
    And,         // parts
    Or,          // parts
    Not,         // one part
    Expression,  // text, in the language of expressions
    Source,      // lines first to last of `text`, a file; 0: all of it
    Function,    // text: the innermost function, a name or a pattern
    Stack,       // frames, outermost first
    Name,        // text: of the system call or the signal
    Touches,     // text: an expression; what is accessed is what is there
  };
  Op op = Op::Always;
  std::vector<QueryCondition> parts = {};
  std::string text = {};
  int first = 0, last = 0;
  std::vector<std::string> frames = {};  // "*": any number of them, "?": one, names
  size_t column = 0;                     // where it begins in the query
  std::vector<size_t> columns = {};      // of each character of `text`, if that is an expression
};

struct Query {
  enum class From : uint8_t { Current, First, Last };
  enum class Type : uint8_t { FuncEnter, FuncExit, BlockEntry, Store, Load, Syscall, Signal, Line };
  From from = From::Current;
  bool forward = true;
  Type type = Type::FuncEnter;
  uint64_t count = 1;
  QueryCondition where;
  std::string text;
};

// Throws SpecError.
Query parse_query(const std::string& text);
// An expression with the names that conditions of this type have (`newval`, a single =), in the language of
// expressions. Throws SpecError.
std::string expression_of(const std::string& text, Query::Type type);
// Does a text begin as a query does? (`goto` knows moments, too.)
bool is_query(const std::string& text);

// Is it a pattern, which has wildcards?
bool has_wildcards(const std::string& name);
// `*` in a name stands for any letters.
bool fits_wildcards(const std::string& pattern, const std::string& name);

// For help and completion.
const std::vector<KindHelp>& query_grammar();

}  // namespace backstep::events
