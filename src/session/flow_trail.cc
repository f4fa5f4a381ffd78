// Who wrote a byte last.
//
// For memory there is the backward search of the timeline, which replays windows on all processors and passes
// over those that cannot hold an answer. Registers have no such thing: everything writes them. But what a
// register holds was mostly put there a moment ago, so the steps in front of the moment are replayed one by
// one and looked through from behind: a few hundred ticks at first, then more and more before them. Stores
// among them are found on the way, so that most of the memory that a function works on (its stack) needs no
// search either. A register that is left alone for longer is searched for in another way (flow_places.cc).
//
// A step is an instruction, or something of the log: the kernel's part of a system call, a signal, a turn.
// What those change is in the log's events.
#include "session/flow_trail.h"

#include <sys/syscall.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "engine/context.h"

namespace backstep::session {
namespace {

using recording::Event;
using recording::EventKind;
using recording::PieceKind;
using replayer::StepRecord;
using timeline::Arrival;

constexpr Tick kFirstStretch = 512;
constexpr uint64_t kMostSteps = 1 << 18;  // of one segment
constexpr size_t kMostSegments = 12;

Change whole_register(Change::How how, unsigned number, uint64_t event) {
  return {how, {Loc::General, number * 64ull}, 8, event, 0, {}, false};
}

// General registers in struct ucontext, in its order; they begin at kSavedAt.
constexpr unsigned kSaved[16] = {8, 9, 10, 11, 12, 13, 14, 15, RDI, RSI, RBP, RBX, RDX, RAX, RCX, RSP};
constexpr uint64_t kSavedAt = 40;

// A signal's frame holds the registers as they were: below it is the handler's return address.
void add_saved_registers(Address frame, uint64_t event, std::vector<Change>& changes) {
  const Loc first{Loc::Memory, frame + 8 + kSavedAt};
  Change c{Change::Instruction, first, 16 * 8, event, 0, {}, false};
  c.written = Written{first, 16 * 8, {}, 0};
  for (unsigned i = 0; i < 16; i++)
    for (uint64_t b = 0; b < 8; b++)
      c.written->sources.push_back({ByteSource::Copy, {Loc::General, kSaved[i] * 64ull + b}, 0});
  changes.push_back(std::move(c));
}

// rt_sigreturn: every register comes out of the frame that the signal had left on the stack (struct ucontext,
// at rsp). Those of vectors lie behind a pointer in it, which a register search does not follow.
void add_sigreturn(const StepRecord& step, std::vector<Change>& changes) {
  for (unsigned i = 0; i < 16; i++) {
    Change c = whole_register(Change::Instruction, kSaved[i], 0);
    c.written = Written{c.first, 8, {}, 0};
    for (uint64_t b = 0; b < 8; b++)
      c.written->sources.push_back(
          {ByteSource::Copy, {Loc::Memory, step.gpr[RSP] + kSavedAt + 8ull * i + b}, 0});
    changes.push_back(std::move(c));
  }
  changes.push_back({Change::SignalFrame, {Loc::Vector, 0}, 32 * 64, 0, 0, {}, false});
}

// Where an event has put memory that was not there before, or was elsewhere.
std::optional<recording::AddressRange> mapped_by(const Event& e) {
  if (e.kind == EventKind::Map && !(e.flags & (recording::kGone | recording::kRights)))
    return recording::AddressRange{e.addr, e.addr + e.length};
  const bool failed = e.result < 0 && e.result > -4096;
  if (e.kind != EventKind::Syscall || failed) return std::nullopt;
  const auto result = static_cast<uint64_t>(e.result);
  if (e.nr == SYS_mmap) return recording::AddressRange{result, result + e.args[1]};
  if (e.nr != SYS_mremap) return std::nullopt;
  // What stays where it is has only grown.
  const uint64_t kept = e.args[0] == result ? std::min(e.args[1], e.args[2]) : 0;
  return recording::AddressRange{result + kept, result + e.args[2]};
}

}  // namespace

std::shared_ptr<LoggedEvent> Trail::event(uint64_t number) {
  auto& slot = events_[number];
  if (slot) return slot;
  session_.timeline().log().each(number, [&](const timeline::Moment& m, std::span<const uint8_t> bytes) {
    if (m.event != number) return m.event < number;
    slot = std::make_shared<LoggedEvent>();
    slot->bytes.assign(bytes.begin(), bytes.end());
    Tick tick = 0;
    if (!recording::decode_event(slot->bytes, tick, slot->event)) slot->event = {};
    slot->event.tick = m.tick;
    return false;
  });
  if (!slot) slot = std::make_shared<LoggedEvent>();
  return slot;
}

// The steps up to `at`, about `ticks` of them; kept for the next question. Null: somebody wants to stop.
const Trail::Segment* Trail::segment_before(const Position& at, Tick ticks) {
  for (const auto& s : segments_)
    if (s->begin < at && at <= s->end) return s.get();
  const Position first = session_.timeline().first();
  const Tick from = std::max(first.tick, at.tick > ticks ? at.tick - ticks : 0);
  auto steps = session_.timeline().steps(from, at, kMostSteps);
  if (!steps) return nullptr;
  auto segment = std::make_unique<Segment>();
  segment->end = std::max(at, steps->end);
  segment->steps = std::move(steps->list);
  segment->begin = segment->steps.empty() ? first : segment->steps.front().at;
  // Nothing before it: that is the beginning of everything.
  if (from == first.tick && steps->dropped == 0) segment->begin = first;
  replayed_ += segment->steps.size() + steps->dropped;
  if (segments_.size() >= kMostSegments) segments_.erase(segments_.begin());
  segments_.push_back(std::move(segment));
  return segments_.back().get();
}

void Trail::add_event_changes(const Segment& segment, size_t index, const Event& e, uint64_t number,
                              std::vector<Change>& changes) {
  const StepRecord& step = segment.steps[index];
  auto memory = [&](Change::How how, uint64_t start, uint64_t count, uint64_t part = 0, bool weak = false) {
    if (count) changes.push_back({how, {Loc::Memory, start}, count, number, part, {}, weak});
  };
  switch (e.kind) {
    case EventKind::Syscall: {
      if (e.nr == SYS_rt_sigreturn) {
        add_sigreturn(step, changes);
        break;
      }
      changes.push_back(whole_register(Change::CallResult, RAX, number));
      changes.push_back(whole_register(Change::CallScratch, RCX, number));
      changes.push_back(whole_register(Change::CallScratch, 11, number));
      uint64_t part = 0;
      for (const auto& p : e.pieces) {
        if (p.kind != PieceKind::OutAtArg && p.kind != PieceKind::OutAt) continue;
        memory(Change::CallData, p.kind == PieceKind::OutAt ? p.addr : e.args[p.arg], p.bytes.size(), part);
        part += p.bytes.size();
      }
      const auto result = static_cast<uint64_t>(e.result);
      const bool failed = e.result < 0 && e.result > -4096;
      if (failed) break;
      if (e.nr == SYS_mmap) memory(Change::Mapped, result, e.args[1]);
      if (e.nr == SYS_mremap && e.args[0] != result) {
        Change moved{
            Change::Instruction, {Loc::Memory, result}, std::min(e.args[1], e.args[2]), number, 0, {}, false};
        moved.written =
            Written{moved.first, moved.count, {{ByteSource::Copy, {Loc::Memory, e.args[0]}, 0}}, 0};
        changes.push_back(std::move(moved));
      }
      if (e.nr == SYS_brk) memory(Change::Mapped, 0, result, 0, true);
      if (e.nr == SYS_mremap) memory(Change::Mapped, result, e.args[2], 0, true);
      if (e.nr == SYS_madvise || e.nr == SYS_munmap) memory(Change::Mapped, e.args[0], e.args[1], 0, true);
      if (e.nr == SYS_shmat) memory(Change::Mapped, result, ~0ull - result, 0, true);
      break;
    }
    case EventKind::Instr: {
      const Effect effect = decoder_.effect(step);
      for (const Written& w : effect.written)
        changes.push_back({Change::HostOp, w.first, w.count, number, 0, {}, false});
      break;
    }
    case EventKind::Signal: {
      for (unsigned r : {unsigned{RDI}, unsigned{RSI}, unsigned{RDX}, unsigned{RSP}, unsigned{RAX}})
        changes.push_back(whole_register(Change::SignalStart, r, number));
      const bool next = index + 1 < segment.steps.size() && segment.steps[index + 1].thread == step.thread;
      const uint64_t low = next ? segment.steps[index + 1].gpr[RSP] : 0;
      if (next && low < step.gpr[RSP] && step.gpr[RSP] - low < 65536) {
        memory(Change::SignalFrame, low, step.gpr[RSP] - 128 - low);
        add_saved_registers(low, number, changes);
      } else {
        memory(Change::SignalFrame, 0, ~0ull, 0, true);
      }
      break;
    }
    case EventKind::Map:
      if (!(e.flags & (recording::kGone | recording::kRights))) memory(Change::Mapped, e.addr, e.length);
      break;
    case EventKind::Memory:
      memory(Change::FromOutside, e.addr, e.body.size());
      break;
    case EventKind::Shared:
      for (const auto& p : e.pieces) memory(Change::FromOutside, p.addr, p.bytes.size());
      break;
    case EventKind::Gap:
      for (auto kind : {Loc::Memory, Loc::General, Loc::Vector, Loc::Other, Loc::Flags})
        changes.push_back({Change::Lost, {kind, 0}, ~0ull, number, 0, {}, false});
      break;
    default:
      break;
  }
}

std::vector<Change> Trail::changes_of(const Segment& segment, size_t index) {
  const StepRecord& step = segment.steps[index];
  const Position next = behind(segment, index);
  std::vector<Change> changes;
  bool executed = step.what == StepRecord::Executed;
  bool waits = false, told = false;
  for (uint64_t number = step.at.event; number < next.event; number++) {
    const auto logged = event(number);
    const Event& e = logged->event;
    // A mapping's file is told behind the call that made it, and says more than that.
    add_event_changes(segment, index, e, number, changes);
    told = told || e.kind == EventKind::Syscall;
    waits = waits || e.kind == EventKind::Turn;
    if (e.kind == EventKind::Signal || e.kind == EventKind::Instr || e.kind == EventKind::Gap)
      executed = false;
  }
  const DecodedStep& decoded = decoder_.decode(step);
  if (executed && decoded.is_call) {
    if (!told && !waits) {
      if (step.gpr[RAX] == SYS_rt_sigreturn) {
        add_sigreturn(step, changes);
      } else {
        changes.push_back(whole_register(Change::CallResult, RAX, ~0ull));
        changes.push_back(whole_register(Change::CallScratch, RCX, ~0ull));
        changes.push_back(whole_register(Change::CallScratch, 11, ~0ull));
      }
    }
  } else if (executed && (step.moved || decoded.in.meta.category == ZYDIS_CATEGORY_STRINGOP)) {
    for (Written& w : decoder_.effect(step).written) {
      Change c{Change::Instruction, w.first, w.count, 0, 0, {}, false};
      c.written = std::move(w);
      changes.push_back(std::move(c));
    }
  }
  return changes;
}

// A quick look, as most steps do not.
bool Trail::may_matter(const StepRecord& step, const Position& behind, uint64_t registers, bool memory) {
  if (behind.event != step.at.event || step.what != StepRecord::Executed) return true;
  const DecodedStep& d = decoder_.decode(step);
  return d.is_call || (d.registers & registers) || (memory && d.stores);
}

Trail::Definition Trail::found(const Segment& segment, size_t index, std::vector<Change> changes) const {
  return {Definition::Step, segment.steps[index], behind(segment, index), std::move(changes)};
}

// Where the last turn of a thread before a moment ended.
std::optional<Position> Trail::last_turn_end(int thread, const Position& before) const {
  const auto& turns = session_.timeline().log().turns();
  for (size_t i = turns.size(); i-- > 0;) {
    if (turns[i].thread != thread || turns[i].tick >= before.tick) continue;
    if (i + 1 == turns.size() || turns[i + 1].tick >= before.tick) return before;
    return Position{turns[i + 1].tick, 0, 0};
  }
  return std::nullopt;
}

namespace {

uint64_t registers_in(const std::vector<Loc>& wanted) {
  uint64_t bits = 0;
  for (const Loc& l : wanted) bits |= register_bit(l);
  return bits;
}

bool any_covered(const std::vector<Change>& changes, const std::vector<Loc>& wanted, bool weak) {
  return std::any_of(changes.begin(), changes.end(), [&](const Change& c) {
    if (c.weak && !weak) return false;
    return std::any_of(wanted.begin(), wanted.end(), [&](const Loc& l) { return c.covers(l); });
  });
}

}  // namespace

Trail::Trail(Session& session) : session_(session) {
  // Tests have no long runs.
  if (const char* steps = std::getenv("BACKSTEP_STEPS")) few = std::strtoull(steps, nullptr, 10);
}

Trail::Definition Trail::register_write(const std::vector<Loc>& wanted, const Position& at, int thread) {
  const uint64_t registers = registers_in(wanted);
  const Position first = session_.timeline().first();
  Position end = at;
  Tick ticks = kFirstStretch;
  uint64_t looked = 0, search_at = few;
  for (;;) {
    const auto turn = last_turn_end(thread, end);
    // It was made by another one: its registers are those that this one had then.
    if (!turn) return {Definition::Beginning, {}, end, {}};
    end = std::min(end, *turn);
    if (looked >= search_at) {
      Searched searched = search_register(wanted, registers, end, thread);
      if (searched.found) return std::move(*searched.found);
      // What ended a search may be what has written it.
      search_at = searched.able ? looked + (searched.whole ? 0 : few) : 2 * looked;
      if (searched.able) {
        end = searched.low;
        ticks = kFirstStretch;
        if (end <= first) return {Definition::Beginning, {}, end, {}};
        continue;
      }
    }
    const Segment* s = segment_before(end, ticks);
    if (!s) return {Definition::Stopped, {}, {}, {}};
    auto it = std::lower_bound(s->steps.begin(), s->steps.end(), end,
                               [](const StepRecord& r, const Position& p) { return r.at < p; });
    for (auto i = static_cast<size_t>(it - s->steps.begin()); i-- > 0;) {
      const StepRecord& step = s->steps[i];
      if (step.thread != thread) continue;
      looked++;
      if (!may_matter(step, behind(*s, i), registers, false)) continue;
      std::vector<Change> changes = changes_of(*s, i);
      if (any_covered(changes, wanted, false)) return found(*s, i, std::move(changes));
    }
    if (s->begin <= first) return {Definition::Beginning, {}, s->begin, {}};
    if (looked > reach) return {Definition::TooFar, {}, s->begin, {}};
    end = s->begin;
    ticks = std::min<Tick>(ticks * 4, kMostSteps / 4);
  }
}

Trail::Definition Trail::memory_write(const std::vector<Loc>& wanted, const Position& at) {
  const Segment* s = segment_before(at, kFirstStretch);
  if (!s) return {Definition::Stopped, {}, {}, {}};
  auto it = std::lower_bound(s->steps.begin(), s->steps.end(), at,
                             [](const StepRecord& r, const Position& p) { return r.at < p; });
  for (auto i = static_cast<size_t>(it - s->steps.begin()); i-- > 0;) {
    if (!may_matter(s->steps[i], behind(*s, i), 0, true)) continue;
    std::vector<Change> changes = changes_of(*s, i);
    if (any_covered(changes, wanted, false)) return found(*s, i, std::move(changes));
  }
  if (s->begin <= session_.timeline().first()) return {Definition::Beginning, {}, s->begin, {}};
  return search_memory(wanted, s->begin);
}

// Did nothing happen there but that the rights of memory were changed? What could not be read before looks
// changed to who watches it, but it is what was there already.
bool Trail::only_rights(const Position& from, const Position& to) {
  for (uint64_t number = from.event; number < to.event; number++) {
    const Event& e = event(number)->event;
    const bool call = e.kind == EventKind::Syscall && (e.nr == SYS_mprotect || e.nr == SYS_pkey_mprotect);
    const bool map = e.kind == EventKind::Map && (e.flags & recording::kRights);
    if (!call && !map) return false;
  }
  return from.event < to.event;
}

// Who watches memory does not see it come while it has no rights either: the last event that mapped it.
std::optional<Position> Trail::mapped_before(const std::vector<Loc>& wanted, const Position& end) {
  std::optional<Position> last;
  session_.timeline().log().each(0, [&](const timeline::Moment& m, std::span<const uint8_t> bytes) {
    if (m.event >= end.event) return false;
    Event e;
    Tick tick = 0;
    if (!recording::decode_event(bytes, tick, e)) return true;
    const auto mapped = mapped_by(e);
    if (mapped && std::any_of(wanted.begin(), wanted.end(), [&](const Loc& l) {
          return l.where >= mapped->start && l.where < mapped->end;
        }))
      last = Position{m.tick, m.event, 0};
    return true;
  });
  return last;
}

Trail::Definition Trail::search_memory(const std::vector<Loc>& wanted, const Position& at) {
  timeline::Taps taps;
  std::vector<Loc> sorted = wanted;
  std::sort(sorted.begin(), sorted.end());
  for (const Loc& l : sorted) {
    if (!taps.list.empty() && taps.list.back().start + taps.list.back().length == l.where) {
      taps.list.back().length++;
      continue;
    }
    timeline::Tap tap;
    tap.kind = timeline::Tap::Store;
    tap.start = l.where;
    tap.length = 1;
    taps.list.push_back(tap);
  }
  timeline::Timeline& timeline = session_.timeline();
  searches_++;
  Position end = at;
  Arrival match = timeline.last_before(taps, end, timeline.first());
  std::optional<Position> mapped;
  while (match.why != Arrival::Interrupted && match.why != Arrival::None &&
         only_rights(match.before, match.at)) {
    end = match.before;
    if (!mapped) mapped = mapped_before(wanted, end);
    match = timeline.last_before(taps, end, timeline.first());
  }
  if (match.why == Arrival::Interrupted) return {Definition::Stopped, {}, {}, {}};
  if (mapped && (match.why == Arrival::None || match.at <= *mapped)) {
    match.before = {mapped->tick, 0, 0};
    match.at = std::min(end, {mapped->tick + 1, 0, 0});
  } else if (match.why == Arrival::None) {
    return {Definition::Beginning, {}, timeline.first(), {}};
  }
  const Segment* s = segment_before(match.at, kFirstStretch);
  if (!s) return {Definition::Stopped, {}, {}, {}};
  auto it = std::lower_bound(s->steps.begin(), s->steps.end(), match.at,
                             [](const StepRecord& r, const Position& p) { return r.at < p; });
  Definition untold{Definition::Untold, {}, match.at, {}};
  untold.step.at = match.before;
  for (auto i = static_cast<size_t>(it - s->steps.begin()); i-- > 0;) {
    const StepRecord& step = s->steps[i];
    if (step.at < match.before && step.at.pc != match.before.pc) break;
    std::vector<Change> changes = changes_of(*s, i);
    untold.step = step;
    if (any_covered(changes, wanted, true)) return found(*s, i, std::move(changes));
    if (step.at <= match.before) break;
  }
  return untold;
}

Trail::Definition Trail::last_write(const std::vector<Loc>& wanted, const Position& at, int thread) {
  const bool memory = wanted.front().kind == Loc::Memory;
  return memory ? memory_write(wanted, at) : register_write(wanted, at, thread);
}

}  // namespace backstep::session
