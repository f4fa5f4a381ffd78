// What the controller knows of a log without replaying it: where signals, turns and the end are, which files
// were mapped, and which moment belongs to an event's number.
#pragma once
#include <csignal>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "recording/library.h"
#include "recording/log_reader.h"
#include "replay/until.h"

namespace backstep::timeline {

// An event that happens at a control point.
struct Moment {
  uint64_t event = 0;
  uint64_t previous = 0;  // number behind the moment before; from there on this one is next
  recording::EventKind kind{};
  uint8_t flags = 0;
  uint16_t nr = 0;   // of the event header: system call, …
  bool made = true;  // Syscall: false if the recorder put it off (guest::kNotMade), to be made again
  Tick tick = 0;
  Address pc = 0;
  uint64_t wall_ns = 0;  // of the chunk that it is in

  // The first position that may be this moment: events without a control point that lie between the last one
  // and this may have been taken by then, or not. So positions are to be compared by these:
  replayer::Position position() const { return {tick, previous, pc}; }
  bool is_at(const replayer::Position& at) const {
    return at.tick == tick && at.event >= previous && at.event <= event && (pc == 0 || at.pc == pc);
  }
  bool is_before(const replayer::Position& at) const {
    if (tick != at.tick) return tick < at.tick;
    return at.event > event || (at.event >= previous && pc < at.pc);
  }
  bool is_behind(const replayer::Position& at) const { return !is_at(at) && !is_before(at); }
};

struct SignalMoment {
  Moment moment;
  int signo = 0;
  std::vector<uint8_t> siginfo;
};

// A system call that made a process, where it returns in the parent.
struct ForkMoment {
  Moment moment;
  int pid = 0;
  bool vfork = false;  // the child has had its parent's memory until its execve or end
  uint64_t child = 0;  // its log; of a child of vfork, that of the program that it executed. 0: not recorded
};

struct Turn {
  Tick tick = 0;   // the new thread runs from this tick on
  int thread = 1;  // virtual name
};

class LogIndex {
 public:
  // Of one process of the recording: its own log, and before it what its parent did until the fork. Events
  // are numbered through; `own` is the number of its own log's first one.
  LogIndex(const recording::Recording& recording, uint64_t process);

  const std::vector<SignalMoment>& signals() const { return signals_; }
  const std::vector<ForkMoment>& forks() const { return forks_; }  // vfork and the like as well
  const std::vector<Moment>& thread_starts() const { return thread_starts_; }
  const std::vector<Turn>& turns() const { return turns_; }  // the first is the start
  // The tick or, where the recording has a gap (Gap events), the one that the gap begins in.
  Tick before_gap(Tick tick) const {
    for (auto [from, to] : gaps_)
      if (tick > from && tick < to) return from;
    return tick;
  }
  // The length of the gap that ends with this tick; 0: none does.
  Tick gap_up_to(Tick tick) const {
    for (auto [from, to] : gaps_)
      if (tick == to) return to - from;
    return 0;
  }
  // The last moment whose state can be shown: in front of the instruction that ends the program.
  const Moment& last() const { return last_; }
  // How it ends there, in words; and the signal that it dies of there, or 0.
  const std::string& end_text() const { return end_text_; }
  int end_signal() const { return end_signal_; }
  bool ends_with_exec() const { return end_exec_; }
  // … because somebody wanted it to: Ctrl-C, or a kill that also ended the recorder. What was going on then
  // is what one wants to see.
  bool was_ended() const { return was_ended_; }
  // That signal was sent; it is not the doing of the last instruction.
  bool end_sent() const {
    return end_signal_ && ((last_.flags & recording::kAsynchronous) || end_signal_ == SIGKILL);
  }
  // The log of the program that it becomes there; 0: not recorded, or it does not.
  uint64_t successor() const { return successor_; }
  // The log of which this one's program is the successor, or whose process has spawned it; 0: it is the
  // first, or a forked one.
  uint64_t predecessor() const { return predecessor_; }
  // … and that process is another one.
  bool spawned() const { return spawned_; }

  struct File {
    std::string path, key;
    Address address = 0;
    uint64_t offset = 0;
  };
  const std::vector<File>& files() const { return files_; }

