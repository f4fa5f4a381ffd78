// Parts are numbered without gaps, so they are found by looking for the next one. A new part is made by a
// recorder that may fail to: on a full disk it removes it again, and goes on in the file that it has. When it
// begins to write the header of the first chunk nothing can fail any more; until then the part is nothing, to
// readers as to the one who packs.
#include "recording/log_parts.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include <fmt/format.h>

#include "base/fd.h"
#include "recording/codec.h"
#include "recording/shared_folder.h"

namespace backstep::recording {

std::string part_path(const std::string& log, uint32_t part) {
  constexpr std::string_view kEnding = ".log";
  if (part == 1) return log;
  return fmt::format("{}.{}{}", log.substr(0, log.size() - kEnding.size()), part, kEnding);
}

uint32_t count_parts(const std::string& log) {
  for (uint32_t part = 2;; part++) {
    const Fd fd(open_file(part_path(log, part), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct {
      PackedHeader packed;
      ChunkHeader chunk;
    } first{};
    constexpr decltype(first) kNothing{};
    if (!fd ||
        pread(fd.get(), &first, sizeof first, kPartHeader) < static_cast<ssize_t>(sizeof first.chunk) ||
        std::memcmp(&first, &kNothing, sizeof first) == 0)
      return part - 1;
  }
}

bool read_first_chunk(int fd, uint32_t header_size, ChunkHeader& chunk) {
  struct {
    PackedHeader packed;
    ChunkHeader chunk;
  } both{};
  const ssize_t n = pread(fd, &both, sizeof both, header_size);
  if (n < static_cast<ssize_t>(sizeof chunk)) return false;
  if (both.packed.magic == kPackedMagic) {
    if (n != sizeof both) return false;
    chunk = both.chunk;
  } else {
    __builtin_memcpy(&chunk, &both, sizeof chunk);
  }
  return chunk.magic == kChunkMagic && chunk.header_crc == chunk_header_crc(chunk);
}

}  // namespace backstep::recording
