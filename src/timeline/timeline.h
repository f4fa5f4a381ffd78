// The present, and how to get from it to any other moment of a recording.
#pragma once
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "timeline/log_index.h"
#include "timeline/stored_checkpoints.h"
#include "timeline/stored_contents.h"
#include "timeline/stored_traces.h"
#include "timeline/sweep.h"
#include "timeline/worker.h"

namespace backstep::timeline {

struct CheckpointInfo {
  int id = 0;
  Position at;
  std::string note;
};

struct Window;
class WindowPool;
struct Slicing;

// Debug code that runs as the present moves.
struct DebugCode {
  std::string module;              // its file
  Taps places;                     // with the action Run
  replayer::DebugAnswers answers;  // as in Sweep
  // What it prints is told, too; else it goes where the program's output goes (Attention).
  bool tell_output = false;
  // What it has said.
  std::function<void(const replayer::TapRecord& record, const uint8_t* values)> tell;
  // Whoever goes to another moment keeps the state that the debug code has. Else the state goes along with
  // the time: at each moment it is what it would be had the code run from the beginning up to there.
  bool keep = false;
};

class Timeline {
 public:
  // `ear`: for the way to where a forked process begins, which may be long.
  Timeline(const ReplayOptions& options, const recording::Library& library,
           const recording::Recording& recording, const Attention& ear = {});
  ~Timeline();

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

  // From here on, in each movement forward that repeats the program's output; others are gone for their ends,
  // and nothing is told. Throws Error. (timeline_debug.cc)
  void run_debug(DebugCode code);
  void end_debug();

