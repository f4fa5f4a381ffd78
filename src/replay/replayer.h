// One replaying process: the guest's state, made from the log instead of from the world.
#pragma once
#include <csignal>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/fd.h"
#include "guest/process.h"
#include "recording/checkpoint_file.h"
#include "recording/checkpoint_series.h"
#include "recording/contents.h"
#include "recording/library.h"
#include "recording/log_reader.h"
#include "replay/agent_expression.h"
#include "replay/debug_world.h"
#include "replay/replay.h"
#include "replay/replay_hot.h"
#include "replay/reported_accesses.h"
#include "replay/steps.h"
#include "replay/tap_set.h"
#include "replay/until.h"
#include "replay/watched_memory.h"
#include "replay/written_pages.h"
#include "replay/written_words.h"

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
  // What it translated is kept for the next replay, but not if a stranger's program might have written it.
  void save_translations();
  std::string engine_statistics() const { return process_.engine().statistics(); }

  // --- step by step, for a debugger (replay_until.cc); instead of run() ---
  void start();  // to the first instruction
  Position position() const;
  // What run_until looks out for on its way. Throws Error if that cannot be done for one of them.
  void install(Taps taps);
  // What is logged goes to the end of this file; what has been, is there.
  void log_to(Fd file) { taps_.log_to(std::move(file)); }
  uint64_t flush_log() { return taps_.flush_log(); }
  // With a tap of the kind Words: what was written to since the last time, or since it was installed.
  // Nullopt: not known.
  std::optional<recording::Contents> take_words();
  void log_window();  // its end: which code was executed in it, what was written to
  // Debug code: the module that taps with the action Run call functions of. (It comes as an open file because
  // a replay may be confined to files of the recording.) Throws Error.
  // With `state` it goes on as save_debug left it; else it begins.
  void admit_debug(Fd file, const std::string& name, DebugMode mode, const Fd& state = Fd());
  void save_debug(const Fd& to) const;
  void leave_debug();  // it is gone, with all that it has asked for
  std::vector<TapCount> tap_counts() const { return taps_.counts(); }
  Arrival run_until(const Until& until);
  // One instruction of the thread with this tid: others run before and after it if they have the turn, and
  // may meet an event.
  Arrival step(int tid, const Until& until);
  // The last position before `end` (and from the present on) from which that thread takes a step.
  std::optional<Position> last_step_before(int tid, const Position& end);
  // All steps from the present up to `end`, the last `most` of them (replay_steps.cc).
  std::vector<StepRecord> steps_until(const Position& end, size_t most, uint64_t* dropped);
  // In a fork of this process: memory that is shared with it becomes our own.
  void after_fork();
  bool breakpoint_here();
  // Leaves history: from here on the guest may be changed, and system calls are not taken from the log.
  void divert();
  void divert_to(int tid);  // … in this thread
  bool diverted() const { return diverted_; }
  guest::Process& process() { return process_; }
  // The tid of a thread; a child of vfork, which shares its parent's, has a number of its own. In the replay
  // of a forked process the thread that it descends from has its pid from the start, so that a debugger takes
  // them for one.
  int id_of(const guest::Thread& thread) const;
  void know_forking_threads(const std::vector<int>& names);  // one for each fork on the way to the process
  // The signal that the instruction at the position raises; runs it, so ask in a fork.
  std::optional<siginfo_t> probe_fault();

  // --- checkpoints in files (stored_state.cc) ---
  // Can the present be stored?
  bool can_store() const;
  // Writes the present into one, with what has been written to since `written` began. Throws Error.
  uint64_t store(recording::CheckpointWriter& writer, const std::optional<recording::Written>& written);
  // The present becomes that of the file. Throws Error, and is of no use any more then.
  void restore(recording::CheckpointFolder& folder, uint64_t number);
  // What may have been written to since the last call of this (nullopt: not known), and since when.
  std::optional<recording::Written> written_since_last();

  // --- a whole tree (tree_worker.cc) ---
  // The log that begins with the fork at this event of that log; 0: none.
  std::function<uint64_t(uint64_t process, uint64_t event)> child_at;
  // Makes a copy of this process for such a log; true in the copy (after_fork), which goes on with it.
  std::function<bool(uint64_t process)> fork_off;

  // Checked now and then while the guest runs: true stops it at the next instruction.
  std::function<bool()> interrupted;
  // Conditions of watchpoints are about the state in front of the change: whoever searches backwards stops
  // there.
  bool backward = false;
  // What debug code asks and only the controller knows (DebugWorld::ask); before admit_debug.
  DebugAnswers debug_answers;

 private:
  bool peek(recording::EventHeader& header);  // false: no more events
  void unpack_state(std::span<const uint8_t> bytes, recording::CheckpointFolder& folder, uint64_t number);
  void look_ahead();
  void store_on_the_way();
  bool take(recording::Event& event);  // decodes and steps over the next event
  void prepare();                      // start image
  void choose_logs();
  void open_log(uint64_t process);
  bool follow_child();  // the fork at hand is where the log that is wanted goes on
  // The next event of this log is the fork that leads on to the log that is wanted.
  bool at_fork() const { return path_at_ < path_.size() && bs_replay.event == path_[path_at_].event; }
  uint64_t child_here() const { return child_at ? child_at(options_.process, bs_replay.event) : 0; }
  void begin_checkpoints();
  bool reached(
      const recording::Event& event);  // are we where this asynchronous event happened? Else it is the goal
  void step_to_goal();
  void check_progress();
  void react(const engine::Stop& stop);
  void set_memory(const recording::Event& event);
  void change_memory(const recording::Event& event);
  void leap(const recording::Event& gap);
  void on_syscall();
  void on_host_op(const isa::Insn& insn);
  void on_fault(const engine::FaultInfo& fault);
  void hold(const recording::Event& e, uint64_t nr, int64_t result);
  void after_call(uint64_t nr, int64_t result);
  // Behind a call whose waiting mask (rt_sigsuspend, ppoll …) counts until a handler or the end of the call.
  void end_of_call(uint64_t nr, const uint64_t args[6], int64_t result);
  // The turn passes from the current thread, at a call that waits or between two instructions.
  void pass_turn(const recording::Event& event);
  void apply_call(const recording::Event& event, const uint64_t args[6]);
  int64_t special(uint64_t nr, const uint64_t args[6], int64_t logged);
  void note_map_change(uint64_t nr, const uint64_t args[6], int64_t logged);
  void resize(const recording::Event& e);
  void change_live(const recording::Event& e);
  void apply_map(const recording::Event& event);
  int shared_file(const recording::Event& event,
                  int contents);  // the memory file that stands for a shared one
  int live_file(const recording::Event& event, int contents);
  void check_end(const recording::Event& event, recording::EndKind kind, int64_t status);
  void end(const recording::Event& event);
  bool goes_on_without_stack(int signo);
  void end_incomplete();
  [[noreturn]] void diverged(const recording::Event& event, const std::string& logged,
                             const std::string& now);
  std::string event_text(const recording::Event& event) const;

  ReplayOptions options_;
  recording::Library library_;
  recording::Recording recording_;
  std::unique_ptr<recording::LogFile> log_;
  recording::Chunk chunk_;  // that bs_replay is in
  guest::Process process_;
  std::set<std::string> verified_;
  std::map<std::pair<uint64_t, uint64_t>, Fd> shared_;  // by device and inode
  std::map<std::pair<uint64_t, uint64_t>, Fd> live_;    // … for one that is mapped privately and changed
  // A forked child's history is its parent's up to the fork: logs to go over to, each at an event of the one
  // before.
  struct Step {
    uint64_t process, event;
    int pid;
  };
  std::vector<Step> path_;
  size_t path_at_ = 0;
  // While path_at_ is i, [i] is the thread that the process's first one descends from; 0: none.
  std::vector<int> ancestors_;
  std::vector<std::vector<guest::KernelSigaction>> before_vfork_;  // of those that wait for a child of vfork
  std::optional<Outcome> outcome_;
  std::optional<ControlPoint> goal_;  // where the next event happens, in the middle of a computation
  bool shared_fault_ = false;         // the next event is a shared page, which an instruction is to fault on
  void advance(const Until& until, bool stepping);
  Arrival run_rounds(const Until& until);
  // --- long ways (replay_quick.cc) ---
  double quick_leg(const Until& until, Tick goal) const;
  engine::Stop run_quick(double leg, Tick goal);
  void set_timer(double seconds, Tick goal);
  void look_at_ticks(bool look);
  Arrival outcome_of_round();
  Arrival halt(Arrival::Why why);
  bool at_goal() const;
  bool turn_is_due();
  bool can_meet() const;
  bool meet_taps();
  bool meet_periods();
  bool meet_moments(const Position& now);
  Surroundings surroundings();
  bool counts() const;
  bool has_thread(int tid) const;
  void note_write(Address start, uint64_t length);
  bool look_up();
  void with_memory_open(const std::function<void()>& work);
  void note_conditions();
  void touch(size_t index);
  void compare_watched(const WatchedMemory::Hits& touched = {});
  // --- in a diversion (diverted_calls.cc) ---
  void diverted_syscall();
  std::optional<int64_t> diverted_result(uint64_t nr, const uint64_t args[6]);
  int64_t diverted_mmap(const uint64_t args[6]);
  int64_t diverted_futex(const uint64_t args[6]);
  int64_t give(uint64_t address, const void* data, size_t size);
  void diverted_host_op(const isa::Insn& insn);

  void note_alone();
  std::optional<engine::Stop> step_alone();
  void executed_since(recording::Written& written);
  void count_executed();

  WrittenPages written_{process_};
  WrittenWords words_{process_};
  // The mapping of [start, end) changes, or its contents from outside.
  void note_change(Address start, Address end);
  struct Executed {
    std::vector<engine::DataRange> sure;
    std::set<Address> maybe;  // instructions of which it is not known
  };
  Executed executed();
  std::vector<uint8_t> straight_code(uint64_t& gone) const;
  Position written_since_;
  std::optional<uint64_t> code_since_;            // how often the cache had been emptied then
  std::vector<recording::AddressRange> stepped_;  // pages of instructions that were executed outside of it

  TapSet taps_{process_};
  std::unique_ptr<DebugWorld> debug_;
  bool renew_callbacks();
  bool meet_debug();
  void meet_debug_here();
  engine::Stop run_guest();
  ReportedAccesses accesses_{process_, taps_};
  std::optional<ControlPoint> met_;        // where taps in code have been met already …
  std::optional<ControlPoint> debug_met_;  // … and debug code was called, by whichever taps
  // --- which code is executed (replay_cover.cc) ---
  struct Passing {  // on the way to the end of a block that was cut
    ControlPoint from;
    Address to;   // a breakpoint of ours
    Address end;  // of the block
  };
  void note_cut();
  std::optional<Passing> watch_cut();
  void note_passed(const Passing& passing);
  // Blocks of code that the guest was stopped in, each by where that was: its end. In the first ones nobody
  // knows whether their rest has been executed; in the others it has.
  std::map<Address, Address> cuts_, passed_;
  std::vector<TapSet::Due> after_;  // matches behind the event that comes next
  std::vector<bool> held_before_;   // by watchpoint: the condition held in front of what is being done
  WatchedMemory watch_{process_};
  bool watcher_counts_ = true;        // the thread that began the round is one that is asked for
  WatchedMemory::Hits written_here_;  // by the replayer itself, in this round
  std::optional<size_t> watch_hit_;   // in the last round …
  Position before_;                   // … which began here
  int thread_before_ = 0;             // who had the turn there: virtual name
  bool hold_signals_ =
      false;  // a signal, turn or gap from outside waits at its control point until deliver_ is set
  bool deliver_ = false;
  struct {
    uint64_t nr = 0;
    int64_t result = 0;
  } held_;  // the call that the waiting signal interrupted
  bool diverted_ = false;
  uint64_t event_base_ = 0;  // events of the ancestors' logs
  int diverted_signal_ = 0;
  std::set<uint64_t> refused_;  // calls that a diversion was told are not done
  unsigned rounds_ = 0;
  Tick timer_goal_ = 0;
  bool overshot_ = false;
  // run() makes checkpoints: looks at the clock at this tick.
  std::optional<recording::CheckpointSeries> series_;
  Tick look_at_ = ~0ull, looked_at_ = 0;
  double looked_cpu_ = 0, stored_cpu_ = 0;
  std::vector<Tick> stored_before_;  // ticks that have one already; the last is the next
  bool resume_call_ = false;         // the thread that got the turn stands in a call, whose result comes next
};

}  // namespace backstep::replayer
