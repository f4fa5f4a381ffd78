// Translated code marks what it writes in the shadow; system calls, signal frames and events of the log are
// marked where the replayer writes for the kernel (engine::mark_written); instructions that are executed
// alone, here. Memory that may show what was written elsewhere (mapped shared) counts as written to, all of
// it, and so does what is mapped, unmapped or moved.
//
// Tests have it checked (BACKSTEP_CHECK_CONTENTS): all memory is copied at the beginning of a window, and
// what differs at the end must be known as written to.
#include "replay/written_words.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "engine/cache.h"
#include "engine/entry.h"
#include "guest/accesses.h"
#include "guest/page_map.h"
#include "replay/written_pages.h"

namespace backstep::replayer {
namespace {

using layout::kPage;
using recording::Contents;
constexpr uint64_t kMostMapped = 64ull << 30;
constexpr size_t kManyNotes = 8000;

bool checked() {
  static const bool wanted = std::getenv("BACKSTEP_CHECK_CONTENTS") != nullptr;
  return wanted;
}

bool is_private(const guest::Region& r) {
  return !(r.flags & MAP_SHARED);
}

}  // namespace

void WrittenWords::count(bool wanted) {
  if (!wanted && !counting_) return;
  noted_.clear();
  before_.clear();
  uint64_t total = 0;
  bool room = true;
  process_.map.for_each([&](const guest::Region& r) {
    if (r.prot != PROT_NONE) total += r.end - r.start;
    room = room && layout::has_shadow(r.start, r.end);
  });
  counting_ = wanted && room && total <= kMostMapped;
  counting_ = process_.engine().set_shadow(counting_) && counting_;
  if (counting_ && checked()) remember_all();
}

void WrittenWords::give_up() {
  counting_ = false;
  process_.engine().set_shadow(false);
}

void WrittenWords::note(uint64_t start, uint64_t end) {
  if (!counting_ || start >= end) return;
  if (!noted_.empty() && noted_.back().start == start && noted_.back().end == end) return;
  noted_.push_back({start, end});
  if (noted_.size() > kManyNotes) simplify(noted_);
}

void WrittenWords::map(uint64_t start, uint64_t end) {
  if (counting_ && !layout::has_shadow(start, end)) give_up();
}

void WrittenWords::mark_instruction() {
  if (!counting_) return;
  const guest::Instruction instruction = guest::instruction_at_rip();
  for (const guest::Accessed& a : instruction.accesses) {
    if (!a.write) continue;
    if (!instruction.known) return give_up();  // a scatter
    const uint64_t end = a.start + std::min<uint64_t>(a.length, ~0ull - a.start);
    process_.map.for_each([&](const guest::Region& r) {
      const uint64_t first = std::max(a.start, r.start), last = std::min(end, r.end);
      if (first < last) engine::mark_written(first, last - first);
    });
  }
}

std::optional<Contents> WrittenWords::collect() {
  if (!counting_) return std::nullopt;
  Contents contents;
  contents.ranges = noted_;
  shadow_pages_.clear();
  guest::PageMap pages;
  if (!pages) return std::nullopt;
  auto add = [&](uint64_t address) {
    if (!contents.pages.empty() && contents.pages.back().address >= address) return;
    Contents::Page page{address, {}};
    const auto* marks = reinterpret_cast<const uint64_t*>(layout::shadow_of(address));
    for (size_t i = 0; i < kPage / 8; i++)
      if (marks[i]) page.words[i / 64] |= 1ull << (i % 64);
    if (page.words != decltype(page.words){}) contents.pages.push_back(page);
  };
  try {
    process_.map.for_each([&](const guest::Region& r) {
      if (!is_private(r)) {
        contents.ranges.push_back({r.start, r.end});
        return;
      }
      // What is reserved only has not been written to; if it was before that, its change is noted.
      if (r.prot == PROT_NONE) return;
      const uint64_t distance = layout::shadow_of(0);
      pages.for_each(layout::page_down(r.start + distance), layout::page_up(r.end + distance),
                     [&](uint64_t page, uint64_t) {
                       // A page of the shadow has the end of one page of memory and the beginning of the
                       // next.
                       const uint64_t first = layout::page_down(page - distance);
                       if (first >= r.start) add(first);
                       if (first + kPage < r.end) add(first + kPage);
                       shadow_pages_.push_back(page);
                     });
    });
  } catch (const Error&) {
    return std::nullopt;
  }
  simplify(contents.ranges);
  if (checked()) compare_all(contents);
  return contents;
}

// Marks of memory that is not there any more, or has no rights at the moment, stay: should it come back, it
// counts as written to once too often.
std::optional<Contents> WrittenWords::take() {
  std::optional<Contents> contents = collect();
  if (!contents) return std::nullopt;
  for (uint64_t page : shadow_pages_)
    for (auto* mark = reinterpret_cast<uint64_t*>(page); mark < reinterpret_cast<uint64_t*>(page + kPage);
         mark++)
      if (*mark) *mark = 0;
  noted_.clear();
  before_.clear();
  if (checked()) remember_all();
  return contents;
}

void WrittenWords::remember_all() {
  process_.map.for_each([&](const guest::Region& r) {
    for (uint64_t page = r.start; is_private(r) && page < r.end; page += kPage) {
      std::vector<uint8_t> bytes(kPage);
      if (bs_guarded_copy(bytes.data(), reinterpret_cast<const void*>(page), kPage))
        before_.emplace(page, std::move(bytes));
    }
  });
}

void WrittenWords::compare_all(const Contents& known) const {
  process_.map.for_each([&](const guest::Region& r) {
    for (uint64_t page = r.start; is_private(r) && page < r.end; page += kPage) {
      auto before = before_.find(page);
      uint64_t now[kPage / 8];
      if (before == before_.end() || !bs_guarded_copy(now, reinterpret_cast<const void*>(page), kPage))
        continue;
      for (size_t i = 0; i < std::size(now); i++) {
        uint64_t word;
        std::memcpy(&word, before->second.data() + 8 * i, 8);
        if (word != now[i] && !known.wrote(page + 8 * i, page + 8 * i + 8))
          throw Error(
              fmt::format("internal error: the word at {:#x} has changed from {:#x} to {:#x} without "
                          "being known as written to",
                          page + 8 * i, word, now[i]));
      }
    }
  });
}

}  // namespace backstep::replayer
