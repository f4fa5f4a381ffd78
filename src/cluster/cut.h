// A cut of a distributed run as a thing with a name: one place per process. It is a file in the run's folder,
// cuts/NAME.json, which means the same for ever and can be sent to who has the same recordings.
#pragma once
#include <string>
#include <vector>

#include "cluster/causality.h"

namespace backstep::cluster {

struct Place {
  enum State : uint8_t { Unborn, Running, Ended } state = Running;
  replayer::Position at;  // Unborn: where it will begin; Ended: in front of its last event
  std::string why;        // it is there: a sentence
  bool stopped = false;   // at a breakpoint of the user's
  bool waits = false;     // for something that has not happened in this cut
};
const char* place_state_name(Place::State state);

// Where the user wants a process to stop.
struct Breakpoint {
  ProcessId process = kNone;
  replayer::Position at;
  std::string spec;    // as it was written
  uint64_t match = 1;  // the how manieth
};

struct Cut {
  enum Kind : uint8_t { Causal, Optimistic, Mark } kind = Causal;
  std::string name;  // empty: it has none yet
  std::vector<Breakpoint> breakpoints;
  std::vector<Place> places;  // by ProcessId
};
const char* cut_kind_name(Cut::Kind kind);

// How many events of the graph each process has behind it there.
Counts counts_of(const Causality& causality, const Cut& cut);
// Nothing: it is consistent. Else what is received in it before it is sent: a sentence.
std::string inconsistency(const Causality& causality, const Cut& cut);

// The name of the cut that commands are at, which every movement changes.
inline constexpr const char* kPresentCut = "present";

// What a run keeps.
class CutFolder {
 public:
  explicit CutFolder(const Causality& causality);

  std::vector<std::string> names() const;  // sorted; without the present one
  // By its name or, if that has a slash, from a file. Everything in it is checked: throws Error, which says
  // what is wrong.
  Cut load(const std::string& name) const;
  bool has(const std::string& name) const;
  void save(const Cut& cut) const;
  bool remove(const std::string& name) const;
  // "break-1", the first one that is not taken.
  std::string free_name(const std::string& begin) const;
  // Throws Error: what a name cannot be.
  static void check_name(const std::string& name);

 private:
  std::string path(const std::string& name) const { return folder_ + "/" + name + ".json"; }

  const Causality& causality_;
  std::string folder_;
};

}  // namespace backstep::cluster
