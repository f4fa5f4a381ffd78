// Files that are mapped privately and that the program changes all the same.
//
// A page of a private mapping shows the file until the program writes to the page: what is written to the
// file is seen there, and so is that it becomes longer or shorter. The store's copy, which is what we map,
// never changes. So when the program changes a file that it has mapped privately, its mappings are moved to a
// copy of our own, a *live* one, and from there on each change of the file is made to that as well: the
// kernel does the rest, as it does natively. A replay does the same with a memory file; the log has the
// changes (FileSize). Most programs never do this, and find out for nothing: a file must have been opened for
// writing by the program and be mapped privately before calls that write are looked at
// (HotState::shared_files).
//
// What others write to the file, and what the program writes to it through another, shared mapping, is not
// seen: the file is then what it was when it was mapped, plus the program's own changes.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/error.h"
#include "base/file_data.h"
#include "base/room_for_fds.h"
#include "guest/buffers.h"
#include "record/descriptors.h"
#include "record/recorder.h"
#include "recording/shared_folder.h"

namespace backstep::recorder {

using namespace guest;
using recording::EventKind;

namespace {

using layout::kPage;

using Range = std::pair<uint64_t, uint64_t>;

bool is_private_of(const Region& r, const std::pair<uint64_t, uint64_t>& file) {
  return !(r.flags & (MAP_SHARED | MAP_ANONYMOUS)) && r.inode && r.dev == file.first &&
         r.inode == file.second;
}

std::vector<Region> private_mappings(const MemoryMap& map, const std::pair<uint64_t, uint64_t>& file) {
  std::vector<Region> found;
  map.for_each([&](const Region& r) {
    if (is_private_of(r, file)) found.push_back(r);
  });
  return found;
}

bool write_at(int fd, const char* data, uint64_t n, uint64_t at) {
  while (n > 0) {
    const ssize_t done = pwrite(fd, data, n, static_cast<off_t>(at));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    data += done, at += static_cast<uint64_t>(done), n -= static_cast<uint64_t>(done);
  }
  return true;
}

}  // namespace

// Contents that a private mapping was made from.
void Recorder::note_kept(const Region& r, const std::string& key) {
  if (key.empty() || !r.inode || r.flags & MAP_SHARED) return;
  const Kept fresh{r.offset, r.offset + (r.end - r.start), key};
  auto& list = kept_[{r.dev, r.inode}];
  std::erase_if(list, [&](const Kept& k) { return fresh.from <= k.from && k.to <= fresh.to; });
  list.push_back(fresh);
}

// The program has this file open for writing: if it is mapped privately, calls that write need a look.
void Recorder::note_writable(int fd) {
  struct stat st {};
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) return;
  written_files_.insert({st.st_dev, st.st_ino});
  if (kept_.count({st.st_dev, st.st_ino})) bs_record.shared_files = true;
}

void Recorder::note_inherited_files() {
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/thread-self/fd", ec)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    const int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && !is_our_fd(static_cast<uint64_t>(fd)))
      note_writable(fd);
    std::error_code none;
    bs_record.signalfds |= std::filesystem::read_symlink(entry, none) == "anon_inode:[signalfd]";
  }
}

std::string Recorder::new_live_name() {
  return fmt::format("{}/changed-{}-{}-{}", recording_.base(), origin_.process, getpid(), live_names_++);
}

// Moves the program's private mappings of a file to a live copy, as they are now.
void Recorder::thaw(const FileId& file) {
  RoomForFds room;
  Live live{new_live_name()};
  Fd copy(recording::make_shared_file(live.path, O_RDWR | O_EXCL | O_CLOEXEC));
  if (!copy) throw Error(fmt::format("cannot make {}: {}", live.path, errno_text(errno)));
  const std::vector<Kept> kept = kept_[file];
  for (const Kept& k : kept) fill_live(copy.get(), k);
  for (const Region& r : private_mappings(process_.map, file)) {
    std::vector<OwnPage> own = process_.change_backing(r, copy.get());
    for (const Kept& k : kept) {
      const uint64_t from = std::max(k.from, r.offset), to = std::min(k.to, r.offset + (r.end - r.start));
      if (from >= to) continue;
      Region part = r;
      part.start = r.start + (from - r.offset);
      part.end = r.start + (to - r.offset);
      part.offset = from;
      log_map(part, k.key, recording::kLive);
    }
    for (const OwnPage& page : own) log_bytes(page.at, page.bytes);
  }
  live_[file] = live;
}

