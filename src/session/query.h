// The n-th moment, from a given one on forwards or backwards, at which something happens: `goto current
// backward store 2 where addr=&total`. docs/query.md has the language.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "session/session.h"

namespace backstep::session {

struct QueryRequest {
  std::string query;
  // What `current` is; none: the beginning for a query forwards, the end for one backwards. A match at this
  // very moment does not count.
  std::optional<Position> current;
  std::vector<std::string> values;  // expressions, as of the match
  bool stack = false;
};

struct QueryAnswer {
  std::optional<Hit> hit;    // none: there are not so many
  StackFrame place;          // of the match, innermost
  uint64_t matches = 0;      // that were found on the way, with the hit
  uint64_t wanted = 0;       // the query's count
  bool forward = true;       // … and direction
  uint64_t failures = 0;     // how often a condition could not be evaluated
  uint64_t cut = 0;          // … or a stack was not known to its outermost function, where that matters
  bool interrupted = false;  // somebody wanted to stop
};

// Throws Error. The present stays where it is.
QueryAnswer query(Session& session, const QueryRequest& request, const Watcher& watcher);

// "@TICK:0xPC", the thread, the function and its line, values; or that there is none. For people.
std::string answer_text(const QueryAnswer& answer, const QueryRequest& request);

}  // namespace backstep::session
