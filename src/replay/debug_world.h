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
#include <utility>
#include <vector>

#include "base/fd.h"
#include "engine/engine.h"
#include "guest/process.h"
#include "replay/debug_hot.h"
#include "replay/debug_memory.h"
#include "replay/debug_questions.h"
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

  // Answers what only the controller knows, at once.
  DebugAnswers ask;
  DebugMode mode = DebugMode::Window;

  // Takes the module in and runs it until it is ready. Throws Error, and this process is of no use any more.
  void load(const guest::ElfImage& elf);
  // Calls the tap's function in the present, and comes back when that is over. It was met at `at`.
  void call(const HotTap& tap, const Surroundings& around, const Position& at, int thread);
  // The engine has stopped in debug code that was called in translated code: goes on until that is over.
  // No stop: the debug code can go on as it is. Nullopt: the guest can go on.
  std::optional<engine::Stop> finish(const std::optional<engine::Stop>& stop);
  // What it has said before it was ready.
  void tell_what_was_early(const Position& at);
  // Its state, for another process (debug_state.cc), which has none. Throws Error.
  void save(const Fd& to) const;
  void restore(const guest::ElfImage& elf, const Fd& from);
  // What has been done since it was loaded cannot be done a second time, from an earlier moment.
  bool has_acted() const { return acted_ || bs_debug.calls > 1; }
  // Did it want to stop here? Once.
  bool take_stop() { return std::exchange(stop_, false) && !is_silent(); }

  // --- debug_callbacks.cc ---
  bool callbacks_changed() const { return callbacks_changed_; }
  struct Changes {
    bool data = false;      // taps on memory have come or gone
    std::set<size_t> gone;  // taps that are not there any more; others may have their numbers now
  };
  // Puts in and takes out what has been asked for; while no tap is being met.
  Changes set_callbacks(const Position& now, bool fresh = false);
  // All of them, after other taps have been installed.
  void set_callbacks_again(const Position& now);
  // Of taps that are about to be installed, those whose functions are not to be called any more.
  void leave_out(Taps& taps) const;
  // What it wants to do at the end.
  void end_of_window(const Position& at, int thread);

 private:
  enum class Next { GoOn, Over };

  // The guest may come to want memory where the debug code has it: that is the end of this replay.
  void on_add(const guest::Region& r) override;
  void on_remove(uint64_t, uint64_t) override {}
  void on_protect(uint64_t, uint64_t, int) override {}

  static constexpr uint32_t kNoTap = ~0u;
  struct Callback {
    Address function = 0, cookie = 0;
    uint32_t owner = 0;
    uint64_t kind = 0;      // what has been asked for …
    backstep_on what = {};  // (without its text)
    std::string text = {};
    std::vector<Tap> taps = {};        // … what that is
    std::vector<size_t> indexes = {};  // … in the set; empty: not yet
  };

  void set_aside(const Position& at, int thread);
  void give_back();
  struct Call {
    Address function = 0, cookie = 0;
    bool vector = false;
  };
  void begin(const Call& what, const DebugEvent& event);
  void run_to_end(std::optional<engine::Stop> stop);
  Next react(const engine::Stop& stop);
  Next on_fault(const engine::FaultInfo& fault);
  Next on_host_op(const isa::Insn& insn);
  Next on_checked_store(std::optional<engine::Stop>& inner);
  Next on_clock();
  Next cross();
  Next fail(const std::string& sentence);
  bool is_silent() const;
  void complain(const std::string& sentence);
  void note(DebugNote kind, std::string_view text);
  void note_with_stack(DebugNote kind, const std::string& sentence);

  // --- debug_calls.cc ---
  Next on_call();
  Next request(uint64_t nr, const uint64_t args[6]);
  std::optional<int64_t> memory_call(uint64_t nr, const uint64_t args[6]);
  std::optional<int64_t> file_call(uint64_t nr, const uint64_t args[6]);
  std::optional<int64_t> identity_call(uint64_t nr, const uint64_t args[6]);
  std::optional<std::string> refusal(uint64_t nr, const uint64_t args[6]) const;
  int64_t open_file(uint64_t nr, const uint64_t args[6]);
  int64_t output(int fd, Address from, uint64_t length);
  void tell_of_confinement(Address path);
  static int64_t silent_write(uint64_t nr, const uint64_t args[6]);
  std::optional<int64_t> write_call(uint64_t nr, const uint64_t args[6]);
  std::optional<std::string> text_at(Address at, uint64_t length) const;
  std::optional<std::string> string_at(Address at, uint64_t most) const;
  int real_file(uint64_t number) const;  // -1: there is none
  // --- debug_callbacks.cc ---
  int64_t on(const uint64_t args[6]);
  int64_t off(uint64_t id);
  void retire();
  std::string find_taps(Callback& callback, int64_t& error) const;
  std::string tap_of(uint64_t kind, const backstep_on& what, Tap& tap) const;
  int64_t tell_stack(const uint64_t args[6]);
  std::vector<uint8_t> guests_stack() const;
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
  bool stop_ = false;        // somebody is to stop here
  bool acted_ = false;       // it has said something, or changed files
  bool told_of_confinement_ = false;
  std::map<int, Callback> callbacks_;
  std::set<size_t> gone_;  // taps of callbacks that are not wanted any more
  bool callbacks_changed_ = false;
  int next_callback_ = 1;
  std::set<Address> retired_;                             // functions that have run for too long once
  std::vector<std::pair<DebugNote, std::string>> early_;  // before it was ready
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
