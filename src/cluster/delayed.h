// Whom the replay holds back in a cut: a process that could go on, if the recording had not been another one.
//
// It stands in front of something that has not happened in the cut, while something else that would do as
// well is there already: a datagram that overtook another one, a client in the queue of a listener, a child
// that has ended, bytes of another descriptor that it polls. Live it would take that; replayed it waits,
// because in the recording it took the other first.
#pragma once
#include <string>
#include <vector>

#include "cluster/cut.h"

namespace backstep::cluster {

struct Delay {
  enum Kind : uint8_t {
    Overtaken,  // of the messages to one socket or pipe, one of another sender comes first
    Queue,      // … of the connections to one listener
    Child,      // … of the children that have ended
    Choice,     // … of what several descriptors have
  } kind = Overtaken;
  ProcessId process = kNone;
  int thread = 0;           // virtual name
  replayer::Position at;    // of what it is held in front of
  std::string waits_for;    // in words: what comes first in the recording, …
  ProcessId from = kNone;   // … and who has not done it yet
  std::string there;        // what is there already, …
  ProcessId giver = kNone;  // … and whose doing that was
};
const char* delay_kind_name(Delay::Kind kind);

// One for each process that is held back, by its first reason. Reads the logs of these; nothing is replayed.
std::vector<Delay> delayed(const Causality& causality, const Cut& cut);

}  // namespace backstep::cluster
