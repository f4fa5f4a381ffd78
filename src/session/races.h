// Accesses of two threads to the same memory, one of them a store, that nothing orders.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "session/heap_report.h"

namespace backstep::session {

struct RaceSide {
  Position at;
  int thread = 1;
  bool store = false;
  uint32_t size = 0;
  StackAt stack;
};

struct Race {
  RaceSide first, second;  // in the order in which they happened in this run
  Address address = 0;     // the first byte that both access
  std::string variable;    // empty: it has no symbol
  uint64_t count = 0;      // how often these two lines did; this is the first time
};

struct RacesReport {
  std::vector<Race> races;  // one for each pair of source lines, in the order of time
  bool complete = true;     // false: somebody wanted to stop
};

RacesReport races(Session& session, const Stretch& stretch, const Watcher& watcher);
nlohmann::ordered_json races_json(const RacesReport& report);

}  // namespace backstep::session
