// What a replaying process looks out for, and what it does then.
//
// A *tap* is the worker's half of an event: a place in the code, a range of memory or a period of time; a
// condition; and an action. Actions other than Stop need nobody to answer: the replay goes on, in translated
// code where it can, and what was counted and logged is collected in bulk. Run calls a function of the debug
// module (debug_world.h).
#pragma once
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "engine/context.h"
#include "replay/bytecode.h"
#include "replay/until.h"

namespace backstep::replayer {

struct Tap {
  enum Kind : uint8_t {
    Pc,        // in front of the instruction at `start`
    Write,     // `length` bytes at `start` have changed
    Read,      // … are read
    Access,    // … are read or written to
    Store,     // … are written to, whatever is written
    Period,    // a multiple of `length` ticks
    Moment,    // `moments`
    Cover,     // which code is executed; logged once, at the end of the window; `length` 1: as straight code
    Contents,  // what is executed and written to; likewise
    Accesses,  // each load and store: bits of `length` say which, `data` and `code` where; of the thread with
               // the virtual name `start`, if that is not 0
    Trace,     // each store, packed, for the trace of a window; `length`: its level
    Words,     // which memory is written to; whoever replays takes it now and then (Replayer::take_words)
    // What the log knows, so that whoever has it turns these into moments (timeline/marks.cc); a replaying
    // process does not meet them by itself.
    Signal,  // in front of the delivery of one of `numbers`
    Call,    // a system call of these numbers: in front of it, or `after` it
    Fork,    // a call that makes a process; 0: of fork, 1: of vfork
  };
  enum Action : uint8_t { Stop, Count, Log, Run };

  Kind kind = Pc;
  Action action = Stop;
  Address start = 0;
  uint64_t length = 0;
  // Bytecode. Matches if one of them holds, or if there are none.
  std::vector<std::vector<uint8_t>> conditions = {};
  // A condition that cannot be evaluated does not hold, and is told of. Else it does: a debugger that stops
  // once too often is better than one that misses something.
  bool strict = false;
  std::vector<CapturedExpression> values = {};  // Log: what is written down …
  bool stack = false;                           // … and registers and stack, for a backtrace

  Address function = 0;  // Run: of the debug module, see probe/abi.h …
  bool vector = false;   // … which is told the vector registers …
  Address cookie = 0;    // … and this
  // … in whose name (its place in the list) it says what it has to say, if that is not this one.
  static constexpr uint32_t kOwn = ~0u, kNobodys = ~0u - 1;
  uint32_t owner = kOwn;

  // Moments that are known beforehand, from the log or because somebody named them.
  struct MomentAt {
    Position at;
    uint64_t event = 0;   // `after`: the match is behind this event, which happens there
    uint64_t number = 0;  // of the system call that it is, if it is known
  };
  std::vector<MomentAt> moments = {};
  std::set<uint64_t> numbers = {};  // of signals and calls; empty: any. Moments: what rax has to be there
  uint64_t since = 0;               // … of the log's events, those before this one do not count
  bool after = false;
  Tick from = 0, to = ~0ull;  // ticks in which it counts
  bool off = false;           // it is not installed, only keeps its place in the list

  struct Range {
    Address start = 0, end = 0;
  };
  std::vector<Range> data = {}, code = {};  // Accesses: memory and instructions that count; none: all
  // Bytecode of data: is this memory what is meant, at this moment? Empty: it always is. (A thread-local
  // variable's block may be freed and others use its memory.) What cannot be evaluated is not.
  std::vector<uint8_t> guard = {};
  static constexpr uint64_t kStores = 1, kLoads = 2;

  bool is_data() const { return kind >= Write && kind <= Store; }
  // Is it met at the first position of a tick, wherever that is?
  bool is_by_tick() const {
    if (kind == Period) return true;
    for (const MomentAt& m : moments)
      if (m.at.pc == 0) return true;
    return false;
  }
  bool is_of_log() const { return kind >= Signal; }
  bool asks_for(uint64_t number) const { return numbers.empty() || numbers.count(number); }
};

struct Taps {
  std::vector<Tap> list;
  int thread = 0;  // only what this one does counts; 0: any

  // Stops where something of the log happens.
  void stop_at(Tap::Kind kind, bool after, std::set<uint64_t> numbers = {}) {
    Tap tap;
    tap.kind = kind;
    tap.after = after;
    tap.numbers = std::move(numbers);
    list.push_back(std::move(tap));
  }
  void stop_at(Address pc, std::vector<std::vector<uint8_t>> conditions = {}) {
    Tap tap;
    tap.start = pc;
    tap.conditions = std::move(conditions);
    list.push_back(std::move(tap));
  }
  bool empty() const { return list.empty(); }
  bool any_by_tick() const {
    for (const Tap& t : list)
      if (t.is_by_tick()) return true;
    return false;
  }
  bool any_pc() const {
    for (const Tap& t : list)
      if (t.kind == Tap::Pc && !t.off) return true;
    return false;
  }
};

// The value of a record of Accesses.
struct AccessRecord {
  Address address;
  uint64_t old_value, new_value;  // the first bytes of what was there, and is there then
  uint32_t size;
  bool store, by_kernel;
  uint8_t pad[2];
};
static_assert(sizeof(AccessRecord) == 32);

// What debug code has to say is in records of the tap that has called it (or of kNobodys), in two values:
// what it is, as a u32, and the text. A failure, which has ended the call, and a complaint, which has not,
// have a third one: the registers of the debug code and its stack, as with Tap::stack.
enum class DebugNote : uint32_t {
  Output,   // to its standard output
  Errors,   // to its standard error
  Failure,  // a sentence
  Stop,     // the replay is to stop here: why
  Mark,     // this moment has a name
  Json,
  Complaint,  // a sentence: something that was asked for is not possible
};

// What a tap has met, since it was installed.
struct TapCount {
  uint64_t matches = 0;
  uint64_t failures = 0;  // conditions that could not be evaluated
};

// One match in a log: this, then each value as a u32 and its bytes. They are in the order of time.
struct TapRecord {
  uint32_t size;  // with all values
  uint32_t tap;   // its place in the list
  Tick tick;      // the position: see until.h
  uint64_t event;
  Address pc;
  int32_t thread;   // virtual name
  uint32_t values;  // how many follow
};
inline constexpr uint32_t kUnreadable = 1u << 31;  // in the length of a value: it could not be read

}  // namespace backstep::replayer
