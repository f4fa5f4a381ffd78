// What the guest reads in /proc: of itself, and of other processes that are recorded.
#pragma once
#include <optional>
#include <string>

#include "guest/process.h"
#include "record/published.h"

namespace backstep::recorder {

// A file below /proc/PID.
struct ProcFile {
  std::string name;  // "maps", "fd/3", "task"; empty: the folder itself
  int pid = 0;       // as in the path: may be a thread's
  int tid = 0;  // of the thread whose folder it is in (PID/task/TID, thread-self); 0: in that of the process

  uint64_t descriptor() const;  // N of "fd/N" and "fdinfo/N"; ~0: none
};
// nullopt: the path leads elsewhere. `self`: the tid of who asks.
std::optional<ProcFile> parse_proc_path(const std::string& path, int self);
// Would the file of another process show something of ours?
bool may_show_us(const ProcFile& file);
// … as text that is not the kernel's.
bool is_text(const ProcFile& file);
// Where the kernel has it: for a thread other than the first, in its own folder.
std::string kernels_path(const ProcFile& file, const Shown& process);

struct SignalSets {
  uint64_t ignored = 0, caught = 0;
};
SignalSets signal_sets(const guest::Process& process);
// The guest itself.
Shown shown_of(const guest::Process& process);

// The text of a file as the guest should see it; nullopt: the kernel's own will do.
std::optional<std::string> proc_file(const ProcFile& file, const Shown& process);

}  // namespace backstep::recorder
