// Nothing here can lose a log, whoever is killed when: a file is packed when nobody writes to it any more,
// into another file, which takes its name (rename) when it is whole and on the disk. Readers have the one or
// the other, and both say the same: offsets, numbers and checksums of events are not changed (format.h). The
// new file has no name until then, so who copies the folder meanwhile does not meet half of one. And the
// lock of the one who packs is on a file that is there anyway.
//
// Who is still at work on a log holds a lock on its last part. It is complete when that is free; the parts
// before it are when the next one has begun (log_parts.h).
#include "recording/log_packer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/fd.h"
#include "recording/codec.h"
#include "recording/log_parts.h"
#include "recording/log_reader.h"
#include "recording/shared_folder.h"
#include "recording/tree.h"

namespace backstep::recording {
namespace {

constexpr int kLogLevel = 3;  // of compression: 6 takes three times as long for 5 % less

struct Unmap {
  size_t size = 0;
  void operator()(const uint8_t* p) const { munmap(const_cast<uint8_t*>(p), size); }
};
using MappedLog = std::unique_ptr<const uint8_t, Unmap>;

// Are these the events that the chunk's header speaks of?
bool has_sum(std::span<const uint8_t> events, uint32_t sum) {
  uint32_t running = 0;
  while (!events.empty()) {
    EventHeader event{};
    if (events.size() < kMinEvent) return false;
    std::memcpy(&event, events.data(), sizeof event);
    if (event.size < kMinEvent || event.size > events.size()) return false;
    running = hot::crc32c(running, events.data(), event.size - 2);
    events = events.subspan(event.size);
  }
  return running == sum;
}

// The length of the header; 0: this is no file of a log that may be packed.
uint64_t packable_header(std::span<const uint8_t> file) {
  FileHeader header{};
  if (file.size() < sizeof header) return 0;
  std::memcpy(&header, file.data(), sizeof header);
  const bool is_log = std::memcmp(header.magic, kLogMagic, sizeof header.magic) == 0 ||
                      std::memcmp(header.magic, kPartMagic, sizeof header.magic) == 0;
  if (!is_log || header.version < kPartsVersion || header.version > kLogVersion) return 0;
  return header.header_size <= file.size() ? header.header_size : 0;
}

class PackedFile {
 public:
  // `log`: the file that it is made from.
  explicit PackedFile(const std::string& log)
      : path_(log + ".packing"), fd_(make(log)), context_(ZSTD_createCCtx(), ZSTD_freeCCtx) {}
  ~PackedFile() {
    if (fd_ && named_) remove_file(path_);
  }
  PackedFile(const PackedFile&) = delete;
  PackedFile& operator=(const PackedFile&) = delete;

  void write(const void* bytes, size_t size) {
    for (auto* p = static_cast<const char*>(bytes); size > 0;) {
      const ssize_t n = ::write(fd_.get(), p, size);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail(n ? errno : ENOSPC);
      p += n, size -= static_cast<size_t>(n);
      size_ += static_cast<uint64_t>(n);
    }
  }
  void add(const ChunkHeader& chunk, std::span<const uint8_t> events) {
    frame_.resize(ZSTD_compressBound(events.size()));
    const size_t size = ZSTD_compressCCtx(context_.get(), frame_.data(), frame_.size(), events.data(),
                                          events.size(), kLogLevel);
    if (ZSTD_isError(size))
      throw Error(fmt::format("cannot compress {}: {}", path_, ZSTD_getErrorName(size)));
    PackedHeader packed{};
    packed.magic = kPackedMagic;
    packed.size = static_cast<uint32_t>(size);
    packed.check = hot::crc32c(0, frame_.data(), size);
    packed.header_check = packed_header_check(packed, chunk);
    write(&packed, sizeof packed);
    write(&chunk, sizeof chunk);
    write(frame_.data(), size);
  }
  uint64_t size() const { return size_; }
  // Takes the place of the file that it was made from.
  void replace(const std::string& log, const struct stat& before) {
    const timespec times[] = {before.st_atim, before.st_mtim};
    futimens(fd_.get(), times);
    if (fdatasync(fd_.get()) != 0) fail(errno);
    const Place place(path_);
    if (!named_ && linkat(AT_FDCWD, path_of_fd(fd_.get()).c_str(), place.folder, place.name.c_str(),
                          AT_SYMLINK_FOLLOW) != 0)
      fail(errno);
    named_ = true;
    if (move_file(path_, log) != 0) fail(errno);
    fd_.reset();
  }

