// A request's way through all processes: what led to a moment, and what it led to.
#pragma once
#include <vector>

#include "cluster/causality.h"

namespace backstep::cluster {

// From one process to the next.
struct Hop {
  GraphEvent from, to;
  Causality::Link link;
};

// Backwards from a process that has `count` events behind it: the last thing that it got, the last one that
// whoever gave it had got before, and so on. In the order of time; at most the last `most`.
std::vector<Hop> way_to(const Causality& causality, ProcessId process, EventCount count, size_t most);
// Forwards: the first thing that it gave from then on, the first one that whoever got it gave behind that,
// and so on.
std::vector<Hop> way_from(const Causality& causality, ProcessId process, EventCount count, size_t most);

}  // namespace backstep::cluster
