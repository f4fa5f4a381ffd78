// A replay's state to a file, and back.
//
// What there is to keep: the place in the log, the books of guest/process.h (memory map, signals, threads),
// the registers, and memory. Descriptors, futexes and pending signals are not: a replay has none, their
// effects come from the log. Code caches are made anew.
//
// Memory is kept as the kernel sees it. Where the guest's memory is a mapped file from the store, only pages
// that were written to differ from that file, and the kernel says which those are; all other pages that exist
// are anonymous. Which file backs which address is read from /proc/self/maps: files in the store have their
// key as their name. Files that were mapped shared are memory files (Replayer::shared_file), kept as pages of
// a space of their own.
//
// Restoring starts from a worker at the start of the recording. All of the guest's memory is unmapped, mapped
// as in the checkpoint, and filled.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "replay/page_map.h"
#include "replay/replayer.h"

namespace backstep::replayer {
namespace {

using guest::KernelSigaction;
using guest::Region;
using guest::SignalState;
using guest::Thread;

constexpr uint64_t kPage = layout::kPage;
static_assert(kPage == recording::kPageSize);
// Looking through the page table of more address space takes too long.
constexpr uint64_t kTooSparse = 64ull << 30;

class Out {
 public:
  Out& number(uint64_t value) {
    auto* p = reinterpret_cast<const uint8_t*>(&value);
    bytes_.insert(bytes_.end(), p, p + sizeof value);
    return *this;
  }
  void numbers(const uint64_t* values, size_t n) {
    for (size_t i = 0; i < n; i++) number(values[i]);
  }
  void raw(const void* data, size_t n) {
    number(n);
    auto* p = static_cast<const uint8_t*>(data);
    bytes_.insert(bytes_.end(), p, p + n);
  }
  void text(const std::string& s) { raw(s.data(), s.size()); }
  std::vector<uint8_t> take() { return std::move(bytes_); }

 private:
  std::vector<uint8_t> bytes_;
};

// Its bytes have been verified, so it can only fail if reader and writer disagree.
class In {
 public:
  explicit In(std::span<const uint8_t> bytes) : rest_(bytes) {}
  uint64_t number() {
    uint64_t value;
    std::memcpy(&value, need(sizeof value), sizeof value);
    return value;
  }
  void numbers(uint64_t* values, size_t n) {
    for (size_t i = 0; i < n; i++) values[i] = number();
  }
  void raw(void* data, size_t n) {
    if (number() != n) fail();
    std::memcpy(data, need(n), n);
  }
  std::string text() {
    const uint64_t n = number();
    auto* p = reinterpret_cast<const char*>(need(n));
    return {p, p + n};
  }
  bool empty() const { return rest_.empty(); }
  [[noreturn]] static void fail() { throw Error("a checkpoint's state cannot be understood"); }

