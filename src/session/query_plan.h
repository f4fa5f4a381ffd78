// From what a query says to what workers look out for, and what is found out of each of their matches
// afterwards.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "events/query.h"
#include "session/blocks.h"
#include "session/resolve.h"
#include "session/session.h"

namespace backstep::session {

// The functions that a name in a query stands for. Names that the same code has (malloc, __libc_malloc) are
// one function.
class FunctionPattern {
 public:
  FunctionPattern(const symbols::Program& program, const std::string& name);
  // A place in a function, which may be inlined into another one.
  bool fits(const symbols::Program& program, Address pc, const std::string& name, bool inlined);

 private:
  bool fits_name(const std::string& name) const;

  std::string name_;
  std::vector<Address> entries_;
  std::unordered_map<Address, bool> known_;  // of real functions, by a place in them
};

// What is left of a condition where something is known already: it is made of expressions, which workers
// evaluate, and of what is known of a match when it is there.
struct Remainder {
  enum class Op : uint8_t { True, False, And, Or, Not, Expression, Captured, Source, Function, Stack };
  Op op = Op::True;
  std::vector<Remainder> parts = {};
  const events::QueryCondition* leaf = nullptr;  // Expression … Stack; of the query
  size_t value = 0;                              // Captured: which of the match's values
};

// One tap of a query.
struct QueryTap {
  ResolvedTap resolved;
  Remainder rest;                // what has to be found out of its matches
  size_t captured = 0;           // so many of its values are for that; they come first
  bool needs_stack = false;      // … and the stack is
  bool whole_functions = false;  // the innermost function is the real one, whatever is inlined there
  // Of a tap that has each load or store: its records say no more than that, so these are evaluated by who
  // collects them.
  bool accesses = false;
  std::vector<replayer::CapturedExpression> of_access;
};

class QueryPlan {
 public:
  // `values`: what is asked at the match. Throws Error.
  QueryPlan(Session& session, const events::Query& query, const std::vector<std::string>& values,
            const Watcher& watcher);

  std::vector<QueryTap>& taps() { return taps_; }
  const std::vector<std::string>& notes() const { return notes_; }
  FunctionPattern& pattern(const std::string& name);
  // Code of that line?
  bool is_source(const events::QueryCondition& source, const std::string& file, int line);

 private:
  // A place, a range of memory or a moment that the type of the query and the words of its condition allow.
  struct Candidate {
    ResolvedTap resolved;
    bool in_code = false;  // what it is is known beforehand:
    Block code;            // … all of this is executed there
    std::string function;  // … of functions that are entered or left
    std::string file;      // … of lines
    int line = 0;
    const events::QueryCondition* touches = nullptr;  // of data
    std::string name;                                 // of system calls and signals
    bool real_function = false;
    bool accesses = false;
  };
  // What a condition cannot hold without: one of these names, or lines.
  struct Needs {
    std::optional<std::vector<std::string>> functions, names;
    std::optional<std::vector<const events::QueryCondition*>> sources;
  };

  static Needs needs_of(const events::QueryCondition& condition);
  void expressions_of(const events::QueryCondition& condition,
                      std::vector<const events::QueryCondition*>& list) const;
  void add_functions(bool enter);
  void add_blocks();
  void add_lines();
  void add_accesses();
  void add_all_accesses(bool store);
  void add_calls();
  void add_signals();
  void add(const Candidate& candidate);

  std::vector<symbols::Function> functions_meant(bool with_inlined);
  Remainder reduce(const events::QueryCondition& condition, const Candidate& candidate);
  std::pair<int, int> lines_meant(const events::QueryCondition& source);
  Remainder reduced_source(const events::QueryCondition& c, const Candidate& candidate);
  std::string text_of(const Remainder& r) const;
  bool take_ticks(const Remainder& r, timeline::Tap& tap) const;
  bool compile(QueryTap& tap, std::vector<Remainder>& conjuncts);
  bool capture(QueryTap& tap, Remainder& r);
  void keep_failure(const events::QueryCondition& leaf, const symbols::ExpressionError& error);

  Session& session_;
  const events::Query& query_;
  const Watcher& watcher_;
  Needs needs_;
  bool uses_variables_ = false, uses_retval_ = false;
  std::vector<QueryTap> taps_;
  std::vector<std::string> notes_;
  std::map<std::string, FunctionPattern> patterns_;
  std::map<const events::QueryCondition*, std::pair<int, int>> lines_;  // that a Source means
  std::exception_ptr failed_;
};

}  // namespace backstep::session
