// One replaying process: the guest's state, made from the log instead of from the world.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/fd.h"
#include "guest/process.h"
#include "recording/library.h"
#include "recording/log_reader.h"
#include "replay/replay.h"
#include "replay/replay_hot.h"

namespace backstep::replayer {

// How a replay ended.
struct Outcome {
  bool complete = false;  // reached the End event
  recording::EndKind kind{};
  int64_t status = 0;
  Tick ticks = 0;
  uint64_t events = 0;
  std::string incomplete;  // a sentence: why the log ends without an end
  bool damaged = false;    // … and that is because it was damaged
};

class Replayer {
 public:
  Replayer(const ReplayOptions& options, const recording::Library& library, recording::Recording recording);

  // Replays to the end. Throws Error with kExitDivergence where replay and log differ.
  Outcome run();

 private:
  bool peek(recording::EventHeader& header);  // false: no more events
  bool take(recording::Event& event);         // decodes and steps over the next event
  void prepare();                             // start image
  void choose_logs();
  void open_log(uint64_t process);
  bool follow_child();
  // The next event of this log is the fork that leads on to the log that is wanted.
  bool at_fork() const { return path_at_ < path_.size() && bs_replay.event == path_[path_at_].event; }  // the fork at hand is where the log that is wanted goes on
  bool reached(
      const recording::Event& event);  // are we where this asynchronous event happened? Else it is the goal
  void step_to_goal();
  void react(const engine::Stop& stop);
  void set_memory(const recording::Event& event);
  void change_memory(const recording::Event& event);
  void on_syscall();
  void on_host_op(const isa::Insn& insn);
  void on_fault(const engine::FaultInfo& fault);
  void after_call(uint64_t nr, int64_t result);
  // Behind a call whose waiting mask (rt_sigsuspend, ppoll …) counts until a handler or the end of the call.
  void end_of_call(uint64_t nr, const uint64_t args[6], int64_t result);
  // The turn passes from the current thread, at a call that waits or between two instructions.
  void pass_turn(const recording::Event& event);
  void apply_call(const recording::Event& event, const uint64_t args[6]);
  int64_t special(uint64_t nr, const uint64_t args[6], int64_t logged);
  void apply_map(const recording::Event& event);
  int shared_file(const recording::Event& event,
                  int contents);  // the memory file that stands for a shared one
  void check_end(const recording::Event& event, recording::EndKind kind, int64_t status);
  void end(const recording::Event& event);
  void end_without_stack();
  void end_incomplete();
  [[noreturn]] void diverged(const recording::Event& event, const std::string& logged,
                             const std::string& now);
  std::string event_text(const recording::Event& event) const;

  ReplayOptions options_;
  recording::Library library_;
  recording::Recording recording_;
  std::unique_ptr<recording::LogFile> log_;
  guest::Process process_;
  std::set<std::string> verified_;
  std::map<std::pair<uint64_t, uint64_t>, Fd> shared_;  // by device and inode
  // A forked child's history is its parent's up to the fork: logs to go over to, each at an event of the one
  // before.
  struct Step {
    uint64_t process, event;
  };
  std::vector<Step> path_;
  size_t path_at_ = 0;
  std::vector<std::vector<guest::KernelSigaction>> before_vfork_;  // of those that wait for a child of vfork
  std::optional<Outcome> outcome_;
  std::optional<ControlPoint> goal_;  // where the next event happens, in the middle of a computation
  bool shared_fault_ = false;         // the next event is a shared page, which an instruction is to fault on
  bool resume_call_ = false;  // the thread that got the turn stands in a call, whose result comes next
};

}  // namespace backstep::replayer