 private:
  Fd make(const std::string& log) {
    remove_file(path_);  // of one who was killed
    // In a folder of several users a new file needs the rights that make_file gives it.
    const std::string folder = log.substr(0, log.rfind('/'));
    struct stat st {};
    const bool of_one_user = stat(folder.c_str(), &st) == 0 && (st.st_mode & (S_IRWXG | S_ISVTX)) == 0;
    if (of_one_user)
      if (Fd fd(open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600)); fd) return fd;
    named_ = true;
    Fd fd(make_file(path_, O_WRONLY | O_EXCL | O_CLOEXEC));
    if (!fd) fail(errno);
    return fd;
  }
  [[noreturn]] void fail(int error) const {
    throw Error(fmt::format("cannot write {}: {}", path_, errno_text(error)));
  }

  std::string path_;
  bool named_ = false;  // there is a file at path_
  Fd fd_;
  std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> context_;
  std::vector<uint8_t> frame_;
  uint64_t size_ = 0;
};

uint64_t size_on_disk(const std::string& path) {
  struct stat st {};
  const Fd fd(open_file(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  return fd && fstat(fd.get(), &st) == 0 ? static_cast<uint64_t>(st.st_blocks) * 512 : 0;
}

}  // namespace

bool pack_part(const std::string& path) {
  const Fd fd(open_file(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat st {};
  if (!fd || fstat(fd.get(), &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0) return false;
  const auto size = static_cast<uint64_t>(st.st_size);
  void* p = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (p == MAP_FAILED) throw Error(fmt::format("cannot map the log {}: {}", path, errno_text(errno)));
  const MappedLog mapped(static_cast<const uint8_t*>(p), Unmap{size});
  const std::span<const uint8_t> file(mapped.get(), size);
  const uint64_t begin = packable_header(file);
  if (!begin) return false;
  std::unique_ptr<PackedFile> packed;
  for (uint64_t at = begin; at < size;) {
    ChunkHeader chunk{};
    if (size - at < sizeof chunk) return false;
    std::memcpy(&chunk, file.data() + at, sizeof chunk);
    const auto used = static_cast<uint32_t>(chunk.state);
    const std::span<const uint8_t> rest = file.subspan(at + sizeof chunk);
    // A recorder that was killed may leave a chunk that it had not begun.
    if (chunk.magic == 0 && std::all_of(rest.begin(), rest.end(), [](uint8_t b) { return b == 0; })) break;
    if (chunk.magic != kChunkMagic || chunk.header_crc != chunk_header_crc(chunk) || used > rest.size() ||
        chunk.capacity < sizeof chunk + used ||
        !has_sum(rest.first(used), static_cast<uint32_t>(chunk.state >> 32)))
      return false;
    if (!packed) {
      packed = std::make_unique<PackedFile>(path);
      packed->write(file.data(), begin);
    }
    packed->add(chunk, rest.first(used));
    at += chunk.capacity;
  }
  if (!packed || packed->size() >= size) return false;
  packed->replace(path, st);
  return true;
}

bool is_log_open(const std::string& path) {
  const Fd log(open_file(part_path(path, count_parts(path)), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  return log && flock(log.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

bool is_packing(const Recording& recording) {
  const Fd lock(open_file(Tree::path(recording), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  return lock && flock(lock.get(), LOCK_SH | LOCK_NB) != 0;
}

uint64_t pack_logs(const Recording& recording, bool follow, bool wait) {
  using namespace std::chrono_literals;
  constexpr auto kFirstPause = 10ms, kLongestPause = 1000ms;
  const Fd lock(open_file(Tree::path(recording), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!lock || flock(lock.get(), wait ? LOCK_EX : LOCK_EX | LOCK_NB) != 0) return 0;
  uint64_t freed = 0;
  std::map<uint64_t, uint32_t> done;  // parts of each log
  for (auto pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    bool being_made = false;
    for (uint64_t process : recording.processes()) {
      const std::string log = recording.log_path(process);
      const bool open = is_log_open(log);  // first: what is begun after that look is not complete
      const uint32_t complete = count_parts(log) - (open ? 1 : 0);
      for (uint32_t& part = done[process]; part < complete; part++) {
        const std::string path = part_path(log, part + 1);
        const uint64_t before = size_on_disk(path);
        if (before < kWorthPacking || !pack_part(path)) continue;
        freed += before - std::min(before, size_on_disk(path));
        pause = kFirstPause;
      }
      being_made |= open;
    }
    if (!follow || !being_made) break;
    std::this_thread::sleep_for(pause);
    struct stat st {};
    if (fstat(lock.get(), &st) != 0 || st.st_nlink == 0) return freed;  // the recording was removed
  }
  return freed;
}

}  // namespace backstep::recording
