// Debug code in a replaying process: loaded once, called where taps with the action Run are met.
//
// What holds: when a call is over, however that came, the guest is what it was in every bit that it can see:
// registers, flags, vector registers, FS base, ticks, memory. Nothing that debug code does reaches the log,
// and no event is taken from that meanwhile. The one exception is what it writes to files, which is the
// user's wish.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "engine/engine.h"
#include "guest/process.h"
#include "replay/debug_hot.h"
#include "replay/debug_memory.h"
#include "replay/tap_set.h"
#include "replay/undone_writes.h"

namespace backstep::replayer {

class DebugWorld : private guest::MapListener {
 public:
  DebugWorld(guest::Process& process, TapSet& taps) : process_(process), taps_(taps), undo_(process) {}
  ~DebugWorld() override { process_.map.set_listener(nullptr); }
  DebugWorld(const DebugWorld&) = delete;
  DebugWorld& operator=(const DebugWorld&) = delete;

  // Asked now and then while debug code runs: true ends the call.
  std::function<bool()> interrupted;

  // Takes the module in and runs it until it is ready. Throws Error, and this process is of no use any more.
  void load(const std::string& elf);
  // Calls the tap's function in the present, which is `at`, and comes back when that is over.
  void call(const HotTap& tap, const Position& at, int thread);
  // The engine has stopped in debug code that was called in translated code: goes on until that is over.
  // Nullopt: the guest can go on.
  std::optional<engine::Stop> finish(const engine::Stop& stop);
  // What it wants to do at the end.
  void end_of_window(const Position& at, int thread);

 private:
  enum class Next { GoOn, Over };

  // The guest may come to want memory where the debug code has it: that is the end of this replay.
  void on_add(const guest::Region& r) override;
  void on_remove(uint64_t, uint64_t) override {}
  void on_protect(uint64_t, uint64_t, int) override {}

  void set_aside(const Position& at, int thread);
  void give_back();
  void begin(Address function, bool vector);
  void run_to_end(std::optional<engine::Stop> stop);
  Next react(const engine::Stop& stop);
  Next on_fault(const engine::FaultInfo& fault);
  Next on_host_op(const isa::Insn& insn);
  Next on_checked_store(std::optional<engine::Stop>& inner);
  Next on_clock();
  Next cross();
  Next fail(const std::string& sentence);
  void note(DebugNote kind, std::string_view text);

  // --- debug_calls.cc ---
  Next on_call();
  Next request(uint64_t nr, const uint64_t args[6]);
  std::optional<int64_t> memory_call(uint64_t nr, const uint64_t args[6]);
  std::optional<int64_t> file_call(uint64_t nr, const uint64_t args[6]);
  std::optional<int64_t> identity_call(uint64_t nr, const uint64_t args[6]);
  std::optional<std::string> refusal(uint64_t nr, const uint64_t args[6]) const;
  int64_t open_file(uint64_t nr, const uint64_t args[6]);
  int64_t output(int fd, Address from, uint64_t length);
  std::optional<int64_t> write_call(uint64_t nr, const uint64_t args[6]);
  std::optional<std::string> text_at(Address at, uint64_t length) const;
  int64_t return_addresses(Address to, uint64_t bytes) const;
  int real_file(uint64_t number) const;  // -1: there is none
  // --- debug_program_calls.cc ---
  Next program_call();
  std::optional<int64_t> program_result(uint64_t nr, const uint64_t args[6]);
  int64_t program_gets(Address to, const void* data, uint64_t size);

  guest::Process& process_;
  TapSet& taps_;
  UndoneWrites undo_;
  DebugMemory memory_;
  std::map<int, Fd> files_;  // of the debug code, by its numbers for them
  std::string failure_;      // of the call that is over
};

// A clock that ends endless debug code runs while this lives.
class DebugClock {
 public:
  explicit DebugClock(bool wanted);
  ~DebugClock();
  DebugClock(const DebugClock&) = delete;
  DebugClock& operator=(const DebugClock&) = delete;

 private:
  bool wanted_;
};

}  // namespace backstep::replayer
