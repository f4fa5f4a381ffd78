// Chunks of the log: allocated on disk before they are mapped (a store into a sparse mapping of a full disk
// would be a SIGBUS), written in place, cut to their used length when closed.
#include "recording/log_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "engine/layout.h"
#include "recording/clock_pair.h"
#include "recording/log_parts.h"
#include "recording/shared_folder.h"
#include "recording/tree.h"

namespace backstep::recording {
namespace {

using layout::kPage;

constexpr uint64_t kFirstChunk = 64 << 10, kNextChunk = 1 << 20;

constexpr int kMadvPopulateWrite = 23;

uint64_t round_up(uint64_t n, uint64_t unit) {
  return (n + unit - 1) / unit * unit;
}

uint64_t now_ns(clockid_t clock) {
  timespec ts;
  clock_gettime(clock, &ts);
  return static_cast<uint64_t>(ts.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(ts.tv_nsec);
}

// Whole pages.
int write_zeroes(int fd, uint64_t offset, uint64_t size) {
  static std::array<char, kPage> zeroes;
  std::array<iovec, 256> pages;
  pages.fill({zeroes.data(), zeroes.size()});
  for (uint64_t done = 0; done < size;) {
    const uint64_t count = std::min<uint64_t>((size - done) / kPage, pages.size());
    ssize_t n = pwritev(fd, pages.data(), static_cast<int>(count), static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < static_cast<ssize_t>(kPage)) return n < 0 ? errno : ENOSPC;
    done += static_cast<uint64_t>(n) / kPage * kPage;  // a torn page is written again
  }
  return 0;
}

// In one piece: a recorder that is killed leaves no header or a whole one.
template <class Header>
bool write_header(int fd, const Header& header) {
  std::array<std::byte, kPage> page{};
  std::memcpy(page.data(), &header, sizeof header);
  return pwrite(fd, page.data(), page.size(), 0) == static_cast<ssize_t>(page.size());
}

}  // namespace

int move_fd_high(int fd, int least) {
  constexpr int kRoom = 64, kNotFar = 4096;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const auto top = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 20));
  auto moved_to = [&](int number) {
    const int moved = fcntl(fd, F_DUPFD_CLOEXEC, number);
    if (moved >= 0) close(fd);
    return moved;
  };
  if (top > kNotFar && least < top - kRoom)
    if (const int moved = moved_to(least); moved >= 0) return moved;
  // Above the program's own limit, if the hard limit has room: a descriptor stays when the limit goes down
  // again.
  rlimit raised = limit;
  raised.rlim_cur = std::min<rlim_t>(limit.rlim_max, limit.rlim_cur + kRoom);
  if (raised.rlim_cur > limit.rlim_cur && setrlimit(RLIMIT_NOFILE, &raised) == 0) {
    const int moved = moved_to(static_cast<int>(limit.rlim_cur));
    setrlimit(RLIMIT_NOFILE, &limit);
    if (moved >= 0) return moved;
  }
  for (int want = top - 1; want > std::max(top - kRoom, 2); want--) {
    if (fcntl(want, F_GETFD) != -1) continue;
    if (const int moved = moved_to(want); moved >= 0) return moved;
  }
  return fd;
}

LogWriter::LogWriter(const std::string& path, const Origin& origin, const Tree& tree) : tree_(tree) {
  open(path, origin);
}

void LogWriter::open(const std::string& path, const Origin& origin) {
  path_ = path;
  process_ = origin.process;
  part_ = 1;
  chunk_count_ = 0;
  base_ = chunk_offset_ = file_size_ = 0;
  stopped_.clear();
  appender_.events = 0;
  appender_.order = tree_.last_order();
  fd_ = make_file(path, O_RDWR | O_EXCL | O_CLOEXEC);
  if (fd_ < 0) throw Error(fmt::format("cannot create the log {}: {}", path, errno_text(errno)));
  fd_ = move_fd_high(fd_);
  // Held by whoever records, for as long as that takes: Recording::is_being_made.
  flock(fd_, LOCK_SH);
  // What could not be begun is not left behind as a damaged log.
  auto fail = [&](const std::string& why) {
    remove_file(path);
    throw Error(fmt::format("cannot write to the log {}: {}", path, why));
  };
  FileHeader header{};
  std::memcpy(header.magic, kLogMagic, sizeof header.magic);
  header.version = kLogVersion;
  header.header_size = kPage;
  header.process = origin.process;
  header.birth = static_cast<uint64_t>(origin.birth);
  header.parent = origin.parent;
  header.parent_event = origin.parent_event;
  header.pid = origin.pid;
  header.check = hot::crc32c(0, &header, offsetof(FileHeader, check));
  if (!write_header(fd_, header)) fail(errno_text(errno));
  file_size_ = kPage;
  if (!open_chunk(0)) fail(stopped_);
}

