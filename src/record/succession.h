// execve: what the recorder of the old program hands to the recorder of the new one. The new one is
// `backstep` again, in the same process, started by a real execve with the guest's arguments (so that `ps`
// shows them) and one environment variable, which names the descriptor of a memory file with this in it. The
// guest's environment travels in there, too: LD_PRELOAD and the like are for the guest, not for us.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "guest/limits.h"
#include "record/record.h"
#include "recording/library.h"
#include "recording/log_writer.h"

namespace backstep::recorder {

inline constexpr char kSuccessionVariable[] = "BACKSTEP_EXEC";

struct Succession {
  RecordOptions options;  // command: the new argv
  std::string library, recording;
  recording::Origin origin;
  bool leader = false;                // the process that `backstep record` was started for
  bool foreign = false;               // it lives in another pid namespace
  int64_t started_ns = 0;             // CLOCK_MONOTONIC
  std::string path;                   // the program's file
  int program_fd = -1;                // … if a descriptor was all there was of it: close it
  std::string name;                   // of the process, as the kernel names it
  std::vector<std::string> env;       // the guest's
  uint64_t ignored = 0, blocked = 0;  // signals, bit n-1
  int mdwe = 0;                       // PR_SET_MDWE
  bool tsc_trapped = false;           // PR_SET_TSC, of the thread that called
  guest::Limits limits;
  std::vector<std::string> filters;    // of system calls (guest/seccomp.h)
  int stderr_fd = -1;                  // where our own words go
  int folder_fd = -1;                  // the recording's folder, if its path may not do any more …
  std::pair<uint64_t, uint64_t> root;  // … and the root then
  std::vector<std::pair<uint64_t, uint64_t>> fd_kinds;  // descriptors that are the first stdout or stderr

  // A memory file that survives execve; -1: cannot be made.
  int save() const;
  // Reads and closes it; throws Error.
  static Succession load(int fd);
};

recording::Recording recording_of(const Succession& s);
[[noreturn]] void run_unrecorded(Succession& s, const std::string& why);

}  // namespace backstep::recorder
