// Who wrote a register last, if that was long ago.
//
// A loop's counter lies in its register while the functions that the loop calls execute millions of
// instructions. All of these would be stepped through in vain. But which instructions write a register is to
// be seen in the code, and which code a window executes is in its table of contents. So these instructions
// are places to look for, with the timeline's backward search: windows that execute none of them are passed
// over, others replayed at nearly full speed, since what has not been written for so long is hardly met.
//
// It must not miss one. Where an instruction begins in executed code is not asked: one is looked for at each
// byte of it, and a place at which none begins is never met. The code must have been the same all the time,
// so the search goes back no further than to where it has changed. What else writes registers is in the log
// (signals), and is left to the steps.
#include <algorithm>
#include <cstring>
#include <sstream>

#include <sys/syscall.h>

#include "base/error.h"
#include "recording/contents.h"
#include "replay/bytecode.h"
#include "session/flow_trail.h"
#include "session/present.h"

namespace backstep::session {
namespace {

using recording::AddressRange;
using recording::Event;
using recording::EventKind;
using timeline::Arrival;
using Span = timeline::Timeline::Span;

constexpr unsigned kMostMisses = 32;    // places that were met and have not written it after all
constexpr size_t kMostCode = 64 << 20;  // bytes that are looked through for instructions
constexpr Tick kTicksBefore = 16;       // of the steps that show what a place has done

// In the order of Context::gpr, as gdb's numbers.
constexpr uint8_t kGdbRax = 0;

uint64_t general_bits(std::initializer_list<unsigned> numbers) {
  uint64_t bits = 0;
  for (const unsigned n : numbers) bits |= register_bit({Loc::General, n * 64ull});
  return bits;
}

const uint64_t kOfCalls = general_bits({RAX, RCX, 11});  // what each system call writes

// The window that a moment is in or at the end of.
std::optional<Span> window_before(const timeline::Timeline& timeline, const Position& end) {
  for (const Span& w : timeline.windows_in({timeline.first(), timeline.log().last().position()}))
    if (w.from < end && (end <= w.to || w.to == timeline.log().last().position())) return w;
  return std::nullopt;
}

// Memory that code is executed in and that the program cannot write to; ascending.
std::vector<AddressRange> fixed_code(const std::string& maps) {
  std::vector<AddressRange> fixed;
  std::istringstream lines(maps);
  for (std::string line; std::getline(lines, line);) {
    uint64_t start = 0, end = 0;
    char rights[5] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &start, &end, rights) != 3) continue;
    if (std::strcmp(rights, "r-xp") == 0) fixed.push_back({start, end});
  }
  return fixed;
}

bool is_in(const std::vector<AddressRange>& ranges, Address start, Address end) {
  for (const AddressRange& r : ranges) {
    if (r.start > start || start >= r.end) continue;
    if (end <= r.end) return true;
    start = r.end;  // on in the next one
  }
  return false;
}

bool meets_any(const std::vector<AddressRange>& ranges, Address start, uint64_t size) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const AddressRange& r) {
    return r.end > start && (r.start <= start || r.start - start < size);
  });
}

// May it change the code, not counting what the program's own instructions store?
bool may_change(const std::vector<AddressRange>& code, const Event& e) {
  switch (e.kind) {
    case EventKind::Syscall:
      switch (e.nr) {
        case SYS_mmap:
          return meets_any(code, static_cast<uint64_t>(e.result), e.args[1]);
        case SYS_mremap:
          return meets_any(code, e.args[0], e.args[1]) ||
                 meets_any(code, static_cast<uint64_t>(e.result), e.args[2]);
        case SYS_munmap:
        case SYS_mprotect:
        case SYS_pkey_mprotect:
        case SYS_madvise:
        case SYS_remap_file_pages:
          return meets_any(code, e.args[0], e.args[1]);
        case SYS_shmat:
        case SYS_shmdt:
        case SYS_process_madvise:
          return true;
        default:
          return false;
      }
    case EventKind::Map:
      return meets_any(code, e.addr, e.length);
    case EventKind::Memory:
      return meets_any(code, e.addr, e.body.size());
    case EventKind::Shared:
      return std::any_of(e.pieces.begin(), e.pieces.end(),
                         [&](const auto& p) { return meets_any(code, p.addr, p.bytes.size()); });
    default:
      return false;
  }
}

// thread is this one [and rax is rt_sigreturn's number]; no bytes: always.
std::vector<uint8_t> condition_of(int thread, bool only_sigreturn) {
  using namespace replayer;
  std::vector<uint8_t> code;
  auto equals = [&](std::initializer_list<uint8_t> value, uint32_t number) {
    code.insert(code.end(), value);
    code.push_back(kConst32);
    for (int shift = 24; shift >= 0; shift -= 8) code.push_back(static_cast<uint8_t>(number >> shift));
    code.push_back(kEqual);
  };
  if (thread) equals({kState, kStateThread}, static_cast<uint32_t>(thread));
  if (only_sigreturn) {
    equals({kReg, 0, kGdbRax}, SYS_rt_sigreturn);
    if (thread) code.push_back(kBitAnd);
  }
  if (!code.empty()) code.push_back(kEnd);
  return code;
}

}  // namespace

