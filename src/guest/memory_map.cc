// The guest's address space as books. The kernel's own list of mappings is of no use to us: host and guest
// share it, and a replay must find the same free space that the recording found, whatever else the host has
// mapped. So this ordered map of disjoint regions is the only authority on what the guest has and on where
// a new mapping goes.
//
// Placement is first fit, by address order alone, without randomness or memory of the past: two processes
// that make the same calls get the same addresses, and a map rebuilt from its regions (a checkpoint, a
// fork) continues like the original.
//
// Changes are done in three steps that keep each of them simple: cut at the borders of the range, change
// the whole regions inside, join equal neighbours. Joining is not cosmetic: programs and tests count lines
// of /proc/self/maps, and a JIT that toggles protections page by page would grow the map without end.
#include "guest/memory_map.h"

#include <sys/mman.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstdio>
#include <iterator>

namespace backstep::guest {
namespace {

using layout::page_down;

constexpr uint64_t kLow32End = 0x8000'0000;
constexpr uint64_t kDataLow = layout::kBrkEnd;
constexpr uint64_t kDataHigh = layout::kAnonymousEnd;

// find_free looks at guest regions only, because inside its zones there is nothing of the engine's.
static_assert(!layout::overlaps_engine(layout::kImagesStart, layout::kImagesEnd));
static_assert(!layout::overlaps_engine(kDataLow, kDataHigh));
static_assert(layout::kImagesEnd <= kLow32End && kDataHigh <= kGuestEnd);

bool is_private_anonymous(const Region& r) {
  return (r.flags & MAP_ANONYMOUS) && (r.flags & MAP_TYPE) == MAP_PRIVATE;
}

// Flags that stay with a mapping; the others (MAP_FIXED, MAP_POPULATE, MAP_STACK …) only say how to make it.
constexpr int kLastingFlags =
    MAP_TYPE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_LOCKED | MAP_NORESERVE | MAP_HUGETLB | MAP_SYNC;

// Offsets must continue unless they mean nothing. This also keeps two separate shared anonymous mappings
// apart (both start at offset 0) while halves of one that was split can be joined again.
bool continues(const Region& a, const Region& b) {
  return a.end == b.start && a.prot == b.prot && (a.flags & kLastingFlags) == (b.flags & kLastingFlags) &&
         a.dev == b.dev && a.inode == b.inode && a.name == b.name && a.advice == b.advice &&
         (is_private_anonymous(a) || a.offset + (a.end - a.start) == b.offset);
}

}  // namespace

bool is_data(int prot, int flags) {
  return (prot & PROT_WRITE) && (flags & MAP_TYPE) == MAP_PRIVATE;
}

void MemoryMap::count(const Region& r) {
  if (r.name == kStackName) return;
  size_ += r.end - r.start;
  if (is_data(r.prot, r.flags)) data_size_ += r.end - r.start;
}

void MemoryMap::uncount(const Region& r) {
  if (r.name == kStackName) return;
  size_ -= r.end - r.start;
  if (is_data(r.prot, r.flags)) data_size_ -= r.end - r.start;
}

MemoryMap::Regions::const_iterator MemoryMap::at_or_after(uint64_t addr) const {
  auto it = regions_.upper_bound(addr);
  if (it != regions_.begin()) {
    auto before = std::prev(it);
    if (before->second.end > addr) return before;
  }
  return it;
}

void MemoryMap::split(uint64_t addr) {
  auto it = regions_.upper_bound(addr);
  if (it == regions_.begin()) return;
  Region& low = std::prev(it)->second;
  if (low.start == addr || low.end <= addr) return;
  Region high = low;
  high.start = addr;
  if (!is_private_anonymous(low)) high.offset += addr - low.start;
  low.end = addr;
  regions_.emplace_hint(it, addr, std::move(high));
}

void MemoryMap::merge(uint64_t start, uint64_t end) {
  auto it = regions_.lower_bound(start);
  if (it != regions_.begin()) --it;
  while (it != regions_.end() && it->first <= end) {
    auto after = std::next(it);
    if (after == regions_.end()) return;
    if (continues(it->second, after->second)) {
      if (it->second.content != after->second.content) it->second.content = {};
      it->second.end = after->second.end;
      regions_.erase(after);
    } else {
      it = after;
    }
  }
}

void MemoryMap::add(Region r) {
  version_++;
  if (r.start >= r.end) return;
  if (listener_) listener_->on_add(r);
  cut(r.start, r.end);
  if (r.prot & PROT_WRITE) r.content = {};
  uint64_t start = r.start, end = r.end;
  count(r);
  regions_.emplace(start, std::move(r));
  merge(start, end);
}

void MemoryMap::remove(uint64_t start, uint64_t end) {
  version_++;
  if (start >= end) return;
  if (listener_) listener_->on_remove(start, end);
  cut(start, end);
}

void MemoryMap::cut(uint64_t start, uint64_t end) {
  split(start);
  split(end);
  const auto first = regions_.lower_bound(start), last = regions_.lower_bound(end);
  for (auto it = first; it != last; ++it) uncount(it->second);
  regions_.erase(first, last);
}

bool MemoryMap::protect(uint64_t start, uint64_t end, int prot) {
  version_++;
  if (!is_mapped(start, end)) return false;
  if (start >= end) return true;
  if (listener_) listener_->on_protect(start, end, prot);
  split(start);
  split(end);
  for (auto it = regions_.lower_bound(start); it != regions_.end() && it->first < end; ++it) {
    uncount(it->second);
    it->second.prot = prot;
    count(it->second);
    if (prot & PROT_WRITE) it->second.content = {};
  }
  merge(start, end);
  return true;
}

void MemoryMap::advise(uint64_t start, uint64_t end, int add, int take) {
  version_++;
  split(start);
  split(end);
  for (auto it = regions_.lower_bound(start); it != regions_.end() && it->first < end; ++it)
    it->second.advice = (it->second.advice & ~take) | add;
  merge(start, end);
}

void MemoryMap::overwrite(uint64_t start, uint64_t end) {
  auto it = regions_.upper_bound(start);
  if (it != regions_.begin()) --it;
  for (; it != regions_.end() && it->first < end; ++it)
    if (it->second.end > start) it->second.content = {};
}

const Region* MemoryMap::find(uint64_t addr) const {
  const Region* r = next(addr);
  return r && r->start <= addr ? r : nullptr;
}

const Region* MemoryMap::next(uint64_t addr) const {
  auto it = at_or_after(addr);
  return it == regions_.end() ? nullptr : &it->second;
}

bool MemoryMap::is_free(uint64_t start, uint64_t end) const {
  if (start > end || end > kGuestEnd || layout::overlaps_engine(start, end)) return false;
  const Region* r = next(start);
  return !r || r->start >= end;
}

bool MemoryMap::is_mapped(uint64_t start, uint64_t end) const {
  for (auto it = at_or_after(start); start < end; ++it) {
    if (it == regions_.end() || it->first > start) return false;
    start = it->second.end;
  }
  return true;
}

uint64_t MemoryMap::mapped_bytes(uint64_t start, uint64_t end) const {
  uint64_t bytes = 0;
  for (auto it = at_or_after(start); it != regions_.end() && it->first < end; ++it)
    bytes += std::min(end, it->second.end) - std::max(start, it->first);
  return bytes;
}

std::optional<uint64_t> MemoryMap::lowest_gap(uint64_t size, uint64_t low, uint64_t high) const {
  for (auto it = at_or_after(low); low < high; ++it) {
    uint64_t gap_end = it == regions_.end() ? high : std::clamp(it->first, low, high);
    if (gap_end - low >= size) return low;
    if (it == regions_.end()) break;
    low = it->second.end;
  }
  return std::nullopt;
}

std::optional<uint64_t> MemoryMap::highest_gap(uint64_t size, uint64_t low, uint64_t high,
                                               bool for_stack) const {
  auto it = regions_.lower_bound(high);  // regions before `it` start below `high`
  while (high > low) {
    bool last = it == regions_.begin();
    uint64_t gap_start = last ? low : std::clamp(std::prev(it)->second.end, low, high);
    const uint64_t end = for_stack ? layout::stack_end(high) : high;
    if (end >= gap_start && end - gap_start >= size) return end - size;
    if (last) break;
    high = (--it)->first;
  }
  return std::nullopt;
}

std::optional<uint64_t> MemoryMap::find_free(uint64_t size, uint64_t hint, Zone zone, bool low32) const {
  if (size == 0 || size > kGuestEnd) return std::nullopt;
  size = page_down(size + layout::kPage - 1);

  hint = page_down(hint);
  uint64_t hint_limit = low32 ? kLow32End : kGuestEnd;
  if (hint >= kLowestHint && hint < hint_limit && size <= hint_limit - hint && is_free(hint, hint + size))
    return hint;

  auto images = [&] { return lowest_gap(size, layout::kImagesStart, layout::kImagesEnd); };
  if (low32) return images();
  auto data = [&] { return highest_gap(size, kDataLow, kDataHigh, zone == Zone::Stacks); };
  auto found = zone == Zone::Images ? images() : data();
  if (!found) found = zone == Zone::Images ? data() : images();
  return found;
}

std::pair<uint64_t, uint64_t> MemoryMap::executable_range(uint64_t addr) const {
  auto middle = at_or_after(addr);
  if (middle == regions_.end() || middle->first > addr || !(middle->second.prot & PROT_EXEC)) return {0, 0};
  uint64_t start = middle->first, end = middle->second.end;
  for (auto it = middle; it != regions_.begin();) {
    --it;
    if (it->second.end != start || !(it->second.prot & PROT_EXEC)) break;
    start = it->first;
  }
  for (auto it = std::next(middle); it != regions_.end(); ++it) {
    if (it->first != end || !(it->second.prot & PROT_EXEC)) break;
    end = it->second.end;
  }
  return {start, end};
}

void MemoryMap::for_each(const std::function<void(const Region&)>& f) const {
  for (auto& [start, region] : regions_) f(region);
}

std::string MemoryMap::proc_maps() const {
  constexpr size_t kNameColumn = 73;
  std::string text;
  for (auto& [start, r] : regions_) {
    char line[160];
    bool shared = (r.flags & MAP_TYPE) != MAP_PRIVATE;
    int length = snprintf(line, sizeof line, "%08lx-%08lx %c%c%c%c %08lx %02x:%02x %lu ", r.start, r.end,
                          r.prot & PROT_READ ? 'r' : '-', r.prot & PROT_WRITE ? 'w' : '-',
                          r.prot & PROT_EXEC ? 'x' : '-', shared ? 's' : 'p',
                          is_private_anonymous(r) ? 0ul : r.offset, major(r.dev), minor(r.dev), r.inode);
    text.append(line, length);
    if (!r.name.empty()) {
      size_t column = std::max<size_t>(length, kNameColumn);
      text.append(column - length, ' ');
      for (char c : r.name) c == '\n' ? text.append("\\012") : text.append(1, c);
    }
    text += '\n';
  }
  return text;
}

}  // namespace backstep::guest
