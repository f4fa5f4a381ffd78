// A recording must replay after the files that the program had mapped were changed or deleted, so their
// contents are kept. Most programs map the same few libraries, so contents are kept once, under their hash,
// and shared.
//
// Cheap when nothing is new: an identity index (`by-id/<dev>-<ino>-<size>-<mtime>-<ctime>`, a symlink whose
// text is the key) tells the key of an unchanged file in a handful of system calls, without reading it. A
// file that could change without its time stamps showing it is neither looked up nor entered, just hashed.
//
// Safe when several recorders work at once, or one is killed: contents are first written to `tmp/` and then
// renamed to a name that depends only on them, so any number of writers agree and readers never see half a
// file. What is hashed is the copy, so a file that changes while we read it is still stored under a true
// name. There is no fsync; a file that a power failure cut short is noticed by its size and replaced.
//
// Programs map single pages of files that are larger than any disk: heaps and code of virtual machines in
// memory files of a terabyte, databases. Of such a file only what is mapped is read, and of that only what
// the file system says is data. Programs and libraries are kept whole whatever their size: debuggers want the
// parts that nobody maps. What is kept has the size and the offsets of the original, so that whoever maps it
// need not know.
#include "recording/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <xxhash.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "base/fd.h"
#include "recording/shared_folder.h"
#include "recording/writers.h"

