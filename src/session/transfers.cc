// Which calls move bytes of pipes and sockets. The log has what a read got; of a write it has a checksum; of
// calls that move bytes past the program's memory (splice) only how many they were.
#include "session/transfers.h"

#include <sys/socket.h>
#include <sys/syscall.h>

#include <cstring>

#include "guest/buffers.h"

namespace backstep::session {
namespace {

using recording::Event;
using recording::Piece;
using recording::PieceKind;

bool is_out(const Piece& p) {
  return p.kind == PieceKind::OutAt || p.kind == PieceKind::OutAtArg;
}

uint32_t word_of(const Piece& p, size_t at) {
  uint32_t word = 0;
  if (p.bytes.size() >= at + sizeof word) std::memcpy(&word, p.bytes.data() + at, sizeof word);
  return word;
}

// The part of a message's pieces that is about its header: name_length, then control_length and flags, then
// perhaps a name.
void read_header(const Event& e, size_t first, Movement& m) {
  constexpr size_t kFlags = 8;
  if (first + 1 >= m.last) return;
  const uint32_t name_length = word_of(e.pieces[first], 0);
  m.transfer.cut = word_of(e.pieces[first + 1], kFlags) & MSG_TRUNC;
  if (name_length && first + 2 < m.last && e.pieces[first + 2].bytes.size() == std::min(name_length, 128u))
    m.transfer.name = guest::socket_address(e.pieces[first + 2].bytes);
}

class MovementReader {
 public:
  MovementReader(const ChannelCall& call, std::vector<Movement>& list) : call_(call), e_(call.event), list_(list) {}

  void add(uint64_t fd, bool gives, bool peek = false) {
    Movement m;
    m.fd = static_cast<int>(fd), m.gives = gives;
    static_cast<CallPlace&>(m.transfer) = call_place(call_, gives);
    std::memcpy(m.transfer.args, e_.args, sizeof e_.args);
    m.transfer.bytes = static_cast<uint64_t>(e_.result);
    m.transfer.peek = peek;
    m.last = e_.pieces.size();
    for (const Piece& p : e_.pieces)
      if (gives && p.kind == PieceKind::Sum && p.length == m.transfer.bytes) m.transfer.crc = p.crc;
    list_.push_back(m);
  }
  void send(int name) {
    add(e_.args[0], true);
    for (const Piece& p : e_.pieces)
      if ((p.kind == PieceKind::Text && p.arg == name) || p.kind == PieceKind::TextAt)
        list_.back().transfer.name = guest::socket_address(p.bytes);
  }
  // Peeks leave it there; what waits in the queue of errors is something else.
  bool receive(uint64_t flags) {
    if (flags & (MSG_ERRQUEUE | MSG_OOB)) return false;
    add(e_.args[0], false, flags & MSG_PEEK);
    return true;
  }
  void receive_from() {
    if (!receive(e_.args[3])) return;
    Transfer& t = list_.back().transfer;
    for (const Piece& p : e_.pieces)
      if (is_out(p) && p.arg == 4) t.name = guest::socket_address(p.bytes);
    t.cut = t.bytes >= e_.args[2];
  }
  void receive_message() {
    if (receive(e_.args[2])) read_header(e_, 0, list_.back());
  }
  // Each has its length behind its header.
  void send_messages() {
    uint64_t part = 0, index = 0;
    std::vector<const Piece*> names;
    for (const Piece& p : e_.pieces)
      if (p.kind == PieceKind::TextAt) names.push_back(&p);
    const bool all_named = names.size() == static_cast<uint64_t>(e_.result);
    for (const Piece& p : e_.pieces) {
      if (p.kind != PieceKind::OutAt || p.bytes.size() != sizeof(uint32_t)) continue;
      add(e_.args[0], true);
      Transfer& t = list_.back().transfer;
      t.crc.reset();
      t.bytes = word_of(p, 0), t.part = part;
      if (all_named && index < names.size()) t.name = guest::socket_address(names[index]->bytes);
      part += t.bytes, index++;
    }
  }
  void receive_messages() {
    if (e_.args[3] & (MSG_ERRQUEUE | MSG_OOB)) return;
    constexpr uint64_t kLengthAt = sizeof(guest::Msghdr);
    const size_t before = list_.size();
    uint64_t part = 0, index = 0;
    for (size_t i = 0; i < e_.pieces.size(); i++) {
      const Piece& p = e_.pieces[i];
      if (!is_out(p) || p.addr != e_.args[1] + index * guest::kMmsgSize + kLengthAt) continue;
      if (list_.size() > before) list_.back().last = i;
      add(e_.args[0], false, e_.args[3] & MSG_PEEK);
      Movement& m = list_.back();
      m.first = i + 1;
      m.transfer.bytes = word_of(p, 0), m.transfer.part = part;
      part += m.transfer.bytes, index++;
    }
    for (size_t k = before; k < list_.size(); k++) read_header(e_, list_[k].first, list_[k]);
  }
  // Into a pipe, or out of it, by which end that is.
  void splice_memory() {
    auto it = call_.table.find(static_cast<int>(e_.args[0]));
    if (it != call_.table.end()) add(e_.args[0], it->second.file->end == 1);
    if (!list_.empty()) list_.back().transfer.crc.reset();
  }

