// A gdb server for one recording: the remote protocol on one side, the timelines of its processes on the
// other.
#pragma once
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "probe/companion.h"
#include "recording/library.h"
#include "serve/debuggee.h"
#include "serve/packets.h"
#include "serve/recorded_files.h"

namespace backstep::serve {

class GdbServer {
 public:
  // `scripted`: what connects is a gdb with our script (gdb_script.cc).
  // `code` runs along in processes of the program that is looked at first. Throws Error, also if that cannot
  // be built.
  GdbServer(ReplayOptions options, recording::Library library, recording::Recording recording,
            probe::CompanionCode code, bool scripted);

  // Until the other side detaches, kills or goes. The place in time stays for the next one.
  enum class Left { Detached, Killed, Gone };
  Left serve(Fd socket);

 private:
  using Arrival = timeline::Arrival;

  // Breakpoints and watchpoints of one process.
  struct Points {
    std::map<std::pair<char, Address>, std::vector<std::vector<uint8_t>>> breaks;  // by type; with conditions
    std::map<std::tuple<char, Address, uint64_t>, timeline::Tap> watches;
    std::map<std::pair<Address, uint64_t>, std::vector<std::vector<uint8_t>>> watch_conditions;
  };
  // A process that gdb is told about: the one of the session, and others that it forks or that gdb attaches
  // to. Each has its own present; gdb moves one of them at a time.
  struct Attached {
    uint64_t log = 0;          // 0: it was not recorded
    Debuggee* view = nullptr;  // made when it is needed: most forked children are detached from at once
    Points points;
    bool at_birth = false;  // it has been forked, and not been looked at yet
    bool pending = false;   // gdb has heard of the fork and will detach from it, or keep it, when it moves on
    bool leave_due = false;   // … but the user has attached to it before that
    bool borrowed = false;    // what is shown is its parent: after a vfork gdb takes it to be in that one's
                              // memory still, and there is nothing else to show of one that was not recorded
    bool vfork_done = false;  // the parent of one: gdb waits to hear that it has its memory again
    std::optional<Arrival> gone_to;  // where it has gone without gdb's knowing; the next resume tells
    std::optional<timeline::Position> shown;  // of a watchpoint's hit there, gdb has seen the other side
    uint64_t change_to = 0;   // likewise, a log of the same process: the next resume tells it as an execve
    KeptLibraries libraries;  // that gdb has seen
    // What gdb could not be told while it had resumed only one thread: it hears of it with the next resume.
    struct Deferred {
      Arrival arrival;
      std::optional<timeline::Position> place;  // another thread's: nothing to tell any more elsewhere
    };
    std::deque<Deferred> deferred;
  };

  // Answers of one packet; nullopt: the session ends.
  std::optional<std::string> answer(const std::string& packet);
  std::string query(std::string_view packet);
  std::string transfer(std::string_view packet);   // qXfer
  std::string set_point(std::string_view packet);  // Z, z
  std::string resume(std::string_view packet);     // vCont
  enum Way { Forwards, Backwards, StepBack };
  // `thread`: gdb has resumed only this one (it steps over a breakpoint, or scheduler-locking is on), and
  // must not hear of a stop of another. 0: all.
  struct Resumed {
    Way way = Forwards;
    int thread = 0;
    bool step = false;
  };
  Arrival heard(const std::function<Arrival()>& movement);
  std::string move(const std::function<Arrival()>& wanted, const Resumed& resumed);
  std::optional<std::string> step_over(const timeline::Position& from,
                                       const std::function<Arrival()>& movement, Arrival& arrival,
                                       int thread);
  std::optional<std::string> tell_deferred(const Resumed& resumed);
  std::string resume_back(bool step);  // bc, bs
  std::string stop_of(int thread, std::string_view head);
  std::string stop_of(int thread, const timeline::Registers& registers, std::string_view head);
  bool steps_over_breakpoint(const Resumed& resumed);
  Arrival with_old_value(const Arrival& arrival, bool backward);
  std::string run_diverted(std::optional<int> step_tid);
  std::string step_aside(int thread);
  std::string stop_reply(const Arrival& arrival);
  std::string stop_reply(std::string_view head);
  std::string registers(std::string_view packet);  // g G p P
  std::string memory(std::string_view packet);     // m M X
  std::string rcmd(std::string_view hex);
  std::string undone_text(const Arrival& arrival);
  std::string watch_condition(const std::string& line);
  void give_code(Debuggee& debuggee);
  void tell_note(Debuggee& debuggee, const probe::Note& note);
  void tell(const std::string& text);  // on gdb's console; only while it waits for a stop
  std::string diverted_text(bool asked);
  std::string thread_local_variable(std::string_view packet);  // qGetTLSAddr
  std::string region_info(std::string_view packet);            // qMemoryRegionInfo
  std::optional<std::string> proc_file(const std::string& path);
  std::optional<std::string> proc_link(const std::string& path);

