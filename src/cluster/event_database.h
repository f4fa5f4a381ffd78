// What the user has had recorded of a run during replays: assignments, labels, user events, and any other
// event. It is cumulative: each request adds to it, in files of their own in the run's folder
// (events/*.json), and what was recorded twice is there once.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cluster/event_request.h"
#include "cluster/history.h"
#include "cluster/sessions.h"

namespace backstep::cluster {

struct RecordedEvent {
  replayer::Position at;
  int thread = 1;
  std::string value;   // old -> new of an assignment, arguments of a probe, values asked for; may be empty
  std::string source;  // "server.c:120"; empty: not known
};

// What one request has found in one process.
struct EventsOf {
  ProcessId process = kNone;
  std::string kind, name;
  std::vector<std::string> values;  // expressions that were asked for besides
  bool cut_off = false;             // there would have been more
  std::vector<RecordedEvent> rows;
};

class EventDatabase {
 public:
  explicit EventDatabase(const History& history) : history_(history), folder_(history.run + "/events") {}

  // All of it, checked: throws Error if a file is not what this run's could be.
  std::vector<EventsOf> load() const;
  // Instead of what the same request has found before.
  void save(const EventsOf& events) const;
  // Those that the request means; how many events are gone.
  uint64_t forget(const EventRequest& request) const;

  std::vector<ProcessId> meant(const EventRequest& request) const;

 private:
  std::string file_of(const EventsOf& events) const;

  const History& history_;
  std::string folder_;
};

struct CollectOptions {
  std::vector<std::string> values;
  uint64_t most = 1'000'000;  // of one process
};

// Replays the process and collects. What makes no sense in it (no such variable, no such mark) has no events;
// `missing` becomes a sentence then.
std::vector<EventsOf> collect_events(const History& history, Sessions& sessions, ProcessId process,
                                     const EventRequest& request, const CollectOptions& options,
                                     const session::Watcher& watcher, std::string* missing);

}  // namespace backstep::cluster
