// What a log holds, counted: the facts behind `info`.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/places.h"
#include "recording/library.h"

namespace backstep::cli {

struct Tally {
  uint64_t count = 0;
  uint64_t bytes = 0;   // in the log
  uint64_t errors = 0;  // system calls that failed
};

struct Summary {
  uint64_t events = 0;
  uint64_t bytes = 0;  // of events in the logs
  Tick ticks = 0;      // tick of the last event that was read
  std::map<std::string, Tally> kinds;
  std::map<std::string, Tally> syscalls;
  std::map<std::string, Tally> instructions;
  std::map<std::string, Tally> signals;
  std::map<std::string, uint64_t> notes;        // text -> how often
  uint64_t inexact = 0;                         // events handled by the general fallback
  std::vector<std::string> damage;              // sentences
  std::optional<recording::Manifest::End> end;  // from the log's last event; without duration

  // Where the program died of a signal, if it did.
  std::optional<ControlPoint> crash;
  Places::Found place;
};

// Reads all logs of a recording. A damaged one is read as far as it goes.
Summary summarize(const recording::Library& library, const recording::Recording& recording, uint64_t process);

}  // namespace backstep::cli