  // The processes (gdb_processes.cc).
  Attached& selected();  // throws Error if gdb has detached from all
  Debuggee& at();        // … and all that is known of it
  timeline::Timeline& timeline() { return at().timeline; }
  Debuggee& held(uint64_t log);                                   // made if need be; throws Error
  static std::optional<int> process_of(std::string_view thread);  // 0: none in particular
  bool select(std::string_view thread);
  void select_to_continue();
  void attach(uint64_t log);
  std::optional<std::string> detach(int pid);
  std::string attach_packet(std::string_view packet);
  std::string run_again();  // vRun
  // Tells gdb that the selected process is about another program from now on.
  enum Where { Start, End, Stay };
  std::string change_program(uint64_t log, Where where);
  // A movement has come to the end or the beginning of its log: the log behind or before that, if there is
  // one.
  std::optional<std::string> beyond(const Arrival& arrival, Way way);
  std::optional<std::string> pending_reply();
  std::string fork_head(const Arrival& arrival);
  std::string before_the_beginning();
  std::string process_command(const std::vector<std::string>& words);
  std::string list_processes();
  std::vector<std::string> thread_ids();

  std::string thread_id(int tid) const { return thread_id(pid_, tid); }
  std::string thread_id(int pid, int tid) const;
  std::optional<int> parse_thread(std::string_view text) const;  // -1 all, 0 any
  int general_thread();
  timeline::Taps stops(int thread = 0);
  bool was_interrupted();

  const ReplayOptions options_;
  const recording::Library library_;
  const recording::Recording recording_;
  const bool scripted_;
  const probe::CompanionCode code_;
  std::unique_ptr<probe::Companion> companion_;         // made with the first process
  std::map<uint64_t, std::unique_ptr<Debuggee>> held_;  // by log
  uint64_t uses_ = 0;
  uint64_t last_log_;                 // that was selected: what the next gdb finds, and `run` starts again
  std::map<int, Attached> attached_;  // by pid
  int pid_ = 0;                       // of the selected one
  bool moved_ = false;                // by the last command that a script tried
  uint64_t attach_to_ = 0;            // which log `monitor process` has chosen for the next attach
  RecordedFiles files_;
  uint64_t files_of_ = 0;  // which log's they are
  timeline::Attention ear_;
  PacketStream* stream_ = nullptr;
  std::map<std::string, bool> has_probes_;  // by library

  bool multiprocess_ = false, swbreak_ = false, hwbreak_ = false, exec_events_ = false, extended_ = false;
  int general_ = 0, continue_pid_ = 0, continue_tid_ = 0;  // 0: any
  int steps_back_ = 0;  // the thread that the user has selected for that; 0: that with the turn
  // What gdb wants to hear of, besides its breakpoints and watchpoints.
  struct {
    std::set<int> passed_signals;  // those do not stop
    bool forks = false, vforks = false;
    bool calls = false;               // system calls, before and behind
    std::set<uint64_t> call_numbers;  // empty: all
  } caught_;
  std::string last_stop_ = "T05";
  bool told_diverted_ = false;
  unsigned steps_at_end_ = 0;                                         // that were not told that they are
  std::optional<std::chrono::steady_clock::time_point> interrupted_;  // a Ctrl-C that came while nothing ran
};

}  // namespace backstep::serve