// From where on in (low, end) the log has nothing that may change the code or a register of the thread.
Position Trail::undisturbed_from(const Position& low, const Position& end, int thread, uint64_t registers,
                                 const std::vector<AddressRange>& code) {
  // Registers that a handler starts with.
  const bool started = registers & general_bits({RDI, RSI, RDX, RSP, RAX});
  // Where a call that waits began is no place where its result is written.
  const bool by_call = registers & kOfCalls;
  Position from = low;
  session_.timeline().log().each(low.event, [&](const timeline::Moment& m, std::span<const uint8_t> bytes) {
    if (m.event < low.event) return true;
    if (m.tick > end.tick) return false;
    Event e;
    Tick tick = 0;
    if (!recording::decode_event(bytes, tick, e)) return true;
    const bool mine = (e.kind == EventKind::Signal && started) || (e.kind == EventKind::Syscall && by_call);
    if (e.kind == EventKind::Gap) from = std::max(from, {m.tick + e.ticks + 1, 0, 0});
    if ((mine && turn_at(m.tick) == thread) || may_change(code, e)) from = std::max(from, {m.tick + 1, 0, 0});
    return true;
  });
  return from;
}

int Trail::turn_at(Tick tick) const {
  const auto& turns = session_.timeline().log().turns();
  auto next = std::partition_point(turns.begin(), turns.end(), [&](const auto& t) { return t.tick <= tick; });
  return next == turns.begin() ? 0 : std::prev(next)->thread;
}

// Instructions of executed code that may write one of the registers. Nullopt: the code is not known.
std::optional<timeline::Taps> Trail::writers(const recording::Contents& contents, uint64_t registers,
                                             int thread) {
  const std::vector<AddressRange> fixed = fixed_code(session_.timeline().present().maps());
  const bool alone = session_.timeline().log().thread_starts().empty();
  const bool by_call = registers & kOfCalls;
  timeline::Taps taps;
  size_t looked_at = 0;
  for (const AddressRange& r : contents.code) {
    looked_at += r.end - r.start;
    if (looked_at > kMostCode) return std::nullopt;
    const std::vector<uint8_t> bytes = Present(session_).memory(r.start, r.end - r.start + 15);
    // Not there at the end, and it did not change: so it was executed earlier.
    if (bytes.empty()) continue;
    const bool same = is_in(fixed, r.start, r.end) || !contents.wrote(r.start, r.end);
    if (!same || bytes.size() < r.end - r.start) return std::nullopt;
    for (Address pc = r.start; pc < r.end; pc++) {
      const auto rest = std::span(bytes).subspan(pc - r.start);
      const Decoder::Writes writes = decoder_.writes(rest.first(std::min<size_t>(rest.size(), 15)));
      const bool direct = writes.registers & registers;
      if (!direct && !writes.is_call) continue;
      timeline::Tap tap;
      tap.start = pc;
      tap.strict = true;
      if (auto code = condition_of(alone ? 0 : thread, !direct && !by_call); !code.empty())
        tap.conditions.push_back(std::move(code));
      taps.list.push_back(std::move(tap));
    }
  }
  return taps;
}

Tick Trail::first_turn(int thread) const {
  for (const auto& t : session_.timeline().log().turns())
    if (t.thread == thread) return t.tick;
  return 0;
}

// What the match of a place has done; nullopt: it has not written it.
std::optional<Trail::Definition> Trail::written_at(const Arrival& match, const Position& end,
                                                   const std::vector<Loc>& wanted, int thread) {
  const Position behind_it = std::min(end, {match.at.tick + 1, 0, 0});
  const Segment* s = segment_before(behind_it, kTicksBefore);
  if (!s) return Definition{Definition::Stopped, {}, {}, {}};
  for (size_t i = s->steps.size(); i-- > 0;) {
    const replayer::StepRecord& step = s->steps[i];
    if (step.at >= behind_it) continue;
    if (step.at.tick < match.at.tick) break;
    if (step.at.pc != match.at.pc || step.thread != thread) continue;
    std::vector<Change> changes = changes_of(*s, i);
    for (const Change& c : changes)
      for (const Loc& l : wanted)
        if (!c.weak && c.covers(l)) return found(*s, i, std::move(changes));
  }
  return std::nullopt;
}

Trail::Searched Trail::search_register(const std::vector<Loc>& wanted, uint64_t registers, const Position& at,
                                       int thread) {
  timeline::Timeline& timeline = session_.timeline();
  if (!timeline.stored().enabled()) return {};
  auto window = window_before(timeline, at);
  if (!window) return {};
  const recording::Contents* contents = timeline.contents().covering(window->from, window->to);
  if (!contents) {
    try {
      if (!timeline.make_contents(window->from, window->to, {}).complete)
        return {true, {}, false, Definition{Definition::Stopped, {}, {}, {}}};
    } catch (const Error&) {
      return {};  // there is no room for it
    }
    window = window_before(timeline, at);  // it may have been cut
    contents = window ? timeline.contents().covering(window->from, window->to) : nullptr;
    if (!contents) return {};
  }
  timeline.go_to(at);
  if (timeline.attention.stop_asked) return {true, {}, false, Definition{Definition::Stopped, {}, {}, {}}};
  const Position low = std::max(undisturbed_from(window->from, at, thread, registers, contents->code),
                                {first_turn(thread), 0, 0});
  if (low >= at) return {};
  const auto taps = writers(*contents, registers, thread);
  if (!taps) return {};
  Position end = at;
  searches_++;
  for (unsigned misses = 0; !taps->list.empty(); misses++) {
    if (misses == kMostMisses) return {true, end, false, std::nullopt};
    const Arrival match = timeline.last_before(*taps, end, low);
    if (match.why == Arrival::Interrupted)
      return {true, {}, false, Definition{Definition::Stopped, {}, {}, {}}};
    if (match.why == Arrival::None || match.at < low) break;
    if (auto written = written_at(match, end, wanted, thread)) return {true, {}, false, std::move(written)};
    end = match.at;
  }
  return {true, low, low == window->from, std::nullopt};
}

}  // namespace backstep::session
