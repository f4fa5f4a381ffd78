// What the kernel knows of the pages of this process (/proc/self/pagemap, /proc/self/maps).
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/fd.h"

namespace backstep::guest {

class PageMap {
 public:
  PageMap();
  explicit operator bool() const { return static_cast<bool>(fd_); }

  // Entries as in the kernel's documentation (admin-guide/mm/pagemap.rst).
  static constexpr uint64_t kPresent = 1ull << 63, kSwapped = 1ull << 62, kFile = 1ull << 61,
                            kWriteProtected = 1ull << 57 /* userfaultfd */, kSoftDirty = 1ull << 55;
  // Every page of [start, end) that has an entry which is not 0. Throws Error.
  void for_each(uint64_t start, uint64_t end, const std::function<void(uint64_t page, uint64_t entry)>& f);

 private:
  Fd fd_;
};

// One real mapping of this process.
struct RealMapping {
  uint64_t start = 0, end = 0, offset = 0;
  std::string path;  // empty: anonymous
};
// Those that begin below `limit`.
std::vector<RealMapping> real_mappings(uint64_t limit);

}  // namespace backstep::guest