  Arrival forward(const Taps& taps);
  // One instruction of a thread, or until it leaves a range.
  Arrival step(int tid, Address range_start, Address range_end, const Taps& taps);
  Arrival backward(const Taps& taps);
  // What happens at the present place is not what the next movement looks for.
  void leave_here(bool forward) { phase_ = forward ? Phase::Next : Phase::Changed; }
  // The present was reached from behind (from the log that an execve began): the next movement backwards
  // finds what happens at this place, too.
  void come_from_behind() { phase_ = Phase::Beyond; }
  Arrival step_back(int tid);
  Arrival go_to(const Position& target);
  Arrival go_to_start();
  Arrival go_to_birth();  // of a forked process; else the start
  Arrival go_to_end();
  Arrival end_arrival();  // what is to be told at the end: once the signal that ended the program, then End
  // The last match of taps that replaying processes meet, before `before` and not before `lowest`; the
  // present stays. why None: there is none.
  Arrival last_before(const Taps& taps, const Position& before, const Position& lowest);
  Position first() const { return checkpoints_.front().at; }  // of all that can be replayed
  // Every step (replay/steps.h) from the first position of tick `from` up to `to`; the present stays.
  // Nullopt: somebody wants to stop.
  std::optional<Worker::Steps> steps(Tick from, const Position& to, uint64_t most);
  // The call whose output holds `text`, or its first byte: the first one from event `from` on. To stdout or
  // stderr; if it is never written there, to any descriptor.
  std::optional<Moment> find_output(const std::string& text, uint64_t from);
  // Likewise, the call that read it.
  std::optional<Moment> find_input(const std::string& text, uint64_t from) const;
  // Counts and logs over a stretch of the run (sweep.cc); the present stays where it is.
  Swept sweep(const Sweep& sweep);
  // While this is set sweeps only add up what they would replay, and find nothing.
  struct Outlook {
    size_t windows = 0, quiet = 0;  // that would be replayed; that are known to hold no match
    Tick ticks = 0;                 // of those that would be
  };
  Outlook* outlook = nullptr;
  // Makes the tables of contents (stored_contents.h) of a stretch that are not there yet, and on the way the
  // checkpoints that are missing. Throws Error: one cannot be written.
  struct Made {
    size_t windows = 0, unknown = 0;  // tables that were made, and that could not be
    bool complete = true;             // false: somebody wanted to stop
    size_t reduced = 0;               // traces, to stay within the budget
  };
  Made make_contents(const Position& from, const Position& to,
                     const std::function<void(double done)>& progress);
  // The same in parts, for who has them made elsewhere. First the parts of a stretch that have no table yet,
  // once all checkpoints are there that cut them into windows; nullopt: somebody wanted to stop.
  struct Span {
    Position from, to;  // [from, to)
  };
  std::optional<std::vector<Span>> missing_contents(const Position& from, const Position& to);
  // … the windows of one of them;
  std::vector<Span> windows_in(const Span& span) const;
  // … and what a replay of one or more of these finds: Sweep::contents. `most` windows at a time, 0: one on
  // each processor. False: somebody wanted to stop. `divide`: as in Sweep.
  bool sweep_contents(const Span& span, size_t most, const std::function<void(double done)>& progress,
                      const decltype(Sweep::contents)& found, bool divide = false);
  StoredContents& contents() { return contents_; }
  // Likewise traces (stored_traces.h) of that level, and tables of contents where there are none.
  Made make_traces(int level, const Position& from, const Position& to,
                   const std::function<void(double done)>& progress);
  StoredTraces& traces() { return traces_; }
  // Where a stretch is quick to begin: at ticks behind checkpoints, in the order of time.
  std::vector<Position> cuts() const;
  // In a diversion: runs on there.
  Arrival run_diverted(const Taps& taps, std::optional<int> step_tid);

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
  Arrival run_to(Worker& worker, const Position& from, const Position& point);
  // A new worker at the checkpoint from which `wanted` is reached soonest.
  std::optional<Moment> find_shown_output(const std::string& text, uint64_t from);
  std::optional<Moment> find_other_output(const std::string& text, uint64_t from);
  Worker worker_at(const Position& wanted, Position& at);
  // Can none of the taps have matched between the two moments? False: perhaps.
  bool quiet(const Position& from, const Position& to, const Taps& taps);
  // Ticks between them in which alone the taps can match, as far as traces know.
  StoredTraces::Ticks ticks_of(const Position& from, const Position& to, const Taps& taps);
  // A window that begins at `low` and ends before `to`, whose trace has all that a sweep asks for.
  std::optional<Window> traced_window(const Sweep& sweep, const Position& low, const Position& to);
  // The parts of a stretch that are not in a window that `find` finds.
  std::vector<Span> holes(const Position& from, const Position& to,
                          const std::function<std::optional<Span>(const Position&)>& find) const;
  // Moves the present forward over windows in which nothing can match. False: there are none here.
  bool pass_quiet(const Position& target, const Taps& taps);
  // What was written to stdout and stderr; nullopt: the log does not have all of it.
  std::optional<std::string> output_between(const Position& from, const Position& to) const;
  replayer::DebugAnswers with_log(const replayer::DebugAnswers& answers) const;
  // A worker at `wanted` or before it that may become the present.
  Worker present_at(const Position& wanted, Position& at);
  bool keeps_debug() const { return debug_ && debug_->keep; }
  void take_debug_from(Worker& before);  // to the present's worker
  Taps with_debug(const Worker& worker, const Taps& taps) const;
  void enter_debug();
  void log_debug(Worker& worker);
  void tell_debug(Worker& worker, bool at_end = false);
  Worker& awake(std::list<Checkpoint>::iterator checkpoint);  // none: its file is no good
  double seconds_from(const Checkpoint& checkpoint, const Position& to) const;
  void store(Worker& worker, const Position& at, bool at_end);
  // A checkpoint in the recording at the end of a part of a window. False: there is none.
  bool store_in_window(Worker& worker, const Position& from, const Position& at);
  void gather_stored(bool wait);
  // Before a run: from where on it is to be known what was written to, if the run is long enough to matter.
  void count_written(Worker& worker, const Position& from, Tick to) const;
  void tell_notes();
  // The last match between `lowest` and the present (search_back.cc); why None: there is none, or
  // Interrupted.
  Arrival search_back(const Taps& taps, const Position& lowest);
  // A window is looked through in parts (search_sliced.cc). False: somebody wants to stop.
  bool worth_slicing(const Position& low, const Position& high, const Taps& taps) const;
  bool begin_slicing(WindowPool& pool, Window& window);
  bool go_on_slicing(WindowPool& pool, Window& window);
  bool begin_part(WindowPool& pool, Window& window);
  // For workers that have come too far: the window's, and the one of the present.
  bool start_again(Window& window);
  bool start_again();
  Arrival run_slice(const Until& until);  // of the present's worker, with output
  // A new worker at a checkpoint; none: its file is no good, and the checkpoint is gone.
  Worker worker_from(std::list<Checkpoint>::iterator checkpoint);
  void limit_slice();
  void learn(double seconds, Tick from, Tick to);
  void arrive(const Arrival& halt);
  Arrival pass_put_off(Arrival halt);