void LogWriter::move_fd(int least) {
  if (fd_ >= 0) fd_ = move_fd_high(fd_, least);
}

LogWriter::~LogWriter() {
  close_chunk();
  if (fd_ >= 0) close(fd_);
}

static_assert(kPartHeader == kPage);
// A new file for the next chunk. It is there for others from the moment when that chunk gets its header: then
// nothing is written to the part before any more. False, and nothing has changed: the log goes on in this
// file (no rights, no room for one more file).
bool LogWriter::open_part(uint64_t at_least) {
  const std::string path = part_path(path_, part_ + 1);
  Fd fd(make_file(path, O_RDWR | O_EXCL | O_CLOEXEC));
  if (!fd) return false;
  flock(fd.get(), LOCK_SH);  // as for the first part
  PartHeader header{};
  std::memcpy(header.magic, kPartMagic, sizeof header.magic);
  header.version = kLogVersion;
  header.header_size = kPartHeader;
  header.process = process_;
  header.part = part_ + 1;
  header.first_chunk = chunk_count_;
  header.start = base_ + file_size_;
  header.check = hot::crc32c(0, &header, offsetof(PartHeader, check));
  const auto [before_fd, before_base, before_size] = std::tuple(fd_, base_, file_size_);
  if (write_header(fd.get(), header)) {
    fd_ = fd.get(), base_ = header.start - kPage, file_size_ = kPage;
    if (open_chunk(at_least)) {
      part_++;
      // The descriptor keeps its number: others know it. (It cannot fail: that one is open.)
      fd_ = dup3(fd.get(), before_fd, O_CLOEXEC);
      return true;
    }
  }
  fd_ = before_fd, base_ = before_base, file_size_ = before_size;
  remove_file(path);
  return false;
}

bool LogWriter::open_chunk(uint64_t at_least) {
  uint64_t size = chunk_count_ == 0 ? kFirstChunk : kNextChunk;
  size = std::max(size, round_up(at_least + sizeof(ChunkHeader) + kEndReserve, kPage));
  if (refuse) {
    stopped_ = refuse(size);
    if (!stopped_.empty()) return false;
  }
  // The program's own limit on file sizes (ulimit -f) is ours too; running into it would be a SIGXFSZ for the
  // program.
  rlimit limit{};
  bool fits = getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= file_size_ + size;
  // Written zeroes make the page cache ready at once, in big pieces, which makes mapping them 2.5 times
  // cheaper than faulting in allocated but unwritten blocks (1.45 ms against 0.56 ms a megabyte). And a file
  // system that puts off its allocations has none to take back when the file is cut: on ext4 cutting what
  // fallocate gave waits for the disk (3 ms for each process that ends, against 0.01 ms).
  int err = fits ? write_zeroes(fd_, file_size_, size) : EFBIG;
  void* p = MAP_FAILED;
  if (!err) {
    p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, static_cast<off_t>(file_size_));
    if (p == MAP_FAILED) err = errno;
    // All pages at once instead of a fault each; kernels before 5.14 do without. (MAP_POPULATE maps pages of
    // a shared file read-only: of no use here.)
    if (!err && chunk_count_ > 0) madvise(p, size, kMadvPopulateWrite);
  }
  if (err) {
    stopped_ = errno_text(err);
    (void)!ftruncate(fd_, static_cast<off_t>(file_size_));  // what had been written of it
    return false;
  }
  auto* chunk = static_cast<ChunkHeader*>(p);
  chunk->magic = kChunkMagic;
  chunk->index = chunk_count_;
  chunk->first_event = appender_.events;
  chunk->first_tick = appender_.tick;
  chunk->first_order = appender_.order;
  chunk->capacity = static_cast<uint32_t>(size);
  const ClockPair clocks = read_clock_pair(now_ns);
  chunk->wall_ns = clocks.wall_ns;
  chunk->monotonic_low = static_cast<uint32_t>(clocks.monotonic_ns);
  chunk->monotonic_high = static_cast<uint32_t>(clocks.monotonic_ns >> 32);
  chunk->header_crc = chunk_header_crc(*chunk);
  chunk_offset_ = file_size_;
  file_size_ += size;
  chunk_count_++;
  appender_.chunk = chunk;
  appender_.p = reinterpret_cast<uint8_t*>(chunk + 1);
  appender_.end = static_cast<uint8_t*>(p) + size - kEndReserve;
  appender_.crc = 0;
  return true;
}

