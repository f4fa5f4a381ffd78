// Counting every instruction would cost as much as a debugger's single steps. But instructions that control
// comes to only from the one in front are executed as often as that one. So a first sweep finds out which
// code is executed and where control enters it: by a branch, a return, a signal, after a fault. The worker
// sees all of that happen, nothing is guessed from the code. A second sweep counts the passes at these places
// alone, and each instruction between two of them has the count of the first.
#include "session/instructions.h"

#include <cstring>
#include <set>

#include "session/hits.h"

namespace backstep::session {
namespace {

using timeline::Tap;

// What was executed: the length of each instruction, and those that control may have come to from elsewhere.
struct StraightCode {
  std::map<Address, uint8_t> lengths;
  std::set<Address> entries;
  uint64_t gone = 0;
};

// A stretch is the worker's (Replayer::straight_code).
void add_stretches(StraightCode& code, std::span<const uint8_t> packed) {
  for (size_t at = 0; at + sizeof(Address) + sizeof(uint32_t) <= packed.size();) {
    Address pc = 0;
    uint32_t count = 0;
    std::memcpy(&pc, packed.data() + at, sizeof pc);
    std::memcpy(&count, packed.data() + at + sizeof pc, sizeof count);
    at += sizeof pc + sizeof count;
    if (packed.size() - at < count) return;
    code.entries.insert(pc);
    for (uint32_t i = 0; i < count; i++) {
      code.lengths[pc] = packed[at];
      pc += packed[at++];
    }
  }
}

// A part of the work, from `begin` to `end` of the whole.
std::function<void(double)> part_of(const Watcher& watcher, double begin, double end) {
  if (!watcher.progress) return {};
  return [=, &watcher](double done) { watcher.progress(begin + done * (end - begin)); };
}

StraightCode straight_code(Session& session, const Stretch& stretch, const Watcher& watcher) {
  StraightCode code;
  timeline::Sweep sweep;
  Tap tap;
  tap.kind = Tap::Cover;
  tap.action = Tap::Log;
  tap.length = 1;
  sweep.taps.list.push_back(tap);
  sweep.from = stretch.from, sweep.to = stretch.to;
  sweep.progress = part_of(watcher, 0, 0.4);
  sweep.record = [&](const replayer::TapRecord&, const uint8_t* bytes) {
    CapturedValues values(bytes);
    add_stretches(code, values.next());
    code.gone += values.word();
    return true;
  };
  session.timeline().sweep(sweep);
  return code;
}

}  // namespace

InstructionCounts count_instructions(Session& session, const Stretch& stretch, const Watcher& watcher) {
  const StraightCode code = straight_code(session, stretch, watcher);
  timeline::Sweep sweep;
  for (Address pc : code.entries) {
    Tap count;
    count.action = Tap::Count;
    count.start = pc;
    sweep.taps.list.push_back(count);
  }
  sweep.from = stretch.from, sweep.to = stretch.to;
  sweep.progress = part_of(watcher, 0.4, 1);
  const auto swept = session.timeline().sweep(sweep);

  InstructionCounts result;
  result.gone = code.gone;
  for (size_t i = 0; i < swept.counts.size(); i++) {
    const uint64_t times = swept.counts[i].matches;
    auto insn = code.lengths.find(sweep.taps.list[i].start);
    while (times && insn != code.lengths.end()) {
      result.executed[insn->first] += times;
      result.total += times;
      const Address next = insn->first + insn->second;
      // What begins in the middle of this one is other code at the same address.
      do ++insn;
      while (insn != code.lengths.end() && insn->first < next);
      if (insn == code.lengths.end() || insn->first != next || code.entries.count(next)) break;
    }
  }
  return result;
}

}  // namespace backstep::session
