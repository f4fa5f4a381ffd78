// Events that stay: created once, installed and uninstalled as one likes, each with what is to happen when it
// matches.
//
// The life of an event: create → install → (matches → spent, or waits for the next) → uninstall → destroy.
// One that was created for n matches is spent with the n-th, and costs nothing from then on. Matches belong
// to moments of the recorded run: going back before one takes it back, so that a spent event lives again.
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "session/logging.h"
#include "session/session.h"

namespace backstep::session {

struct EventRequest {
  enum Action : uint8_t { Stop, Log, Count };
  std::string spec;
  Action action = Stop;
  uint64_t times = 0;                    // it is spent after so many matches; 0: never
  std::vector<std::string> values = {};  // expressions, for its hits
  bool stack = false;
};

struct EventState {
  int id = 0;
  EventRequest request;
  bool installed = false, spent = false;
  // Up to the present; of an event that is never spent: that it had since it was created.
  uint64_t matches = 0;
};

class EventSet {
 public:
  using Told = std::function<void(int id, const Hit& hit)>;
  // Where a run has ended, and all events with the action Stop that match there, by their ids.
  struct Stop {
    timeline::Arrival arrival;
    std::vector<std::pair<int, Hit>> hits;
  };

  explicit EventSet(Session& session) : session_(session) {}

  // Throws Error: it makes no sense in this program.
  int create(const EventRequest& request, const Watcher& watcher);
  void install(int id);
  void uninstall(int id);
  void destroy(int id);
  std::vector<EventState> list();
  const EventRequest& request(int id) { return event(id).request; }

  // From the present to the next moment at which an event stops, or to the end; `told` hears of what is
  // logged on the way, in the order of time. What matches at the present itself counts as told.
  Stop forward(const Told& told, const Watcher& watcher);
  // To the last such moment before the present, or to the start; `told` hears of the latest first.
  Stop backward(const Told& told, const Watcher& watcher);

 private:
  struct One {
    EventRequest request;
    Logging logging;
    bool installed = false;
    std::deque<Hit> matched = {};  // up to the present, if it can be spent
    uint64_t matches = 0;          // if it cannot: how many, ever
    // Of an event that is made of others, which may have begun anywhere: all matches of the run.
    std::optional<std::vector<Hit>> composed = {};

    bool spent() const { return request.times && matched.size() >= request.times; }
    bool waits() const { return installed && !spent(); }
  };
  struct Match {
    int id = 0;
    Hit hit;
  };
  class Ahead;  // a sweep to what comes next

  One& event(int id);
  void changed() { found_.clear(); }
  Position base() const;
  const timeline::LogIndex& log() const;
  bool is_first(const Match& a, const Match& b) const;
  void take_back(const Position& from);
  bool find_composed(const Watcher& watcher);
  void meet(const Match& match, const Told& told, Stop& stop);
  std::optional<Position> meet_found(const Position& before, const Told& told, Stop& stop);
  bool find_before(const Position& to, const Watcher& watcher);
  Stop arrive(const Position& at, Stop stop, bool forward);
  Stop interrupted() const;

  Session& session_;
  std::map<int, One> events_;
  int next_id_ = 1;
  // Matches behind the last stop that have been found already, nearest first; all there are, up to
  // `reached_`.
  std::deque<Match> found_;
  Position reached_;
  // Where the last run stopped, and what the present was then: behind the instruction, if that wrote.
  struct Stood {
    Position match, present;
  };
  std::optional<Stood> stood_;
};

}  // namespace backstep::session
