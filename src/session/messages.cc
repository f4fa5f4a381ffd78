// Bytes of a pipe have no name, but an order: what comes out is what went in, one write after the other. The
// recording numbers the calls of all processes (recording::Order), so the n-th byte that was read is the n-th
// byte that was written, and the write's checksum, where reads have taken all of it, says whether that is
// right. Of datagrams it is the n-th read that has the n-th write.
//
// The two ends of a pipe, and those of a pair of sockets, are known from the call that made them. A
// connection has an end that was accepted and one that has connected, and the log does not say of whom. Here
// the checksums decide: a pair of sockets belongs together if everything that one wrote is what the other
// read, both ways, and no other socket could have been it. Clients that the recording has not, or that all
// said the same, are told as not known.
#include "session/messages.h"

#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstring>

#include "base/hot.h"

namespace backstep::session {
namespace {

using recording::Event;
using recording::PieceKind;

constexpr uint64_t kMostKeptBytes = 1ull << 30;  // of what was read: more is not compared
constexpr size_t kMostSockets = 4'000;           // of which the other end is looked for

enum class Movement : uint8_t { None, Gives, Gets, Odd };

// Where a call gives or gets bytes of its first argument, or others' through it.
Movement movement_of(const Event& e) {
  switch (e.nr) {
    case SYS_write:
    case SYS_writev:
    case SYS_sendto:
    case SYS_sendmsg:
      return Movement::Gives;
    case SYS_read:
    case SYS_readv:
      return Movement::Gets;
    case SYS_recvfrom:
      return e.args[3] & MSG_PEEK ? Movement::None : Movement::Gets;
    case SYS_recvmsg:
      return e.args[2] & MSG_PEEK ? Movement::None : Movement::Gets;
    case SYS_splice:
    case SYS_tee:
    case SYS_vmsplice:
    case SYS_sendfile:
    case SYS_sendmmsg:
    case SYS_recvmmsg:
      return Movement::Odd;
    default:
      return Movement::None;
  }
}

// What a read got: a message's name and control data come before it.
std::string data_of(const Event& e, uint64_t bytes) {
  std::string data;
  for (const auto& piece : e.pieces)
    if (piece.kind == PieceKind::OutAtArg || piece.kind == PieceKind::OutAt)
      data.append(reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size());
  if (data.size() < bytes) return "";
  return e.nr == SYS_recvmsg ? data.substr(data.size() - bytes) : data.substr(0, bytes);
}

uint64_t sum_of(const std::vector<Transfer>& transfers) {
  uint64_t sum = 0;
  for (const Transfer& t : transfers) sum += t.bytes;
  return sum;
}

// Goes through the bytes of reads, so many at a time, and sums them up.
class ReadBytes {
 public:
  explicit ReadBytes(const std::vector<Transfer>& reads) : reads_(reads) {}

  // Calls piece(read, its byte, count) for the next `count` bytes; what is left of them if there are no more.
  template <class F>
  uint64_t take(uint64_t count, F&& piece) {
    while (count > 0 && next_ < reads_.size()) {
      const Transfer& r = reads_[next_];
      const uint64_t n = std::min(count, r.bytes - byte_);
      if (n > 0) piece(r, byte_, n);
      count -= n, byte_ += n;
      if (byte_ == r.bytes) next_++, byte_ = 0;
    }
    return count;
  }
  // The next read is of the next datagram, however much it has room for.
  template <class F>
  uint64_t take_datagram(uint64_t count, F&& piece) {
    if (next_ == reads_.size()) return count;
    const Transfer& r = reads_[next_++];
    const uint64_t n = std::min(count, r.bytes);
    if (n > 0) piece(r, 0, n);
    return count - n;
  }

