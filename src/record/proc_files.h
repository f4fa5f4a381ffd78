// What the guest reads in /proc: of itself, and of other processes that are recorded.
#pragma once
#include <optional>
#include <string>

#include "guest/process.h"
#include "recording/library.h"

namespace backstep::recorder {

// A file below /proc/PID. `tid`: of the guest's thread whose folder it is in (/proc/self/task/TID,
// /proc/thread-self); 0: in that of the process.
struct ProcFile {
  std::string name;  // "maps", "fd/3", "task"; empty: the folder itself
  int tid = 0;

  uint64_t descriptor() const;  // N of "fd/N" and "fdinfo/N"; ~0: none
};
// Of the guest itself; nullopt: the path leads elsewhere.
std::optional<ProcFile> own_proc_file(const std::string& path, const guest::Process& process);
// Of another process, whose pid is in `tid` then, if it is run by us.
std::optional<ProcFile> other_proc_file(const std::string& path);
bool is_recorded(int pid);
std::optional<recording::Manifest> manifest_of(const recording::Recording& recording, uint64_t pid);

// The text of an own file as the guest should see it; nullopt: the kernel's own will do.
std::optional<std::string> proc_file(const ProcFile& file, const guest::Process& process);

}  // namespace backstep::recorder
