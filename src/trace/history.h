// A recording as tables and functions ask it: all its logs, and a session for each process that is replayed.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "events/recorded_call.h"
#include "recording/library.h"
#include "recording/process_facts.h"
#include "session/messages.h"
#include "session/session.h"
#include "timeline/wall_clock.h"
#include "trace/value.h"

namespace backstep::trace {

// Somebody wanted to stop.
class Interrupted : public Error {
 public:
  Interrupted() : Error("interrupted") {}
};

class History {
 public:
  // `options.process`: the process that is meant where a query names none. `ear` is listened to while
  // something takes its time; it must outlive this.
  History(const ReplayOptions& options, const recording::Library& library,
          const recording::Recording& recording, const timeline::Attention& ear, session::Watcher watcher);
  ~History();

  const recording::Recording& recording() const { return recording_; }
  uint64_t process() const { return options_.process; }
  const session::Watcher& watcher() const { return watcher_; }

  // Everything but the session comes from the logs alone. They are read when they are first asked for, and
  // kept.
  const std::vector<recording::ProcessFacts>& processes();
  const recording::ProcessFacts* facts(uint64_t process);
  const timeline::LogIndex& log(uint64_t process);
  const timeline::WallClock& clock(uint64_t process);
  const events::CallReader& calls();
  const session::Messages& messages();
  const symbols::Program& program(uint64_t process);
  session::Session& session(uint64_t process);
  // A process that was killed before its first event has nothing to be read.
  bool is_readable(uint64_t process);

  // Throws Interrupted if somebody wants to stop. Cheap enough for each event of a log.
  void listen();
  void listen_now();
  // … has wanted, while this session replayed.
  static void check(session::Session& session);
  // The client's end is gone, for one: nothing more is to be listened to.
  void stop_listening();

  // A log that cannot be read to its end; told of once.
  void damaged(uint64_t process, const std::string& what);
  // A remark about the question; each is made once.
  void note(const std::string& sentence);
  // Between two queries.
  void forget_notes() {
    noted_.clear();
    asked_.clear();
  }
  bool has_damage() const { return !damaged_.empty(); }

  // The moment that a function's argument means: a tick, or a text (timeline/moments.h). Throws Error.
  session::Position moment(uint64_t process, const Value& at);
  // Takes the session's present there. What `moment` names is in front of it, as everywhere.
  session::Session& at(uint64_t process, const Value& moment);

  // Rows that a sweep has found, for the next time that the same is asked: in a join, once for each row of
  // the other table.
  std::shared_ptr<const std::vector<Row>> kept(const std::string& question) const;
  void keep(const std::string& question, std::vector<Row> rows);
  // For the last of some times that this is called with it, and only then.
  bool is_asked_often(const std::string& question);
  // Questions are only asked to see what they would replay (Timeline::outlook).
  bool explaining = false;
  static constexpr size_t kMostKept = 200'000;  // rows, of all together

 private:
  struct Process;
  Process& of(uint64_t process);

  ReplayOptions options_;
  recording::Library library_;
  recording::Recording recording_;
  const timeline::Attention& ear_;
  session::Watcher watcher_;
  std::optional<std::vector<recording::ProcessFacts>> processes_;
  std::optional<events::CallReader> calls_;
  std::optional<session::Messages> messages_;
  std::map<uint64_t, std::unique_ptr<Process>> of_;
  std::set<uint64_t> damaged_;
  std::set<std::string> noted_;
  unsigned until_listening_ = 0;
  std::map<std::string, std::shared_ptr<const std::vector<Row>>> kept_;
  size_t rows_kept_ = 0;
  std::map<std::string, unsigned> asked_;  // how often
};

}  // namespace backstep::trace
