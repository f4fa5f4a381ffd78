// Recording one run of a program: `backstep record`.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/options.h"

namespace backstep {

struct RecordOptions {
  std::string output;                // folder to make; empty: a new name in the library
  std::vector<std::string> command;  // program and arguments, never empty
  bool quiet = false;                // no closing line on stderr
  bool check_deep = false;           // log checksums of guest memory at intervals
  std::string cpu;                   // highest feature level shown to the program; empty: this machine's
  std::optional<uint64_t> chaos;     // seed of the choices of chaos mode; none: off
  std::string follow = "*";          // which programs that it becomes or starts are recorded, too: a pattern;
                                     // empty: only the first process
  double checkpoints = 0;            // make checkpoints every so many seconds of CPU time; 0: none
  uint64_t limit = 0;                // end the recording, not the program, when it has so many bytes; 0: none
  bool pack = true;                  // compress long logs in the background
  std::string host;                  // name of this machine in a distributed run; empty: the machine's own
  EngineOptions engine;
  std::function<void(const std::string& dir)> made;  // called when the folder is there
};

// Runs the program to its end and returns the exit status for our own exit: the program's (128 + signal when
// it died of one and we could not die of it ourselves). Throws Error.
int record(const RecordOptions& options);

// Is this process the successor of a recorded program that called execve? Then it goes on recording; ends the
// process itself.
bool is_succession();
int succeed();

}  // namespace backstep