void LogWriter::close_chunk() {
  if (!appender_.chunk) return;
  auto used = static_cast<uint64_t>(appender_.p - reinterpret_cast<uint8_t*>(appender_.chunk));
  uint64_t keep = round_up(used, kPage);
  uint64_t size = appender_.chunk->capacity;
  std::memset(appender_.p, 0, keep - used);  // an event may have been begun there
  // Cut before the chunk says so: readers take what is behind a chunk for another one.
  if (keep < size && ftruncate(fd_, static_cast<off_t>(chunk_offset_ + keep)) == 0) {
    file_size_ = chunk_offset_ + keep;
    appender_.chunk->capacity = static_cast<uint32_t>(keep);
    appender_.chunk->header_crc = chunk_header_crc(*appender_.chunk);
  }
  munmap(appender_.chunk, size);
  appender_.chunk = nullptr;
}

bool LogWriter::reserve(uint64_t bytes) {
  if (!appender_.chunk) return false;
  if (appender_.has_room(bytes)) return true;
  Appender full = appender_;
  // What is behind the events of a chunk that others follow is zero; an event may have been begun there.
  for (uint8_t* at = full.p; at < reinterpret_cast<uint8_t*>(full.chunk) + full.chunk->capacity; at++)
    if (*at) *at = 0;
  const bool new_part = file_size_ >= kPartSize && open_part(bytes);
  if (!new_part && !open_chunk(bytes)) {
    appender_ = full;
    stop(stopped_);
    return false;
  }
  // Close the chunk before; its space up to the next one stays in the file.
  munmap(full.chunk, full.chunk->capacity);
  if (new_part && part_done) part_done();
  return true;
}

void LogWriter::stop(const std::string& reason) {
  stopped_ = reason;
  if (!appender_.chunk) return;
  appender_.end += kEndReserve;
  write_end(EndKind::Stopped, 0, appender_.tick, 0, 0);
  close_chunk();
}

void LogWriter::note(const std::string& text) {
  std::string cut = text.substr(0, 4000);
  if (!reserve(cut.size() + 64)) return;
  uint8_t* at = appender_.begin(EventKind::Note, 0, 0);
  std::memcpy(at, cut.data(), cut.size());
  appender_.commit(at + cut.size());
}

void LogWriter::write_end(EndKind kind, int64_t status, Tick tick, Address pc, uint8_t flags) {
  uint8_t* at = appender_.begin(EventKind::End, flags, 0, {tree_.next_order(), 0});
  at = appender_.put_place(at, tick, pc);
  *at++ = static_cast<uint8_t>(kind);
  at = put_varint(at, zigzag(status));
  appender_.commit(at);
}

void LogWriter::end(EndKind kind, int64_t status, Tick tick, Address pc, uint8_t flags) {
  if (!appender_.chunk) return;
  appender_.end += kEndReserve;  // the reserve is for this
  write_end(kind, status, tick, pc, flags);
  close_chunk();
}

void LogWriter::abandon(bool keep_open) {
  if (appender_.chunk) munmap(appender_.chunk, appender_.chunk->capacity);
  appender_.chunk = nullptr;
  if (fd_ >= 0 && !keep_open) close(fd_);
  fd_ = -1;
}

}  // namespace backstep::recording
