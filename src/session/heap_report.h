// What is wrong with the use of the heap: what was never freed, and what was freed or used as it must not be.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "session/heap.h"

namespace backstep::session {

// Can the program still get at a block, at the end?
enum class HeapReach : uint8_t {
  Lost,      // nothing in memory or in a register points to it
  Indirect,  // only what is lost itself does
  Reachable,
};
inline constexpr size_t kHeapReaches = 3;
const char* heap_reach_name(HeapReach reach);

// Blocks that were allocated with the same stack and are as reachable.
struct HeapLeak {
  HeapReach reach = HeapReach::Lost;
  uint64_t blocks = 0, bytes = 0;
  HeapBlock first;
  StackAt stack;
};

// Something that must not be done to memory of the heap.
struct HeapFinding {
  std::string kind;  // "double free", "use after free", …
  Position at;
  int thread = 1;
  Address address = 0;
  uint64_t size = 0;  // of an access; of a wrong size, the one that was said
  bool is_access = false, store = false;
  uint64_t count = 0;  // how often at the same place with the same memory's origin; this is the first one
  StackAt stack;
  std::optional<HeapBlock> block;  // what the memory is or was
  StackAt allocated, freed;        // its stacks
};

struct HeapTotals {
  uint64_t blocks = 0, bytes = 0;
};

struct HeapReportRequest {
  std::optional<Position> to;  // the heap at this moment; none: at the end
  bool leaks = true;
  bool errors = false;     // frees that do not fit
  bool uses = false;       // loads and stores that do not (heap_uses.h)
  bool unwritten = false;  // … and loads of what nobody has written, which may be harmless
};

struct HeapReport {
  HeapTotals allocated, freed;
  uint64_t peak = 0;  // bytes, the most that there were at a time
  ControlPoint peak_at;
  HeapTotals left[kHeapReaches];
  std::vector<HeapLeak> leaks;  // by reach, the most bytes first
  std::vector<HeapFinding> findings;
  bool leaks_known = false, errors_known = false;  // looked for
  bool complete = true;                            // false: somebody wanted to stop
};

HeapReport heap_report(Session& session, const HeapReportRequest& request, const Watcher& watcher);

nlohmann::ordered_json heap_json(const HeapReport& report);

// Memory that has been part of a block: start and end of each stretch of it.
using HeapTerritory = std::map<Address, Address>;
// Which of the blocks the program can still get at; they are all that there are at the session's present.
std::vector<HeapReach> heap_reaches(Session& session, const std::vector<HeapBlock>& blocks,
                                    const HeapTerritory& ever);

}  // namespace backstep::session
