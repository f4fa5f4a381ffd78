// The state of a program at one moment of its log, as a checkpoint file keeps it. Recorder and replayer have
// the same guest::Process, so both can write one; what only a replay knows is derivable from the log, and is
// looked up when the state is restored.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "guest/process.h"
#include "recording/checkpoint_file.h"

namespace backstep::recording {

// What really lies behind a part of the guest's memory.
enum class Backing : uint64_t { Anonymous = 0, StoreFile = 1, SharedFile = 2, LiveFile = 3 };

struct Part {
  uint64_t start = 0, end = 0, offset = 0;
  Backing backing = Backing::Anonymous;
  std::string key;              // StoreFile
  uint64_t dev = 0, inode = 0;  // SharedFile, LiveFile
};

// A file that the program has mapped shared, or privately while it changes it: a memory file.
struct MemoryFile {
  uint64_t dev = 0, inode = 0, size = 0;
};

struct StoredState {
  // The place in the log. A forked process has a chain of logs: `path_at` is how many forks have been
  // followed, `event_base` how many events the logs before have up to there.
  uint64_t log = 1, path_at = 0, event_base = 0;
  uint64_t chunk_offset = 0, chunk_index = 0, chunk_first_event = 0, chunk_wall_ns = 0;
  uint64_t at = 0;  // bytes of the chunk's events that are behind us
  uint64_t event = 0;
  Tick tick = 0;  // of the last event that had one

  // What comes next. `looked_ahead` false: it was not in the log yet (made while recording).
  bool looked_ahead = true;
  bool resume_call = false;
  std::optional<ControlPoint> goal;
  uint64_t held_nr = 0;
  int64_t held_result = 0;

  bool evex_seen = false;
  uint64_t hi16_offset = 0;
  std::vector<std::vector<guest::KernelSigaction>> before_vfork;
  std::vector<MemoryFile> shared, live;

  // Only from unpack(): what is to be mapped.
  std::vector<guest::Region> regions;
  std::vector<Part> parts;
};

// Together with the books of the process, its registers included. Throws Error.
std::vector<uint8_t> pack(const StoredState& state, const guest::Process& process);
// … which become those of `process`; its memory is left alone. Throws Error.
StoredState unpack(std::span<const uint8_t> bytes, guest::Process& process);

// How many pages the program has that are not those of a file, about.
uint64_t count_pages(const guest::Process& process);

// Gives all memory of the program to the writer, without touching a page that the program has not touched.
// `files`: descriptors of those of StoredState::shared, and then live. Throws Error.
void store_memory(CheckpointWriter& writer, const guest::Process& process, const std::vector<int>& files);

}  // namespace backstep::recording
