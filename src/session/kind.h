// Kinds of events. Each is one file (kind_*.cc), which says how it is written and what it looks for, and one
// row in kinds.cc. Nothing else knows which kinds there are: what they look for are taps (replay/taps.h), and
// matching knows only those.
#pragma once
#include <string>
#include <vector>

#include "base/error.h"
#include "events/spec.h"
#include "session/resolve.h"
#include "timeline/log_index.h"

namespace backstep::session {

// One specification on its way to taps: what a kind makes them with.
class Resolving {
 public:
  Resolving(Session& session, const std::string& text, Resolved& result, bool uses_variables)
      : session(session), text(text), result(result), uses_variables(uses_variables) {}

  ResolvedTap& tap(timeline::Tap::Kind kind);
  ResolvedTap& code(Address pc);  // in front of the instruction there
  // At moments; at those where something of the log happens, which the log itself finds.
  ResolvedTap& at(const std::vector<timeline::Moment>& moments);
  ResolvedTap& at(const timeline::Position& position);
  ResolvedTap& of_log(timeline::Tap::Kind kind);

  const timeline::LogIndex& log() const;
  const symbols::Program& program() const;
  void note(const std::string& sentence) { result.notes.push_back(sentence); }

  Session& session;
  const std::string& text;  // all that was written
  Resolved& result;
  const bool uses_variables;  // what is asked at matches names variables of the program
};

struct KindOfEvent : events::Form {
  void (*taps)(Resolving& r, const events::Spec& spec);
  bool memory = false;     // it is about accesses to memory
  bool by_search = false;  // its matches are looked for in all of the run before it begins
};

// All kinds, in the order in which `backstep events` tells of them.
events::Forms event_forms();
const KindOfEvent& kind_of(const events::Spec& spec);
events::Event parse_event(const std::string& text);

// "; did you mean a, b or c?"; nothing, if there are none.
std::string did_you_mean(const std::vector<std::string>& near);
std::string alternatives(const std::vector<std::string>& names);

}  // namespace backstep::session
