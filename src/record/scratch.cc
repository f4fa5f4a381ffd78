#include "record/scratch.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "guest/buffers.h"

namespace backstep::recorder {

using namespace guest;

namespace {

// How much the kernel may write. The table's rules say how much it did write.
uint64_t capacity(const ArgSpec& spec, const uint64_t args[6], int index) {
  if (is_by_result(spec.len)) return result_capacity(spec, args, index);
  if (spec.len != Len::SockLenAt) return buffer_bytes(spec, args, 0);
  uint32_t length = 0;
  return args[spec.n] && read_guest(args[spec.n], &length) ? std::min(length, 65536u) : 0;
}

}  // namespace

void Scratch::Unmap::operator()(unsigned char* at) const {
  munmap(at, size);
}

void Scratch::clear() {
  parts_.clear();
  constant_.clear();
}

bool Scratch::covered(uint64_t copy, uint64_t n) const {
  return std::any_of(parts_.begin(), parts_.end(), [&](const Part& part) { return part.covers(copy, n); });
}

// Not all of it is there, or may be written to: a copy by pages, which has the guest's rights and ends where
// the guest's memory ends. (The kernel reads and writes buffers from their beginning: what is behind the
// first hole does not matter.)
uint64_t Scratch::mirror(uint64_t guest, uint64_t size, Use use, const Process& process) {
  constexpr uint64_t kPage = layout::kPage, kMost = 1ull << 32;
  const uint64_t first = guest & ~(kPage - 1), end = guest + std::min(size, kMost);
  uint64_t stop = first;
  for (const Region* r; stop < end && (r = process.map.find(stop)) && r->prot; stop = r->end) {
  }
  stop = std::min(stop, (end + kPage - 1) & ~(kPage - 1));
  const uint64_t length = stop - first;
  void* got = mmap(nullptr, length + kPage, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return 0;
  auto* pages = static_cast<unsigned char*>(got);
  Part part{guest,
            stop > guest ? std::min(size, stop - guest) : 0,
            nullptr,
            {pages, Unmap{length + kPage}},
            reinterpret_cast<uint64_t>(pages) + (guest - first)};
  // A page of a file that has become shorter is mapped, too, and yet not there.
  for (uint64_t at = 0; at < part.size && (use != kOut || at < kMostAfterFault);) {
    const uint64_t n = std::min(part.size - at, kPage - (guest + at) % kPage);
    if (!bs_guarded_copy(reinterpret_cast<void*>(part.at + at), reinterpret_cast<const void*>(guest + at),
                         n)) {
      part.size = at;
      break;
    }
    at += n;
  }
  const uint64_t kept = part.size ? (guest - first + part.size + kPage - 1) & ~(kPage - 1) : 0;
  mprotect(pages + kept, length + kPage - kept, PROT_NONE);
  for (uint64_t at = 0; use != kIn && at < kept; at += kPage)
    if (const Region* r = process.map.find(first + at); r && !(r->prot & PROT_WRITE))
      constant_.emplace_back(pages + at, kPage);
  parts_.push_back(std::move(part));
  return parts_.back().at;
}

uint64_t Scratch::add(uint64_t guest, uint64_t size, Use use, Process& process) {
  constexpr uint64_t kMost = 1ull << 32, kUserEnd = 1ull << 47;
  if (guest >= kUserEnd) return guest;  // nobody's: the kernel looks no further
  if (size > kMost || (use != kIn && !process.writable(guest, size)))
    return mirror(guest, size, use, process);
  Part part{
      guest, size, std::unique_ptr<unsigned char[]>(new unsigned char[std::max<uint64_t>(size, 1)]), {}, 0};
  part.at = reinterpret_cast<uint64_t>(part.bytes.get());
  const uint64_t seen = use == kOut ? std::min(size, kMostAfterFault) : size;
  if (!bs_guarded_copy(part.bytes.get(), reinterpret_cast<const void*>(guest), seen))
    return mirror(guest, size, use, process);
  parts_.push_back(std::move(part));
  return parts_.back().at;
}

uint64_t Scratch::add_iovecs(uint64_t iov, uint64_t count, Use use, Process& process) {
  constexpr uint64_t kMostVectors = 1024;
  if (count > kMostVectors) return iov;  // refused before it is looked at
  uint64_t copy = add(iov, count * sizeof(Iovec), kIn, process);
  for (uint64_t i = 0; copy && i < count && covered(copy + i * sizeof(Iovec), sizeof(Iovec)); i++) {
    auto* v = reinterpret_cast<Iovec*>(copy) + i;
    if (v->length == 0) continue;
    v->base = add(v->base, v->length, use, process);
    if (!v->base) return 0;
  }
  return copy;
}

bool Scratch::fix_message(uint64_t copy, Use use, Process& process) {
  if (!covered(copy, sizeof(Msghdr))) return true;
  auto* m = reinterpret_cast<Msghdr*>(copy);
  if (m->name && m->name_length && !(m->name = add(m->name, m->name_length, use, process))) return false;
  if (m->control && m->control_length && !(m->control = add(m->control, m->control_length, use, process)))
    return false;
  return m->iov_count == 0 || m->iov == 0 || (m->iov = add_iovecs(m->iov, m->iov_count, use, process)) != 0;
}

bool Scratch::make(const Syscall& row, uint64_t nr, const uint64_t args[6], Process& process) {
  clear();
  std::copy(args, args + 6, args_);
  for (int i = 0; i < row.argc; i++) {
    if (is_scalar(row.args[i].kind) || args[i] == 0) continue;
    const ArgSpec spec = arg_spec(nr, args, i);
    if (is_scalar(spec.kind) || spec.kind == Arg::Address) continue;
    switch (spec.kind) {
      case Arg::Path:
      case Arg::Str: {
        const int64_t n = text_length(args[i], 4096);
        const uint64_t size = n < 0 ? 4096 : static_cast<uint64_t>(n) + 1;
        if (!(args_[i] = add(args[i], size, kIn, process))) return false;
        break;
      }
      case Arg::In:
      case Arg::InStruct:
        if (!(args_[i] = add(args[i], buffer_bytes(spec, args, 0), kIn, process))) return false;
        break;
      case Arg::Out:
      case Arg::OutStruct:
        if (!(args_[i] =
                  add(args[i], capacity(spec, args, i), is_by_result(spec.len) ? kOut : kInOut, process)))
          return false;
        break;
      case Arg::InOut:
      case Arg::Pollfds:
      case Arg::FdSet:
      case Arg::SockLen:
        if (!(args_[i] = add(args[i], capacity(spec, args, i), kInOut, process))) return false;
        break;
      case Arg::IovIn:
      case Arg::IovOut:
        if (!(args_[i] = add_iovecs(args[i], args[spec.n], spec.kind == Arg::IovIn ? kIn : kOut, process)))
          return false;
        break;
      case Arg::MsgIn:
      case Arg::MsgOut:
        if (!(args_[i] = add(args[i], sizeof(Msghdr), spec.kind == Arg::MsgIn ? kIn : kInOut, process)) ||
            !fix_message(args_[i], spec.kind == Arg::MsgIn ? kIn : kInOut, process))
          return false;
        break;
      case Arg::MmsgIn:
      case Arg::MmsgOut: {
        uint64_t count = std::min<uint64_t>(static_cast<uint32_t>(args[spec.n]), 1024);
        if (!(args_[i] = add(args[i], count * kMmsgSize, kInOut, process))) return false;
        for (uint64_t k = 0; k < count; k++)
          if (!fix_message(args_[i] + k * kMmsgSize, spec.kind == Arg::MmsgIn ? kIn : kInOut, process))
            return false;
        break;
      }
      default:
        return false;
    }
  }
  for (auto [page, size] : constant_) mprotect(page, size, PROT_READ);
  return true;
}

void Scratch::give_back(const Syscall& row, uint64_t nr, int64_t result, const uint64_t counts[6],
                        Process& process) const {
  for_each_output(row, nr, args_, result, counts, [&](int, uint64_t addr, uint64_t n) {
    for (const Part& part : parts_) {
      if (addr < part.at || addr - part.at >= std::max<uint64_t>(part.size, 1)) continue;
      const uint64_t offset = addr - part.at;
      const uint64_t to = part.guest + offset, size = std::min(n, part.size - offset);
      process.prepare_write(to, to + size);
      bs_guarded_copy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(addr), size);
      break;
    }
  });
}

}  // namespace backstep::recorder
