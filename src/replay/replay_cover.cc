// Which code was executed.
//
// While that is asked for, blocks of translated code end with their first branch (Cache::cover), so what was
// translated was executed, up to the end of its block: except where the guest was stopped in the middle. Such
// a *cut* is mostly made by a timer in the middle of a busy loop, and the rest of the block is executed as
// soon as the guest goes on; a breakpoint at the last instruction of the block shows that it was. What cannot
// be shown (the guest never came back) is told as unsure: somebody has to count those instructions.
#include <sys/mman.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/cache.h"
#include "replay/replayer.h"

namespace backstep::replayer {

// The guest has stopped, perhaps in the middle of a block whose rest it may never come to.
void Replayer::note_cut() {
  const Address rip = context().rip;
  const engine::Found found = engine::find(rip);
  if (!found.cache) return;
  const engine::Block& block = engine::kBlocks[found.block];
  const Address end = block.guest + block.guest_size;
  if (auto known = passed_.find(rip); known != passed_.end() && known->second >= end) return;
  Address& cut = cuts_[rip];
  cut = std::max(cut, end);
}

// The guest goes on where a block was cut: with a breakpoint where the next instructions of it have all been
// executed. Between there and here lie no branches, so a stop there within the tick is all the proof it
// takes.
std::optional<Replayer::Passing> Replayer::watch_cut() {
  const Context& ctx = context();
  auto cut = cuts_.find(ctx.rip);
  if (cut == cuts_.end()) return std::nullopt;
  // The cache may have been emptied since. (To ask for shared code may take an event from the log.)
  const guest::Region* region = process_.map.find(ctx.rip);
  if (!region || (region->flags & MAP_SHARED)) return std::nullopt;
  process_.engine().translate_here();
  const engine::Found found = engine::find(ctx.rip);
  if (!found.cache) return std::nullopt;
  const engine::Block& block = engine::kBlocks[found.block];
  const uint8_t* meta = engine::kMeta + block.meta;
  Address last = block.guest;
  for (unsigned i = 0; i + 1 < block.count; i++) last += meta[2 * i];
  const Address end = block.guest + block.guest_size;
  Passing passing{{ctx.tick, ctx.rip}, last, end};
  if (last == ctx.rip) {
    // It may have been longer before.
    if (cut->second <= end) return std::nullopt;
    passing.to = end;
  }
  if (!engine::add_break(passing.to)) return std::nullopt;
  return passing;
}

void Replayer::note_passed(const Passing& passing) {
  const Context& ctx = context();
  if (ctx.tick != passing.from.tick || ctx.rip != passing.to) return;
  auto cut = cuts_.find(passing.from.pc);
  if (cut == cuts_.end()) return;
  const Address end = cut->second;
  cuts_.erase(cut);
  // The instruction at hand is executed next; is there more behind it?
  if (end > passing.end) {
    Address& rest = cuts_[passing.to];
    rest = std::max(rest, end);
    return;
  }
  passed_[passing.from.pc] = passing.end;
}

// Instructions behind a stop, up to the end of their block, may have been executed or not: whoever wants to
// know counts them.
Replayer::Executed Replayer::executed() {
  note_cut();
  Executed result;
  auto& [sure, maybe] = result;
  for (const auto& [start, end] : cuts_)
    for (Address pc = start; pc < end;) {
      const uint64_t left = process_.readable(pc, 15) ? 15 : 1;
      const isa::Insn in = isa::decode(reinterpret_cast<const uint8_t*>(pc), left);
      if (!in.length) break;
      if (pc != start) maybe.insert(pc);
      pc += in.length;
    }
  for (engine::DataRange range : process_.engine().covered()) {
    for (auto it = maybe.lower_bound(range.start); it != maybe.end() && *it < range.end; ++it) {
      if (*it > range.start) sure.push_back({range.start, *it});
      const isa::Insn in =
          isa::decode(reinterpret_cast<const uint8_t*>(*it), process_.readable(*it, 15) ? 15 : 1);
      range.start = *it + std::max<uint64_t>(in.length, 1);
    }
    if (range.start < range.end) sure.push_back(range);
  }
  join(sure);
  return result;
}

// The code that was executed, as stretches that control comes to only at their first instruction: u64
// address, u32 number of instructions, a byte for the length of each. `gone`: bytes of code that cannot be
// read any more.
std::vector<uint8_t> Replayer::straight_code(uint64_t& gone) const {
  std::unordered_map<Address, uint8_t> lengths;
  std::unordered_set<Address> starts;
  for (Address pc : process_.engine().entered()) starts.insert(pc);
  for (uint32_t i = 1; i < engine::bs_cache.blocks; i++) {
    const engine::Block& block = engine::kBlocks[i];
    const uint8_t* meta = engine::kMeta + block.meta;
    Address pc = block.guest;
    starts.insert(pc);
    for (unsigned k = 0; k < block.count; k++) {
      lengths[pc] = meta[2 * k];
      pc += meta[2 * k];
    }
    starts.insert(pc);
  }
  for (const engine::DataRange& range : process_.engine().covered()) {
    starts.insert(range.start);
    starts.insert(range.end);
    for (Address pc = range.start; pc < range.end;) {
      if (auto known = lengths.find(pc); known != lengths.end()) {
        pc += known->second;
        continue;
      }
      const uint64_t left = range.end - pc;
      const isa::Insn in =
          process_.readable(pc, left) ? isa::decode(reinterpret_cast<const uint8_t*>(pc), left) : isa::Insn{};
      if (!in.length) {
        gone += left;
        break;
      }
      lengths[pc] = in.length;
      pc += in.length;
    }
  }
  std::vector<Address> order;
  for (const auto& [pc, length] : lengths) order.push_back(pc);
  std::sort(order.begin(), order.end());
  std::vector<uint8_t> packed;
  auto put = [&](const auto& value) {
    const auto* p = reinterpret_cast<const uint8_t*>(&value);
    packed.insert(packed.end(), p, p + sizeof value);
  };
  for (size_t i = 0; i < order.size();) {
    size_t end = i + 1;
    while (end < order.size() && order[end] == order[end - 1] + lengths[order[end - 1]] &&
           !starts.count(order[end]))
      end++;
    put(order[i]);
    put(static_cast<uint32_t>(end - i));
    for (; i < end; i++) packed.push_back(lengths[order[i]]);
  }
  return packed;
}

std::optional<recording::Contents> Replayer::take_words() {
  return taps_.words() ? words_.take() : std::nullopt;
}

void Replayer::log_window() {
  if (debug_) debug_->end_of_window(position(), process_.current().name);
  if (taps_.wants_straight_code()) {
    uint64_t gone = 0;
    const std::vector<uint8_t> packed = straight_code(gone);
    taps_.log_straight_code(packed, gone);
  } else if (taps_.cover()) {
    const Executed code = executed();
    taps_.log_cover(code.sure, {code.maybe.begin(), code.maybe.end()});
  }
  accesses_.finish();
  if (!taps_.contents()) return;
  std::vector<uint8_t> packed;
  if (auto contents = words_.collect()) {
    // What may have been executed counts as executed.
    std::vector<engine::DataRange> code = process_.engine().covered();
    join(code);
    for (const engine::DataRange& r : code) contents->code.push_back({r.start, r.end});
    packed = contents->pack();
  }
  taps_.log_contents(packed);
}

}  // namespace backstep::replayer
