// What orders the accesses of threads besides their locks: messages, wake-ups, signals.
#pragma once
#include <map>
#include <vector>

#include "session/session.h"

namespace backstep::session {

struct SyncEvent {
  enum Kind : uint8_t { Take, TakeShared, Give, Make, Joined, Fresh } kind;
  Tick tick = 0;
  int thread = 1;
  Address lock = 0;  // Fresh: start
  Address end = 0;   // Fresh: of memory without a past
  int other = 0;     // Make, Joined: which thread
  // It comes before those accesses of its tick whose position has this event next, or a later one; 0: all.
  uint64_t event = 0;
};

struct Span {
  Tick enter = 0, leave = 0;
};
using SpansByThread = std::map<int, std::vector<Span>>;  // sorted

// Of what the log has: the calls of one process that give something to whoever takes it. Futexes in `known`
// are of functions that are understood as a whole. Their `lock` is no address of the program's.
std::vector<SyncEvent> calls_that_order(Session& session, const SpansByThread& known);

}  // namespace backstep::session
