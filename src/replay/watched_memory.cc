// Data breakpoints, any number of any length, in two ways. Changes are found by checks in front of translated
// stores (engine/watch_hot.cc): what may hit is executed alone and compared. For reads, pages with watched
// bytes are closed while guest code runs; a fault there is answered by opening them, executing the one
// instruction, and looking at its operands. That costs some microseconds for every access to such a page.
//
// What the replayer itself writes (results of system calls, signal frames) is done with the pages open and
// compared afterwards, so it is seen as well.
#include "replay/watched_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/hot.h"
#include "engine/entry.h"
#include "guest/accesses.h"

namespace backstep::replayer {
namespace {

bool wants_reads(const Tap& w) {
  return w.kind == Tap::Read || w.kind == Tap::Access;
}

using layout::kPage;

void protect(Address page, int prot) {
  hot::syscall6(10 /*mprotect*/, static_cast<long>(page), kPage, prot, 0, 0, 0);
}

}  // namespace

void join(std::vector<engine::DataRange>& ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
  size_t used = 0;
  for (const engine::DataRange& r : ranges) {
    if (used && r.start <= ranges[used - 1].end) {
      ranges[used - 1].end = std::max(ranges[used - 1].end, r.end);
    } else {
      ranges[used++] = r;
    }
  }
  ranges.resize(used);
}

void WatchedMemory::set(const TapSet& taps) {
  disarm();
  watches_.clear();
  pages_.clear();
  for (size_t i = 0; i < taps.count(); i++) {
    const Tap& w = taps.spec(i);
    if (!w.is_data() || w.off || w.length == 0) continue;
    for (Address page = w.start & ~(kPage - 1); page < w.start + w.length; page += kPage) {
      pages_.push_back(page);
    }
    watches_.push_back({w, i, {}, {}, false});
  }
  std::sort(pages_.begin(), pages_.end());
  pages_.erase(std::unique(pages_.begin(), pages_.end()), pages_.end());
  unreadable_.assign(pages_.size(), false);
  for (size_t i = 0; i < pages_.size(); i++)
    for (const Watched& w : watches_)
      if (wants_reads(w.spec) && w.spec.start < pages_[i] + kPage && pages_[i] < w.spec.start + w.spec.length)
        unreadable_[i] = true;
  try {
    refuse_code();
  } catch (const Error&) {
    watches_.clear();
    throw;
  }
  checked_ = !watches_.empty();
  ranges_.clear();
  for (const Watched& w : watches_) {
    checked_ = checked_ && !wants_reads(w.spec);
    ranges_.push_back({w.spec.start, w.spec.start + w.spec.length});
  }
  join(ranges_);
  engine::mark_watched(ranges_.data(), static_cast<uint32_t>(ranges_.size()));
  // Tests compare the two ways.
  if (const char* way = std::getenv("BACKSTEP_WATCH"); way && std::strcmp(way, "pages") == 0)
    checked_ = false;
  process_.engine().set_watch(checked_);
  remember();
}

// Translating code means to read it; and a page may become code at any time.
void WatchedMemory::refuse_code() const {
  for (size_t i = 0; i < pages_.size(); i++) {
    const guest::Region* r = unreadable_[i] ? process_.map.find(pages_[i]) : nullptr;
    if (r && (r->prot & PROT_EXEC))
      throw Error(fmt::format("reads of memory at {:#x} cannot be watched: its page holds code", pages_[i]));
  }
}

void WatchedMemory::arm() {
  if (armed_ || watches_.empty()) return;
  refuse_code();
  armed_ = true;
  if (checked_) {
    Context& ctx = context();
    const Address low = ranges_.front().start;
    ctx.watch_low = low > engine::kWatchReach ? low - engine::kWatchReach : 0;
    ctx.watch_span = ranges_.back().end - ctx.watch_low;
    engine::bs_cache.data_ranges = ranges_.data();
    engine::bs_cache.data_range_count = static_cast<uint32_t>(ranges_.size());
    engine::bs_cache.alias_pages++;
    return;
  }
  engine::bs_cache.data_pages = pages_.data();
  engine::bs_cache.data_page_count = static_cast<uint32_t>(pages_.size());
  engine::bs_cache.alias_pages++;  // system calls take the slow way
  for (size_t i = 0; i < pages_.size(); i++) {
    int prot = process_.page_protection(pages_[i]);
    if (prot > 0) protect(pages_[i], unreadable_[i] ? PROT_NONE : prot & ~PROT_WRITE);
  }
}

void WatchedMemory::disarm() {
  if (!armed_) return;
  armed_ = false;
  engine::bs_cache.data_page_count = 0;
  engine::bs_cache.alias_pages--;
  if (checked_) return;
  for (Address page : pages_) {
    int prot = process_.page_protection(page);
    if (prot > 0) protect(page, prot);
  }
}

bool WatchedMemory::ours(const engine::FaultInfo& fault) const {
  if (watches_.empty() || checked_ || fault.signo != SIGSEGV || fault.code == SI_KERNEL) return false;
  auto it = std::lower_bound(pages_.begin(), pages_.end(), fault.address & ~(kPage - 1));
  if (it == pages_.end() || *it != (fault.address & ~(kPage - 1))) return false;
  constexpr uint64_t kWrite = 2;  // of the page fault's error code
  int prot = process_.page_protection(*it);
  return prot > 0 && (fault.error & kWrite ? prot & PROT_WRITE : prot & PROT_READ);
}

bool WatchedMemory::read(const Watched& w, std::vector<uint8_t>& bytes) const {
  bytes.resize(w.spec.length);
  return process_.readable(w.spec.start, w.spec.length) &&
         bs_guarded_copy(bytes.data(), reinterpret_cast<const void*>(w.spec.start), bytes.size());
}

void WatchedMemory::remember() {
  for (Watched& w : watches_) w.there = read(w, w.contents);
}

WatchedMemory::Hits WatchedMemory::changed() {
  Hits hits;
  std::vector<uint8_t> now;
  for (size_t i = 0; i < watches_.size(); i++) {
    Watched& w = watches_[i];
    bool there = read(w, now);
    if (there == w.there && (!there || now == w.contents)) {
      w.before = w.contents;
      continue;
    }
    w.there = there;
    w.before = std::exchange(w.contents, now);
    if (w.spec.kind != Tap::Read) hits.push_back(i);
  }
  return hits;
}

WatchedMemory::Hits WatchedMemory::touched() const {
  Hits hits;
  bool any = false;
  for (const Watched& w : watches_) any |= w.spec.kind != Tap::Write;
  if (!any) return hits;
  const guest::Instruction instruction = guest::instruction_at_rip();
  // What such an instruction writes is not known: its changes count.
  const bool vague = instruction.masked || !instruction.known;
  for (const guest::Accessed& a : instruction.accesses)
    for (size_t i = 0; i < watches_.size(); i++) {
      const Tap& spec = watches_[i].spec;
      if (spec.kind == Tap::Write || (spec.kind == Tap::Read && !a.read) ||
          (spec.kind == Tap::Store && (!a.write || vague)))
        continue;
      if (a.start < spec.start + spec.length && spec.start < a.start + a.length) hits.push_back(i);
    }
  return hits;
}

WatchedMemory::Hits WatchedMemory::stored(Address start, uint64_t length) const {
  Hits hits;
  for (size_t i = 0; i < watches_.size(); i++) {
    const Tap& spec = watches_[i].spec;
    if (spec.kind == Tap::Store && start < spec.start + spec.length && spec.start < start + length)
      hits.push_back(i);
  }
  return hits;
}

}  // namespace backstep::replayer
