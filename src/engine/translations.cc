// Short programs feel their start, and most of that is translating the same ld.so, libc and main again. So
// the cache of a process that ends is kept in a file, as it is, and the next process that runs the same
// program maps it. `make` runs cc1 a hundred times and translates it once.
//
// That works without any relocation, since everything has a fixed address: guest mappings are placed by us,
// in the same order at the same places (MemoryMap::find_free), the cache and its books lie where they always
// lie, and translated code holds no address of the host's.
//
// What must hold is that code is never used for other bytes than it was made from. Kept code therefore
// belongs to *ranges*: a stretch of a file, known by the hash of its contents, mapped at an address and never
// writable since. All code comes back at the start, but none of it can be found: its pages enter the books,
// and its part of the jump table takes its place, when the guest fetches from a range that is the same in
// all points. Links from one range to another are undone before the code is kept (undo_crossings), so nothing
// else leads there. Code from other memory (a JIT's) may be among what is kept; it belongs to no range and is
// never found.
//
// The file is mapped privately, so pages come straight from the page cache, sixteen with one fault, and
// processes share them. The jump table matters most: it has a page for each KB of guest code. Only the code
// itself is read, into memory that the kernel may back by huge pages.
//
// Trust: the folder and the file must be ours and writable by us alone. The file is written under another
// name and then renamed. A checksum over all of it finds what a crash of the machine left half written; it
// need not be computed each time: the file tells during which boot and with which modification time it was
// completed, and as long as both are true, what we read is what we wrote.
//
// The file:  header (one page) · ranges · hot code · cold code · blocks · exits · checks · nodes · pages ·
//            meta · for each range its part of the jump table, of which only chunks that are in use are
//            written, so the file is sparse. Everything starts at a page. It is for this build of Backstep on
//            this kind of CPU only: the name has a hash of both.
#include "engine/translations.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/build_id.h"
#include "base/fd.h"
#include "engine/emit.h"

