// The present, and how to get from it to any other moment of a recording.
#pragma once
#include <chrono>
#include <functional>
#include <list>
#include <optional>
#include <set>
#include <string>

#include "timeline/log_index.h"
#include "timeline/stored_checkpoints.h"
#include "timeline/sweep.h"
#include "timeline/worker.h"

namespace backstep::timeline {

// What stops a movement besides breakpoints and watchpoints.
struct Wanted {
  std::set<int> passed_signals;  // those do not stop
  bool signals = true;
  bool forks = false;               // new processes, where the call that made them returns
  bool vforks = false;              // those of vfork, told apart; else they count as forks
  bool calls = false;               // system calls, before and behind
  std::set<uint64_t> call_numbers;  // empty: all

  static Wanted nothing() {
    Wanted w;
    w.signals = false;
    return w;
  }
};

// Where a movement ended and why.
struct Arrival {
  enum Why {
    Stepped,
    Break,
    Watch,
    Signal,      // in front of its delivery
    CallEntry,   // in front of the system call `nr`
    CallReturn,  // behind it
    Fork,        // behind the call that made the process `pid`
    Vfork,       // likewise; the process has left its parent's memory meanwhile
    Begin,       // of history
    End,
    Interrupted,
    Sought,   // where one wanted to go
    Missing,  // there is no such moment; as near behind it as there is one
  } why = Sought;
  Address address = 0;  // Watch
  uint8_t watch_kind = 0;
  int signo = 0;
  uint64_t nr = 0;
  int pid = 0;
  uint64_t child = 0;  // the log of that process, as in ForkMoment
};

struct CheckpointInfo {
  int id = 0;
  Position at;
  std::string note;
};

struct Window;

class Timeline {
 public:
  // `ear`: for the way to where a forked process begins, which may be long.
  Timeline(const ReplayOptions& options, const recording::Library& library,
           const recording::Recording& recording, const Attention& ear = {});

  const LogIndex& log() const { return log_; }
  const Position& now() const { return now_; }
  bool at_end() const {
    const Position end = log_.last().position();
    return now_.tick > end.tick ||
           (now_.tick == end.tick && (end.pc == 0 || (now_.pc == end.pc && now_.event >= end.event)));
  }
  // The worker to ask about the present: the diversion if there is one.
  Worker& present() { return diversion_ ? diversion_ : current_; }
  // A copy of the present that may be changed; gone with the next movement.
  Worker& divert();
  Worker& divert_to(int tid);  // … in which this thread has the turn
  // The present of the recorded run, whatever was changed in a diversion.
  Worker& recorded() { return current_; }
  bool diverted() const { return static_cast<bool>(diversion_); }
  uint64_t diversions() const { return diversions_; }  // so far
  void end_diversion() { diversion_ = Worker(); }

  // The controller's ear while workers run; set once.
  Attention attention;

  Arrival forward(const Taps& taps, const Wanted& wanted);
  // One instruction of a thread, or until it leaves a range.
  Arrival step(int tid, Address range_start, Address range_end, const Taps& taps, const Wanted& wanted);
  Arrival backward(const Taps& taps, const Wanted& wanted);
  Arrival step_back(int tid);
  Arrival go_to(const Position& target);
  Arrival go_to_start();
  Arrival go_to_birth();  // of a forked process; else the start
  Arrival go_to_end();
  // The call whose output holds `text`, or its first byte: the first one from event `from` on.
  std::optional<Moment> find_output(const std::string& text, uint64_t from);
  // Counts and logs over a stretch of the run (sweep.cc); the present stays where it is.
  Swept sweep(const Sweep& sweep);
  // Where a stretch is quick to begin: at ticks behind checkpoints, in the order of time.
  std::vector<Position> cuts() const;
  // In a diversion: runs on there.
  Halt run_diverted(const Taps& taps, std::optional<int> step_tid);

  int add_checkpoint(const std::string& note);
  std::vector<CheckpointInfo> checkpoints() const;
  bool remove_checkpoint(int id);
  std::optional<Arrival> restart(int id);
  size_t automatic_checkpoints() const;
  // Those in the recording.
  const StoredCheckpoints& stored() const { return stored_; }
  // Of the last movement: windows that were replayed, and that were known to hold no match.
  struct Searched {
    size_t replayed = 0, quiet = 0;
  };
  const Searched& searched() const { return searched_; }
  size_t overshot() const { return overshot_; }  // replays that came too far, and were made again
  // Waits until the one that is being written is complete.
  void finish_storing();
  // The checksum of all registers and memory (as `present().checksum()`) in a stored checkpoint; nullopt: it
  // cannot be restored.
  std::optional<uint32_t> stored_checksum(uint64_t number);

