#include "record/scratch.h"

#include <algorithm>
#include <cstring>

#include "guest/buffers.h"

namespace backstep::recorder {

using namespace guest;

namespace {

// How much the kernel may write. The table's rules say how much it did write; where that is the result, the
// limit is the number that follows the buffer.
uint64_t capacity(const ArgSpec& spec, const uint64_t args[6], int index) {
  const uint64_t next = index < 5 ? args[index + 1] : 0;
  switch (spec.len) {
    case Len::Result:
    case Len::StringResult:
      return next;
    case Len::ResultTimes:
      return static_cast<uint32_t>(next) * uint64_t{spec.n};
    case Len::ResultUpTo:
      return args[spec.n] * std::max<uint64_t>(spec.unit, 1);
    case Len::ResultPlus:
      return next + spec.n;
    case Len::SockLenAt: {
      uint32_t length = 0;
      return args[spec.n] && read_guest(args[spec.n], &length) ? std::min(length, 65536u) : 0;
    }
    default:
      return buffer_bytes(spec, args, 0);
  }
}

}  // namespace

void Scratch::clear() {
  parts_.clear();
}

uint64_t Scratch::add(uint64_t guest, uint64_t size, Use use, Process& process) {
  constexpr uint64_t kMost = 1ull << 32;
  if (size > kMost) return 0;
  if (use != kIn && !process.writable(guest, size)) return 0;
  Part part{guest, size, std::unique_ptr<unsigned char[]>(new unsigned char[std::max<uint64_t>(size, 1)])};
  if (use != kOut && !bs_guarded_copy(part.bytes.get(), reinterpret_cast<const void*>(guest), size)) return 0;
  parts_.push_back(std::move(part));
  return parts_.back().copy();
}

uint64_t Scratch::add_iovecs(uint64_t iov, uint64_t count, Use use, Process& process) {
  constexpr uint64_t kMostVectors = 1024;
  if (count > kMostVectors) return 0;
  uint64_t copy = add(iov, count * sizeof(Iovec), kIn, process);
  for (uint64_t i = 0; copy && i < count; i++) {
    auto* v = reinterpret_cast<Iovec*>(copy) + i;
    if (v->length == 0) continue;
    v->base = add(v->base, v->length, use, process);
    if (!v->base) return 0;
  }
  return copy;
}

bool Scratch::fix_message(uint64_t copy, Use use, Process& process) {
  auto* m = reinterpret_cast<Msghdr*>(copy);
  if (m->name && m->name_length && !(m->name = add(m->name, m->name_length, use, process))) return false;
  if (m->control && m->control_length && !(m->control = add(m->control, m->control_length, use, process)))
    return false;
  return m->iov_count == 0 || (m->iov = add_iovecs(m->iov, m->iov_count, use, process)) != 0;
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
        int64_t n = text_length(args[i], 4096);
        if (n < 0 || !(args_[i] = add(args[i], static_cast<uint64_t>(n) + 1, kIn, process))) return false;
        break;
      }
      case Arg::In:
      case Arg::InStruct:
        if (!(args_[i] = add(args[i], buffer_bytes(spec, args, 0), kIn, process))) return false;
        break;
      case Arg::Out:
      case Arg::OutStruct:
        if (!(args_[i] = add(args[i], capacity(spec, args, i), kOut, process))) return false;
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
  return true;
}

void Scratch::give_back(const Syscall& row, uint64_t nr, int64_t result, const uint64_t counts[6],
                        Process& process) const {
  for_each_output(row, nr, args_, result, counts, [&](int, uint64_t addr, uint64_t n) {
    for (const Part& part : parts_) {
      if (addr < part.copy() || addr - part.copy() >= std::max<uint64_t>(part.size, 1)) continue;
      const uint64_t offset = addr - part.copy();
      const uint64_t to = part.guest + offset, size = std::min(n, part.size - offset);
      process.prepare_write(to, to + size);
      bs_guarded_copy(reinterpret_cast<void*>(to), part.bytes.get() + offset, size);
      break;
    }
  });
}

}  // namespace backstep::recorder
