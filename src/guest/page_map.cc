// The kernel keeps better books of a process's pages than we could: which have been touched, which are still
// the file's. No rights are needed for that, only for the frame numbers, which are of no use to us.
#include "guest/page_map.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <fstream>

#include "base/error.h"
#include "engine/layout.h"

namespace backstep::guest {

PageMap::PageMap() : fd_(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) {}

void PageMap::for_each(uint64_t start, uint64_t end,
                       const std::function<void(uint64_t page, uint64_t entry)>& f) {
  constexpr uint64_t kAtOnce = 1 << 15;
  std::vector<uint64_t> entries(std::min(kAtOnce, (end - start) / layout::kPage));
  for (uint64_t page = start; page < end;) {
    const uint64_t n = std::min<uint64_t>(entries.size(), (end - page) / layout::kPage);
    const ssize_t got = pread(fd_.get(), entries.data(), n * sizeof(uint64_t),
                              static_cast<off_t>(page / layout::kPage * sizeof(uint64_t)));
    if (got <= 0) throw Error("cannot read /proc/self/pagemap: " + errno_text(errno));
    const uint64_t read = static_cast<uint64_t>(got) / sizeof(uint64_t);
    for (uint64_t i = 0; i < read; i++)
      if (entries[i]) f(page + i * layout::kPage, entries[i]);
    page += read * layout::kPage;
  }
}

std::vector<RealMapping> real_mappings(uint64_t limit) {
  std::vector<RealMapping> found;
  std::ifstream in("/proc/self/maps");
  for (std::string line; std::getline(in, line);) {
    RealMapping m;
    int path = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %*s %n", &m.start, &m.end,
                    &m.offset, &path) != 3 ||
        m.start >= limit)
      continue;
    if (path > 0) m.path = line.substr(std::min(static_cast<size_t>(path), line.size()));
    found.push_back(std::move(m));
  }
  if (found.empty()) throw Error("cannot read /proc/self/maps: " + errno_text(errno));
  return found;
}

}  // namespace backstep::guest
