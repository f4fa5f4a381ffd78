// Is a block still reachable? As in a garbage collector: a block is, if a word in memory or a register holds
// an address inside of it (not only that of its beginning), and that word can be reached itself.
//
// It begins with the registers of all threads, with their stacks from the stack pointer on, and with all
// other memory that can be written to: variables, thread-local ones, what the program has mapped by itself.
// What does not count is memory that has been part of a block once and is not now: there the pointers of
// freed blocks are still found. Words have to be aligned. Whoever hides his pointers (by xor, or in files)
// loses his blocks here.
#include "session/heap_report.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <sstream>

#include "recording/checkpoint_file.h"
#include "session/present.h"

namespace backstep::session {
namespace {

std::vector<recording::AddressRange> writable_ranges(const std::string& maps) {
  std::vector<recording::AddressRange> ranges;
  std::istringstream in(maps);
  for (std::string line; std::getline(in, line);) {
    char permissions[5] = "";
    unsigned long start = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &start, &end, permissions) != 3) continue;
    if (permissions[0] == 'r' && permissions[1] == 'w') ranges.push_back({start, end});
  }
  return ranges;
}

class Marker {
 public:
  Marker(Session& session, const std::vector<HeapBlock>& blocks) : session_(session), blocks_(blocks) {
    for (size_t i = 0; i < blocks.size(); i++) order_.push_back(i);
    std::sort(order_.begin(), order_.end(),
              [&](size_t a, size_t b) { return blocks_[a].address < blocks_[b].address; });
    reach_.assign(blocks.size(), HeapReach::Lost);
    seen_.assign(blocks.size(), false);
  }

  void mark(uint64_t word, HeapReach as) {
    auto next = std::upper_bound(order_.begin(), order_.end(), word,
                                 [&](uint64_t w, size_t i) { return w < blocks_[i].address; });
    if (next == order_.begin()) return;
    const size_t i = *std::prev(next);
    if (seen_[i] || !blocks_[i].holds(word)) return;
    seen_[i] = true;
    reach_[i] = as;
    open_.push_back(i);
  }

  void scan(Address start, Address end, HeapReach as) {
    constexpr uint64_t kWord = 8, kAtOnce = 1 << 20;
    start = (start + kWord - 1) & ~(kWord - 1);
    for (Address at = start; at + kWord <= end; at += kAtOnce) {
      const auto bytes = Present(session_).memory(at, std::min<uint64_t>(kAtOnce, end - at));
      for (size_t i = 0; i + kWord <= bytes.size(); i += kWord) {
        uint64_t word;
        std::memcpy(&word, bytes.data() + i, sizeof word);
        mark(word, as);
      }
    }
  }

  // What the blocks that were found lead to.
  void follow(HeapReach as) {
    while (!open_.empty()) {
      const HeapBlock& b = blocks_[open_.back()];
      open_.pop_back();
      scan(b.address, b.address + b.size, as);
    }
  }

  // A lost block is not lost because of another one that is; of a ring, the first one is taken to be lost.
  void follow_lost() {
    for (size_t i = 0; i < blocks_.size(); i++) {
      if (seen_[i]) continue;
      seen_[i] = true;
      scan(blocks_[i].address, blocks_[i].address + blocks_[i].size, HeapReach::Indirect);
      follow(HeapReach::Indirect);
      seen_[i] = false;  // another lost one may lead here
    }
  }

  const std::vector<HeapReach>& reaches() const { return reach_; }

 private:
  Session& session_;
  const std::vector<HeapBlock>& blocks_;
  std::vector<size_t> order_;  // by address
  std::vector<HeapReach> reach_;
  std::vector<bool> seen_;
  std::vector<size_t> open_;
};

}  // namespace

std::vector<HeapReach> heap_reaches(Session& session, const std::vector<HeapBlock>& blocks,
                                    const HeapTerritory& ever) {
  timeline::Worker& worker = session.timeline().present();
  Marker marker(session, blocks);
  const auto state = worker.state();
  struct Stack {
    Address now, base;  // the stack pointer, and something above the stack in the same mapping
  };
  std::vector<Stack> stacks;
  for (const auto& t : state.threads) {
    const timeline::Registers r = worker.registers(t.tid);
    for (uint64_t word : r.gpr) marker.mark(word, HeapReach::Reachable);
    marker.mark(r.fs_base, HeapReach::Reachable);
    constexpr size_t kVectors = 160, kWords = 32;  // xmm0 to xmm15 in an xsave area
    for (size_t i = 0; i < kWords; i++) {
      uint64_t word;
      std::memcpy(&word, r.xsave + kVectors + i * sizeof word, sizeof word);
      marker.mark(word, HeapReach::Reachable);
    }
    stacks.push_back({r.gpr[RSP], r.fs_base});
    stacks.push_back({r.gpr[RSP], session.timeline().log().start_stack()});
  }
  for (const HeapBlock& b : blocks)  // ld.so's own are never freed, by design
    if (b.allocated.function->local) marker.mark(b.address, HeapReach::Reachable);
  for (const auto& m : writable_ranges(worker.maps())) {
    Address start = m.start;
    for (const Stack& s : stacks)
      if (s.now >= m.start && s.now <= s.base && s.base < m.end) start = s.now;
    // Between the blocks.
    auto block = ever.upper_bound(start);
    if (block != ever.begin() && std::prev(block)->second > start) start = std::prev(block)->second;
    for (; block != ever.end() && block->first < m.end; ++block) {
      marker.scan(start, block->first, HeapReach::Reachable);
      start = block->second;
    }
    if (start < m.end) marker.scan(start, m.end, HeapReach::Reachable);
  }
  marker.follow(HeapReach::Reachable);
  marker.follow_lost();
  return marker.reaches();
}

}  // namespace backstep::session
