// A log request with everything compiled: taps that log, and how their records become hits.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "session/resolve.h"
#include "session/session.h"

namespace backstep::session {

class Logging {
 public:
  // Throws Error: what is asked for makes no sense here.
  Logging(Session& session, const LogRequest& request, const Watcher& watcher);

  // `hit` is called with each match of the event; false from it: enough.
  timeline::Sweep sweep(const std::function<bool(const Hit&)>& hit) const;
  Hit hit_of(size_t tap, const replayer::TapRecord& record, const uint8_t* values) const;

  bool simple() const { return resolved_.event.op == events::Event::Op::One; }
  const Resolved& resolved() const { return resolved_; }

 private:
  Session& session_;
  bool stack_;
  std::vector<bool> stacks_;  // of the values: this one is $stack
  Resolved resolved_;
  std::vector<std::vector<symbols::Compiled>> compiled_;  // by tap
};

// For the taps of one event, all of them.
timeline::Swept sweep_for(timeline::Timeline& timeline, const Resolved& resolved,
                          const timeline::Sweep& sweep);

void tell_notes(const Watcher& watcher, const std::vector<std::string>& notes);

}  // namespace backstep::session
