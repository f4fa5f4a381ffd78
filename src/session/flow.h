// Where a value came from: the last store to it, what that was computed from, and so on, back to constants
// and to what the program got from outside.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "session/session.h"

namespace backstep::session {

// A step of the run.
struct FlowPlace {
  uint64_t process = 1;  // number of its log
  Position at;
  int thread = 1;
  std::string function, file;  // empty: not known
  int line = 0;
  std::string instruction;
};

// Bytes that were only moved: consecutive steps of one line are one copy.
struct FlowCopy {
  FlowPlace place;
  uint64_t steps = 1;
};

struct FlowOrigin;

// Some bytes of a value, which all came from one origin.
struct FlowPart {
  uint64_t offset = 0;
  std::vector<uint8_t> bytes;
  std::vector<FlowCopy> copies;  // newest first
  std::shared_ptr<FlowOrigin> origin;
};

struct FlowValue {
  std::string name;  // "total", "eax", "4 bytes at 0x1000"
  std::string text;  // as people read it; empty: not known
  std::vector<uint8_t> bytes;
  std::vector<FlowPart> parts;  // in the order of their offsets
};

struct FlowOrigin {
  enum class Kind : uint8_t {
    Computed,     // from `inputs`
    Constant,     // in an instruction
    Image,        // in a file of the program
    Zero,         // memory that was new
    Argument,     // argv, the environment, the auxiliary vector
    Read,         // bytes that a system call gave: a file's, the network's, …
    Result,       // what a system call returned
    Instruction,  // rdtsc, cpuid, …
    Signal,       // what a handler was started with
    Outside,      // written by another process, in memory that they share
    Unknown,
  };
  Kind kind = Kind::Unknown;
  unsigned number = 0;  // in the order in which they were found, from 1
  FlowPlace place;
  std::string sentence;
  std::string file;                // Image, Read: its name; empty: none
  std::optional<uint64_t> offset;  // … where in it
  std::string call;                // Read, Result: the system call
  std::string data;                // Read: the line around the bytes
  std::vector<FlowValue> inputs;
  bool cut = false;  // there is more, which was not asked for
};
const char* flow_kind_name(FlowOrigin::Kind kind);

struct FlowRequest {
  std::string expression;
  std::optional<Position> at;   // none: the end of the run
  int tid = 0;                  // 0: the thread that has the turn there
  std::optional<size_t> frame;  // none: the innermost one in which the expression means something
  uint64_t depth = 10;          // computations below each other
  uint64_t width = 8;           // inputs of each that are followed
  uint64_t most = 60;           // origins in all
  bool copies = false;          // each copy by itself, also those of one line
  bool addresses = false;       // what an address was computed from counts as an input
};

struct FlowAnswer {
  FlowPlace place;
  std::string type;
  FlowValue value;
  unsigned origins = 0;
  uint64_t steps = 0, searches = 0;  // instructions that were replayed one by one; backward searches
  bool complete = true;              // false: somebody wanted to stop
};

// Throws Error: the expression means nothing there, or is in no place that could be followed.
FlowAnswer why(Session& session, const FlowRequest& request, const Watcher& watcher);

nlohmann::ordered_json flow_json(const FlowAnswer& answer);
std::vector<std::string> flow_text(const FlowAnswer& answer);
std::string flow_dot(const FlowAnswer& answer);

}  // namespace backstep::session
