// The system calls of a recording, as strace would have shown them, asked of the logs alone: nothing is
// replayed.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "events/call_filter.h"
#include "events/recorded_call.h"
#include "recording/library.h"
#include "session/era.h"

namespace backstep::session {

constexpr uint64_t kAllCalls = std::numeric_limits<uint64_t>::max();

struct SyscallsRequest {
  std::string filter;               // events/call_filter.h
  bool failed = false;              // only calls that failed
  std::vector<uint64_t> processes;  // in their order; none: all
  std::string from, to;             // moments of the first of them
  uint64_t limit = kAllCalls;       // the first so many …
  uint64_t last = kAllCalls;        // … or the last so many
};

// A log that is damaged: its calls end there.
struct DamagedLog {
  uint64_t process = 0;
  std::string text;
};

class Syscalls {
 public:
  // Throws Error: the filter or the moments make no sense.
  Syscalls(const recording::Recording& recording, SyscallsRequest request);

  // The calls, in order, as long as `call` says true. It streams: the first one comes at once. (For the last
  // ones the logs are read twice.) A call is valid until the next one.
  std::vector<DamagedLog> each(const std::function<bool(const events::Call&)>& call) const;

 private:
  std::optional<events::Call> ask(uint64_t number, const recording::Event& event, Era::Side side) const;
  std::vector<DamagedLog> all(const std::function<bool(const events::Call&)>& call) const;
  std::vector<DamagedLog> of_one(Era& era, const std::function<bool(const events::Call&)>& call) const;
  std::vector<DamagedLog> of_all(Era& era, const std::function<bool(const events::Call&)>& call) const;

  recording::Recording recording_;
  SyscallsRequest request_;
  events::CallFilter filter_;
  Era era_;
  events::CallReader reader_;
};

// "ENOENT"; the number, if it has no name.
std::string error_name(int error);
// At most so many bytes of each text.
nlohmann::ordered_json syscall_json(const events::Call& call, size_t strings);
constexpr size_t kJsonStrings = 4096;

// Totals of each call.
class SyscallTotals {
 public:
  struct Row {
    uint16_t nr = 0;
    uint64_t calls = 0, bytes = 0;
    std::map<int, uint64_t> errors;
    std::string name() const;
    uint64_t failed() const;
    // The most frequent error first.
    std::vector<std::pair<std::string, uint64_t>> by_error() const;
  };

  void add(const events::Call& call);
  std::vector<const Row*> rows() const;  // the most frequent call first
  nlohmann::ordered_json to_json() const;

 private:
  std::map<uint16_t, Row> rows_;
};

}  // namespace backstep::session