 private:
  const uint8_t* need(uint64_t n) {
    if (rest_.size() < n) fail();
    const uint8_t* p = rest_.data();
    rest_ = rest_.subspan(n);
    return p;
  }
  std::span<const uint8_t> rest_;
};

void put(Out& out, const SignalState& s) {
  out.number(s.mask).number(s.alt.sp).number(static_cast<uint32_t>(s.alt.flags)).number(s.alt.size);
  out.number(s.restore_mask).number(s.saved_mask);
}

void get(In& in, SignalState& s) {
  s.mask = in.number(), s.alt.sp = in.number();
  s.alt.flags = static_cast<int>(in.number());
  s.alt.size = in.number(), s.restore_mask = in.number() != 0, s.saved_mask = in.number();
}

void put(Out& out, const KernelSigaction* actions) {
  for (int i = 0; i <= guest::kSignals; i++)
    out.number(actions[i].handler)
        .number(actions[i].flags)
        .number(actions[i].restorer)
        .number(actions[i].mask);
}

void get(In& in, KernelSigaction* actions) {
  for (int i = 0; i <= guest::kSignals; i++) {
    KernelSigaction& a = actions[i];
    a.handler = in.number(), a.flags = in.number(), a.restorer = in.number(), a.mask = in.number();
  }
}

// Registers of a thread and of the context have the same names.
template <class T>
void put_registers(Out& out, const T& t) {
  out.numbers(t.gpr, 16);
  out.number(t.rip).number(t.rflags).number(t.fs_base).number(t.gs_base);
  out.raw(t.xsave, sizeof t.xsave);
}

template <class T>
void get_registers(In& in, T& t) {
  in.numbers(t.gpr, 16);
  t.rip = in.number(), t.rflags = in.number(), t.fs_base = in.number(), t.gs_base = in.number();
  in.raw(t.xsave, sizeof t.xsave);
}

void put(Out& out, const Thread& t) {
  out.number(static_cast<uint32_t>(t.name)).number(static_cast<uint32_t>(t.tid)).number(t.in_call);
  out.number(t.clear_child_tid).number(t.robust_list);
  put(out, t.signals);
  put_registers(out, t);
}

std::unique_ptr<Thread> get_thread(In& in) {
  auto t = std::make_unique<Thread>();
  t->name = static_cast<int>(in.number()), t->tid = static_cast<int>(in.number());
  t->in_call = in.number() != 0;
  t->clear_child_tid = in.number(), t->robust_list = in.number();
  get(in, t->signals);
  get_registers(in, *t);
  return t;
}

void put(Out& out, const Region& r) {
  out.number(r.start).number(r.end).number(static_cast<uint32_t>(r.prot));
  out.number(static_cast<uint32_t>(r.flags)).number(r.offset).number(r.dev).number(r.inode);
  out.number(r.content.high).number(r.content.low);
  out.text(r.name);
}

Region get_region(In& in) {
  Region r;
  r.start = in.number(), r.end = in.number(), r.prot = static_cast<int>(in.number());
  r.flags = static_cast<int>(in.number());
  r.offset = in.number(), r.dev = in.number(), r.inode = in.number();
  r.content.high = in.number(), r.content.low = in.number();
  r.name = in.text();
  return r;
}

std::vector<Region> regions_of(const guest::MemoryMap& map) {
  std::vector<Region> regions;
  map.for_each([&](const Region& r) { regions.push_back(r); });
  return regions;
}

// What really lies behind a part of the guest's memory.
enum Backing : uint64_t { kAnonymous = 0, kStoreFile = 1, kSharedFile = 2 };

struct Part {
  uint64_t start = 0, end = 0, offset = 0;
  Backing backing = kAnonymous;
  std::string key;              // kStoreFile
  uint64_t dev = 0, inode = 0;  // kSharedFile
};

// The guest's memory cut at the borders of its regions and of the real mappings.
std::vector<Part> parts_of(const std::vector<Region>& regions) {
  std::vector<Part> parts;
  const auto real = real_mappings(guest::kGuestEnd);
  size_t i = 0;
  for (const Region& r : regions) {
    uint64_t at = r.start;
    while (i < real.size() && real[i].end <= at) i++;
    for (size_t k = i; at < r.end; k++) {
      if (k >= real.size() || real[k].start > at)
        throw Error(fmt::format("the program's memory at {:#x} is not there", at));
      const RealMapping& m = real[k];
      Part p{at, std::min(r.end, m.end), m.offset + (at - m.start), kAnonymous, "", r.dev, r.inode};
      if (m.path.starts_with("/memfd:backstep-shared")) {
        p.backing = kSharedFile;
      } else if (m.path.starts_with('/')) {
        p.backing = kStoreFile;
        p.key = m.path.substr(m.path.rfind('/') + 1, recording::kKeyLength);
        if (!recording::is_key(p.key))
          throw Error(fmt::format("{} is mapped, which is not a file of the store", m.path));
      }
      at = p.end;
      parts.push_back(std::move(p));
    }
  }
  return parts;
}

bool all_zero(const uint8_t* page) {
  auto* words = reinterpret_cast<const uint64_t*>(page);
  return std::all_of(words, words + kPage / 8, [](uint64_t w) { return w == 0; });
}

}  // namespace

std::vector<uint8_t> Replayer::pack_state() {
  const Context& ctx = context();
  const HotState& s = bs_replay;
  Out out;
  out.number(log_->header().process).number(path_at_).number(event_base_);
  out.number(chunk_.offset).number(chunk_.index).number(chunk_.first_event).number(chunk_.header_crc);
  out.number(static_cast<uint64_t>(s.p - chunk_.events.data())).number(s.event).number(s.tick);
  out.number(resume_call_).number(goal_.has_value());
  out.number(goal_ ? goal_->tick : 0).number(goal_ ? goal_->pc : 0);
  out.number(held_.nr).number(static_cast<uint64_t>(held_.result));
  out.number(engine::bs_cache.evex_seen).number(engine::bs_cache.hi16_offset);
  out.number(ctx.tick);
  put_registers(out, ctx);
  put(out, process_.signals);
  put(out, process_.actions);
  out.number(before_vfork_.size());
  for (const auto& actions : before_vfork_) put(out, actions.data());
  out.number(static_cast<uint32_t>(process_.current().name))
      .number(static_cast<uint32_t>(process_.next_name()));
  out.number(process_.threads().size());
  for (auto& [name, t] : process_.threads()) put(out, *t);
  out.number(process_.map.brk_start).number(process_.map.brk);
  const std::vector<Region> regions = regions_of(process_.map);
  out.number(regions.size());
  for (const Region& r : regions) put(out, r);
  const std::vector<Part> parts = parts_of(regions);
  out.number(parts.size());
  for (const Part& p : parts) {
    out.number(p.start).number(p.end).number(p.offset).number(p.backing).number(p.dev).number(p.inode);
    out.text(p.key);
  }
  out.number(shared_.size());
  for (auto& [id, file] : shared_) {
    struct stat st {};
    if (fstat(file.get(), &st) != 0) throw Error("cannot look at a memory file: " + errno_text(errno));
    out.number(id.first).number(id.second).number(static_cast<uint64_t>(st.st_size));
  }
  return out.take();
}

uint64_t Replayer::store(recording::CheckpointWriter& writer,
                         const std::optional<recording::Written>& written) {
  if (diverted_ || outcome_ || shared_fault_ || bs_replay.executed || !bs_replay.p)
    throw Error("a checkpoint cannot be made here");
  watch_.disarm();
  PageMap pages;
  if (!pages) throw Error("cannot open /proc/self/pagemap: " + errno_text(errno));
  const std::vector<uint8_t> state = pack_state();
  uint64_t total = 0;
  process_.map.for_each([&](const Region& r) { total += r.end - r.start; });
  if (total > kTooSparse) throw Error("the program has reserved more than 64 GB of addresses");
  for (const Part& part : parts_of(regions_of(process_.map))) {
    if (part.backing == kSharedFile) continue;
    // This process is a copy that is good for nothing else: all of its memory may be opened.
    const int prot = process_.page_protection(part.start);
    bool opened = false;
    pages.for_each(part.start, part.end, [&](uint64_t page, uint64_t entry) {
      if (!(entry & (PageMap::kPresent | PageMap::kSwapped)) || (entry & PageMap::kFile)) return;
      if (prot == PROT_NONE && !opened) {
        mprotect(reinterpret_cast<void*>(part.start), part.end - part.start, PROT_READ);
        opened = true;
      }
      auto* bytes = reinterpret_cast<const uint8_t*>(page);
      // A page of zeroes is nothing new in anonymous memory, but may hide what a file has there.
      if (part.backing == kStoreFile || !all_zero(bytes)) writer.page(0, page, bytes);
    });
  }
  std::vector<uint8_t> page(kPage);
  uint64_t space = 0;
  for (auto& [id, file] : shared_) {
    space++;
    struct stat st {};
    fstat(file.get(), &st);
    for (off_t at = 0; at < st.st_size;) {
      const off_t data = lseek(file.get(), at, SEEK_DATA);
      if (data < 0) break;
      at = data & ~static_cast<off_t>(kPage - 1);
      std::fill(page.begin(), page.end(), 0);
      if (pread(file.get(), page.data(), kPage, at) < 0)
        throw Error("cannot read a memory file: " + errno_text(errno));
      if (!all_zero(page.data())) writer.page(space, static_cast<uint64_t>(at), page.data());
      at += static_cast<off_t>(kPage);
    }
  }
  const Position now = position();
  return writer.finish(now.tick, now.event, now.pc, state, written);
}

void Replayer::restore(recording::CheckpointFolder& folder, uint64_t number) {
  recording::CheckpointFile& file = folder.open(number);
  unpack_state(file.state(), folder, number);
  const Position now = position();
  const auto& header = file.header();
  if (now != Position{header.tick, header.event, header.pc})
    throw Error("a checkpoint's state is not that of its moment");
}

void Replayer::unpack_state(std::span<const uint8_t> state, recording::CheckpointFolder& folder,
                            uint64_t number) {
  Context& ctx = context();
  HotState& s = bs_replay;
  In in(state);

  const uint64_t log = in.number();
  path_at_ = in.number();
  event_base_ = in.number();
  if (path_at_ > path_.size()) In::fail();
  open_log(log);
  const uint64_t offset = in.number(), index = in.number(), first = in.number(), crc = in.number();
  auto chunk = log_->seek(offset, static_cast<uint32_t>(index), first, static_cast<uint32_t>(crc));
  if (!chunk) throw Error("a checkpoint lies in a part of the log that is damaged");
  chunk_ = *chunk;
  const uint64_t at = in.number();
  if (at > chunk_.events.size()) throw Error("a checkpoint lies in a part of the log that is damaged");
  s.p = chunk_.events.data() + at;
  s.end = chunk_.events.data() + chunk_.events.size();
  s.position = log_->position();
  s.event = in.number(), s.tick = in.number();
  s.executed = false;
  resume_call_ = in.number() != 0;
  const bool goal = in.number() != 0;
  const ControlPoint point{in.number(), in.number()};
  goal_ = goal ? std::optional(point) : std::nullopt;
  held_.nr = in.number(), held_.result = static_cast<int64_t>(in.number());
  deliver_ = false;
  const bool evex = in.number() != 0;
  const uint64_t hi16 = in.number();
  if (evex && hi16 != engine::bs_cache.hi16_offset)
    throw Error("a checkpoint has AVX-512 registers in the form of another CPU");
  ctx.tick = in.number();
  get_registers(in, ctx);
  get(in, process_.signals);
  get(in, process_.actions);
  before_vfork_.resize(in.number());
  for (auto& actions : before_vfork_) {
    actions.resize(guest::kSignals + 1);
    get(in, actions.data());
  }
  const int current = static_cast<int>(in.number()), next_name = static_cast<int>(in.number());
  std::map<int, std::unique_ptr<Thread>> threads;
  for (uint64_t n = in.number(); n > 0; n--) {
    auto t = get_thread(in);
    const int name = t->name;
    threads[name] = std::move(t);
  }
  if (!threads.count(current)) In::fail();
  process_.adopt_threads(std::move(threads), current, next_name);
  process_.unmap_all();
  if (evex) process_.engine().count_in_memory();

  process_.map.brk_start = in.number(), process_.map.brk = in.number();
  std::vector<Region> regions(in.number());
  for (Region& r : regions) r = get_region(in);
  std::vector<Part> parts(in.number());
  for (Part& p : parts) {
    p.start = in.number(), p.end = in.number(), p.offset = in.number();
    p.backing = static_cast<Backing>(in.number());
    p.dev = in.number(), p.inode = in.number();
    p.key = in.text();
  }
  shared_.clear();
  std::vector<int> spaces;
  for (uint64_t n = in.number(); n > 0; n--) {
    const uint64_t dev = in.number(), inode = in.number(), size = in.number();
    Fd& file = shared_[{dev, inode}] = Fd(memfd_create("backstep-shared", MFD_CLOEXEC));
    if (!file || ftruncate(file.get(), static_cast<off_t>(size)) != 0)
      throw Error("cannot make a memory file: " + errno_text(errno));
    spaces.push_back(file.get());
  }
  if (!in.empty()) In::fail();

  // Writable first; then the contents; then as the guest has it.
  for (const Part& p : parts) {
    int flags = MAP_FIXED_NOREPLACE | MAP_NORESERVE | MAP_PRIVATE, fd = -1;
    Fd contents;
    switch (p.backing) {
      case kAnonymous:
        flags |= MAP_ANONYMOUS;
        break;
      case kStoreFile:
        contents = Fd(library_.open_contents(recording_, p.key));
        fd = contents.get();
        if (verified_.insert(p.key).second && !recording::Store::matches(fd, p.key))
          throw Error(fmt::format("the kept contents with the key {} are damaged", p.key));
        break;
      case kSharedFile: {
        auto file = shared_.find({p.dev, p.inode});
        if (file == shared_.end()) In::fail();
        fd = file->second.get();
        flags = MAP_FIXED_NOREPLACE | MAP_SHARED;
        break;
      }
      default:
        In::fail();
    }
    if (p.start >= p.end || p.end > guest::kGuestEnd || layout::overlaps_engine(p.start, p.end)) In::fail();
    auto* place = reinterpret_cast<void*>(p.start);
    if (mmap(place, p.end - p.start, PROT_READ | PROT_WRITE, flags, fd, static_cast<off_t>(p.offset)) !=
        place)
      throw Error(fmt::format("cannot map memory at {:#x}: {}", p.start, errno_text(errno)));
  }
  for (const Region& r : regions) process_.map.add(r);

  std::vector<recording::PageRun> runs = folder.open(number).runs();
  std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) {
    return std::pair(a.file, a.index) < std::pair(b.file, b.index);
  });
  for (const recording::PageRun& run : runs) {
    recording::CheckpointFile& file = folder.open(run.file);
    if (run.space > spaces.size() ||
        (run.space == 0 && !process_.map.is_mapped(run.address, run.address + run.count * kPage)))
      In::fail();
    for (uint64_t i = 0; i < run.count; i++) {
      const uint8_t* bytes = file.page(run.index + i);
      const uint64_t to = run.address + i * kPage;
      if (run.space == 0) {
        std::memcpy(reinterpret_cast<void*>(to), bytes, kPage);
        continue;
      }
      // The last page may go beyond the file's end, which must not move.
      struct stat st {};
      const int fd = spaces[run.space - 1];
      if (fstat(fd, &st) != 0 || static_cast<uint64_t>(st.st_size) <= to) In::fail();
      const uint64_t n = std::min<uint64_t>(kPage, static_cast<uint64_t>(st.st_size) - to);
      if (pwrite(fd, bytes, n, static_cast<off_t>(to)) != static_cast<ssize_t>(n))
        throw Error("cannot write to a memory file: " + errno_text(errno));
    }
  }
  for (const Region& r : regions) {
    const int prot = guest::Process::real_protection(r.prot);
    if (prot != (PROT_READ | PROT_WRITE) &&
        mprotect(reinterpret_cast<void*>(r.start), r.end - r.start, prot) != 0)
      throw Error(fmt::format("cannot protect memory at {:#x}: {}", r.start, errno_text(errno)));
  }
}