namespace backstep::engine {
namespace {

using layout::kPage;
using layout::page_up;

constexpr uint64_t kMaxFolder = 512ull << 20;  // of disk for all programs together
constexpr uint64_t kChunk = 1024;              // guest bytes of one page of the jump table

enum Section { Ranges, Hot, Cold, Blocks, Exits, Checks, Nodes, Pages, Meta, kSections };

struct Piece {
  uint8_t* memory;
  uint64_t size;
};

// Where a section lives in memory, and how big it is now.
Piece piece(Section section) {
  const Cache& c = bs_cache;
  auto bytes = [](const void* p) { return const_cast<uint8_t*>(static_cast<const uint8_t*>(p)); };
  auto* end = reinterpret_cast<uint8_t*>(layout::kCacheStart + c.size);
  switch (section) {
    case Hot: {
      auto* start = reinterpret_cast<uint8_t*>(layout::kCacheStart + kPadsSize);
      return {start, static_cast<uint64_t>(c.hot - start)};
    }
    case Cold: {
      const uint64_t size = page_up(static_cast<uint64_t>(end - c.cold));
      return {end - size, size};
    }
    case Blocks:
      return {bytes(kBlocks), c.blocks * sizeof(Block)};
    case Exits:
      return {bytes(kExits), c.exits * sizeof(Exit)};
    case Checks:
      return {bytes(kChecks), c.checks * sizeof(Check)};
    case Nodes:
      return {bytes(kNodes), c.nodes * sizeof(PageNode)};
    case Pages:
      return {bytes(kPages), c.pages * sizeof(PageCode)};
    case Meta:
      return {bytes(kMeta), c.meta};
    default:
      return {nullptr, 0};
  }
}

std::string boot_id() {
  char text[64] = {};
  Fd fd(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  const ssize_t n = fd ? read(fd.get(), text, sizeof text - 1) : 0;
  return {text, n > 0 ? static_cast<size_t>(n) : 0};
}

// What is kept must leave room in the cache, or the process that takes it in would soon empty it again.
bool leaves_room(uint64_t hot, uint64_t cold, uint64_t pages) {
  const uint64_t free = cold - hot;
  return cold > hot && free > bs_cache.size / 2 && pages < kPageHash / 4;
}

// Fewer new blocks than that are not worth a new file.
uint64_t gain(uint64_t blocks) {
  return std::max<uint64_t>(128, blocks / 10);
}

bool ours_alone(const struct stat& st) {
  return st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH));
}

uint64_t mtime_ns(const struct stat& st) {
  return static_cast<uint64_t>(st.st_mtim.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(st.st_mtim.tv_nsec);
}

bool write_all(int fd, const void* from, uint64_t size, uint64_t offset) {
  auto* at = static_cast<const uint8_t*>(from);
  while (size > 0) {
    const ssize_t n = pwrite(fd, at, size, static_cast<off_t>(offset));
    if (n <= 0) return false;
    at += n, offset += static_cast<uint64_t>(n), size -= static_cast<uint64_t>(n);
  }
  return true;
}

bool read_all(int fd, void* to, uint64_t size, uint64_t offset) {
  auto* at = static_cast<uint8_t*>(to);
  while (size > 0) {
    const ssize_t n = pread(fd, at, size, static_cast<off_t>(offset));
    if (n <= 0) return false;
    at += n, offset += static_cast<uint64_t>(n), size -= static_cast<uint64_t>(n);
  }
  return true;
}

// Moves a piece of the mapped file to its place.
bool move(uint8_t* from, uint64_t size, void* to) {
  return size == 0 || mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to;
}

uint8_t* jumps_of(Address guest) {
  return reinterpret_cast<uint8_t*>(kJumps + guest);
}

// Calls f(guest address) for each chunk of a page whose part of the jump table is in use.
template <class F>
void each_chunk(const PageCode& page, F f) {
  for (unsigned chunk = 0; chunk < 4; chunk++)
    if (page.filled & (1 << chunk)) f(page.page + chunk * kChunk);
}

class Sum {
 public:
  Sum() : state_(XXH3_createState()) { XXH3_64bits_reset(state_); }
  ~Sum() { XXH3_freeState(state_); }
  Sum(const Sum&) = delete;
  Sum& operator=(const Sum&) = delete;
  void add(const void* from, uint64_t size) { XXH3_64bits_update(state_, from, size); }
  uint64_t value() const { return XXH3_64bits_digest(state_); }

 private:
  XXH3_state_t* state_;
};

}  // namespace

struct Translations::Header {
  static constexpr char kMagic[8] = {'B', 'S', 'K', 'E', 'P', 'T', '0', '1'};
  char magic[8];
  uint64_t mode, start;
  char boot[40];
  uint64_t completed_ns;  // modification time of the file
  uint64_t file_size;
  uint64_t data_sum;  // over all sections and the chunks in use
  uint64_t range_count;
  uint64_t hot, cold;  // Cache::hot, cold
  uint32_t blocks, exits, checks, nodes, pages, meta;
  struct {
    uint64_t offset, size;
  } sections[kSections];
  uint64_t header_sum;  // over all before

