// Which bytes that one process or thread read are those that another one wrote: what went through pipes and
// sockets, from the logs alone; within a recording, or between several.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "session/sides.h"

namespace backstep::session {

// Bytes that one write gave and one read got.
struct Message {
  enum Kind : uint8_t { Pipe, SocketPair, Socket } kind = Pipe;
  const Transfer* write = nullptr;
  const Transfer* read = nullptr;
  uint64_t write_byte = 0, read_byte = 0;  // where they begin in what each of them moved
  uint64_t bytes = 0;
  bool checked = false;  // the write's checksum is that of what was read
  const Side *from = nullptr, *to = nullptr;
  bool duplicate = false;  // a datagram that was received before
};
const char* message_kind_name(Message::Kind kind);

// Bytes that only one side tells of, and why.
struct Unmatched {
  const Side* side = nullptr;
  const Transfer* transfer = nullptr;
  bool sent = false;
  uint64_t byte = 0, bytes = 0;  // of the transfer
  const char* why = "";
};

class Messages {
 public:
  // Reads all logs: of one recording, or of several.
  explicit Messages(Channels& channels) : Messages(std::vector<Channels*>{&channels}) {}
  explicit Messages(const std::vector<Channels*>& hosts);

  // By stream, and in each in the order of its bytes.
  const std::vector<Message>& all() const { return messages_; }
  const std::vector<Unmatched>& unmatched() const { return unmatched_; }
  const Sides& sides() const { return sides_; }
  // Who wrote byte `byte` of what event `event` read. Null: nobody who was recorded, or it cannot be told;
  // `why` then says so.
  const Message* of_read(uint64_t process, uint64_t event, uint64_t byte, std::string& why,
                         uint32_t host = 0) const;

 private:
  using ReadKey = std::tuple<uint32_t, uint64_t, uint64_t>;  // host, process, event

  void match_stream(Side& from, Side& to);
  void match_datagrams(Side& to);
  void match_linked_datagrams(Side& from, Side& to);
  void tell(const Side& side, const Transfer& t, bool sent, uint64_t byte, uint64_t bytes, const char* why);

  Sides sides_;
  std::vector<Message> messages_;
  std::vector<Unmatched> unmatched_;
  std::map<ReadKey, std::vector<size_t>> of_reads_;  // messages of a read
  std::map<ReadKey, std::string> unknown_;           // reads whose writer is not known
  // Datagrams without a connection, by the port or the path that they are sent to.
  struct Sent {
    Side* side;
    size_t index;
    bool arrived = false;
  };
  std::map<std::string, std::vector<Sent>> sent_to_;
};

}  // namespace backstep::session
