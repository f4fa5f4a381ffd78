// What a system call reads from and writes to guest memory, as the table says. Hot world.
// The recorder asks for outputs to log them; recorder and replayer ask for checksums of inputs to compare
// them. Guest memory is only touched in ways that survive a bad pointer.
#pragma once
#include <cstdint>

#include "base/hot.h"
#include "engine/context.h"
#include "engine/entry.h"
#include "guest/syscall_table.h"

namespace backstep::guest {

// CRC over the general registers, rip and flags at an event.
inline uint32_t register_digest(const Context& ctx) {
  return hot::crc32c(0, ctx.gpr, 16 * 8 + 8 + 8);
}

struct Iovec {
  uint64_t base, length;
};
struct Msghdr {  // struct msghdr, struct mmsghdr is this + u32 length + u32 pad
  uint64_t name;
  uint32_t name_length, pad1;
  uint64_t iov, iov_count, control, control_length;
  uint32_t flags, pad2;
};
inline constexpr uint64_t kMmsgSize = sizeof(Msghdr) + 8;

// Length of the string at `addr` without its NUL, at most `max`; -1: not readable.
int64_t text_length(uint64_t addr, uint64_t max);

// Is this argument an input that is logged as a checksum? Then its sum and length after the call.
bool input_sum(const Syscall& row, const ArgSpec& spec, const uint64_t args[6], int index, int64_t result,
               uint64_t* length, uint32_t* crc);

// Counts that the kernel may change, before the call.
void read_counts(const Syscall& row, uint64_t nr, const uint64_t args[6], uint64_t counts[6]);

// Kinds that need no look at memory at all.
inline bool is_scalar(Arg kind) {
  switch (kind) {
    case Arg::None:
    case Arg::Int:
    case Arg::Uint:
    case Arg::Long:
    case Arg::Hex:
    case Arg::Size:
    case Arg::Fd:
    case Arg::Pid:
    case Arg::Signal:
    case Arg::Mode:
    case Arg::Flags:
    case Arg::Enum:
    case Arg::Ioctl:
    case Arg::Fcntl:
    case Arg::Prctl:
    case Arg::Argv:
      return true;
    default:
      return false;
  }
}

template <class T>
bool read_guest(uint64_t addr, T* value) {
  return bs_guarded_copy(value, reinterpret_cast<const void*>(addr), sizeof *value);
}

// Calls f(addr, length) for the parts of an iovec array that `bytes` bytes went through.
template <class F>
void for_each_iovec(uint64_t iov, uint64_t count, uint64_t bytes, F&& f) {
  for (uint64_t i = 0; i < count && bytes > 0; i++) {
    Iovec v;
    if (!read_guest(iov + i * sizeof v, &v)) return;
    uint64_t n = v.length < bytes ? v.length : bytes;
    if (n) f(v.base, n);
    bytes -= n;
  }
}

template <class F>
void for_each_message_part(uint64_t addr, uint64_t bytes, F&& f) {
  Msghdr m;
  if (!read_guest(addr, &m)) return;
  f(addr + 8, 4u);        // name_length
  f(addr + 40, 8u + 4u);  // control_length, flags
  if (m.name && m.name_length) f(m.name, static_cast<uint64_t>(m.name_length < 128 ? m.name_length : 128));
  if (m.control && m.control_length) f(m.control, m.control_length);
  for_each_iovec(m.iov, m.iov_count, bytes, f);
}

inline bool is_by_result(Len len) {
  return len == Len::Result || len == Len::ResultTimes || len == Len::ResultUpTo || len == Len::ResultPlus ||
         len == Len::StringResult;
}

// Calls f(addr, length) for the addresses that messages are sent to.
template <class F>
void for_each_name(const ArgSpec& spec, const uint64_t args[6], int index, int64_t result, F&& f) {
  if (spec.kind != Arg::MsgIn && spec.kind != Arg::MmsgIn) return;
  const uint64_t count = spec.kind == Arg::MsgIn ? 1
                         : hot::is_error(result) ? 0
                                                 : static_cast<uint64_t>(result);
  constexpr uint32_t kMost = 128;
  for (uint64_t i = 0; i < count; i++) {
    Msghdr m;
    if (!read_guest(args[index] + i * kMmsgSize, &m)) return;
    if (m.name && m.name_length && m.name_length <= kMost) f(m.name, static_cast<uint64_t>(m.name_length));
  }
}

// A call that fails at a bad pointer (EFAULT) may have written through another before, or up to the hole, and
// its result does not tell how much: this much at most, as the kernel moves data in smaller pieces and counts
// those it has moved.
inline constexpr uint64_t kMostAfterFault = 65536;

// Calls f(argument, addr, length) for all that the kernel wrote.
template <class F>
void for_each_output(const Syscall& row, uint64_t nr, const uint64_t args[6], int64_t result,
                     const uint64_t counts[6], F&& f) {
  constexpr int64_t kFault = -14;
  const bool failed = hot::is_error(result), fault = result == kFault;
  if (failed && !(row.traits & kOutOnError) && !fault) return;
  const uint64_t got = fault ? kMostAfterFault : failed ? 0 : static_cast<uint64_t>(result);
  for (int i = 0; i < row.argc; i++) {
    if (is_scalar(row.args[i].kind)) continue;
    ArgSpec spec = arg_spec(nr, args, i);
    uint64_t addr = args[i];
    if (addr == 0) continue;
    switch (spec.kind) {
      case Arg::Out:
      case Arg::OutStruct:
      case Arg::InOut:
      case Arg::Pollfds:
      case Arg::FdSet:
      case Arg::SockLen: {
        uint64_t fresh = 0;
        if (uint64_t at = count_address(spec, args, i)) {
          int width = count_width(spec.len);
          if (!bs_guarded_copy(&fresh, reinterpret_cast<const void*>(at), static_cast<unsigned long>(width)))
            break;
        }
        uint64_t n = spec.len == Len::NulString ? static_cast<uint64_t>(text_length(addr, 65536) + 1)
                                                : buffer_bytes(spec, args, result, counts[i], fresh);
        if (fault && is_by_result(spec.len)) n = result_capacity(spec, args, i);
        if (fault && n > kMostAfterFault) n = kMostAfterFault;
        if (n) f(i, addr, n);
        break;
      }
      case Arg::IovOut:
        for_each_iovec(addr, args[spec.n], got, [&](uint64_t a, uint64_t n) { f(i, a, n); });
        break;
      case Arg::MsgOut:
        if (!failed || fault) for_each_message_part(addr, got, [&](uint64_t a, uint64_t n) { f(i, a, n); });
        break;
      case Arg::MmsgIn:
      case Arg::MmsgOut:
        if (fault && spec.kind == Arg::MmsgOut)
          for_each_message_part(addr, got, [&](uint64_t a, uint64_t n) { f(i, a, n); });
        for (int64_t k = 0; k < result; k++) {
          uint64_t at = addr + static_cast<uint64_t>(k) * kMmsgSize;
          uint32_t length = 0;
          if (!read_guest(at + sizeof(Msghdr), &length)) break;
          f(i, at + sizeof(Msghdr), 4u);
          if (spec.kind == Arg::MmsgOut)
            for_each_message_part(at, length, [&](uint64_t a, uint64_t n) { f(i, a, n); });
        }
        break;
      case Arg::Regset: {
        Iovec set;
        if (!read_guest(addr, &set)) break;
        f(i, addr, sizeof set);
        if (set.base) f(i, set.base, set.length);
        break;
      }
      case Arg::Counters: {
        const uint64_t pointer_at = (addr + spec.names + 4 + 7) & ~7ull;
        uint32_t count;
        uint64_t to;
        constexpr uint64_t kMost = 1 << 20, kSize = 16;
        if (read_guest(addr + spec.names, &count) && read_guest(pointer_at, &to) && to && count <= kMost)
          f(i, to, count * kSize);
        break;
      }
      case Arg::IfConf: {
        Iovec conf;  // {i32 length, pointer}
        if (!read_guest(addr, &conf)) break;
        f(i, addr, sizeof conf);
        uint64_t buffer;
        if (read_guest(addr + 8, &buffer) && buffer) f(i, buffer, conf.base & 0x7fffffff);
        break;
      }
      default:
        break;
    }
  }
}

}  // namespace backstep::guest
