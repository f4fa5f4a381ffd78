// Reading a log: LogFile finds and verifies its chunks, LogReader decodes events for people and tools.
// (Replay decodes events itself, in the hot world, from the chunks that LogFile verified.)
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/context.h"
#include "recording/format.h"

namespace backstep::recording {

// Verified events of one chunk.
struct Chunk {
  std::span<const uint8_t> events;
  std::shared_ptr<const uint8_t[]> memory;  // that they are in, if the chunk is packed; null: the file's
  uint64_t size = 0;                        // bytes of them
  uint64_t first_event = 0;
  Tick first_tick = 0;
  uint64_t first_order = 0;
  uint64_t wall_ns = 0, monotonic_ns = 0;  // when it was opened; monotonic 0: not known
  uint64_t offset = 0;                     // in the log (format.h: PartHeader), where its header is
  uint32_t index = 0;

  // Of a long log not all can be in memory unpacked: LogFile::again has the events again.
  void forget_events() {
    if (memory) events = {};
    memory.reset();
  }
};

class LogFile {
 public:
  // Throws Error: cannot be read, not a log, newer version.
  explicit LogFile(const std::string& path);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  // Next chunk with at least one event; nullopt at the end. Damaged bytes end the log there.
  std::optional<Chunk> next();
  // That chunk again, in a reader that has not come by it: what is before it is not looked at. Nullopt: it is
  // not there, or damaged.
  std::optional<Chunk> seek(uint64_t offset, uint32_t index, uint64_t first_event, uint64_t wall_ns);
  // A chunk that next() has found before, with its events.
  Chunk again(const Chunk& chunk) const;
  const std::optional<std::string>& damage() const { return damage_; }
  uint64_t size() const { return size_; }        // unpacked
  uint64_t position() const { return offset_; }  // for progress
  const FileHeader& header() const { return header_; }
  uint64_t start_ns() const;  // CLOCK_REALTIME when the first chunk was opened; 0: it was not

 private:
  // One file.
  struct Part {
    std::span<const uint8_t> data;
    uint64_t mapped = 0;
    uint64_t start = 0;  // offset of its first chunk in the log
    uint64_t begin = 0;  // … in the file
  };
  // A chunk as it lies there.
  struct Found {
    ChunkHeader header{};
    const uint8_t* start = nullptr;  // of its events
    uint64_t available = 0;          // bytes there that may be its
    uint64_t stored = 0;             // bytes from it to the next one, in the file
    std::shared_ptr<const uint8_t[]> memory;
  };

  Part open_part(const std::string& path, bool last);
  void take_header(const std::string& path);
  void add_parts(uint32_t count);
  bool enter_part();
  std::optional<Found> find();
  std::optional<Found> find_packed(const Part& part, uint64_t at) const;
  void check_rest(const Found& found, uint64_t used);
  struct Spot {
    size_t part;
    uint64_t at;
  };
  std::optional<Spot> spot_of(uint64_t offset) const;

  std::string path_;
  std::vector<Part> parts_;
  size_t part_ = 0;  // where the next chunk is, if it is not behind its end
  uint64_t at_ = 0;  // … in its file
  uint64_t size_ = 0;
  // What was unpacked last, with the frame that it was unpacked from.
  static constexpr size_t kKept = 8;
  mutable std::pair<const uint8_t*, std::shared_ptr<const uint8_t[]>> unpacked_[kKept];
  mutable size_t unpacked_next_ = 0;
  FileHeader header_{};
  uint64_t offset_ = 0, events_ = 0;  // offset: of the next chunk in the log
  uint32_t chunks_ = 0;
  bool ended_ = false;  // the last event so far is an End
  std::optional<std::string> damage_;
};

struct Piece {
  int arg = 0;
  PieceKind kind{};
  uint64_t addr = 0;
  std::span<const std::byte> bytes;
  uint64_t length = 0;  // Sum: bytes that were summed
  uint32_t crc = 0;
};

// A Channel event: how the kernel names what a descriptor stands for. 0 and empty: it has no such thing, or
// it was not asked.
struct ChannelName {
  ChannelReason reason{};
  ChannelObject object{};
  int fd = -1;
  uint64_t device = 0, inode = 0;          // Pipe
  uint64_t cookie = 0, net = 0;            // Socket; its network namespace's cookie
  int family = 0, type = 0, protocol = 0;  // AF_*, SOCK_*
  int peer_pid = 0;                        // AF_UNIX: who connected or listened
  std::span<const std::byte> local, peer;  // sockaddr
};

// One event, decoded. Which fields are meaningful depends on the kind (format.h).
struct Event {
  uint64_t number = 0;
  EventKind kind{};
  uint8_t flags = 0;
  uint16_t nr = 0;
  uint32_t size = 0;
  Tick tick = 0;
  Address pc = 0;
  uint32_t digest = 0;
  int64_t result = 0;             // Syscall; End: status
  uint64_t args[6] = {};          // Syscall
  std::vector<Piece> pieces;      // Syscall; Shared: addr and bytes of each change
  std::vector<uint64_t> values;   // Instr, Start, Gap
  Tick ticks = 0;                 // Gap: how long it is
  int signo = 0;                  // Signal
  int next_thread = 0;            // Turn: who has it from here on
  Order order;                    // among all processes (LogReader only)
  int thread = 1;                 // who had the turn when it happened (LogReader only)
  EndKind end{};                  // End
  uint64_t addr = 0, length = 0;  // Map, Memory, Shared; Gap: length is the number of Memory events
  int prot = 0, map_flags = 0;    // Map
  uint64_t offset = 0, dev = 0, inode = 0;
  std::string text;                 // Map: name; Note: text
  std::string key;                  // Map: store key
  ChannelName channel;              // Channel
  std::span<const std::byte> body;  // Signal: siginfo; Memory: contents; Gap: XSAVE area; else the whole body
};

// False: the bytes are not an event of a known kind. `tick` is the running tick, updated.
// So is `order`, for those who want to know.
bool decode_event(std::span<const uint8_t> bytes, Tick& tick, Event& event, uint64_t* order = nullptr);

class LogReader {
 public:
  // `thread`: the one that the log begins with (tree.h: first_thread).
  explicit LogReader(const std::string& path, int thread = 1) : file_(path), thread_(thread) {}
  bool next(Event& event);  // false at the end
  std::optional<std::string> damage() const { return damage_ ? damage_ : file_.damage(); }
  const LogFile& file() const { return file_; }
  int thread_now() const { return thread_; }     // behind the last event
  uint64_t wall_ns() const { return wall_ns_; }  // when the chunk of the last event was opened
  uint64_t monotonic_ns() const { return monotonic_ns_; }
  uint64_t first_order() const { return first_order_; }  // what the orders of that chunk count from

 private:
  LogFile file_;
  Chunk chunk_;
  std::span<const uint8_t> rest_;  // of its events
  Tick tick_ = 0;
  uint64_t order_ = 0, first_order_ = 0, wall_ns_ = 0, monotonic_ns_ = 0;
  uint64_t number_ = 0;
  int thread_;
  std::optional<std::string> damage_;
};

}  // namespace backstep::recording