  uint64_t events() const { return events_; }
  // The number that a replay is at where a recorder was at `event`: notes that were written later come on
  // top.
  uint64_t behind_notes(uint64_t event) const {
    while (notes_.count(event)) event++;
    return event;
  }
  uint64_t own() const { return chain_.back().base; }
  uint64_t image() const {
    return chain_.front().file->header().process;
  }  // the log that its program began with
  uint64_t process() const { return chain_.back().file->header().process; }
  int pid() const { return static_cast<int>(chain_.back().file->header().pid); }
  // Where a forked process begins: behind the call, which returns 0.
  std::optional<replayer::Position> birth() const { return birth_; }
  // For each fork on the way to this process, the thread that made it (its virtual name): the child's first.
  const std::vector<int>& forking_threads() const { return forking_threads_; }
  // The moment of event `number`; for one that has no control point, the moment before it.
  std::optional<Moment> at(uint64_t number) const;
  // The first moment from event `from` on (or the last one before it) that `wanted` says yes to.
  std::optional<Moment> next_moment(uint64_t from, const std::function<bool(const Moment&)>& wanted) const;
  // Is one position before the other? At one moment the numbers of their next events may differ: those
  // without a control point may have been taken by then, or not.
  bool is_before(const replayer::Position& a, const replayer::Position& b) const;
  bool is_same(const replayer::Position& a, const replayer::Position& b) const {
    return a == b || (a.tick == b.tick && a.pc == b.pc && !is_before(a, b) && !is_before(b, a));
  }
  std::optional<Moment> previous_moment(uint64_t before,
                                        const std::function<bool(const Moment&)>& wanted) const;
  // Every event in order, from the chunk of event `from` on, with its bytes; false from `f` ends it.
  void each(uint64_t from, const std::function<bool(const Moment&, std::span<const uint8_t>)>& f) const;
  // Could it be this system call? Of those that do not return (exit, exit_group, execve) the log says only
  // that it was one of them, and of numbers beyond 16 bits that it was one. A call that was put off is none:
  // the program makes it only later.
  bool may_be_call(const Moment& moment, std::optional<uint64_t> nr) const;
  static bool returns(const Moment& call) { return call.kind == recording::EventKind::Syscall; }
  // The first system call from event `from` on (or the last one before it) that `wanted` says yes to.
  std::optional<Moment> next_call(uint64_t from, const std::function<bool(const Moment&)>& wanted) const;
  std::optional<Moment> previous_call(uint64_t before,
                                      const std::function<bool(const Moment&)>& wanted) const;
  Address start_stack() const { return start_stack_; }

 private:
  struct ChunkStart {
    recording::Chunk chunk;  // its events are numbered as in its log
    const recording::LogFile* file = nullptr;
    uint64_t base = 0;
    uint64_t previous = 0;
    uint64_t cut = ~0ull;  // from this event on another log counts
  };
  struct Log {
    std::unique_ptr<recording::LogFile> file;
    uint64_t base = 0, cut = ~0ull;
  };
  // Moments of one chunk in order; false from `f` ends it.
  void scan(const ChunkStart& start,
            const std::function<bool(const Moment&, std::span<const uint8_t>)>& f) const;
  size_t chunk_of(uint64_t event) const;
  void read(const Log& log);
  void note_fork(const Moment& m, const recording::Event& e);
  void find_relatives(const recording::Recording& recording);

  std::vector<Log> chain_;
  std::optional<replayer::Position> birth_;
  std::vector<int> forking_threads_;
  std::vector<ChunkStart> chunks_;
  std::vector<SignalMoment> signals_;
  std::vector<ForkMoment> forks_;
  std::vector<Moment> thread_starts_;
  std::vector<Turn> turns_{{0, 1}};
  std::vector<std::pair<Tick, Tick>> gaps_;  // from, to
  std::set<uint64_t> notes_;                 // events that say something to people
  std::map<uint64_t, uint64_t> children_;    // events that a child's log begins with, and that log
  struct Spawned {
    uint64_t event = 0, log = 0;  // the last event before the execve
  };
  std::multimap<int, Spawned> spawned_children_;  // by pid
  std::vector<Address> vforks_waiting_;           // while reading: calls whose child runs
  std::vector<File> files_;
  Moment last_;
  std::string end_text_;
  int end_signal_ = 0;
  bool was_ended_ = false, end_exec_ = false, end_call_ = false, spawned_ = false;
  uint64_t successor_ = 0, predecessor_ = 0;
  uint64_t events_ = 0;
  Address start_stack_ = 0;
};

}  // namespace backstep::timeline
