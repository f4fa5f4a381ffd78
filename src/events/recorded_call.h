// System calls as a recording has them, from the logs alone: nothing is replayed.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/context.h"
#include "guest/syscall_print.h"
#include "recording/library.h"
#include "recording/log_reader.h"
#include "recording/tree.h"

namespace backstep::events {

// One call, with its result. Its pieces point into the log that it was read from, or into `texts`.
struct Call {
  uint64_t process = 1;  // number of its log
  uint64_t pid = 0;
  int thread = 1;      // virtual name
  uint64_t event = 0;  // number in its log
  Tick tick = 0;
  Address pc = 0;
  guest::SyscallView view;
  bool inexact = false;  // handled by the general fallback
  bool denied = false;   // not made: a filter of the program's own gave the result
  bool returns = true;
  uint8_t unknown = 0;             // bit n: argument n is not in the log
  std::vector<std::string> texts;  // of a call that the log has only the consequences of

  Call() = default;
  Call(Call&&) = default;
  Call& operator=(Call&&) = default;

  bool failed() const { return returns && guest::is_error(view.result); }
  // As C programs and strace see it: -1, and errno.
  int64_t ret() const { return failed() ? -1 : view.result; }
  int error() const { return failed() ? static_cast<int>(-view.result) : 0; }
  bool knows(int argument) const { return !(unknown >> argument & 1); }
};

// The call of a Syscall event, as the system-call table's printer wants it.
guest::SyscallView view_of(const recording::Event& event);

// `write(1, "x", 1) = 1` in its parts. What the log does not have is a question mark.
guest::PrintedCall print_call(const Call& call, size_t strings);

// Bytes that a call has moved, for calls like read and write; 0: it failed, or is not such a call.
uint64_t bytes_moved(const Call& call);
bool moves_bytes(uint16_t nr);

// Tells which events are calls. Three things are not as they look:
//   * A call that was called off (kNotMade) is made again later, so it is none.
//   * A forked child's log begins with the return of the parent's fork: that is the parent's call.
//   * Calls that do not return have no Syscall event. An End is exit_group or execve, the end of a thread's
//     turns exit (or, of a child of vfork, execve); arguments are those that the recording knows elsewhere.
class CallReader {
 public:
  explicit CallReader(const recording::Recording& recording);

  // Which call the event is the end of; nullopt: none. Cheap, for those who want few of them.
  std::optional<uint16_t> number(uint64_t process, const recording::Event& event) const;
  // For an event that `number` knows. Valid as long as the event's bytes.
  Call call(uint64_t process, const recording::Event& event) const;

 private:
  const recording::ProcessInfo* program_of(uint64_t process, const recording::Event& event) const;
  void describe_exec(const recording::ProcessInfo& program, Call& call) const;

  recording::Recording recording_;
  std::map<uint64_t, recording::ProcessInfo> processes_;
  // Programs that children of vfork became: by log and number of the event before it.
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> spawned_;
};

}  // namespace backstep::events
