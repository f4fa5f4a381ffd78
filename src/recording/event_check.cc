// Limits are the kernel's, or those of what the recorder can have written: an event that was recorded passes
// always, as everything here is about numbers that the recorder or the kernel have made, and never about what
// a program may ask for.
#include "recording/event_check.h"

#include <csignal>
#include <iterator>

#include "engine/host_ops.h"
#include "engine/layout.h"
#include "guest/loadable.h"
#include "guest/process.h"
#include "guest/signal_frame.h"
#include "guest/syscall_table.h"
#include "recording/store.h"

namespace backstep::recording {
namespace {

using layout::kPage;

constexpr int64_t kMostSize = INT64_MAX;
constexpr int kSiginfoBytes = 128;

bool is_signal(uint64_t number) {
  return number >= 1 && number <= static_cast<uint64_t>(guest::kSignals);
}

const char* wrong_with_call(const Event& e) {
  const int argc = guest::syscall_row(e.nr).argc;
  for (const Piece& piece : e.pieces) {
    // What was at an address of its own needs no argument.
    if (piece.kind != PieceKind::OutAt && piece.arg >= argc)
      return "is about an argument that its call has not";
    const bool out = piece.kind == PieceKind::OutAt || piece.kind == PieceKind::OutAtArg;
    if (out && !piece.bytes.empty() && !is_guest_range(piece.addr, piece.bytes.size()))
      return "writes to memory that no program has";
  }
  return nullptr;
}

const char* wrong_with_map(const Event& e) {
  if (e.addr % kPage || e.length == 0 || !is_guest_range(e.addr, layout::page_up(e.length)))
    return "is about memory that no program has";
  if (e.offset % kPage || e.offset > static_cast<uint64_t>(kMostSize) - e.length)
    return "has an impossible offset";
  if (!e.key.empty() && !is_key(e.key)) return "has a key that is none";
  return nullptr;
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
