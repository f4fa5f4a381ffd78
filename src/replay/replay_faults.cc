// Faults of the program's own code, and handlers that cannot be entered.
//
// A fault needs no help to come again; its event is there to be compared. Nor does a handler without a stack:
// where its frame cannot be written then, it cannot be now. What follows is SIGSEGV in its place, which is an
// event of its own.
#include <fmt/format.h>
#include <sys/mman.h>

#include <csignal>
#include <cstring>

#include "guest/buffers.h"
#include "replay/replayer.h"

namespace backstep::replayer {

using namespace guest;
using recording::EndKind;
using recording::Event;
using recording::EventHeader;
using recording::EventKind;

void Replayer::on_fault(const engine::FaultInfo& fault) {
  Context& ctx = context();
  if (process_.alias_write(fault)) return;
  Event e;
  if (!take(e)) return end_incomplete();
  if (shared_fault_ && e.kind == EventKind::Shared) {
    shared_fault_ = false;
    const Region* r = process_.map.find(e.addr);
    mprotect(reinterpret_cast<void*>(e.addr), e.length, r ? r->prot & (PROT_READ | PROT_WRITE) : PROT_READ);
    if (e.tick != ctx.tick || e.pc != ctx.rip || e.digest != register_digest(ctx) ||
        fault.address - e.addr >= e.length)
      diverged(e, event_text(e),
               fmt::format("access to {:#x} at {}", fault.address, place(ctx.tick, ctx.rip)));
    change_memory(e);
    return after_call(0, 0);
  }
  std::string now =
      fmt::format("signal {} (address {:#x}) at {}", fault.signo, fault.address, place(ctx.tick, ctx.rip));
  if (e.kind == EventKind::End && e.end == EndKind::Stopped) return end(e);
  if (e.tick != ctx.tick || e.pc != ctx.rip) diverged(e, event_text(e), now);
  if (e.kind == EventKind::End) {
    // A handler whose frame does not fit dies of SIGSEGV instead.
    if (e.end != EndKind::Signal || (e.result != fault.signo && e.result != SIGSEGV))
      diverged(e, event_text(e), now);
    return end(e);
  }
  siginfo_t info = fault_siginfo(fault);
  if (e.kind != EventKind::Signal || e.signo != fault.signo || e.digest != register_digest(ctx) ||
      // Both were zeroed before they were filled in.  NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
      e.body.size() < sizeof info || std::memcmp(e.body.data(), &info, sizeof info) != 0)
    diverged(e, event_text(e), now);
  if (!process_.push_handler(fault.signo, info, fault_trap(fault)) && !goes_on_without_stack(fault.signo))
    return;
  after_call(0, 0);
}

// A handler whose frame does not fit on the stack: the program dies of that, here; or SIGSEGV has a handler,
// which comes next. False: this is the end.
bool Replayer::goes_on_without_stack(int signo) {
  Event next;
  EventHeader header;
  if (!peek(header)) {
    end_incomplete();
    return false;
  }
  Tick tick = bs_replay.tick;
  if (!recording::decode_event({bs_replay.p, header.size}, tick, next)) take(next);  // says so
  const Context& ctx = context();
  siginfo_t info{};
  if (next.kind == EventKind::Signal)
    std::memcpy(&info, next.body.data(), std::min(sizeof info, next.body.size()));
  if (next.kind == EventKind::Signal && next.signo == SIGSEGV && info.si_code == SI_KERNEL &&
      (next.flags & recording::kAsynchronous) && next.tick == ctx.tick && next.pc == ctx.rip &&
      process_.forced_by(signo))
    return true;
  take(next);
  if (next.kind != EventKind::End || next.result != SIGSEGV)
    diverged(next, event_text(next), "no stack for the handler");
  end(next);
  return false;
}

}  // namespace backstep::replayer
