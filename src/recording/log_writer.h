// Appending events to the log of this process.
//
// Events go straight into a shared mapping of the log file: what was committed is in the page cache, whatever
// happens to the process. `Appender` is the hot-world half: it writes one event into the open chunk.
// `LogWriter` opens and closes chunks. Each chunk keeps a reserve at its end, so that the log of a full disk
// can still be ended properly.
//
// A long log is a row of files, its parts: one that is complete can be compressed by another process while
// the next one is written (log_packer.h).
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "engine/context.h"
#include "recording/codec.h"
#include "recording/format.h"

namespace backstep::recording {

class Tree;

inline constexpr uint32_t kEndReserve = 256;
inline constexpr uint64_t kPartSize = 8 << 20;  // of a part; a little more, as chunks are whole

struct Appender {
  ChunkHeader* chunk;  // null: not recording (any more)
  uint8_t* p;          // next event
  uint8_t* end;        // events may go up to here (the reserve is behind it)
  uint32_t crc;
  uint64_t events;  // committed so far, in the whole log
  Tick tick;        // of the last event with a tick
  uint64_t order;   // the last number in the order of all processes

  bool has_room(uint64_t bytes) const { return chunk && static_cast<uint64_t>(end - p) >= bytes; }

  // p points to the body when this returns.
  uint8_t* begin(EventKind kind, uint8_t flags, uint16_t nr) const {
    EventHeader header{static_cast<uint8_t>(kind), flags, nr, 0};
    __builtin_memcpy(p, &header, sizeof header);
    return p + sizeof header;
  }
  uint8_t* begin(EventKind kind, uint8_t flags, uint16_t nr, Order at) {
    if (!at) return begin(kind, flags, nr);
    return put_order(begin(kind, flags | kOrdered, nr), at, order);
  }
  uint8_t* put_place(uint8_t* at, Tick now, Address pc) {
    at = put_varint(at, now - tick);
    tick = now;
    return put_varint(at, pc);
  }
  void commit(uint8_t* body_end) {
    auto size = static_cast<uint32_t>(body_end + 2 - p);
    __builtin_memcpy(p + 4, &size, 4);
    crc = hot::crc32c(crc, p, size - 2);
    auto check = static_cast<uint16_t>(crc);
    __builtin_memcpy(body_end, &check, 2);  // not summed itself: that would halve the CRC's state
    p = body_end + 2;
    events++;
    auto used = static_cast<uint64_t>(p - reinterpret_cast<uint8_t*>(chunk + 1));
    __atomic_store_n(&chunk->state, used | static_cast<uint64_t>(crc) << 32, __ATOMIC_RELEASE);
  }
};

// What a log's header says about the process.
struct Origin {
  uint64_t process = 1;
  Birth birth = Birth::Start;
  uint64_t parent = 0, parent_event = 0;
  uint64_t pid = 0;
};

class LogWriter {
 public:
  // Creates the file; throws Error. Its descriptor is moved to a high number. `tree` outlives it.
  LogWriter(const std::string& path, const Origin& origin, const Tree& tree);
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  Appender& appender() { return appender_; }
  bool active() const { return appender_.chunk != nullptr; }
  // Makes room for an event of up to `bytes`. False: the disk is full; the log has been ended (Stopped) with
  // a note.
  bool reserve(uint64_t bytes);
  void note(const std::string& text);
  void end(EndKind kind, int64_t status, Tick tick, Address pc, uint8_t flags = 0);
  // Ends the recording early (Stopped), for `reason`; the program runs on.
  void stop(const std::string& reason);
  // This process does not go on with this log (fork child): forget the mapping without touching the file.
  // keep_open: its descriptor is the parent's, too (CLONE_FILES).
  void abandon(bool keep_open = false);
  // … but with this one; ticks go on. Throws Error.
  void open(const std::string& path, const Origin& origin);
  int fd() const { return fd_; }
  void move_fd(int least);  // to a number that is at least this
  uint64_t size() const { return base_ + file_size_; }
  uint64_t chunk_offset() const { return base_ + chunk_offset_; }  // of the open chunk, in the log
  // The same folder is reached by another name now.
  void reach_by(const std::string& path) { path_ = path; }
  // Called when a part is complete.
  std::function<void()> part_done;
  // Asked before so many bytes more are taken from the disk: why the log shall end here instead; empty: no.
  std::function<std::string(uint64_t bytes)> refuse;
  const std::string& stopped() const { return stopped_; }  // why the recording ended early; empty: it did not

 private:
  const Tree& tree_;
  bool open_chunk(uint64_t at_least);
  bool open_part(uint64_t at_least);
  void close_chunk();
  void write_end(EndKind kind, int64_t status, Tick tick, Address pc, uint8_t flags);

  Appender appender_{};
  int fd_ = -1;
  std::string path_;  // of the first part
  uint64_t process_ = 0;
  uint32_t part_ = 1;
  uint64_t base_ = 0;          // offset in the log of what is at 0 in this part's file
  uint64_t chunk_offset_ = 0;  // in the file
  uint64_t file_size_ = 0;
  uint32_t chunk_count_ = 0;
  std::string stopped_;
};

// Moves a descriptor out of the guest's way: to a free number from `least` on; above the limit if that is not
// far; else to the highest free number below it. (Not as high as possible: record/record_descriptors.cc.)
inline constexpr int kHighFds = 1000;
int move_fd_high(int fd, int least = kHighFds);

}  // namespace backstep::recording
