// What a system call moved through pipes and sockets: how many bytes, in which direction, from or to whom.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "guest/socket_address.h"
#include "session/channels.h"

namespace backstep::session {

// A call, in the log of a process of one of several recordings.
struct CallPlace {
  uint32_t host = 0;  // which recording
  uint64_t process = 0, event = 0, order = 0;
  Tick tick = 0, began = 0;  // where it ended, and where it was made
  uint64_t began_event = 0;
  Address pc = 0;
  int thread = 1;
  uint16_t nr = 0;
};
// `gives`: what others may notice of it counts from where it began, else it counts what it noticed.
CallPlace call_place(const ChannelCall& call, bool gives);

// Bytes that one call moved through one descriptor: all of them, or one datagram of several.
struct Transfer : CallPlace {
  uint64_t args[6] = {};
  uint64_t bytes = 0;
  uint64_t part = 0;            // where they begin in all that the call moved
  uint64_t offset = 0;          // in the stream: how many bytes went through before
  bool peek = false;            // they are still there
  bool cut = false;             // of a datagram that was longer
  std::optional<uint32_t> crc;  // of a write's bytes
  std::string data;             // of a read; empty: the log does not have it
  guest::SocketAddress name;    // of datagrams: to whom, from whom
};

// The descriptor at fault, which way, and what: a call may do both (splice).
struct Movement {
  int fd = -1;
  bool gives = false;
  Transfer transfer;  // all but the host, the process and data
  // Where its bytes are in the log: pieces [first, last) of the event, the last `bytes` of them.
  size_t first = 0, last = 0;
};
// Bytes of a call that succeeded. (A read of nothing is one of 0 bytes.)
std::vector<Movement> movements_of(const ChannelCall& call);
// What a read got; empty if the log does not have all of it.
std::string data_of(const recording::Event& event, const Movement& movement);

}  // namespace backstep::session