 private:
  const ChannelCall& call_;
  const Event& e_;
  std::vector<Movement>& list_;
};

}  // namespace

CallPlace call_place(const ChannelCall& call, bool gives) {
  const Event& e = call.event;
  CallPlace p;
  p.event = e.number;
  p.order = gives ? call.given : e.order.got;
  p.tick = e.tick, p.began = call.began, p.began_event = call.began_event;
  p.pc = e.pc, p.thread = e.thread, p.nr = e.nr;
  return p;
}

std::vector<Movement> movements_of(const ChannelCall& call) {
  std::vector<Movement> list;
  MovementReader r(call, list);
  const Event& e = call.event;
  switch (e.nr) {
    case SYS_write:
    case SYS_writev:
      r.add(e.args[0], true);
      break;
    case SYS_read:
    case SYS_readv:
      r.add(e.args[0], false);
      break;
    case SYS_sendto:
      if (!(e.args[3] & MSG_OOB)) r.send(4);
      break;
    case SYS_sendmsg:
      if (!(e.args[2] & MSG_OOB)) r.send(-1);
      break;
    case SYS_recvfrom:
      r.receive_from();
      break;
    case SYS_recvmsg:
      r.receive_message();
      break;
    case SYS_sendmmsg:
      r.send_messages();
      break;
    case SYS_recvmmsg:
      r.receive_messages();
      break;
    case SYS_splice:
      r.add(e.args[0], false);
      r.add(e.args[2], true);
      break;
    case SYS_tee:
      r.add(e.args[0], false, true);
      r.add(e.args[1], true);
      break;
    case SYS_sendfile:
      r.add(e.args[0], true);
      break;
    case SYS_vmsplice:
      r.splice_memory();
      break;
    default:
      break;
  }
  return list;
}

std::string data_of(const Event& e, const Movement& m) {
  if (m.gives || e.nr == SYS_splice || e.nr == SYS_tee) return "";
  std::string data;
  for (size_t i = m.first; i < m.last && i < e.pieces.size(); i++)
    if (is_out(e.pieces[i]) && !(e.nr == SYS_recvfrom && e.pieces[i].arg != 1))
      data.append(reinterpret_cast<const char*>(e.pieces[i].bytes.data()), e.pieces[i].bytes.size());
  const uint64_t bytes = m.transfer.bytes;
  if (data.size() < bytes) return "";
  // A message's name and control data come before it.
  const bool message = e.nr == SYS_recvmsg || e.nr == SYS_recvmmsg;
  return message ? data.substr(data.size() - bytes) : data.substr(0, bytes);
}

}  // namespace backstep::session