 private:
  struct Checkpoint {
    Position at;
    Worker worker;  // none: in the recording only
    int id = 0;     // 0: automatic
    std::string note;
    uint64_t stored = 0;  // number of its file; 0: none
  };
  using Clock = std::chrono::steady_clock;

  std::list<Checkpoint>::iterator nearest_before(const Position& at, bool inclusive);
  void keep(Worker& worker, const Position& at);  // an automatic checkpoint
  void thin();
  // Runs `worker` up to `point` without any taps; makes checkpoints on a long way. Where it got to.
  Halt run_to(Worker& worker, const Position& from, const Position& point);
  // A new worker at the checkpoint from which `wanted` is reached soonest.
  Worker worker_at(const Position& wanted, Position& at);
  // Moves the present forward over windows in which nothing can match. False: there are none here.
  bool pass_quiet(const Position& target, const Taps& taps);
  // What was written to stdout and stderr; nullopt: the log does not have all of it.
  std::optional<std::string> output_between(const Position& from, const Position& to) const;
  Worker& awake(std::list<Checkpoint>::iterator checkpoint);  // none: its file is no good
  double seconds_from(const Checkpoint& checkpoint, const Position& to) const;
  void store(Worker& worker, const Position& at, bool at_end);
  void gather_stored(bool wait);
  // Before a run: from where on it is to be known what was written to, if the run is long enough to matter.
  void count_written(Worker& worker, const Position& from, Tick to) const;
  void tell_notes();
  // The last match between `lowest` and the present (search_back.cc); why None: there is none, or
  // Interrupted.
  Halt search_back(const Taps& taps, const Position& lowest);
  bool start_again(Window& window);
  // A new worker at a checkpoint; none: its file is no good, and the checkpoint is gone.
  Worker worker_from(std::list<Checkpoint>::iterator checkpoint);
  void limit_slice();
  void learn(double seconds, Tick from, Tick to);
  void arrive(const Halt& halt);
  Arrival end_arrival();
  bool wanted_call(const Moment& m, const Wanted& wanted) const;
  // Something of the log that a movement stops for; it happens at its moment, or behind that.
  struct Mark {
    Moment moment;
    Arrival arrival;
  };
  std::optional<Mark> next_mark(const Wanted& wanted) const;
  std::optional<Mark> previous_mark(const Position& before, const Wanted& wanted) const;
  std::optional<Arrival> go_back_to(Mark mark, const Wanted& wanted);
  std::optional<Arrival> behind_call();
  // Where `mark` happens the present is; what is to be told of it. nullopt: nothing.
  std::optional<Arrival> tell(const Mark& mark, const Wanted& wanted);
  std::optional<Arrival> pay_forward(const Wanted& wanted);
  bool is_here(const Moment& moment) const;
  uint64_t call_number();  // of the call that the present stands in front of
  std::optional<Arrival> forward_part(const Taps& taps, const Wanted& wanted);
  Arrival step_call(int tid, const Taps& taps, const Wanted& wanted);

  LogIndex log_;
  StoredCheckpoints stored_;
  std::list<Checkpoint> checkpoints_;  // in the order of time; the first is the start
  Worker current_, diversion_;
  uint64_t diversions_ = 0;
  Position now_;
  // What of the present place has been told, by events. In the order of time: a breakpoint in front of the
  // call, the call; what it changed, the new process, its return, and a breakpoint behind it.
  std::optional<uint64_t> signal_here_, call_here_, fork_here_, return_here_;
  std::optional<uint64_t> passed_here_;  // a call that turned out not to be a wanted one
  bool break_here_ = false;
  std::optional<Mark> owed_forward_, owed_backward_;  // to be told next in that direction, here
  bool end_told_ = false;                             // the signal at the end was reported
  double ticks_per_second_ = 20e6;                    // measured
  double seen_ticks_ = 0, seen_seconds_ = 0;
  double fork_seconds_ = 0.002;
  double restore_seconds_ = 0.003;
  Tick slice_ = 1 << 18;
  int next_id_ = 1;
  bool wait_for_stored_;
  Searched searched_;
  size_t overshot_ = 0;
};

}  // namespace backstep::timeline