// Puts kept contents into a live copy. The file has its size then; it only grows here.
void Recorder::fill_live(int copy, const Kept& k) {
  Fd contents(store_.open(k.key));
  struct stat now {
  }, then{};
  if (fstat(copy, &now) != 0 || fstat(contents.get(), &then) != 0 ||
      (then.st_size > now.st_size && ftruncate(copy, then.st_size) != 0) ||
      !copy_data(contents.get(), copy, k.from, k.to))
    throw Error("cannot copy a mapped file: " + errno_text(errno));
}

void Recorder::log_live_size(const FileId& file, uint64_t size, uint64_t offset,
                             std::span<const char> bytes) {
  if (!log_.reserve(256 + bytes.size())) return;
  recording::Appender& log = log_.appender();
  uint8_t* at = log.begin(EventKind::FileSize, recording::kLive, 0);
  for (uint64_t v : {file.first, file.second, size}) at = recording::put_varint(at, v);
  if (!bytes.empty()) {
    at = recording::put_varint(at, offset);
    at = std::copy(bytes.begin(), bytes.end(), at);
  }
  log.commit(at);
}

// What the program has just written to the file, as far as that can be told from the call.
std::optional<std::vector<char>> Recorder::bytes_written(uint64_t nr, const uint64_t args[6], uint64_t n) {
  std::vector<char> bytes;
  bool ok = true;
  auto take = [&](uint64_t addr, uint64_t length) {
    length = std::min<uint64_t>(length, n - bytes.size());
    const size_t before = bytes.size();
    bytes.resize(before + length);
    ok &= bs_guarded_copy(bytes.data() + before, reinterpret_cast<const void*>(addr), length);
  };
  if (nr == SYS_write || nr == SYS_pwrite64)
    take(args[1], n);
  else if (nr == SYS_writev || nr == SYS_pwritev || nr == SYS_pwritev2)
    for_each_iovec(args[1], std::min<uint64_t>(args[2], UIO_MAXIOV), n, take);
  else
    return std::nullopt;
  if (!ok || bytes.size() != n) return std::nullopt;
  return bytes;
}

// Behind a call that has changed a file, [first, last) of it, so that it has this size now. `data`: what is
// in that range, if that is known.
void Recorder::change_live(const FileId& file, int fd, uint64_t size, uint64_t first, uint64_t last,
                           const std::optional<std::vector<char>>& data) {
  const std::vector<Region> mappings = private_mappings(process_.map, file);
  if (mappings.empty()) {
    drop_live(file);
    return;
  }
  try {
    if (!live_.count(file)) thaw(file);
    RoomForFds room;
    Fd copy(recording::open_file(live_.at(file).path, O_RDWR | O_CLOEXEC));
    if (!copy || ftruncate(copy.get(), static_cast<off_t>(size)) != 0)
      throw Error(fmt::format("cannot change {}: {}", live_.at(file).path, errno_text(errno)));
    for (const Region& r : mappings) {
      process_.engine().forget(r.start, r.end);
      process_.map.overwrite(r.start, r.end);
    }
    log_live_size(file, size, 0, {});
    std::vector<Range> ranges;
    for (const Region& r : mappings) {
      const uint64_t from = std::max(first, r.offset);
      const uint64_t to = std::min({last, size, r.offset + (r.end - r.start)});
      if (from < to) ranges.emplace_back(from, to);
    }
    std::sort(ranges.begin(), ranges.end());
    Fd opened;
    int source = -1;
    if (!ranges.empty()) {
      // Another thread may have changed what was written since.
      const int flags = fcntl(fd, F_GETFL);
      if (flags >= 0 && (flags & O_ACCMODE) != O_WRONLY && !(flags & O_DIRECT)) source = fd;
      if (source < 0 && !data) source = descriptor_of(mappings.front(), opened);
      if (source < 0 && !data)
        throw Error("cannot read " + mappings.front().name + ", which the program has changed");
    }
    constexpr uint64_t kAtOnce = 1 << 20;
    uint64_t done = 0;  // up to here
    for (auto [from, to] : ranges)
      for (uint64_t at = std::max(from, done); at < to; at = done) {
        done = std::min(to, at + kAtOnce);
        std::vector<char> bytes(done - at);
        if (source < 0)
          std::copy_n(data->begin() + static_cast<ptrdiff_t>(at - first), bytes.size(), bytes.begin());
        else if (pread(source, bytes.data(), bytes.size(), static_cast<off_t>(at)) < 0)
          throw Error("cannot read " + mappings.front().name + ": " + errno_text(errno));
        if (!write_at(copy.get(), bytes.data(), bytes.size(), at))
          throw Error("cannot write " + live_.at(file).path + ": " + errno_text(errno));
        log_live_size(file, size, at, bytes);
      }
  } catch (const Error& e) {
    log_.stop(e.what());
  }
}

