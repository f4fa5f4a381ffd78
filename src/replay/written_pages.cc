// Two ways, both without a fault of ours and without rights:
//
//   write protection     by userfaultfd in its asynchronous mode, in which the kernel itself takes a page's
//                        protection off at the first write; Linux since 6.7
//   soft-dirty bits      cleared through /proc/self/clear_refs; Linux since 3.11, if configured (Debian's is)
//
// Comparing a page's contents at two moments would not do: who watches a variable wants to know that it was
// changed and changed back. Comparing page frames with a forked checkpoint's would need root.
//
// Neither way sees that a page was given back (munmap, MADV_DONTNEED) or its mapping changed: note() is told.
#include "replay/written_pages.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "guest/page_map.h"

namespace backstep::replayer {
namespace {

using layout::kPage;
constexpr uint64_t kTooSparse = 64ull << 30;
constexpr size_t kMaxRanges = 4000;

// Headers of older systems lack these.
constexpr int kUserModeOnly = 1;
constexpr uint64_t kWriteProtectAsync = 1ull << 15;

bool clear_soft_dirty() {
  Fd fd(open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC));
  return fd && write(fd.get(), "4", 1) == 1;
}

// Does the kernel have soft-dirty bits? The file is there in any case.
bool soft_dirty_works() {
  guest::PageMap pages;
  void* p = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (!pages || p == MAP_FAILED) return false;
  const auto at = reinterpret_cast<uint64_t>(p);
  auto dirty = [&] {
    bool set = false;
    pages.for_each(at, at + kPage,
                   [&](uint64_t, uint64_t entry) { set = entry & guest::PageMap::kSoftDirty; });
    return set;
  };
  auto* byte = static_cast<volatile char*>(p);
  *byte = 1;
  bool works = clear_soft_dirty() && !dirty();
  *byte = 2;
  works = works && dirty();
  munmap(p, kPage);
  return works;
}

Fd open_userfault() {
  Fd fd(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | kUserModeOnly)));
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = kWriteProtectAsync;
  if (fd && ioctl(fd.get(), UFFDIO_API, &api) != 0) fd.reset();
  return fd;
}

}  // namespace

void simplify(std::vector<recording::AddressRange>& ranges) {
  std::sort(ranges.begin(), ranges.end(), [](auto& a, auto& b) { return a.start < b.start; });
  for (uint64_t gap = 0;; gap = std::max(gap * 2, kPage)) {
    std::vector<recording::AddressRange> joined;
    for (const auto& r : ranges) {
      if (!joined.empty() && r.start <= joined.back().end + gap) {
        joined.back().end = std::max(joined.back().end, r.end);
      } else {
        joined.push_back(r);
      }
    }
    ranges = std::move(joined);
    if (ranges.size() <= kMaxRanges) return;
  }
}

bool WrittenPages::kernel_counts_by_itself() {
  return static_cast<bool>(open_userfault());
}

void WrittenPages::find_way() {
  way_ = Way::None;
  if ((userfault_ = open_userfault())) {
    way_ = Way::Userfault;
  } else if (soft_dirty_works()) {
    way_ = Way::SoftDirty;
  }
}

bool WrittenPages::protect(uint64_t start, uint64_t end) const {
  uffdio_register area{};
  area.range = {start, end - start};
  area.mode = UFFDIO_REGISTER_MODE_WP;
  uffdio_writeprotect protect{};
  protect.range = area.range;
  protect.mode = UFFDIO_WRITEPROTECT_MODE_WP;
  return ioctl(userfault_.get(), UFFDIO_REGISTER, &area) == 0 &&
         ioctl(userfault_.get(), UFFDIO_WRITEPROTECT, &protect) == 0;
}

bool WrittenPages::start() {
  counting_ = false;
  watched_.clear();
  noted_.clear();
  if (way_ == Way::Unknown) find_way();
  if (way_ == Way::None) return false;
  uint64_t total = 0;
  process_.map.for_each([&](const guest::Region& r) {
    total += r.end - r.start;
    if ((r.flags & MAP_SHARED) || !(r.prot & PROT_WRITE)) return;
    watched_.push_back({r.start, r.end});
  });
  if (total > kTooSparse) return false;
  if (way_ == Way::SoftDirty) {
    if (!clear_soft_dirty()) return false;
  } else {
    for (const auto& r : watched_)
      if (!protect(r.start, r.end)) return false;
  }
  return counting_ = true;
}

void WrittenPages::note(uint64_t start, uint64_t end) {
  if (!counting_ || start >= end) return;
  start &= ~(kPage - 1);
  end = end > ~0ull - kPage ? end : (end + kPage - 1) & ~(kPage - 1);
  if (!noted_.empty() && noted_.back().start == start && noted_.back().end == end) return;
  noted_.push_back({start, end});
  if (noted_.size() > 2 * kMaxRanges) simplify(noted_);
}

std::optional<std::vector<recording::AddressRange>> WrittenPages::collect() {
  if (!counting_) return std::nullopt;
  std::vector<recording::AddressRange> ranges = noted_;
  guest::PageMap pages;
  if (!pages) return std::nullopt;
  auto add = [&](uint64_t page) {
    if (!ranges.empty() && ranges.back().end == page) {
      ranges.back().end += kPage;
    } else {
      ranges.push_back({page, page + kPage});
    }
  };
  try {
    for (const auto& r : watched_)
      pages.for_each(r.start, r.end, [&](uint64_t page, uint64_t entry) {
        if (way_ == Way::SoftDirty ? (entry & guest::PageMap::kSoftDirty) != 0
                                   : !(entry & guest::PageMap::kWriteProtected)) {
          // What is still the file's own page has not been written to.
          if (!(entry & guest::PageMap::kPresent) || !(entry & guest::PageMap::kFile)) add(page);
        }
      });
  } catch (const Error&) {
    return std::nullopt;
  }
  process_.map.for_each([&](const guest::Region& r) {
    if (r.flags & MAP_SHARED) ranges.push_back({r.start, r.end});
  });
  simplify(ranges);
  return ranges;
}

void WrittenPages::after_fork() {
  counting_ = false;
  if (way_ == Way::Userfault) way_ = Way::Unknown;
  userfault_.reset();
}

}  // namespace backstep::replayer
