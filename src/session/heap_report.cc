// The heap's books (heap.h), read for what is wrong. One sweep says what was allocated and freed; what is
// left is looked at in memory, and only the stacks of what is told of are fetched.
#include "session/heap_report.h"

#include <algorithm>
#include <tuple>

#include "session/heap_uses.h"

namespace backstep::session {
namespace {

constexpr size_t kMostFindings = 1'000;  // different ones

}  // namespace

void add_territory(HeapTerritory& ever, const HeapBlock& b) {
  constexpr uint64_t kGap = 16;  // the allocator's own words between two blocks hold no pointers to blocks
  Address start = b.address, end = b.address + std::max<uint64_t>(b.size, 1);
  auto at = ever.upper_bound(start);
  if (at != ever.begin() && std::prev(at)->second + kGap >= start) {
    --at;
    if (at->second >= end) return;
    start = at->first;
  }
  while (at != ever.end() && at->first <= end + kGap) {
    end = std::max(end, at->second);
    at = ever.erase(at);
  }
  ever[start] = end;
}

namespace {

// The same mistake at the same place is told of once.
class Findings {
 public:
  void add(HeapFinding f) {
    const Address origin = f.block ? f.block->allocated.caller : 0;
    auto [place, fresh] =
        known_.try_emplace({f.kind, f.at.pc, f.is_access ? 0 : caller_, origin}, all_.size());
    if (fresh && all_.size() < kMostFindings) all_.push_back(std::move(f));
    if (place->second < all_.size()) all_[place->second].count++;
  }
  void add(const HeapError& e) {
    HeapFinding f;
    f.kind = heap_error_name(e.kind);
    f.at = e.deed.at;
    f.thread = e.deed.thread;
    f.address = e.address;
    f.size = e.size;
    f.block = e.block;
    caller_ = e.deed.caller;
    add(std::move(f));
  }
  std::vector<HeapFinding> take() { return std::move(all_); }

 private:
  std::vector<HeapFinding> all_;
  std::map<std::tuple<std::string, Address, Address, Address>, size_t> known_;
  Address caller_ = 0;
};

void add_stacks(Session& session, std::vector<HeapFinding>& findings, const Watcher& watcher) {
  std::vector<Position> moments;
  for (const HeapFinding& f : findings) {
    moments.push_back(f.at);
    if (f.block) moments.push_back(f.block->allocated.at);
    if (f.block && f.block->freed) moments.push_back(f.block->freed->at);
  }
  auto stacks = stacks_at(session, moments, watcher);
  size_t next = 0;
  for (HeapFinding& f : findings) {
    f.stack = std::move(stacks[next++]);
    if (f.block) f.allocated = std::move(stacks[next++]);
    if (f.block && f.block->freed) f.freed = std::move(stacks[next++]);
  }
}

// Goes to the moment that is asked for, and back.
std::vector<HeapReach> reaches_at(Session& session, const std::optional<Position>& to,
                                  const std::vector<HeapBlock>& blocks, const HeapTerritory& ever) {
  timeline::Timeline& timeline = session.timeline();
  const Position before = timeline.now();
  to ? timeline.go_to(*to) : timeline.go_to_end();
  std::vector<HeapReach> reaches;
  if (!timeline.attention.stop_asked) reaches = heap_reaches(session, blocks, ever);
  timeline.go_to(before);
  return reaches;
}

std::vector<Address> pcs_of(const StackAt& stack) {
  std::vector<Address> pcs;
  for (const StackFrame& f : stack.frames) pcs.push_back(f.pc);
  return pcs;
}

void add_leaks(Session& session, const HeapReportRequest& request, const std::vector<HeapBlock>& left,
               const HeapTerritory& ever, const Watcher& watcher, HeapReport& report) {
  const auto reaches = reaches_at(session, request.to, left, ever);
  if (reaches.size() != left.size()) {
    report.complete = false;
    return;
  }
  std::vector<Position> moments;
  for (const HeapBlock& b : left) moments.push_back(b.allocated.at);
  const auto stacks = stacks_at(session, moments, watcher);
  std::map<std::pair<HeapReach, std::vector<Address>>, HeapLeak> groups;
  for (size_t i = 0; i < left.size(); i++) {
    const HeapBlock& b = left[i];
    HeapTotals& total = report.left[static_cast<size_t>(reaches[i])];
    total.blocks++, total.bytes += b.size;
    HeapLeak& group = groups[{reaches[i], pcs_of(stacks[i])}];
    if (!group.blocks) {
      group.reach = reaches[i];
      group.first = b;
      group.stack = stacks[i];
    }
    group.blocks++, group.bytes += b.size;
  }
  for (auto& [key, group] : groups) report.leaks.push_back(std::move(group));
  std::stable_sort(report.leaks.begin(), report.leaks.end(), [](const HeapLeak& a, const HeapLeak& b) {
    return std::tie(a.reach, b.bytes, a.first.number) < std::tie(b.reach, a.bytes, b.first.number);
  });
}

}  // namespace

const char* heap_reach_name(HeapReach reach) {
  constexpr const char* kNames[kHeapReaches] = {"lost", "indirectly lost", "reachable"};
  return kNames[static_cast<size_t>(reach)];
}

HeapReport heap_report(Session& session, const HeapReportRequest& request, const Watcher& watcher) {
  HeapReport report;
  HeapTerritory ever;
  std::vector<HeapBlock> left;
  Findings findings;
  HeapUses uses(session);
  HeapListener listener;
  listener.block = [&](const HeapBlock& b) {
    report.allocated.blocks++, report.allocated.bytes += b.size;
    if (request.leaks) add_territory(ever, b);
    if (request.uses) uses.add(b);
    if (b.freed || b.reused)
      report.freed.blocks++, report.freed.bytes += b.size;
    else
      left.push_back(b);
    return true;
  };
  listener.peak = [&](uint64_t bytes, const Position& at) {
    report.peak = bytes, report.peak_at = {at.tick, at.pc};
  };
  if (request.errors) listener.error = [&](const HeapError& e) { findings.add(e); };
  if (request.uses)
    listener.inside = [&](int thread, Tick enter, Tick leave) { uses.add_inside(thread, enter, leave); };
  HeapRequest books;
  books.to = request.to;
  report.leaks_known = request.leaks, report.errors_known = request.errors || request.uses;
  report.complete = heap(session, books, listener, watcher);
  if (report.complete && request.leaks) add_leaks(session, request, left, ever, watcher, report);
  if (report.complete && request.uses)
    report.complete = uses.run(
        request.to, request.unwritten, [&](HeapFinding f) { findings.add(std::move(f)); }, watcher);
  report.findings = findings.take();
  if (report.complete) add_stacks(session, report.findings, watcher);
  return report;
}

}  // namespace backstep::session
