// The guest's mappings: real memory and the books of it (guest/memory_map.h), changed together, by calls and
// by those who load a program or replay one. Real mappings never have PROT_EXEC.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "base/hot.h"
#include "engine/entry.h"
#include "guest/page_map.h"
#include "guest/process.h"
#include "guest/raw_calls.h"

namespace backstep::guest {
namespace {

using layout::kPage;
using layout::page_down;
using layout::page_up;

// Up there lie our own program and its libraries, which mremap would replace without a word.
bool is_empty(uint64_t start, uint64_t end) {
  if (end <= kGuestEnd) return true;
  const long got = raw(SYS_mmap, start, end - start, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (hot::is_error(got)) return false;
  raw(SYS_munmap, got, end - start);
  return static_cast<uint64_t>(got) == start;
}

}  // namespace

// Only what the guest owns is ever unmapped.
long Process::unmap_guest_parts(uint64_t start, uint64_t end) {
  engine_.forget(start, end);
  prepare_write(start, end);
  std::vector<std::pair<uint64_t, uint64_t>> parts;
  for (const Region* r = map.next(start); r && r->start < end; r = map.next(r->end))
    parts.emplace_back(std::max(start, r->start), std::min(end, r->end));
  for (auto [a, b] : parts)
    if (long err = raw(SYS_munmap, a, b - a)) {  // no room to cut a mapping in two
      map.remove(start, a);
      return err;
    }
  map.remove(start, end);
  return 0;
}

// may_expand_vm() of the kernel. Where the initial stack ends is only asked for near the limit.
bool Process::room_for(uint64_t bytes, bool data) const {
  const uint64_t space = page_down(limits.space.soft), most_data = page_down(limits.data.soft);
  if (limits.space.soft != Limit::kNone) {
    const uint64_t all = map.size() + bytes;
    if (all > space) return false;
    if (all + (layout::kStackEnd - stack_start()) > space && all + stack_size() > space) return false;
  }
  if (!data || limits.data.soft == Limit::kNone || map.data_size() + bytes <= most_data) return true;
  // A limit of 0 means the hard one: the kernel does this for Valgrind.
  return limits.data.soft == 0 && map.data_size() + bytes <= page_down(limits.data.hard);
}

bool Process::room_for_mapping(uint64_t start, uint64_t end, bool data) const {
  return room_for(end - start, data) || room_for(end - start - map.mapped_bytes(start, end), data);
}

uint64_t Process::stack_start() const {
  uint64_t start = layout::kStackEnd;
  for (const Region* r = map.find(start - 1); r && r->name == kStackName; r = map.find(start - 1))
    start = r->start;
  return start;
}

uint64_t Process::stack_size() const {
  constexpr uint64_t kAtOnce = 1 << 12;  // pages
  const uint64_t start = stack_start(), whole = layout::kStackEnd - start;
  unsigned char in_core[kAtOnce];
  for (uint64_t at = start; at < layout::kStackEnd; at += kAtOnce * kPage) {
    const uint64_t size = std::min(layout::kStackEnd - at, kAtOnce * kPage);
    if (mincore(reinterpret_cast<void*>(at), size, in_core) != 0) continue;
    const auto* first = std::find_if(in_core, in_core + size / kPage, [](auto b) { return b & 1; });
    if (first == in_core + size / kPage) continue;
    const uint64_t touched = layout::kStackEnd - (at + static_cast<uint64_t>(first - in_core) * kPage);
    return std::max(touched, std::min(first_stack, whole));
  }
  return std::min(first_stack, whole);
}

long Process::map_region(const Region& r, int fd, int extra_flags) {
  if (long err = unmap_guest_parts(r.start, r.end)) return err;
  int flags = (r.flags & MAP_SHARED ? MAP_SHARED : MAP_PRIVATE) | MAP_FIXED_NOREPLACE | extra_flags;
  if (fd < 0) flags |= MAP_ANONYMOUS;
  if (r.name == kStackName) flags |= MAP_NORESERVE;  // as large as the limit allows, used as it is touched
  long got = raw(SYS_mmap, r.start, r.end - r.start, real_protection(r.prot), flags, fd, r.offset);
  if (hot::is_error(got)) return got == -EEXIST ? -ENOMEM : got;
  if (static_cast<uint64_t>(got) != r.start) {  // a kernel before 4.17 takes the address as a hint
    raw(SYS_munmap, got, r.end - r.start);
    return -ENOMEM;
  }
  // What is touched of the stack says how large it is (stack_size): nothing must be touched along with it.
  if (r.name == kStackName) raw(SYS_madvise, r.start, r.end - r.start, MADV_NOHUGEPAGE);
  map.add(r);
  return 0;
}

std::vector<OwnPage> Process::change_backing(const Region& r, int fd) {
  PageMap pages;
  Fd memory(open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
  if (!pages || !memory) throw Error("cannot look at the pages of the program");
  std::vector<OwnPage> own;
  pages.for_each(r.start, r.end, [&](uint64_t page, uint64_t entry) {
    if (!(entry & (PageMap::kPresent | PageMap::kSwapped)) || entry & PageMap::kFile) return;
    OwnPage copy{page, std::vector<unsigned char>(kPage)};
    if (pread(memory.get(), copy.bytes.data(), kPage, static_cast<off_t>(page)) == kPage)
      own.push_back(std::move(copy));
  });
  engine_.forget(r.start, r.end);
  prepare_write(r.start, r.end);
  const long got = raw(SYS_mmap, r.start, r.end - r.start, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd, r.offset);
  if (hot::is_error(got)) throw Error("cannot map a file again: " + errno_text(static_cast<int>(-got)));
  for (const OwnPage& page : own) bs_guarded_copy(reinterpret_cast<void*>(page.at), page.bytes.data(), kPage);
  raw(SYS_mprotect, r.start, r.end - r.start, real_protection(r.prot));
  map.overwrite(r.start, r.end);
  return own;
}

long Process::sys_munmap(uint64_t addr, uint64_t length) {
  if (addr % kPage || length == 0 || !valid_range(addr, length)) return -EINVAL;
  return unmap_guest_parts(addr, addr + page_up(length));
}

// As the kernel: mapping by mapping, up to the first one that refuses, or a hole.
long Process::sys_mprotect(uint64_t addr, uint64_t length, uint64_t prot, uint64_t* changed) {
  constexpr uint64_t kGrowsDown = 0x0100'0000, kGrowsUp = 0x0200'0000;
  if (addr % kPage || (prot & ~(kGrowsDown | kGrowsUp | 15)) || (prot & kGrowsDown && prot & kGrowsUp))
    return -EINVAL;
  if (length == 0) return 0;
  uint64_t end = addr + page_up(length);
  if (end <= addr) return -ENOMEM;
  if (prot & kGrowsDown) {
    const Region* r = map.next(addr);
    if (!r || r->start >= end) return -ENOMEM;
    if (r->name != kStackName && !(r->flags & MAP_GROWSDOWN)) return -EINVAL;
    addr = r->start;
  } else if (prot & kGrowsUp) {
    return map.find(addr) ? -EINVAL : -ENOMEM;
  }
  prot &= 7;
  uint64_t at = addr;
  long err = 0;
  while (at < end && err == 0) {
    const Region* r = map.find(at);
    const uint64_t stop = r ? std::min(end, r->end) : at;
    if (!r) {
      err = -ENOMEM;
    } else if ((prot & PROT_WRITE) && !(r->prot & PROT_WRITE) && limits.data.soft != Limit::kNone &&
               r->name != kStackName && !room_for(stop - at, is_data(static_cast<int>(prot), r->flags)) &&
               room_for(stop - at, is_data(r->prot, r->flags))) {
      // Memory that becomes data. (If not even the address space would allow as much again, the kernel does
      // not mind.)
      err = -ENOMEM;
    } else {
      engine_.forget(at, stop);
      prepare_write(at, stop);
      err = raw(SYS_mprotect, at, stop - at, real_protection(static_cast<int>(prot)));
      if (err == 0) {
        map.protect(at, stop, static_cast<int>(prot));
        at = stop;
      }
    }
  }
  if (changed) *changed = at - addr;
  return err;
}

// What is left of the segment that was attached there: pieces know how far they are from its start.
long Process::sys_shmdt(uint64_t addr) {
  std::vector<Region> pieces;
  if (addr % kPage == 0)
    map.for_each([&](const Region& r) {
      if (r.name.starts_with("/SYSV") && r.flags & MAP_SHARED && r.start >= addr &&
          r.start - addr == r.offset && (pieces.empty() || pieces[0].inode == r.inode))
        pieces.push_back(r);
    });
  if (pieces.empty()) return -EINVAL;
  for (const Region& r : pieces)
    if (long err = unmap_guest_parts(r.start, r.end)) return err;
  return 0;
}

long Process::sys_brk(uint64_t addr) {
  if (addr < map.brk_start || addr > layout::kBrkEnd) return static_cast<long>(map.brk);
  uint64_t old_end = page_up(map.brk), new_end = page_up(addr);
  if (limits.data.soft != Limit::kNone && addr - map.brk_start + initialized_data > limits.data.soft)
    return static_cast<long>(map.brk);
  if (new_end > old_end) {
    if (!room_for(new_end - old_end, true)) return static_cast<long>(map.brk);
    Region r{old_end, new_end, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, 0, "[heap]", 0, 0};
    if (!map.is_free(old_end, new_end) || map_region(r, -1) != 0) return static_cast<long>(map.brk);
  } else if (new_end < old_end) {
    if (unmap_guest_parts(new_end, old_end) != 0) return static_cast<long>(map.brk);
  }
  map.brk = addr;
  return static_cast<long>(addr);
}

namespace {

// Advice that this kernel may not know yet, but that is answered as one that does would.
constexpr uint64_t kDontneedLocked = 24, kPoison = 100, kSoftOffline = 101;

bool is_advice(uint64_t advice) {
  return advice <= MADV_DONTNEED || (advice >= MADV_FREE && advice <= 25) || advice == kPoison ||
         advice == kSoftOffline;
}

bool is_unshared_anonymous(const Region& r) {
  return (r.flags & MAP_ANONYMOUS) && !(r.flags & MAP_SHARED);
}

}  // namespace

// One mapping's part.
long Process::advise(const Region& r, uint64_t start, uint64_t end, uint64_t advice) {
  switch (advice) {
    case MADV_FREE:
      // It leaves the contents to chance; freeing at once is one of the things it may do.
      if (!is_unshared_anonymous(r)) return -EINVAL;
      advice = MADV_DONTNEED;
      [[fallthrough]];
    case MADV_DONTNEED:
    case kDontneedLocked:
    case MADV_REMOVE:
      engine_.forget(start, end);
      return raw(SYS_madvise, start, end - start, advice);
    case MADV_DONTFORK:
      map.advise(start, end, kDontFork, 0);
      return 0;
    case MADV_DOFORK:
      map.advise(start, end, 0, kDontFork);
      return 0;
    case MADV_WIPEONFORK:
      if (!is_unshared_anonymous(r)) return -EINVAL;
      map.advise(start, end, kWipeOnFork, 0);
      return 0;
    case MADV_KEEPONFORK:
      map.advise(start, end, 0, kWipeOnFork);
      return 0;
    case MADV_POPULATE_READ:
      return real_protection(r.prot) & PROT_READ || r.prot & PROT_WRITE ? 0 : -EFAULT;
    case MADV_POPULATE_WRITE:
      return r.prot & PROT_WRITE ? 0 : -EFAULT;
    default:  // hints
      return 0;
  }
}

// As the kernel: holes are passed over and told of at the end, the first mapping that refuses ends it.
long Process::sys_madvise(uint64_t addr, uint64_t length, uint64_t advice) {
  const uint64_t end = addr + page_up(length);
  if (!is_advice(advice) || addr % kPage || (length && page_up(length) == 0) || end < addr) return -EINVAL;
  if (end == addr) return 0;
  if (advice == kPoison || advice == kSoftOffline) return -EPERM;
  const bool hole = !map.is_mapped(addr, end);
  for (uint64_t at = addr; at < end;) {
    const Region* r = map.next(at);
    if (!r || r->start >= end) break;
    const Region region = *r;
    const uint64_t stop = std::min(end, region.end);
    if (long err = advise(region, std::max(at, region.start), stop, advice)) return err;
    at = stop;
  }
  return hole ? -ENOMEM : 0;
}

long Process::sys_mremap(const uint64_t args[6], std::optional<uint64_t> forced) {
  uint64_t old_addr = args[0], old_size = page_up(args[1]), new_size = page_up(args[2]), flags = args[3];
  const bool stays = flags & MREMAP_DONTUNMAP, fixed = flags & MREMAP_FIXED;
  if (old_addr % kPage || new_size == 0 || (flags & ~7ull)) return -EINVAL;
  if ((fixed || stays) && !(flags & MREMAP_MAYMOVE)) return -EINVAL;
  if (stays && old_size != new_size) return -EINVAL;
  if (fixed) {
    const uint64_t to = args[4];
    if (to % kPage || !valid_range(to, new_size)) return -EINVAL;
    if (to < old_addr + old_size && old_addr < to + new_size) return -EINVAL;
    if (layout::overlaps_engine(to, to + new_size)) return -ENOMEM;
  }
  const Region* found = map.find(old_addr);
  if (!found) return -EFAULT;
  Region r = *found;
  const bool twin = old_size == 0;  // a second mapping of the same memory
  if (twin && !(r.flags & MAP_SHARED)) return -EINVAL;
  if (!valid_range(0, new_size)) return -ENOMEM;
  // Shorter first: then it does not matter that several mappings are cut.
  if (new_size < old_size && !fixed && !stays) {
    if (!valid_range(old_addr, old_size)) return -EINVAL;
    if (long err = unmap_guest_parts(old_addr + new_size, old_addr + old_size)) return err;
    return static_cast<long>(old_addr);
  }
  if (old_size > r.end - old_addr && !(fixed && new_size < old_size)) return -EFAULT;
  if (new_size > old_size || stays) {
    const uint64_t growth = stays ? new_size : new_size - old_size;
    const uint64_t replaced = fixed ? map.mapped_bytes(args[4], args[4] + new_size) : 0;
    if (!room_for(growth - std::min(growth, replaced), is_data(r.prot, r.flags))) return -ENOMEM;
  }
  uint64_t to = 0;
  if (fixed) {
    to = args[4];
  } else if (new_size == old_size && !stays) {
    return static_cast<long>(old_addr);
  } else if (!twin && !stays && old_addr + old_size == r.end && map.is_free(r.end, old_addr + new_size)) {
    long got = raw(SYS_mremap, old_addr, old_size, new_size, 0, 0);
    if (!hot::is_error(got)) {
      engine_.forget(old_addr, old_addr + new_size);
      Region grown = r;
      grown.offset += old_addr - r.start;
      grown.start = old_addr;
      grown.end = old_addr + new_size;
      map.add(grown);
      return static_cast<long>(old_addr);
    }
    if (!(flags & MREMAP_MAYMOVE)) return got;
  } else if (!(flags & MREMAP_MAYMOVE)) {
    return -ENOMEM;
  }
  if (to == 0 && !fixed) {
    auto place = forced ? forced : map.find_free(new_size, 0, Zone::Data);
    if (!place) return -ENOMEM;
    to = *place;
  }
  if (long err = unmap_guest_parts(to, to + new_size)) return err;
  if (!is_empty(to, to + new_size)) return -ENOMEM;
  engine_.forget(old_addr, old_addr + old_size);
  if (new_size < old_size) {
    if (long err = unmap_guest_parts(old_addr + new_size, old_addr + old_size)) return err;
    old_size = new_size;
    if (old_size > r.end - old_addr) return -EFAULT;
  }
  const int how = MREMAP_MAYMOVE | MREMAP_FIXED | (stays ? MREMAP_DONTUNMAP : 0);
  long got = raw(SYS_mremap, old_addr, old_size, new_size, how, to);
  if (hot::is_error(got)) return got;
  Region moved = r;
  moved.offset += old_addr - r.start;
  moved.start = to;
  moved.end = to + new_size;
  if (!twin && !stays) map.remove(old_addr, old_addr + old_size);
  map.add(moved);
  return static_cast<long>(to);
}

}  // namespace backstep::guest
