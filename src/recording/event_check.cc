// Limits are the kernel's, or those of what the recorder can have written: an event that was recorded passes
// always, as everything here is about numbers that the recorder or the kernel have made, and never about what
// a program may ask for.
#include "recording/event_check.h"

#include <csignal>
#include <cstring>
#include <iterator>

#include "engine/host_ops.h"
#include "engine/layout.h"
#include "guest/loadable.h"
#include "guest/process.h"
#include "guest/signal_frame.h"
#include "guest/syscall_table.h"
#include "recording/codec.h"
#include "recording/store.h"

namespace backstep::recording {
namespace {

using layout::kPage;

constexpr int64_t kMostSize = INT64_MAX;
constexpr int kSiginfoBytes = 128;

bool is_signal(uint64_t number) {
  return number >= 1 && number <= static_cast<uint64_t>(guest::kSignals);
}

constexpr char kUnreadable[] = "cannot be decoded";

const char* wrong_with_piece(PieceKind kind, int arg, int argc, uint64_t address, uint64_t length) {
  // What was at an address of its own needs no argument.
  if (kind != PieceKind::OutAt && kind != PieceKind::TextAt && arg >= argc)
    return "is about an argument that its call has not";
  const bool out = kind == PieceKind::OutAt || kind == PieceKind::OutAtArg;
  return out && length && !is_guest_range(address, length) ? "writes to memory that no program has" : nullptr;
}

const char* wrong_with_call(const Event& e) {
  const int argc = guest::syscall_row(e.nr).argc;
  for (const Piece& piece : e.pieces)
    if (const char* wrong = wrong_with_piece(piece.kind, piece.arg, argc, piece.addr, piece.bytes.size()))
      return wrong;
  return nullptr;
}

// As decode_event and wrong_with, without keeping anything: most events are calls, and each is looked at once
// more whenever its log is read.
const char* check_call(const EventHeader& header, Cursor c, Tick& tick) {
  c.skip_order(header.flags);
  const Tick before = tick;
  tick += c.varint();
  c.varint(), c.u32(), c.varint();  // pc, digest, result
  const int argc = guest::syscall_row(header.nr).argc;
  uint64_t args[8] = {};  // a piece can name more than six
  for (int i = 0; i < argc; i++) args[i] = c.varint();
  while (c.ok && c.p < c.end) {
    const uint8_t tag = c.u8();
    const auto kind = static_cast<PieceKind>(tag >> 3);
    if (kind > PieceKind::TextAt) return kUnreadable;
    const bool elsewhere = kind == PieceKind::OutAt || kind == PieceKind::TextAt;
    const uint64_t at = elsewhere ? c.varint() : args[tag & 7], length = c.varint();
    kind == PieceKind::Sum ? static_cast<void>(c.u32()) : static_cast<void>(c.bytes(length));
    if (!c.ok) return kUnreadable;
    if (const char* wrong = wrong_with_piece(kind, tag & 7, argc, at, length)) return wrong;
  }
  return c.ok && tick >= before ? nullptr : kUnreadable;
}

const char* wrong_with_map(const Event& e) {
  if (e.addr % kPage || e.length == 0 || !is_guest_range(e.addr, layout::page_up(e.length)))
    return "is about memory that no program has";
  if (e.offset % kPage || e.offset > static_cast<uint64_t>(kMostSize) - e.length)
    return "has an impossible offset";
  if (!e.key.empty() && !is_key(e.key)) return "has a key that is none";
  return nullptr;
}

const char* wrong_with_channel(const ChannelName& n) {
  constexpr size_t kMostAddress = 128;
  if (n.reason > ChannelReason::Named) return "has a reason that does not exist";
  if (n.object != ChannelObject::Pipe && n.object != ChannelObject::Socket)
    return "names what does not exist";
  return n.fd < 0 || n.local.size() > kMostAddress || n.peer.size() > kMostAddress ? "names what cannot be"
                                                                                   : nullptr;
}

const char* wrong_with_gap(const Event& e) {
  constexpr size_t kFlags = 17, kFs = 18, kGs = 19, kHi16 = 21;
  if (!guest::is_flags(e.values[kFlags])) return "has flags that no program has";
  if (!guest::is_base(e.values[kFs]) || !guest::is_base(e.values[kGs])) return "has segments that no CPU has";
  if (e.values[kHi16] > kGapVectors || !guest::is_loadable(e.body.data()))
    return "has registers that no CPU has";
  return nullptr;
}

}  // namespace

bool is_guest_range(uint64_t address, uint64_t length) {
  constexpr uint64_t kEnd = 0x7fff'ffff'f000;
#ifdef __SANITIZE_ADDRESS__
  constexpr layout::Zone kShadow{0x7fff'7000, 0x1000'7fff'8000};
  if (address < kShadow.end && address + length > kShadow.start) return false;
#endif
  return address <= kEnd && length <= kEnd - address && !layout::overlaps_engine(address, address + length);
}

const char* check_event(std::span<const uint8_t> bytes, Tick& tick, Event& scratch) {
  EventHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (static_cast<EventKind>(header.kind) == EventKind::Syscall)
    return check_call(header, {bytes.data() + sizeof header, bytes.data() + bytes.size() - 2}, tick);
  return decode_event(bytes, tick, scratch) ? wrong_with(scratch) : kUnreadable;
}

const char* wrong_with(const Event& e) {
  switch (e.kind) {
    case EventKind::Syscall:
      return wrong_with_call(e);
    case EventKind::Instr:
      return e.values.size() > std::size(engine::HostValues{}.value) ? "has too many values" : nullptr;
    case EventKind::Signal:
      if (!is_signal(static_cast<uint64_t>(e.signo))) return "is a signal that does not exist";
      return e.body.size() != kSiginfoBytes ? "has an impossible size" : nullptr;
    case EventKind::Map:
      return wrong_with_map(e);
    case EventKind::Memory:
      return is_guest_range(e.addr, e.length) ? nullptr : "is about memory that no program has";
    case EventKind::FileSize:
    case EventKind::Resize:
      return e.length > static_cast<uint64_t>(kMostSize) ||
                     e.offset > static_cast<uint64_t>(kMostSize) - e.body.size()
                 ? "has an impossible size"
                 : nullptr;
    case EventKind::Start: {
      constexpr size_t kFlags = 17;
      return guest::is_flags(e.values[kFlags]) ? nullptr : "has flags that no program has";
    }
    case EventKind::Shared:
      return e.addr % kSharedPage == 0 && is_guest_range(e.addr, kSharedPage)
                 ? nullptr
                 : "is about memory that no program has";
    case EventKind::Turn:
      if (e.next_thread < 1) return "is about a thread that does not exist";
      return e.nr > static_cast<uint16_t>(TurnReason::Vforked) ? "has a reason that does not exist" : nullptr;
    case EventKind::Gap:
      return wrong_with_gap(e);
    case EventKind::Channel:
      return wrong_with_channel(e.channel);
    case EventKind::End:
      if (e.end > EndKind::Stopped) return "is an end that does not exist";
      if (e.end == EndKind::Signal && !is_signal(static_cast<uint64_t>(e.result)))
        return "is a signal that does not exist";
      return e.result < 0 ? "has an impossible status" : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace backstep::recording