 private:
  const std::vector<Transfer>& reads_;
  size_t next_ = 0;
  uint64_t byte_ = 0;
};

// The checksum of pieces of reads, as they come.
struct SumOfReads {
  uint32_t crc = 0;
  bool known = true;
  void add(const Transfer& read, uint64_t byte, uint64_t count) {
    known = known && read.data.size() >= byte + count;
    if (known) crc = hot::crc32c(crc, read.data.data() + byte, count);
  }
};

}  // namespace

const char* message_kind_name(Message::Kind kind) {
  static const char* const kNames[] = {"pipe", "socket pair", "socket"};
  return kNames[static_cast<size_t>(kind)];
}

Messages::Messages(Channels& channels) {
  collect(channels);
  join_sockets();
  for (auto& [key, stream] : streams_) {
    const OpenFile::Kind kind = std::get<0>(key);
    match(stream, kind == OpenFile::Pipe         ? Message::Pipe
                  : kind == OpenFile::SocketPair ? Message::SocketPair
                                                 : Message::Socket);
  }
  for (size_t i = 0; i < messages_.size(); i++)
    of_reads_[{messages_[i].read->process, messages_[i].read->event}].push_back(i);
}

void Messages::collect(Channels& channels) {
  for (const auto& p : channels.processes())
    channels.each_call(p.number, [&](const ChannelCall& call) { collect_call(p.number, call); });
  auto by_order = [](const Transfer& a, const Transfer& b) { return a.order < b.order; };
  for (auto& [key, stream] : streams_) {
    // Calls of one log are in its order already. Those without a number are of the time of one process.
    std::stable_sort(stream.reads.begin(), stream.reads.end(), by_order);
    std::stable_sort(stream.writes.begin(), stream.writes.end(), by_order);
  }
}

void Messages::collect_call(uint64_t process, const ChannelCall& call) {
  const Event& e = call.event;
  const Movement movement = movement_of(e);
  if (movement == Movement::None) return;
  auto stream_of = [&](uint64_t fd, bool gives) -> Stream* {
    auto it = call.table.find(static_cast<int>(fd));
    if (it == call.table.end()) return nullptr;
    const OpenFile& f = *it->second.file;
    if (f.kind != OpenFile::Pipe && f.kind != OpenFile::SocketPair && f.kind != OpenFile::Socket)
      return nullptr;
    // What one end of a pair gives the other gets. Of a socket, end 1 is what it has written.
    const int out = f.kind == OpenFile::Pipe     ? 0
                    : f.kind == OpenFile::Socket ? (gives ? 1 : 0)
                    : gives                      ? 1 - f.end
                                                 : f.end;
    auto [place, fresh] = streams_.try_emplace({f.kind, f.process, f.event, out});
    place->second.datagrams = f.datagrams;
    if (f.kind == OpenFile::Socket && !streams_.count({f.kind, f.process, f.event, 1 - out}) && fresh)
      sockets_.push_back({f.process, f.event, f.accepted});
    return &place->second;
  };
  if (movement == Movement::Odd) {
    const bool both = e.nr == SYS_splice || e.nr == SYS_tee || e.nr == SYS_sendfile;
    const size_t second = e.nr == SYS_splice ? 2 : 1;
    for (bool gives : {false, true}) {
      if (Stream* s = stream_of(e.args[0], gives)) s->odd = true;
      if (Stream* s = both ? stream_of(e.args[second], gives) : nullptr) s->odd = true;
    }
    return;
  }
  const bool gives = movement == Movement::Gives;
  Stream* stream = stream_of(e.args[0], gives);
  if (!stream) return;
  Transfer t;
  t.process = process, t.event = e.number;
  t.order = gives ? call.given : e.order.got;
  t.tick = e.tick, t.began = call.began;
  t.pc = e.pc, t.thread = e.thread, t.nr = e.nr;
  std::memcpy(t.args, e.args, sizeof t.args);
  t.bytes = static_cast<uint64_t>(e.result);
  for (const auto& piece : e.pieces)
    if (gives && piece.kind == PieceKind::Sum && piece.length == t.bytes) t.crc = piece.crc;
  if (!gives && kept_ < kMostKeptBytes) {
    t.data = data_of(e, t.bytes);
    kept_ += t.data.size();
  }
  (gives ? stream->writes : stream->reads).push_back(std::move(t));
}

// Could what was read be what was written? `checked`: some of it is.
bool Messages::fits(const Stream& written, const Stream& read, bool* checked) const {
  if (written.odd || read.odd || sum_of(read.reads) > sum_of(written.writes)) return false;
  ReadBytes bytes(read.reads);
  for (const Transfer& w : written.writes) {
    SumOfReads sum;
    const uint64_t left = bytes.take(
        w.bytes, [&](const Transfer& r, uint64_t byte, uint64_t count) { sum.add(r, byte, count); });
    if (left > 0) break;
    if (!w.crc || !sum.known || w.bytes == 0) continue;
    if (sum.crc != *w.crc) return false;
    *checked = true;
  }
  return true;
}

// The ends of connections, by what went through them. Streams of two sockets become one.
void Messages::join_sockets() {
  auto stream = [&](const Socket& s, int out) -> Stream& {
    return streams_[{OpenFile::Socket, s.process, s.event, out}];
  };
  std::vector<const Socket*> accepted, others;
  for (const Socket& s : sockets_) (s.accepted ? accepted : others).push_back(&s);
  if (accepted.size() > kMostSockets || others.size() > kMostSockets) accepted.clear();
  std::map<const Socket*, std::vector<const Socket*>> candidates, of_others;
  for (const Socket* a : accepted)
    for (const Socket* o : others) {
      bool checked = false;
      if (stream(*a, 1).datagrams || stream(*o, 1).datagrams) continue;
      if (!fits(stream(*o, 1), stream(*a, 0), &checked) || !fits(stream(*a, 1), stream(*o, 0), &checked))
        continue;
      if (!checked) continue;
      candidates[a].push_back(o);
      of_others[o].push_back(a);
    }
  for (const auto& [a, list] : candidates) {
    if (list.size() != 1 || of_others[list[0]].size() != 1) continue;
    stream(*a, 0).writes.swap(stream(*list[0], 1).writes);
    stream(*list[0], 0).writes.swap(stream(*a, 1).writes);
  }
}

void Messages::match(Stream& stream, Message::Kind kind) {
  auto not_known = [&](const Transfer& r, const char* why) {
    unknown_.try_emplace({r.process, r.event}, why);
  };
  if (stream.odd || (kind == Message::Socket && stream.writes.empty())) {
    for (const Transfer& r : stream.reads)
      not_known(r, stream.odd ? "bytes went through it by splice or the like, which is not followed"
                              : "its other end was not recorded, or several recorded sockets could be it");
    return;
  }
  ReadBytes bytes(stream.reads);
  for (const Transfer& w : stream.writes) {
    SumOfReads sum;
    const size_t first = messages_.size();
    uint64_t byte = 0;
    auto piece = [&](const Transfer& r, uint64_t at, uint64_t count) {
      sum.add(r, at, count);
      messages_.push_back({kind, &w, &r, byte, at, count, false});
      byte += count;
    };
    const uint64_t left = stream.datagrams ? bytes.take_datagram(w.bytes, piece) : bytes.take(w.bytes, piece);
    if (left > 0 || !w.crc || !sum.known) continue;
    const bool right = sum.crc == *w.crc;
    for (size_t i = first; i < messages_.size(); i++) {
      messages_[i].checked = right;
      if (!right)
        not_known(*messages_[i].read,
                  "what was written and what was read there differ, so their order is not known");
    }
    if (!right) messages_.resize(first);
  }
}

const Message* Messages::of_read(uint64_t process, uint64_t event, uint64_t byte, std::string& why) const {
  if (auto list = of_reads_.find({process, event}); list != of_reads_.end())
    for (size_t i : list->second) {
      const Message& m = messages_[i];
      if (byte >= m.read_byte && byte - m.read_byte < m.bytes) return &m;
    }
  auto reason = unknown_.find({process, event});
  why = reason != unknown_.end() ? reason->second : "no recorded process wrote them";
  return nullptr;
}

}  // namespace backstep::session
