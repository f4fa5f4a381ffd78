// The processes of one recording. Each has a log of its own (a new one after every execve); what they share
// are counters in a small file that all recorders map: one gives out the logs' numbers.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "recording/format.h"
#include "recording/library.h"

namespace backstep::recording {

// A signal that means a mistake of the program's: SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS.
bool is_crash(int signo);

class Tree {
 public:
  // Maps the counter of a recording, making it if need be; throws Error.
  explicit Tree(const Recording& recording);
  uint64_t next_number();
  uint64_t last_number() const { return static_cast<uint32_t>(__atomic_load_n(last_, __ATOMIC_SEQ_CST)); }

  static std::string path(const Recording& recording) { return recording.base() + "/tree"; }
  static bool is_intact(const Recording& recording);

  // The order of all processes (format.h). While there is one log only nothing needs a number: 0.
  uint64_t next_order() const {
    return last_number() > 1 ? __atomic_add_fetch(orders_, 1, __ATOMIC_SEQ_CST) : 0;
  }
  uint64_t last_order() const { return __atomic_load_n(orders_, __ATOMIC_SEQ_CST); }
  // For the hot world.
  const uint64_t* numbers() const { return last_; }
  uint64_t* orders() const { return orders_; }
  // Who writes to what was stdout, or stderr, at the start of the recording: the number of its log, or 0. If
  // these are one file there is one word for both.
  uint64_t* writer(int fd) const;
  void note_outputs();  // looks whether they are; of the first process, before it has children

  // How often a file was mapped shared, in the whole tree (with a checksum: 0 is none).
  const uint64_t& shared_files() const { return last_[1]; }
  void count_shared_file();

  // Users that were let in besides the first one (shared_folder.h).
  uint64_t users() const { return static_cast<uint32_t>(__atomic_load_n(last_ + 4, __ATOMIC_SEQ_CST)); }
  void count_user();

  // Bytes that all logs have taken of the disk, as they were written.
  uint64_t space() const;
  uint64_t take_space(uint64_t bytes);  // so many more; how many that are now
  // What is known of the whole tree, or was done once for it.
  enum Fact : uint32_t {
    kReaper = 1,     // one of its processes may become the parent of orphans
    kSaidMuch = 2,   // the user was told that the recording is large
    kSaidShort = 4,  // … and that the disk is nearly full
  };
  bool has(Fact fact) const { return __atomic_load_n(last_ + 6, __ATOMIC_SEQ_CST) & fact; }
  bool set(Fact fact);  // true: by this call

  // Processes that died of a signal that means a mistake (SIGSEGV and the like): how many, and the first
  // one's log; 0: none.
  void note_crash(uint64_t number);
  uint64_t first_crash() const { return static_cast<uint32_t>(__atomic_load_n(last_ + 2, __ATOMIC_SEQ_CST)); }
  uint64_t crashes() const { return static_cast<uint32_t>(__atomic_load_n(last_ + 3, __ATOMIC_SEQ_CST)); }

 private:
  uint64_t* last_;    // low half: the number; high half: its CRC-32C
  uint64_t* orders_;  // counter, and behind it what belongs to it, each in a cache line of its own
};

// One log, as its header and manifest tell.
struct ProcessInfo {
  uint64_t number = 0;
  Birth birth = Birth::Start;
  uint64_t parent = 0, parent_event = 0;
  uint64_t pid = 0;
  bool spawned = false;           // by execve in a child of vfork: a new program in a new process
  std::vector<std::string> argv;  // of the nearest ancestor that has a manifest, if this one has none
  std::optional<Manifest::End> end;
  uint64_t start_ns = 0;  // CLOCK_REALTIME; 0: not known
  bool empty = false;     // is_without_events
  bool damaged = false;   // the header cannot be read, or is that of another log
};
std::vector<ProcessInfo> list_processes(const Recording& recording);
// A process that was killed before it could log anything leaves an empty log, and no manifest.
bool is_without_events(const Recording& recording, uint64_t number);
const char* birth_name(const ProcessInfo& info);  // start, fork, exec, spawn

// The log that a user means: `#N` or `process-N` is the log with that number, `pid:N` the last one of the
// process with that pid, and a mere N the latter or, if no process has that pid, the former. Throws Error.
uint64_t find_process(const Recording& recording, const std::string& name);
// … and of that number, if there is one. Throws Error.
uint64_t find_process(const Recording& recording, uint64_t number);
// Which thread a log begins with: that which called fork.
int first_thread(const Recording& recording, uint64_t number);

// The log of the program that this one became by execve, 0 if it became none, or none that was recorded.
uint64_t next_program(const Recording& recording, uint64_t number);

// How the program that was recorded ended: if it became others by execve, the last of them.
struct Final {
  uint64_t process = 1;  // its log
  std::optional<Manifest::End> end;
};
Final final_end(const Recording& recording, const std::optional<Manifest::End>& first);

}  // namespace backstep::recording
