// A memory file of a terabyte has a few pages that hold something: SEEK_DATA finds them.
#include "base/file_data.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

namespace backstep {

bool copy_data(int from, int to, uint64_t start, uint64_t end) {
  constexpr size_t kBuffer = 1 << 20;
  struct stat source {
  }, target{};
  if (fstat(from, &source) != 0 || fstat(to, &target) != 0) return false;
  const auto last = static_cast<off_t>(std::min<uint64_t>(
      {end, static_cast<uint64_t>(source.st_size), static_cast<uint64_t>(target.st_size)}));
  auto at = static_cast<off_t>(start);
  if (at >= last) return true;
  if (target.st_blocks > 0 && fallocate(to, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, last - at) != 0)
    return false;
  auto buffer = std::make_unique<char[]>(kBuffer);
  while (at < last) {
    const off_t data = lseek(from, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) return true;
    off_t hole = data < 0 ? last : lseek(from, data, SEEK_HOLE);
    if (hole < 0) hole = last;
    at = std::max(at, data);
    hole = std::min(hole, last);
    while (at < hole) {
      const ssize_t n =
          pread(from, buffer.get(), std::min<size_t>(kBuffer, static_cast<size_t>(hole - at)), at);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return false;
      if (n == 0) return true;
      for (ssize_t done = 0; done < n;) {
        const ssize_t k = pwrite(to, buffer.get() + done, static_cast<size_t>(n - done), at + done);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        done += k;
      }
      at += n;
    }
  }
  return true;
}

}  // namespace backstep
