// What controller and worker say to each other: one datagram per command and per answer, over a socket pair.
// Both ends are the same program, so numbers are simply copied.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.h"

namespace backstep::timeline {

enum class Command : uint8_t {
  State,         // -> WorkerState
  Registers,     // tid -> Registers
  SetRegisters,  // tid, Registers
  Read,          // address, length -> bytes, as many as there are
  Write,         // address, bytes
  Stage,         // a part of the Taps, if they are too many for one message
  Install,       // Taps, or the last part of them
  AdmitDebug,    // with a debug module: its name, DebugMode, does it go on with the state that was told last?
  DebugState,    // with a file: the state to go on with, for AdmitDebug
  SaveDebug,     // with a file, for the state of the debug code
  LeaveDebug,    // it is gone
  Answered,      // to Answer::Asks: is this the last part, a part of a DebugAnswer
  LogTo,         // with a file: what taps log goes to its end
  Collect,       // end of the window -> bytes logged so far
  Counts,        // first tap -> TapCount of it and those behind it, as many as fit
  Run,           // Until, output -> Arrival, seconds of CPU
  Step,          // tid, count, range, Until, output -> Arrival
  Search,        // Until -> Found, seconds of CPU
  LastStep,      // tid, Position -> optional Position
  Steps,         // with a file: Position, most -> all steps up to there as StepRecords in the file; how many,
                 // dropped, end
  Words,         // with a file -> bytes in it: a packed recording::Contents; 0: it is not known
  Fork,          // with the new worker's socket
  Divert,        // tid: of the thread that is to run there; 0: the one that has the turn
  BreakHere,     // -> bool: one of the breakpoints is met at the present
  Siginfo,       // -> bytes of siginfo of the fault that comes next (asked of a fork)
  Maps,          // -> text
  Store,         // folder, process, earlier, patient, Written -> number, size, seconds
  Restore,       // folder, process, number
  Written,       // -> Written since the last time it was asked for
  Checksum,      // -> u32 of all registers and writable memory
  Interrupt,     // stops a Run or Search; ignored otherwise, never answered
  Exit,
};
enum class Answer : uint8_t {
  Ok,
  Failed,  // text, exit code
  Asks,    // no answer yet: a DebugQuestion, which waits for Answered
};

inline constexpr size_t kMaxMessage = 160 << 10;
inline constexpr size_t kMaxRead = 128 << 10;

class Packer {
 public:
  template <class T>
  Packer& put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    auto* p = reinterpret_cast<const uint8_t*>(&value);
    bytes_.insert(bytes_.end(), p, p + sizeof value);
    return *this;
  }
  Packer& put_bytes(const void* data, size_t n) {
    put(static_cast<uint32_t>(n));
    auto* p = static_cast<const uint8_t*>(data);
    bytes_.insert(bytes_.end(), p, p + n);
    return *this;
  }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(std::vector<uint8_t> bytes) : bytes_(std::move(bytes)) {}
  template <class T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    need(sizeof value);
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::vector<uint8_t> get_bytes() {
    auto n = get<uint32_t>();
    need(n);
    std::vector<uint8_t> result(bytes_.begin() + static_cast<ptrdiff_t>(at_),
                                bytes_.begin() + static_cast<ptrdiff_t>(at_ + n));
    at_ += n;
    return result;
  }
  std::string get_text() {
    auto b = get_bytes();
    return {b.begin(), b.end()};
  }

 private:
  void need(size_t n) const {
    if (bytes_.size() - at_ < n) throw Error("internal error: a message between our processes is cut off");
  }
  std::vector<uint8_t> bytes_;
  size_t at_ = 0;
};

}  // namespace backstep::timeline