  // What of a tap's matches the log itself knows (marks.cc).
  struct Mark {
    Moment moment;
    // In front of it; behind it, that it made a process, and that it has returned.
    bool front = false, forked = false, returned = false;
    const SignalMoment* signal = nullptr;  // it is one
    const ForkMoment* fork = nullptr;
    bool behind() const { return forked || returned; }
    bool any() const { return front || behind(); }
  };
  // Several things may happen at one place; this is their order. The present is in front of what comes
  // next there, and what was told last is known by it.
  enum class Phase : uint8_t {
    Changed,   // what the call or instruction before has changed
    Forked,    // … that it made a process
    Returned,  // … its return
    Place,     // breakpoints. Who comes here in any other way stands behind them.
    Next,      // the signal that is delivered here, the call that is made here
    Done,      // … what that changed, coming from behind
    Beyond,    // … all of it, and a breakpoint as well
  };
  // Taps by who meets them: replaying processes, and the log.
  struct Split {
    Taps worker, log;
  };
  Split split(const Taps& taps) const;
  Taps with_moments(const Taps& taps, bool all) const;
  Mark mark_of(const Moment& moment, const Taps& taps) const;
  std::optional<Mark> next_mark(const Taps& taps) const;
  std::optional<Mark> previous_mark(const Taps& taps) const;
  // Where a mark is the present is; what is to be told of it. nullopt: nothing.
  std::optional<Arrival> tell_front(const Mark& mark, const Taps& taps);
  std::optional<Arrival> tell_behind(const Taps& taps);
  std::optional<Arrival> go_back_to(const Mark& mark, const Taps& taps);
  std::optional<Arrival> behind_call();
  void stand_behind(uint64_t call, uint64_t nr);
  bool is_here(const Moment& moment) const;
  uint64_t call_number();  // of the call that the present stands in front of
  bool asks_for_call(const Taps& taps, bool after, uint64_t nr) const;
  std::optional<Arrival> forward_part(const Split& taps);
  Arrival step_call(int tid, const Mark& mark, const Split& taps);
  Arrival step_in(int tid, Address range_start, Address range_end, const Split& taps);

  LogIndex log_;
  StoredCheckpoints stored_;
  StoredContents contents_;
  StoredTraces traces_;
  std::unique_ptr<Slicing> slicing_;
  std::list<Checkpoint> checkpoints_;  // in the order of time; the first is the start
  Worker current_, diversion_;
  std::optional<DebugCode> debug_;
  Worker debug_start_;       // where the process begins, with debug code that has only begun, …
  Position debug_from_;      // … which is here
  Fd debug_log_;             // of the present's worker
  uint64_t debug_told_ = 0;  // bytes of it
  uint64_t diversions_ = 0;
  Position now_;
  Phase phase_ = Phase::Place;
  // Up to Returned: the call that has returned here.
  struct Behind {
    uint64_t event = 0, nr = 0;
  };
  std::optional<Behind> behind_;
  bool end_told_ = false;           // the signal at the end was reported
  double ticks_per_second_ = 20e6;  // measured
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