// A new private mapping of a file that has a live copy: it shows the file as it is now, and so do the others.
// False: there is none.
bool Recorder::map_live(const Region& r, const std::string& key) {
  auto it = live_.find({r.dev, r.inode});
  if (it == live_.end()) return false;
  Fd copy(recording::open_file(it->second.path, O_RDWR | O_CLOEXEC));
  if (!copy) throw Error(fmt::format("cannot open {}: {}", it->second.path, errno_text(errno)));
  fill_live(copy.get(), {r.offset, r.offset + (r.end - r.start), key});
  struct stat st {};
  Fd contents(store_.open(key));
  if (fstat(contents.get(), &st) != 0 || ftruncate(copy.get(), st.st_size) != 0)
    throw Error(fmt::format("cannot change {}: {}", it->second.path, errno_text(errno)));
  if (long err = process_.map_region(r, copy.get(), MAP_NORESERVE))
    throw Error("cannot map a live file: " + errno_text(static_cast<int>(-err)));
  return true;
}

void Recorder::drop_live(const FileId& file) {
  auto it = live_.find(file);
  if (it == live_.end()) return;
  recording::remove_file(it->second.path);
  live_.erase(it);
}

void Recorder::drop_all_live() {
  while (!live_.empty()) drop_live(live_.begin()->first);
}

// A child has private mappings of its own: what its parent writes to the file later is not its own change.
// (Natively it would be seen, as any other process's.) Before the fork, and then in the child.
void Recorder::copy_live_for_child() {
  for (const auto& [file, live] : live_) {
    RoomForFds room;
    Live copy{new_live_name()};
    Fd from(recording::open_file(live.path, O_RDONLY | O_CLOEXEC));
    Fd to(recording::make_shared_file(copy.path, O_RDWR | O_EXCL | O_CLOEXEC));
    struct stat st {};
    if (from && to && fstat(from.get(), &st) == 0 && ftruncate(to.get(), st.st_size) == 0 &&
        copy_data(from.get(), to.get(), 0, ~0ull))
      child_live_[file] = copy;
  }
}

void Recorder::use_live_as_child() {
  for (const auto& [file, live] : child_live_) {
    RoomForFds room;
    Fd copy(recording::open_file(live.path, O_RDWR | O_CLOEXEC));
    if (!copy) continue;
    for (const Region& r : private_mappings(process_.map, file)) process_.change_backing(r, copy.get());
  }
  live_ = std::move(child_live_);
  child_live_.clear();
}

void Recorder::forget_child_live(bool born) {
  if (!born)
    for (const auto& [file, live] : child_live_) recording::remove_file(live.path);
  child_live_.clear();
}

}  // namespace backstep::recorder