// What was executed is what is in the code cache, if that was empty when it began and has not been emptied
// since. Making the code again costs time: that is done only where there is not much of it.
void Replayer::count_executed() {
  constexpr ptrdiff_t kLittleCode = 512 << 10;
  stepped_.clear();
  code_since_.reset();
  if (engine::bs_cache.hot - reinterpret_cast<uint8_t*>(layout::kCacheStart) > kLittleCode) return;
  process_.engine().start_anew(true);
  code_since_ = engine::bs_cache.stats.flushes;
}

void Replayer::executed_since(recording::Written& written) {
  written.code_known = code_since_ == engine::bs_cache.stats.flushes;
  if (!written.code_known) return;
  written.code = stepped_;
  for (uint32_t i = 1; i < engine::bs_cache.pages; i++)
    written.code.push_back({engine::kPages[i].page, engine::kPages[i].page + kPage});
  simplify(written.code);
}

std::optional<recording::Written> Replayer::written_since_last() {
  std::optional<recording::Written> result;
  if (auto ranges = written_.collect()) {
    result.emplace();
    result->tick = written_since_.tick, result->event = written_since_.event, result->pc = written_since_.pc;
    result->ranges = std::move(*ranges);
    executed_since(*result);
  }
  written_since_ = position();
  if (written_.start()) count_executed();
  return result;
}

}  // namespace backstep::replayer
