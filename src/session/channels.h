// What descriptors stood for, from the logs alone: which file a call read, from which offset, which pipe or
// socket it was.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "guest/socket_address.h"
#include "recording/library.h"
#include "recording/log_reader.h"
#include "recording/tree.h"

namespace backstep::session {

// How the kernel names a pipe or a socket, as far as the log has it (Channel events).
struct KernelName {
  uint64_t device = 0, inode = 0;  // pipes
  uint64_t cookie = 0, net = 0;    // sockets; their network namespace
  int family = 0;
  guest::SocketAddress local, peer;
  int peer_pid = 0;
  explicit operator bool() const { return inode | cookie; }
};

// What an open() made: duplicates of a descriptor share one.
struct OpenFile {
  enum Kind : uint8_t { File, Pipe, SocketPair, Socket, Events, Standard, Other } kind = Other;
  std::string name;     // "orders.txt", "standard input"
  uint64_t offset = 0;  // File: where the next read begins
  bool sure = true;     // … no other process can have moved it
  // Pipe, SocketPair, Socket, Events: which one of the recording, by the call that made it, and which end of
  // it: 0 or 1.
  uint64_t process = 0, event = 0;
  int end = 0;
  bool writable = false;   // this end
  bool datagrams = false;  // what is written at once is read at once
  bool accepted = false;   // Socket
  bool listening = false;  // … which makes connections
  bool made_here = false;  // by a recorded call: not there at the start, nor received in a message
  KernelName kernel;
};

struct Descriptor {
  std::shared_ptr<OpenFile> file;
  bool close_on_exec = false;
};
using DescriptorTable = std::map<int, Descriptor>;

// A call of a log that succeeded. One that had to wait began before: when its thread gave the turn away.
struct ChannelCall {
  const recording::Event& event;
  const DescriptorTable& table;  // in front of it
  Tick began = 0;
  uint64_t began_event = 0;
  uint64_t given = 0;  // its number in the order of all processes where it began; 0: it has none
};

class Channels {
 public:
  explicit Channels(const recording::Recording& recording);

  // The file behind `fd`, in front of event `event` of that process's own log; null: not known.
  std::shared_ptr<OpenFile> file_at(uint64_t process, uint64_t event, int fd);

  using Visit = std::function<void(const ChannelCall&)>;
  // Every call of a process that succeeded, in the order of its log.
  void each_call(uint64_t process, const Visit& visit) { walk(process, ~0ull, {visit, {}, {}, {}}); }
  // More than that.
  struct Visitor {
    Visit call;
    Visit failed;                                                                // calls that did not succeed
    Visit named;                                                                 // behind a Channel event
    std::function<void(const recording::Event&, const DescriptorTable&)> other;  // what is no call
  };
  // The descriptors at the end.
  DescriptorTable each(uint64_t process, const Visitor& visitor) { return walk(process, ~0ull, visitor); }
  DescriptorTable table_at(uint64_t process, uint64_t event) { return walk(process, event, {}); }
  const std::vector<recording::ProcessInfo>& processes() const { return processes_; }
  const recording::Recording& recording() const { return recording_; }

 private:
  DescriptorTable walk(uint64_t process, uint64_t up_to, const Visitor& visitor);
  DescriptorTable inherited(const recording::ProcessInfo& info);
  DescriptorTable handed_on(const recording::ProcessInfo& info, const DescriptorTable& table) const;
  const recording::ProcessInfo* info(uint64_t process) const;

  const recording::Recording recording_;
  std::vector<recording::ProcessInfo> processes_;
  std::map<uint64_t, DescriptorTable> born_with_;  // of processes whose parent's log was read to its end
};

}  // namespace backstep::session