namespace backstep::recording {
namespace {

constexpr size_t kBuffer = 256 << 10;  // fits in the L2 cache, so that what is copied is hashed from there

[[noreturn]] void fail(const std::string& what, int err) {
  throw Error(fmt::format("cannot {}: {}", what, errno_text(err)));
}

std::string source_name(int fd) {
  std::error_code ec;
  auto target = std::filesystem::read_symlink(fmt::format("/proc/thread-self/fd/{}", fd), ec);
  return ec ? fmt::format("file descriptor {}", fd) : target.string();
}

class Hash {
 public:
  Hash() : state_(XXH3_createState()) { XXH3_128bits_reset(state_.get()); }
  void update(const void* data, size_t n) { XXH3_128bits_update(state_.get(), data, n); }
  std::string hex() const {
    XXH128_hash_t h = XXH3_128bits_digest(state_.get());
    return fmt::format("{:016x}{:016x}", h.high64, h.low64);
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* s) const { XXH3_freeState(s); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

// Files up to this size are kept whole.
constexpr off_t kSmall = 16 << 20;
// What is kept of a larger file is cut off behind what is mapped: file systems have limits.
constexpr uint64_t kMostKept = 4ull << 40;
constexpr size_t kBlock = 4096;

// Descriptors with O_DIRECT read only into such, and only whole blocks.
struct Free {
  void operator()(char* p) const { std::free(p); }
};
std::unique_ptr<char, Free> aligned_buffer(size_t size) {
  auto* p = static_cast<char*>(std::aligned_alloc(kBlock, size));
  if (!p) throw std::bad_alloc();
  return std::unique_ptr<char, Free>(p);
}

bool is_zero(const char* data, size_t n) {
  static const char zeroes[kBlock] = {};
  return std::memcmp(data, zeroes, n) == 0;
}

// Calls f(offset, bytes) for each block of kBlock bytes in [from, to) that is not zero. Block borders are at
// multiples of kBlock, the last block of the file may be shorter.
//
// Asking for holes moves the position of the descriptor, which the program may share with other processes: it
// is put back at once, and files that have no holes are not asked.
template <class F>
void for_each_block(int fd, uint64_t from, uint64_t to, const std::string& name, F&& f) {
  struct stat st {};
  if (fstat(fd, &st) != 0) fail("look at " + name, errno);
  const auto end = static_cast<off_t>(std::min<uint64_t>(to, static_cast<uint64_t>(st.st_size)));
  const bool has_holes = st.st_blocks * 512 < st.st_size;
  auto buffer = aligned_buffer(kBuffer);
  for (auto at = static_cast<off_t>(from); at < end;) {
    off_t data_end = end;
    if (has_holes) {
      const off_t before = lseek(fd, 0, SEEK_CUR);
      const off_t data = lseek(fd, at, SEEK_DATA);
      const int err = errno;
      const off_t hole = data >= 0 ? lseek(fd, data, SEEK_HOLE) : -1;
      lseek(fd, before, SEEK_SET);
      if (data < 0 && err == ENXIO) return;  // holes up to the end
      if (data >= 0 && hole >= 0) {
        at = std::max<off_t>(at, data & ~static_cast<off_t>(kBlock - 1));
        data_end = std::min<off_t>(end, (hole + kBlock - 1) & ~static_cast<off_t>(kBlock - 1));
      }
    }
    while (at < data_end) {
      const auto left = static_cast<size_t>(data_end - at);
      const size_t most = std::min(kBuffer, (left + kBlock - 1) & ~(kBlock - 1));
      ssize_t n = pread(fd, buffer.get(), most, at);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("read " + name, errno);
      if (n == 0) return;  // the file became shorter under us
      n = std::min(n, static_cast<ssize_t>(left));
      const auto got = static_cast<size_t>(n);
      for (size_t i = 0; i < got; i += kBlock) {
        const size_t length = std::min(kBlock, got - i);
        if (!is_zero(buffer.get() + i, length)) f(at + static_cast<off_t>(i), buffer.get() + i, length);
      }
      at += n;
    }
  }
}

// The hash of a file of which a part is kept: its size, and the blocks that are not zero with their places.
// So it does not depend on which zeroes are holes.
class SparseHash {
 public:
  void block(off_t at, const char* data, size_t n) {
    char whole[kBlock] = {};
    std::memcpy(whole, data, n);
    const auto place = static_cast<uint64_t>(at);
    hash_.update(&place, sizeof place);
    hash_.update(whole, sizeof whole);
  }
  std::string key(off_t size) {
    const auto bytes = static_cast<uint64_t>(size);
    hash_.update(&bytes, sizeof bytes);
    return "s" + hash_.hex().substr(1);
  }

 private:
  Hash hash_;
};

bool is_program(int fd) {
  auto start = aligned_buffer(kBlock);
  return pread(fd, start.get(), kBlock, 0) >= 4 && std::memcmp(start.get(), "\177ELF", 4) == 0;
}

off_t kept_size(const struct stat& st, const Extent& mapped) {
  const uint64_t most = std::max(kMostKept, mapped.to);
  return static_cast<off_t>(std::min<uint64_t>(most, static_cast<uint64_t>(st.st_size)));
}

bool is_kept_whole(int fd, const struct stat& st) {
  return st.st_size <= kSmall || is_program(fd);
}

// Hash of the whole file and the number of bytes that were read.
struct Hashed {
  std::string key;
  off_t size = 0;
};
Hashed hash_file(int fd, const std::string& name) {
  auto buffer = aligned_buffer(kBuffer);
  Hash hash;
  off_t at = 0;
  for (;;) {
    ssize_t n = pread(fd, buffer.get(), kBuffer, at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("read " + name, errno);
    if (n == 0) return {hash.hex(), at};
    hash.update(buffer.get(), static_cast<size_t>(n));
    at += n;
  }
}

void write_all(int fd, const char* data, size_t n, off_t at, const std::string& name) {
  while (n > 0) {
    ssize_t done = pwrite(fd, data, n, at);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("write " + name, errno);
    data += done;
    n -= static_cast<size_t>(done);
    at += done;
  }
}

// Contents of `from` (of `size` bytes) to the empty file `to`; what is zero becomes holes. Without moving the
// position of `from`, which the program may share with others.
void copy_contents(int from, int to, off_t size, const std::string& name) {
  if (size == 0 || ioctl(to, FICLONE, from) == 0) return;
  if (ftruncate(to, size) != 0) fail("write " + name, errno);
  auto buffer = aligned_buffer(kBuffer);
  for (off_t at = 0; at < size;) {
    const size_t left = static_cast<size_t>(size - at);
    ssize_t n = pread(from, buffer.get(), std::min(kBuffer, (left + kBlock - 1) & ~(kBlock - 1)), at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("read the file to store as " + name, errno);
    if (n == 0) return;  // the file became shorter under us
    n = std::min(n, static_cast<ssize_t>(left));
    const auto end = static_cast<size_t>(n);
    for (size_t i = 0; i < end; i += kBlock) {
      const size_t length = std::min(kBlock, end - i);
      if (!is_zero(buffer.get() + i, length))
        write_all(to, buffer.get() + i, length, at + static_cast<off_t>(i), name);
    }
    at += n;
  }
}

int64_t now_seconds() {
  timespec ts;
  clock_gettime(CLOCK_REALTIME, &ts);
  return ts.tv_sec;
}

bool same_identity(const struct stat& a, const struct stat& b) {
  auto same = [](const timespec& x, const timespec& y) {
    return x.tv_sec == y.tv_sec && x.tv_nsec == y.tv_nsec;
  };
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         same(a.st_mtim, b.st_mtim) && same(a.st_ctim, b.st_ctim);
}

void need_folder(const std::string& path) {
  if (!make_shared_folder(path)) fail("make the folder " + path, errno);
}

// Holds `<dir>/lock` for a scope: shared while contents are taken, exclusive while garbage is collected. It
// is opened each time, because a recorder keeps no descriptors among those of the guest. A file system
// without locks (some network ones) gives up only the protection against a concurrent `rm`.
class Locked {
 public:
  Locked(const std::string& dir, int mode) {
    fd_.reset(make_shared_file(dir + "/lock", O_RDWR | O_CLOEXEC));
    while (fd_ && flock(fd_.get(), mode) != 0 && errno == EINTR) {
    }
  }

 private:
  Fd fd_;
};

// A name that vanishes with the scope unless it was renamed away.
struct Temporary {
  std::string path;
  ~Temporary() {
    if (!path.empty()) remove_file(path);
  }
};

}  // namespace

bool is_key(const std::string& text) {
  return text.size() == kKeyLength &&
         text.find_first_not_of("0123456789abcdef", text[0] == 's') == std::string::npos;
}

bool is_sparse_key(const std::string& text) {
  return is_key(text) && text[0] == 's';
}

uint64_t kept_bytes(const std::string& name, const struct stat& st) {
  return static_cast<uint64_t>(is_sparse_key(name) ? st.st_blocks * 512 : st.st_size);
}

Store::Store(const std::string& dir) : dir_(std::filesystem::absolute(dir)) {}

std::string Store::path(const std::string& key) const {
  // A damaged log must not lead us out of the store.
  if (!is_key(key)) throw Error(fmt::format("'{}' is not a key of stored file contents", key));
  return fmt::format("{}/{}/{}", dir_, key.substr(0, 2), key);
}

bool Store::is_writable() const {
  return may_write(dir_ + "/by-id") && may_write(dir_ + "/tmp");
}

void Store::prepare() {
  if (prepared_) return;
  if (!may_write(dir_ + "/by-id")) {
    std::error_code ec;
    const std::string parent = std::filesystem::path(dir_).parent_path();
    if (!may_write(parent)) std::filesystem::create_directories(parent, ec);
    if (ec) fail("make the folder " + parent, ec.value());
    need_folder(dir_);
    need_folder(dir_ + "/tmp");
    need_folder(dir_ + "/by-id");
  }
  prepared_ = true;
}

bool Store::take(const std::string& key, off_t size) {
  if (!is_key(key)) return false;
  std::string file = path(key);
  const Place place(file);
  struct stat st;
  if (fstatat(place.folder, place.name.c_str(), &st, 0) != 0 || !S_ISREG(st.st_mode) || st.st_size != size)
    return false;
  // Its time stamp says "in use since now" to collect_garbage. If another user owns the store, only they
  // collect.
  return utimensat(place.folder, place.name.c_str(), nullptr, 0) == 0 || errno == EPERM || errno == EACCES ||
         errno == EROFS;
}

std::string Store::index_path(const struct stat& st, const std::string& part) const {
  auto ns = [](const timespec& t) { return t.tv_sec * 1'000'000'000LL + t.tv_nsec; };
  return fmt::format("{}/by-id/{:x}-{}-{}-{}-{}{}", dir_, st.st_dev, st.st_ino, st.st_size, ns(st.st_mtim),
                     ns(st.st_ctim), part);
}

void Store::enter_index(const std::string& entry, const std::string& key) {
  // Best effort: without an entry the file is hashed again next time.
  auto make_link = [&](const std::string& path) {
    const Place place(path);
    return symlinkat(key.c_str(), place.folder, place.name.c_str()) == 0;
  };
  if (make_link(entry) || errno != EEXIST) return;
  Temporary link{temporary_path()};
  if (make_link(link.path) && move_file(link.path, entry) == 0) link.path.clear();
}

std::string Store::temporary_path() const {
  static std::atomic<unsigned> counter{0};
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return fmt::format("{}/tmp/{}-{}-{}", dir_, getpid(), ts.tv_sec * 1'000'000'000LL + ts.tv_nsec, counter++);
}

std::string Store::add(int fd, const Extent& mapped) {
  struct stat before, after;
  if (fstat(fd, &before) != 0) fail("look at " + source_name(fd), errno);
  if (!S_ISREG(before.st_mode)) throw Error("cannot store " + source_name(fd) + ": it is not a regular file");
  if (!times_tell(fd, before)) return insert(fd, mapped);
  // A library is mapped in four pieces, one after the other.
  const int64_t now = now_seconds();
  const bool whole = is_kept_whole(fd, before);
  if (whole && !last_.key.empty() && now - last_.added < kGrace.count() / 4 &&
      same_identity(last_.file, before) && has(last_.key))
    return last_.key;

  prepare();
  char key[kKeyLength + 1];
  const std::string path = index_path(before, whole ? "" : fmt::format("-{}-{}", mapped.from, mapped.to));
  const Place entry(path);
  ssize_t n = readlinkat(entry.folder, entry.name.c_str(), key, sizeof key);
  if (n == static_cast<ssize_t>(kKeyLength)) {
    Locked lock(dir_, LOCK_SH);
    std::string known(key, kKeyLength);
    if (take(known, whole ? before.st_size : kept_size(before, mapped))) {
      if (whole) last_ = {before, known, now};
      return known;
    }
  }
  std::string stored = insert(fd, mapped);
  if (fstat(fd, &after) == 0 && same_identity(before, after)) enter_index(path, stored);
  return stored;
}

std::string Store::insert(int fd, const Extent& mapped) {
  std::string name = source_name(fd);
  struct stat st;
  if (fstat(fd, &st) != 0) fail("look at " + name, errno);
  if (!S_ISREG(st.st_mode)) throw Error("cannot store " + name + ": it is not a regular file");
  prepare();
  return is_kept_whole(fd, st) ? insert_whole(fd, name) : insert_part(fd, mapped, name);
}

std::string Store::insert_kept(int fd, const std::string& key) {
  prepare();
  return is_sparse_key(key) ? insert_part(fd, {}, source_name(fd)) : insert_whole(fd, source_name(fd));
}

// Gives a complete temporary file its name in the store.
std::string Store::accept(int file, std::string& temporary, const std::string& key) {
  Locked lock(dir_, LOCK_SH);
  std::string final_path = path(key);
  need_folder(final_path.substr(0, final_path.rfind('/')));
  futimens(file, nullptr);
  if (move_file(temporary, final_path) != 0) fail("write " + final_path, errno);
  temporary.clear();
  return key;
}

std::string Store::insert_whole(int fd, const std::string& name) {
  // Not by a descriptor of our own: closing it would take away the locks that the program has on the file
  // (fcntl).
  Hashed seen = hash_file(fd, name);
  {
    Locked lock(dir_, LOCK_SH);
    if (take(seen.key, seen.size)) return seen.key;
  }
  Temporary copy{temporary_path()};
  Fd target(make_shared_file(copy.path, O_RDWR | O_EXCL | O_CLOEXEC, 0400));
  if (!target) fail("write to " + dir_, errno);
  copy_contents(fd, target.get(), seen.size, copy.path);
  return accept(target.get(), copy.path, hash_file(target.get(), copy.path).key);
}

std::string Store::insert_part(int fd, const Extent& mapped, const std::string& name) {
  struct stat st;
  if (fstat(fd, &st) != 0) fail("look at " + name, errno);
  const off_t size = kept_size(st, mapped);
  SparseHash seen;
  for_each_block(fd, mapped.from, mapped.to, name,
                 [&](off_t at, const char* data, size_t n) { seen.block(at, data, n); });
  {
    const std::string key = seen.key(size);
    Locked lock(dir_, LOCK_SH);
    if (take(key, size)) return key;
  }
  Temporary copy{temporary_path()};
  Fd target(make_shared_file(copy.path, O_RDWR | O_EXCL | O_CLOEXEC, 0400));
  if (!target || ftruncate(target.get(), size) != 0) fail("write to " + dir_, errno);
  SparseHash kept;
  for_each_block(fd, mapped.from, mapped.to, name, [&](off_t at, const char* data, size_t n) {
    if (at >= size) return;  // it has grown
    n = std::min<size_t>(n, static_cast<size_t>(size - at));
    if (is_zero(data, n)) return;
    kept.block(at, data, n);
    write_all(target.get(), data, n, at, copy.path);
  });
  return accept(target.get(), copy.path, kept.key(size));
}

int Store::open(const std::string& key) const {
  std::string file = path(key);
  int fd = open_file(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) fail("open the stored file contents " + file, errno);
  return fd;
}

bool Store::has(const std::string& key) const {
  if (!is_key(key)) return false;
  const Place place(path(key));
  return faccessat(place.folder, place.name.c_str(), R_OK, AT_EACCESS) == 0;
}

bool Store::matches(int fd, const std::string& key) {
  try {
    if (!is_sparse_key(key)) return hash_file(fd, key).key == key;
    struct stat st {};
    if (fstat(fd, &st) != 0) return false;
    SparseHash hash;
    for_each_block(fd, 0, ~0ull, key, [&](off_t at, const char* data, size_t n) { hash.block(at, data, n); });
    return hash.key(st.st_size) == key;
  } catch (const Error&) {
    return false;
  }
}

bool Store::verify(const std::string& key) const {
  if (!is_key(key)) return false;
  Fd fd(open_file(path(key), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  return fd && matches(fd.get(), key);
}

uint64_t Store::collect_garbage(const std::set<std::string>& used, std::chrono::seconds grace) {
  namespace fs = std::filesystem;
  if (access(dir_.c_str(), F_OK) != 0) return 0;
  prepare();
  Locked lock(dir_, LOCK_EX);
  uint64_t freed = 0;
  int64_t newest = now_seconds() - grace.count();
  auto remove_old = [&](const fs::path& file, int64_t limit) {
    struct stat st;
    if (lstat(file.c_str(), &st) != 0 || st.st_mtim.tv_sec > limit) return;
    if (unlink(file.c_str()) == 0) freed += kept_bytes(file.filename(), st);
  };

  std::error_code ec;
  for (const auto& folder : fs::directory_iterator(dir_, ec)) {
    if (folder.path().filename().string().size() != 2) continue;
    for (const auto& file : fs::directory_iterator(folder.path(), ec))
      if (!used.contains(file.path().filename())) remove_old(file.path(), newest);
    rmdir(folder.path().c_str());  // only if it is empty now
  }
  for (const auto& entry : fs::directory_iterator(dir_ + "/by-id", ec)) {
    auto key = fs::read_symlink(entry.path(), ec);
    if (ec || !has(key.string())) unlink(entry.path().c_str());
  }
  // What killed recorders left behind: nobody copies one file for a day.
  for (const auto& file : fs::directory_iterator(dir_ + "/tmp", ec))
    remove_old(file.path(), now_seconds() - 86400);
  return freed;
}

}  // namespace backstep::recording
