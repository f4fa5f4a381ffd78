// Where what lies in the zone of data (64 GB of addresses, memory as it is touched):
//
//   + 0           nothing: string instructions that run downwards end here
//   + 64 KB       what it is called with (debug_hot.h)
//   + 2 MB        the stack, 8 MB, which grows down to nothing
//   + 4 GB        its heap (brk)
//   + 20 GB       its mappings
//   - 1 MB        nothing
//
// The module's own zone ends with a page of nothing, and begins with the module's headers, which are
// read-only.
#include "replay/debug_memory.h"

#include <fmt/format.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "guest/elf.h"
#include "guest/start_stack.h"

namespace backstep::replayer {
namespace {

using layout::kPage;
using layout::page_down;
using layout::page_up;

constexpr Address kZoneEnd = layout::kProbeData + layout::kProbeDataSize;
constexpr Address kStack = layout::kProbeData + (2 << 20);
constexpr uint64_t kStackSize = 8 << 20;
constexpr Address kStackEnd = kStack + kStackSize;
constexpr Address kHeap = layout::kProbeData + (1ull << 32), kHeapEnd = kHeap + (16ull << 30);
constexpr Address kMappings = kHeapEnd, kMappingsEnd = kZoneEnd - (1 << 20);
constexpr int kFixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;

void* pointer(Address a) {
  return reinterpret_cast<void*>(a);
}

void map_or_throw(Address at, uint64_t size) {
  if (::mmap(pointer(at), size, PROT_READ | PROT_WRITE, kFixed, -1, 0) != pointer(at))
    throw Error(fmt::format("cannot make memory for debug code: {}", errno_text(errno)));
}

// As the kernel does it, in memory that is ours.
void load_segment(const guest::ElfImage& elf, const Elf64_Phdr& segment) {
  const Address start = page_down(segment.p_vaddr), end = page_up(segment.p_vaddr + segment.p_memsz);
  map_or_throw(start, end - start);
  const std::vector<char> bytes = elf.file.read(segment.p_offset, segment.p_filesz);
  if (bytes.size() != segment.p_filesz)
    throw Error(fmt::format("the debug module '{}' is cut off", elf.file.path()));
  std::memcpy(pointer(segment.p_vaddr), bytes.data(), bytes.size());
  const int prot = segment.p_flags & PF_W ? PROT_READ | PROT_WRITE : PROT_READ;
  if (::mprotect(pointer(start), end - start, prot) != 0)
    throw Error("cannot protect the debug module: " + errno_text(errno));
}

void check_module(const guest::ElfImage& elf) {
  const std::string& path = elf.file.path();
  if (elf.header.e_type != ET_EXEC || !elf.interpreter.empty())
    throw Error(fmt::format("'{}' is no debug module: it has to be linked with -static -no-pie", path));
  if (elf.low < layout::kProbe || elf.high > layout::kProbe + layout::kProbeSize - kPage)
    throw Error(
        fmt::format("the debug module '{}' lies at {:#x} to {:#x}, it has to be between {:#x} and {:#x}; "
                    "if its variables are too large, allocate them",
                    path, elf.low, elf.high, layout::kProbe, layout::kProbe + layout::kProbeSize));
}

}  // namespace

void DebugMemory::reserve(const guest::MemoryMap& guest) {
  if (!guest.is_free(layout::kProbe, layout::kProbe + layout::kProbeSize) ||
      !guest.is_free(layout::kProbeData, kZoneEnd))
    throw Error(
        "the recorded program has memory at the addresses that debug code needs (at 0x48000000 or "
        "0x2c0000000000), so none can be run in this recording");
}

DebugMemory::Start DebugMemory::load(const guest::ElfImage& elf) {
  check_module(elf);
  Start start;
  for (const Elf64_Phdr& s : elf.segments) {
    load_segment(elf, s);
    if (s.p_flags & PF_X) start.code.push_back({s.p_vaddr, s.p_vaddr + s.p_filesz});
  }
  image_ = {page_down(elf.low), page_up(elf.high)};
  map_or_throw(layout::kProbeData + kDebugGuard, kPage);
  map_or_throw(kStack, kStackSize);
  brk_ = brk_mapped_ = kHeap;
  std::vector<uint64_t> auxv = {AT_PHDR,     elf.program_headers,
                                AT_PHENT,    sizeof(Elf64_Phdr),
                                AT_PHNUM,    elf.header.e_phnum,
                                AT_PAGESZ,   kPage,
                                AT_ENTRY,    elf.header.e_entry,
                                AT_CLKTCK,   100,
                                AT_SECURE,   0,
                                AT_RANDOM,   0,
                                AT_EXECFN,   0,
                                AT_PLATFORM, 0,
                                AT_NULL,     0};
  static constexpr std::byte kRandom[16] = {};
  const guest::StartStack stack =
      guest::build_start_stack(kStackEnd, {"debug code"}, {"LC_ALL=C.UTF-8"}, elf.file.path(), kRandom, auxv);
  std::memcpy(pointer(stack.rsp), stack.bytes.data(), stack.bytes.size());
  start.entry = elf.header.e_entry;
  start.stack = stack.rsp;
  return start;
}

void DebugMemory::leave() {
  ::munmap(pointer(layout::kProbe), layout::kProbeSize);
  ::munmap(pointer(layout::kProbeData), layout::kProbeDataSize);
}

std::vector<engine::DataRange> DebugMemory::ranges() const {
  std::vector<engine::DataRange> all = {
      image_,
      {layout::kProbeData + kDebugGuard, layout::kProbeData + kDebugGuard + kPage},
      {kStack, kStackEnd},
      {kHeap, brk_mapped_}};
  for (auto [start, end] : mapped_) all.push_back({start, end});
  return all;
}

// The memory is there, and zero; who calls this fills it in.
void DebugMemory::restore(const Books& books) {
  if (books.brk_mapped > kHeap) map_or_throw(kHeap, books.brk_mapped - kHeap);
  brk_ = books.brk, brk_mapped_ = books.brk_mapped;
  for (auto [start, end] : books.mapped) map_or_throw(start, end - start);
  mapped_ = books.mapped;
}

bool DebugMemory::is_free_of(Address start, Address end) {
  return (end <= layout::kProbe || start >= layout::kProbe + layout::kProbeSize) &&
         (end <= layout::kProbeData || start >= kZoneEnd);
}

bool DebugMemory::owns(Address start, uint64_t length) {
  auto in = [&](Address zone, uint64_t size) {
    return start - zone < size && length <= size - (start - zone);
  };
  return in(layout::kProbe, layout::kProbeSize) || in(layout::kProbeData, layout::kProbeDataSize);
}

bool DebugMemory::is_below_stack(Address address) const {
  return address < kStack && address >= layout::kProbeData + kDebugGuard + kPage;
}

int64_t DebugMemory::brk(Address wanted) {
  if (wanted < kHeap || wanted > kHeapEnd) return static_cast<int64_t>(brk_);
  const Address end = page_up(wanted);
  if (end > brk_mapped_) {
    if (::mmap(pointer(brk_mapped_), end - brk_mapped_, PROT_READ | PROT_WRITE, kFixed, -1, 0) == MAP_FAILED)
      return static_cast<int64_t>(brk_);
  } else if (end < brk_mapped_) {
    ::munmap(pointer(end), brk_mapped_ - end);
  }
  brk_mapped_ = end;
  brk_ = wanted;
  return static_cast<int64_t>(brk_);
}

// The lowest gap.
std::optional<Address> DebugMemory::place(uint64_t size) const {
  Address at = kMappings;
  for (auto [start, end] : mapped_) {
    if (start - at >= size) break;
    at = end;
  }
  if (kMappingsEnd - at < size) return std::nullopt;
  return at;
}

int64_t DebugMemory::mmap(const uint64_t args[6], int fd) {
  const uint64_t size = page_up(args[1]);
  const auto prot = static_cast<int>(args[2]), flags = static_cast<int>(args[3]);
  if (args[1] == 0 || size < args[1]) return -EINVAL;
  if (prot & PROT_EXEC) return -EACCES;  // what is executed here comes with the module
  if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) return -EINVAL;
  // What is shared would be one memory for all checkpoints.
  if ((flags & MAP_TYPE) != MAP_PRIVATE && (prot & PROT_WRITE)) return -ENODEV;
  const std::optional<Address> at = place(size);
  if (!at) return -ENOMEM;
  const int kept = flags & (MAP_ANONYMOUS | MAP_NORESERVE | MAP_POPULATE);
  void* p = ::mmap(pointer(*at), size, prot, kept | MAP_PRIVATE | MAP_FIXED_NOREPLACE,
                   flags & MAP_ANONYMOUS ? -1 : fd, static_cast<off_t>(args[5]));
  if (p == MAP_FAILED) return -errno;
  mapped_[*at] = *at + size;
  return static_cast<int64_t>(*at);
}

