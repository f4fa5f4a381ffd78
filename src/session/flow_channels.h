// What descriptors stood for, from the logs alone: which file a call read, from which offset, and who wrote
// what a pipe delivered.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recording/library.h"
#include "recording/log_reader.h"
#include "recording/tree.h"

namespace backstep::session {

// What an open() made: duplicates of a descriptor share one.
struct OpenFile {
  enum Kind : uint8_t { File, Pipe, SocketPair, Socket, Standard, Other } kind = Other;
  std::string name;     // "orders.txt", "standard input"
  uint64_t offset = 0;  // File: where the next read begins
  bool sure = true;     // … no other process can have moved it
  // Pipe, SocketPair: which one of the recording, and which end: 0 or 1.
  uint64_t process = 0, event = 0;
  int end = 0;
  bool writable = false;  // this end
};

struct Descriptor {
  std::shared_ptr<OpenFile> file;
  bool close_on_exec = false;
};
using DescriptorTable = std::map<int, Descriptor>;

// A call that moved bytes through a pipe.
struct Transfer {
  uint64_t process = 0, event = 0, order = 0;
  Tick tick = 0;
  Address pc = 0;
  int thread = 1;
  uint16_t nr = 0;
  uint64_t args[6] = {};
  uint64_t bytes = 0;
  std::optional<uint32_t> crc;  // of all that was given to the call
  uint64_t summed = 0;          // so many bytes
  std::string data;             // of a read
};

class Channels {
 public:
  explicit Channels(const recording::Recording& recording);

  // The file behind `fd`, in front of event `event` of that process's own log; null: not known.
  std::shared_ptr<OpenFile> file_at(uint64_t process, uint64_t event, int fd);

  struct Writer {
    Transfer write;
    uint64_t byte = 0;     // of what it wrote
    bool checked = false;  // the checksum of what was written is that of what was read
  };
  // Who wrote byte `byte` of what event `event` read from a pipe or a pair of sockets. Nullopt: nobody who
  // was recorded, or it cannot be told; `why` then says so.
  std::optional<Writer> writer_of(const OpenFile& file, uint64_t process, uint64_t event, uint64_t byte,
                                  std::string& why);

 private:
  using Visit = std::function<void(const recording::Event&, const DescriptorTable&)>;
  DescriptorTable walk(uint64_t process, uint64_t up_to, const Visit& visit);
  DescriptorTable inherited(const recording::ProcessInfo& info);
  const recording::ProcessInfo* info(uint64_t process) const;

  const recording::Recording recording_;
  std::vector<recording::ProcessInfo> processes_;
};

}  // namespace backstep::session