  uint64_t own_sum() const { return XXH3_64bits(this, offsetof(Header, header_sum)); }
};

void Translations::use(const std::string& folder, uint64_t start) {
  if (build_id().empty()) return;
  folder_ = folder;
  start_ = start;
}

// Everything that decides what the translator writes, besides the guest's bytes.
uint64_t Translations::mode() const {
  const Cache& c = bs_cache;
  std::string text(build_id());
  for (uint64_t v : {c.size, uint64_t{c.max_block}, uint64_t{c.link}, uint64_t{c.check}, uint64_t{c.vector},
                     uint64_t{c.keep_jumps}, uint64_t{c.hi16_offset}, context().features})
    text += fmt::format(":{}", v);
  return XXH3_64bits(text.data(), text.size());
}

std::string Translations::path() const {
  return fmt::format("{}/{:016x}-{:016x}", folder_, start_, mode());
}

void Translations::begin() {
  if (flushes_ == bs_cache.stats.flushes) return;
  flushes_ = bs_cache.stats.flushes;
  ranges_.clear();
  loaded_ = 0;
}

void Translations::load() {
  // What is kept has nothing in front of its instructions (breaks_hot.cc).
  if (!used() || bs_cache.cover || bs_cache.watch || bs_cache.shadow || bs_cache.report ||
      bs_cache.evex_seen || prefixes_wanted())
    return;
  begin();
  ranges_.clear();
  made_before_ = bs_cache.stats.blocks + bs_cache.stats.misses;
  Fd fd(::open(path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat st {};
  if (!fd || fstat(fd.get(), &st) != 0 || !S_ISREG(st.st_mode) || !ours_alone(st)) return;
  Header header;
  const auto size = static_cast<uint64_t>(st.st_size);
  if (!read_all(fd.get(), &header, sizeof header, 0) || header.own_sum() != header.header_sum ||
      std::memcmp(header.magic, Header::kMagic, sizeof header.magic) != 0 || header.mode != mode() ||
      header.start != start_ || header.file_size != size || header.blocks <= 1 ||
      !leaves_room(header.hot, header.cold, header.pages))
    return;
  void* whole = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd.get(), 0);
  if (whole == MAP_FAILED) return;
  file_ = static_cast<uint8_t*>(whole);
  const bool fresh = header.completed_ns == mtime_ns(st) && boot_id() == header.boot;
  if (!read_ranges(file_, header) || (!fresh && !verify(file_, header))) {
    munmap(file_, size);
    ranges_.clear();
    return;
  }
  // From here on parts of the mapping have other places, and what is left of it stays: the gaps may be in
  // use.
  if (!map(fd.get(), header, size)) {
    flush();
    begin();
    return;
  }
  loaded_ = header.blocks;
  taken_in_ += loaded_;
  reset_fetch();
}

bool Translations::read_ranges(const uint8_t* file, const Header& header) {
  const auto& section = header.sections[Ranges];
  const uint8_t* at = file + section.offset;
  const uint8_t* end = at + section.size;
  auto get = [&](auto& value) {
    if (static_cast<uint64_t>(end - at) < sizeof value) return false;
    std::memcpy(&value, at, sizeof value);
    at += sizeof value;
    return true;
  };
  for (uint64_t i = 0; i < header.range_count; i++) {
    Range r;
    uint64_t count;
    if (!get(r.start) || !get(r.end) || !get(r.content) || !get(r.offset) || !get(r.jumps) || !get(count) ||
        count > header.pages || r.start % kPage || r.end % kPage || r.start >= r.end ||
        r.end > layout::kDirectEnd || r.jumps % kPage || r.jumps > header.file_size ||
        (r.jumps && (r.end - r.start) * 4 > header.file_size - r.jumps))
      return false;
    r.pages.resize(count);
    for (uint32_t& page : r.pages)
      if (!get(page) || page >= header.pages) return false;
    ranges_.push_back(std::move(r));
  }
  return true;
}

bool Translations::verify(const uint8_t* file, const Header& header) const {
  Sum sum;
  for (const auto& section : header.sections) sum.add(file + section.offset, section.size);
  auto* pages = reinterpret_cast<const PageCode*>(file + header.sections[Pages].offset);
  for (const Range& r : ranges_)
    for (uint32_t page : r.pages) {
      if (pages[page].page < r.start || pages[page].page >= r.end || (!r.jumps && pages[page].filled))
        return false;
      each_chunk(pages[page], [&](Address at) { sum.add(file + r.jumps + (at - r.start) * 4, kPage); });
    }
  return sum.value() == header.data_sum;
}

bool Translations::map(int fd, const Header& header, uint64_t size) {
  Cache& c = bs_cache;
  c.hot = reinterpret_cast<uint8_t*>(header.hot);
  c.cold = reinterpret_cast<uint8_t*>(header.cold);
  c.blocks = header.blocks, c.exits = header.exits, c.checks = header.checks;
  c.nodes = header.nodes, c.pages = header.pages, c.meta = header.meta;
  c.mapped = page_up(layout::kCacheStart + c.size - header.cold);  // a flush puts everything back
  for (int i = Hot; i < kSections; i++) {
    const auto& section = header.sections[i];
    const Piece p = piece(static_cast<Section>(i));
    if (section.size != p.size || section.offset % kPage || section.offset + page_up(p.size) > size)
      return false;
    if (i == Hot) {
      if (!read_all(fd, p.memory, p.size, section.offset)) return false;
      continue;
    }
    if (!move(file_ + section.offset, page_up(p.size), p.memory)) return false;
    if (i == Cold && mprotect(p.memory, p.size, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return false;
  }
  return true;
}

void Translations::activate(const FetchRange& range) {
  if (!used() || !range.content || range.end > layout::kDirectEnd) return;
  begin();
  auto it = std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& r) { return r.same(range); });
  if (it == ranges_.end()) {
    ranges_.push_back({range.start, range.end, range.content, range.offset, {}, 0, true});
    return;
  }
  if (it->known) return;
  it->known = true;
  // Chunks that were in use without the file's part of the table would be filled as new ones.
  const bool placed = it->jumps && move(file_ + it->jumps, (it->end - it->start) * 4, jumps_of(it->start));
  for (uint32_t index : it->pages) {
    PageCode& page = kPages[index];
    if (page.page < it->start || page.page >= it->end || kDirectPages[page.page >> 12]) continue;
    if (!placed) page.filled = 0;
    kDirectPages[page.page >> 12] = index;
  }
  if (bs_cache.break_count) patch_breaks(it->start, it->end);
}

void Translations::forget(Address start, Address end) {
  if (!used()) return;
  begin();
  std::erase_if(ranges_, [&](const Range& r) { return r.known && r.start < end && start < r.end; });
}

void Translations::save() {
  const Cache& c = bs_cache;
  constexpr uint32_t kFewest = 64;
  if (!used() || c.cover || c.watch || c.shadow || c.report || c.evex_seen || c.break_count || c.probe ||
      !c.link)
    return;
  if (c.blocks < kFewest) return;  // the cache was emptied a moment ago
  begin();
  const uint64_t made = c.stats.blocks + c.stats.misses - made_before_;
  if (made < gain(loaded_) ||
      !leaves_room(reinterpret_cast<uint64_t>(c.hot), reinterpret_cast<uint64_t>(c.cold), c.pages))
    return;
  made_before_ += made;
  remove_trap();
  undo_crossings();
  struct stat st {};
  if (stat(folder_.c_str(), &st) != 0 || !S_ISDIR(st.st_mode) || !ours_alone(st)) return;
  const std::string name = path(), temporary = fmt::format("{}.{}.new", name, getpid());
  Header header{};
  {
    Fd present(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (present && read_all(present.get(), &header, sizeof header, 0) &&
        header.own_sum() == header.header_sum && header.blocks + gain(header.blocks) > c.blocks)
      return;  // another process was here since: the one that was forked before this one, most likely
  }
  header = {};
  Fd fd(::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return;
  // Nothing is put in the place of another file: for that, file systems wait for the disk (ext4), a third of
  // a second if it is busy, and the checksum takes care of what a crash leaves behind.
  const bool good = write(fd.get(), header);
  if (good) unlink(name.c_str());
  if (!good || rename(temporary.c_str(), name.c_str()) != 0) unlink(temporary.c_str());
  make_room(kMaxFolder);
}

bool Translations::write(int fd, Header& header) {
  const Cache& c = bs_cache;
  std::memcpy(header.magic, Header::kMagic, sizeof header.magic);
  header.mode = mode(), header.start = start_;
  boot_id().copy(header.boot, sizeof header.boot - 1);
  header.hot = reinterpret_cast<uint64_t>(c.hot), header.cold = reinterpret_cast<uint64_t>(c.cold);
  header.blocks = c.blocks, header.exits = c.exits, header.checks = c.checks;
  header.nodes = c.nodes, header.pages = c.pages, header.meta = c.meta;
  header.range_count = ranges_.size();

  // Which pages, and where their part of the jump table goes.
  uint64_t range_bytes = 0;
  for (Range& r : ranges_) {
    if (r.known) {
      r.pages.clear();
      for (Address page = r.start; page < r.end; page += kPage)
        if (uint32_t index = kDirectPages[page >> 12]) r.pages.push_back(index);
    } else {
      // Not mapped in this process, so its part of the table is not at hand: it will be made again.
      for (uint32_t index : r.pages) kPages[index].filled = 0;
    }
    range_bytes += 7 * 8 + r.pages.size() * 4;
  }
  uint64_t at = kPage;
  for (int i = 0; i < kSections; i++) {
    header.sections[i] = {at, i == Ranges ? range_bytes : piece(static_cast<Section>(i)).size};
    at += page_up(header.sections[i].size);
  }
  for (Range& r : ranges_) {
    r.jumps = r.known ? at : 0;
    if (r.known) at += (r.end - r.start) * 4;
  }
  header.file_size = at;
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < at) return false;
  if (ftruncate(fd, static_cast<off_t>(at)) != 0) return false;

  std::string list;
  auto put = [&](const auto& value) { list.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const Range& r : ranges_) {
    put(r.start), put(r.end), put(r.content), put(r.offset), put(r.jumps);
    put(static_cast<uint64_t>(r.pages.size()));
    for (uint32_t page : r.pages) put(page);
  }
  Sum sum;
  for (int i = 0; i < kSections; i++) {
    Piece p = piece(static_cast<Section>(i));
    if (i == Ranges) p = {reinterpret_cast<uint8_t*>(list.data()), list.size()};
    sum.add(p.memory, p.size);
    if (!write_all(fd, p.memory, p.size, header.sections[i].offset)) return false;
  }
  for (const Range& r : ranges_) {
    // Neighbouring chunks in one call.
    Address from = 0, to = 0;
    bool good = true;
    auto put_run = [&] {
      if (to > from) good &= write_all(fd, jumps_of(from), (to - from) * 4, r.jumps + (from - r.start) * 4);
    };
    for (uint32_t index : r.pages)
      each_chunk(kPages[index], [&](Address chunk) {
        sum.add(jumps_of(chunk), kPage);
        if (chunk != to) put_run(), from = chunk;
        to = chunk + kChunk;
      });
    put_run();
    if (!good) return false;
  }
  header.data_sum = sum.value();
  timespec times[2] = {{0, UTIME_OMIT}, {}};
  clock_gettime(CLOCK_REALTIME, &times[1]);
  header.completed_ns =
      static_cast<uint64_t>(times[1].tv_sec) * 1'000'000'000 + static_cast<uint64_t>(times[1].tv_nsec);
  header.header_sum = header.own_sum();
  return write_all(fd, &header, sizeof header, 0) && futimens(fd, times) == 0;
}

// Removes what was not used for longest until all files together take no more than `limit` bytes of disk.
void Translations::make_room(uint64_t limit) const {
  struct File {
    int64_t used;
    uint64_t bytes;
    std::string path;
  };
  std::vector<File> files;
  uint64_t total = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, ignored)) {
    struct stat st {};
    if (lstat(entry.path().c_str(), &st) != 0 || !S_ISREG(st.st_mode)) continue;
    const auto bytes = static_cast<uint64_t>(st.st_blocks) * 512;
    files.push_back({std::max(st.st_atime, st.st_mtime), bytes, entry.path()});
    total += bytes;
  }
  if (total <= limit) return;
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.used < b.used; });
  for (const File& file : files) {
    if (total <= limit) return;
    if (unlink(file.path.c_str()) == 0) total -= file.bytes;
  }
}

std::string translations_folder() {
  std::string folder;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache == '/') {
    folder = cache;
  } else if (const char* home = std::getenv("HOME"); home && *home == '/') {
    folder = std::string(home) + "/.cache";
  } else {
    return {};
  }
  mkdir(folder.c_str(), 0700);
  folder += "/backstep";
  mkdir(folder.c_str(), 0700);
  struct stat st {};
  if (lstat(folder.c_str(), &st) != 0 || !S_ISDIR(st.st_mode) || !ours_alone(st)) return {};
  return folder;
}

}  // namespace backstep::engine
