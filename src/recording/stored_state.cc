// A program's state to bytes, and back.
//
// What there is to keep: the place in the log, the books of guest/process.h (memory map, signals, threads),
// the registers, and memory. Descriptors, futexes and pending signals are not: a replay has none, their
// effects come from the log. Code caches are made anew.
//
// Memory is kept as the kernel sees it. Where the guest's memory is a mapped file from the store, only pages
// that were written to differ from that file, and the kernel says which those are; all other pages that exist
// are anonymous. Which file backs which address is read from /proc/self/maps: files in the store have their
// key as their name. Files that were mapped shared are memory files, kept as pages of a space of their own.
//
// The writer may be a recorder, whose program goes on afterwards and must not notice: pages that the program
// has not touched are not touched, and protections stay as they are (what the program itself may not read
// comes through /proc/self/mem).
#include "recording/stored_state.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/fd.h"
#include "guest/loadable.h"
#include "guest/page_map.h"
#include "recording/event_check.h"
#include "recording/store.h"

namespace backstep::recording {
namespace {

using guest::KernelSigaction;
using guest::PageMap;
using guest::RealMapping;
using guest::Region;
using guest::SignalState;
using guest::Thread;

using layout::kPage;
static_assert(kPage == kPageSize);
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

// Its bytes have a checksum, which a stranger can make as well: whatever is read is looked at.
class In {
 public:
  explicit In(std::span<const uint8_t> bytes) : rest_(bytes) {}
  // Of a count of things that take at least so many bytes each: no more than there can be.
  uint64_t count(size_t each) {
    const uint64_t n = number();
    if (n > rest_.size() / each) fail();
    return n;
  }
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
  if (!guest::is_flags(t.rflags) || !guest::is_base(t.fs_base) || !guest::is_base(t.gs_base) ||
      !guest::is_loadable_here(t.xsave))
    In::fail();
}

void put(Out& out, const Thread& t) {
  out.number(static_cast<uint32_t>(t.name)).number(static_cast<uint32_t>(t.tid)).number(t.in_call);
  out.number(t.clear_child_tid).number(t.robust_list);
  // A recorder sets the mask that a call waits with when the thread begins to wait, a replay when the call
  // is over.
  SignalState signals = t.signals;
  if (t.in_call && signals.restore_mask) {
    signals.mask = signals.saved_mask;
    signals.restore_mask = false;
  }
  put(out, signals);
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

// The copy of a file that the program changes: a replay's, or a recorder's in the recording's folder.
bool is_live(const std::string& path) {
  return path.starts_with("/memfd:backstep-live") || path.substr(path.rfind('/') + 1).starts_with("changed-");
}

// The guest's memory cut at the borders of its regions and of the real mappings.
std::vector<Part> parts_of(const std::vector<Region>& regions) {
  std::vector<Part> parts;
  const auto real = guest::real_mappings(guest::kGuestEnd);
  size_t i = 0;
  for (const Region& r : regions) {
    uint64_t at = r.start;
    while (i < real.size() && real[i].end <= at) i++;
    for (size_t k = i; at < r.end; k++) {
      if (k >= real.size() || real[k].start > at)
        throw Error(fmt::format("the program's memory at {:#x} is not there", at));
      const RealMapping& m = real[k];
      Part p{at, std::min(r.end, m.end), m.offset + (at - m.start), Backing::Anonymous, "", r.dev, r.inode};
      if (m.path.starts_with("/memfd:backstep-shared")) {
        p.backing = Backing::SharedFile;
      } else if (is_live(m.path)) {
        p.backing = Backing::LiveFile;
      } else if (m.path.starts_with('/')) {
        p.backing = Backing::StoreFile;
        p.key = m.path.substr(m.path.rfind('/') + 1, kKeyLength);
        if (!is_key(p.key))
          throw Error(fmt::format("{} is mapped, which is not a file of the store", m.path));
      }
      at = p.end;
      parts.push_back(std::move(p));
    }
  }
  return parts;
}

// Regions lie one behind the other, and the parts are these, cut further.
bool fit_together(const StoredState& s) {
  uint64_t last = 0;
  size_t part = 0;
  for (const Region& r : s.regions) {
    if (r.start < last || r.start >= r.end || r.start % kPage || r.end % kPage || r.end > guest::kGuestEnd ||
        !is_guest_range(r.start, r.end - r.start))
      return false;
    for (last = r.start; last < r.end; part++) {
      if (part == s.parts.size()) return false;
      const Part& p = s.parts[part];
      if (p.start != last || p.end <= p.start || p.end % kPage || p.end > r.end || p.offset % kPage)
        return false;
      last = p.end;
    }
  }
  return part == s.parts.size();
}

bool all_zero(const uint8_t* page) {
  auto* words = reinterpret_cast<const uint64_t*>(page);
  return std::all_of(words, words + kPage / 8, [](uint64_t w) { return w == 0; });
}

}  // namespace

std::vector<uint8_t> pack(const StoredState& s, const guest::Process& process) {
  const Context& ctx = context();
  Out out;
  out.number(s.log).number(s.path_at).number(s.event_base);
  out.number(s.chunk_offset).number(s.chunk_index).number(s.chunk_first_event).number(s.chunk_wall_ns);
  out.number(s.at).number(s.event).number(s.tick);
  out.number(s.looked_ahead).number(s.resume_call).number(s.goal.has_value());
  out.number(s.goal ? s.goal->tick : 0).number(s.goal ? s.goal->pc : 0);
  out.number(s.held_nr).number(static_cast<uint64_t>(s.held_result));
  out.number(engine::bs_cache.evex_seen).number(engine::bs_cache.hi16_offset);
  out.number(ctx.tick);
  put_registers(out, ctx);
  put(out, process.signals);
  put(out, process.actions);
  out.number(s.before_vfork.size());
  for (const auto& actions : s.before_vfork) put(out, actions.data());
  out.number(static_cast<uint32_t>(process.current().name))
      .number(static_cast<uint32_t>(process.next_name()));
  out.number(process.threads().size());
  for (auto& [name, t] : process.threads()) put(out, *t);
  out.number(process.map.brk_start).number(process.map.brk);
  const std::vector<Region> regions = regions_of(process.map);
  out.number(regions.size());
  for (const Region& r : regions) put(out, r);
  const std::vector<Part> parts = parts_of(regions);
  out.number(parts.size());
  for (const Part& p : parts) {
    out.number(p.start).number(p.end).number(p.offset).number(static_cast<uint64_t>(p.backing));
    out.number(p.dev).number(p.inode);
    out.text(p.key);
  }
  for (const auto* files : {&s.shared, &s.live}) {
    out.number(files->size());
    for (const MemoryFile& file : *files) out.number(file.dev).number(file.inode).number(file.size);
  }
  return out.take();
}

StoredState unpack(std::span<const uint8_t> bytes, guest::Process& process) {
  Context& ctx = context();
  StoredState s;
  In in(bytes);
  s.log = in.number(), s.path_at = in.number(), s.event_base = in.number();
  s.chunk_offset = in.number(), s.chunk_index = in.number();
  s.chunk_first_event = in.number(), s.chunk_wall_ns = in.number();
  s.at = in.number(), s.event = in.number(), s.tick = in.number();
  s.looked_ahead = in.number() != 0, s.resume_call = in.number() != 0;
  const bool goal = in.number() != 0;
  const Tick goal_tick = in.number();
  const Address goal_pc = in.number();
  if (goal) s.goal = ControlPoint{goal_tick, goal_pc};
  s.held_nr = in.number(), s.held_result = static_cast<int64_t>(in.number());
  s.evex_seen = in.number() != 0, s.hi16_offset = in.number();
  ctx.tick = in.number();
  get_registers(in, ctx);
  get(in, process.signals);
  get(in, process.actions);
  s.before_vfork.resize(in.count(8));
  for (auto& actions : s.before_vfork) {
    actions.resize(guest::kSignals + 1);
    get(in, actions.data());
  }
  const int current = static_cast<int>(in.number()), next_name = static_cast<int>(in.number());
  std::map<int, std::unique_ptr<Thread>> threads;
  for (uint64_t n = in.number(); n > 0; n--) {
    auto t = get_thread(in);
    const int name = t->name;
    if (name < 1) In::fail();
    threads[name] = std::move(t);
  }
  if (!threads.count(current)) In::fail();
  process.adopt_threads(std::move(threads), current, next_name);
  process.map.brk_start = in.number(), process.map.brk = in.number();
  s.regions.resize(in.count(8));
  for (Region& r : s.regions) r = get_region(in);
  s.parts.resize(in.count(8));
  for (Part& p : s.parts) {
    p.start = in.number(), p.end = in.number(), p.offset = in.number();
    p.backing = static_cast<Backing>(in.number());
    p.dev = in.number(), p.inode = in.number();
    p.key = in.text();
  }
  for (auto* files : {&s.shared, &s.live}) {
    files->resize(in.count(8));
    for (MemoryFile& file : *files) file.dev = in.number(), file.inode = in.number(), file.size = in.number();
  }
  if (!in.empty() || !fit_together(s)) In::fail();
  return s;
}

uint64_t count_pages(const guest::Process& process) {
  PageMap pages;
  uint64_t total = 0, found = 0;
  process.map.for_each([&](const Region& r) { total += r.end - r.start; });
  if (!pages || total > kTooSparse) return 0;  // the attempt will say so
  process.map.for_each([&](const Region& r) {
    pages.for_each(r.start, r.end, [&](uint64_t, uint64_t entry) {
      found += (entry & (PageMap::kPresent | PageMap::kSwapped)) && !(entry & PageMap::kFile);
    });
  });
  return found;
}

void store_memory(CheckpointWriter& writer, const guest::Process& process, const std::vector<int>& files) {
  PageMap pages;
  if (!pages) throw Error("cannot open /proc/self/pagemap: " + errno_text(errno));
  uint64_t total = 0;
  process.map.for_each([&](const Region& r) { total += r.end - r.start; });
  if (total > kTooSparse) throw Error("the program has reserved more than 64 GB of addresses");
  std::vector<uint8_t> copy(kPage);
  Fd memory;
  auto closed_page = [&](uint64_t page) {
    if (!memory) memory = Fd(open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
    if (!memory ||
        pread(memory.get(), copy.data(), kPage, static_cast<off_t>(page)) != static_cast<ssize_t>(kPage))
      throw Error("cannot read /proc/self/mem: " + errno_text(errno));
    return copy.data();
  };
  for (const Part& part : parts_of(regions_of(process.map))) {
    if (part.backing == Backing::SharedFile) continue;
    const bool closed = process.page_protection(part.start) == PROT_NONE;
    pages.for_each(part.start, part.end, [&](uint64_t page, uint64_t entry) {
      if (!(entry & (PageMap::kPresent | PageMap::kSwapped)) || (entry & PageMap::kFile)) return;
      const uint8_t* bytes = closed ? closed_page(page) : reinterpret_cast<const uint8_t*>(page);
      // A page of zeroes is nothing new in anonymous memory, but may hide what a file has there.
      if (part.backing != Backing::Anonymous || !all_zero(bytes)) writer.page(0, page, bytes);
    });
  }
  uint64_t space = 0;
  for (int file : files) {
    space++;
    struct stat st {};
    fstat(file, &st);
    for (off_t at = 0; at < st.st_size;) {
      const off_t data = lseek(file, at, SEEK_DATA);
      if (data < 0) break;
      at = data & ~static_cast<off_t>(kPage - 1);
      std::fill(copy.begin(), copy.end(), 0);
      if (pread(file, copy.data(), kPage, at) < 0)
        throw Error("cannot read a memory file: " + errno_text(errno));
      if (!all_zero(copy.data())) writer.page(space, static_cast<uint64_t>(at), copy.data());
      at += static_cast<off_t>(kPage);
    }
  }
}

}  // namespace backstep::recording
