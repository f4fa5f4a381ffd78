// Which bytes that one process or thread read are those that another one wrote: what went through pipes and
// sockets, from the logs alone.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "session/channels.h"

namespace backstep::session {

// A call that moved bytes through a pipe or a socket.
struct Transfer {
  uint64_t process = 0, event = 0, order = 0;
  Tick tick = 0, began = 0;  // where it ended, and where it was made
  Address pc = 0;
  int thread = 1;
  uint16_t nr = 0;
  uint64_t args[6] = {};
  uint64_t bytes = 0;
  std::optional<uint32_t> crc;  // of a write's bytes
  std::string data;             // of a read; empty: the log does not have it
};

// Bytes that one write gave and one read got.
struct Message {
  enum Kind : uint8_t { Pipe, SocketPair, Socket } kind = Pipe;
  const Transfer* write = nullptr;
  const Transfer* read = nullptr;
  uint64_t write_byte = 0, read_byte = 0;  // where they begin in what each of them moved
  uint64_t bytes = 0;
  bool checked = false;  // the write's checksum is that of what was read
};
const char* message_kind_name(Message::Kind kind);

class Messages {
 public:
  // Reads all logs.
  explicit Messages(Channels& channels);

  // By stream, and in each in the order of its bytes.
  const std::vector<Message>& all() const { return messages_; }
  // Who wrote byte `byte` of what event `event` read. Null: nobody who was recorded, or it cannot be told;
  // `why` then says so.
  const Message* of_read(uint64_t process, uint64_t event, uint64_t byte, std::string& why) const;

 private:
  using ReadKey = std::tuple<uint64_t, uint64_t>;  // process, event

  // One direction of a channel.
  struct Stream {
    std::vector<Transfer> writes, reads;
    bool datagrams = false;
    bool odd = false;  // bytes went in or out in a way that is not followed
  };
  struct Socket {
    uint64_t process, event;
    bool accepted;
  };
  // A channel by the call that made it, and which end the bytes come out of.
  using StreamKey = std::tuple<OpenFile::Kind, uint64_t, uint64_t, int>;

  void collect(Channels& channels);
  void collect_call(uint64_t process, const ChannelCall& call);
  void join_sockets();
  bool fits(const Stream& writes, const Stream& reads, bool* checked) const;
  void match(Stream& stream, Message::Kind kind);

  std::map<StreamKey, Stream> streams_;
  std::vector<Socket> sockets_;  // that bytes went through
  std::vector<Message> messages_;
  std::map<ReadKey, std::vector<size_t>> of_reads_;  // messages of a read
  std::map<ReadKey, std::string> unknown_;           // reads whose writer is not known
  uint64_t kept_ = 0;                                // bytes of reads
};

}  // namespace backstep::session