int64_t DebugMemory::munmap(Address start, uint64_t length) {
  if (start % kPage || length == 0 || start < kMappings || length > kMappingsEnd - kMappings ||
      start > kMappingsEnd - length)
    return -EINVAL;
  const Address end = start + page_up(length);
  if (::munmap(pointer(start), end - start) != 0) return -errno;
  std::vector<std::pair<Address, Address>> rest;
  for (auto it = mapped_.begin(); it != mapped_.end();) {
    auto [from, to] = *it;
    if (to <= start || from >= end) {
      ++it;
      continue;
    }
    if (from < start) rest.emplace_back(from, start);
    if (to > end) rest.emplace_back(end, to);
    it = mapped_.erase(it);
  }
  mapped_.insert(rest.begin(), rest.end());
  return 0;
}

int64_t DebugMemory::mprotect(Address start, uint64_t length, uint64_t prot) {
  if (prot & PROT_EXEC) return -EACCES;
  const bool its_own = start % kPage == 0 && owns(start, length);
  if (!its_own) return -EACCES;
  return ::mprotect(pointer(start), length, static_cast<int>(prot)) == 0 ? 0 : -errno;
}

int64_t DebugMemory::mremap(const uint64_t args[6]) {
  const Address old = args[0];
  const uint64_t old_size = page_up(args[1]), size = page_up(args[2]);
  auto it = mapped_.find(old);
  if (it == mapped_.end() || it->second - old != old_size || size == 0 || args[3] & ~uint64_t{MREMAP_MAYMOVE})
    return -EINVAL;
  if (size <= old_size) {
    if (size < old_size) munmap(old + size, old_size - size);
    return static_cast<int64_t>(old);
  }
  if (!(args[3] & MREMAP_MAYMOVE)) return -ENOMEM;
  const std::optional<Address> at = place(size);
  if (!at) return -ENOMEM;
  if (::mremap(pointer(old), old_size, size, MREMAP_MAYMOVE | MREMAP_FIXED, pointer(*at)) == MAP_FAILED)
    return -errno;
  mapped_.erase(it);
  mapped_[*at] = *at + size;
  return static_cast<int64_t>(*at);
}

int64_t DebugMemory::madvise(Address start, uint64_t length, uint64_t advice) {
  if (advice != MADV_DONTNEED) return 0;
  if (start < kHeap || !owns(start, length)) return -EINVAL;
  return ::madvise(pointer(start), length, MADV_DONTNEED) == 0 ? 0 : -errno;
}

void DebugMemory::remember() {
  remembered_ = mapped_;
}

void DebugMemory::forget() {
  if (!remembered_) return;
  std::vector<std::pair<Address, Address>> fresh;
  for (auto& range : mapped_)
    if (!remembered_->count(range.first)) fresh.push_back(range);
  for (auto [start, end] : fresh) munmap(start, end - start);
  remembered_.reset();
}

}  // namespace backstep::replayer
