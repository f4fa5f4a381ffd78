// Checksums of inputs and lengths of strings in guest memory.
#include "guest/buffers.h"

namespace backstep::guest {
namespace {

// CRC of guest memory, through a buffer since the memory may not be there.
bool add_sum(uint32_t* crc, uint64_t addr, uint64_t length) {
  unsigned char buffer[2048];
  while (length > 0) {
    uint64_t n = length < sizeof buffer ? length : sizeof buffer;
    if (!bs_guarded_copy(buffer, reinterpret_cast<const void*>(addr), n)) return false;
    *crc = hot::crc32c(*crc, buffer, n);
    addr += n;
    length -= n;
  }
  return true;
}

}  // namespace

int64_t text_length(uint64_t addr, uint64_t max) {
  unsigned char buffer[256];
  uint64_t length = 0;
  while (length < max) {
    uint64_t at = addr + length;
    uint64_t n = 4096 - at % 4096;  // never past the page's end
    if (n > sizeof buffer) n = sizeof buffer;
    if (n > max - length) n = max - length;
    if (!bs_guarded_copy(buffer, reinterpret_cast<const void*>(at), n)) return -1;
    for (uint64_t i = 0; i < n; i++)
      if (buffer[i] == 0) return static_cast<int64_t>(length + i);
    length += n;
  }
  return static_cast<int64_t>(length);
}

bool input_sum(const Syscall& row, const ArgSpec& spec, const uint64_t args[6], int index, int64_t result,
               uint64_t* length, uint32_t* crc) {
  if (hot::is_error(result)) return false;
  uint64_t addr = args[index];
  if (addr == 0) return false;
  uint64_t total = 0;
  uint32_t sum = 0;
  bool ok = true;
  auto add = [&](uint64_t a, uint64_t n) {
    ok = ok && add_sum(&sum, a, n);
    total += n;
  };
  switch (spec.kind) {
    case Arg::Counters:
    case Arg::In:
    case Arg::InStruct: {
      uint64_t n = buffer_bytes(spec, args, 0);
      if (row.traits & kOutput && static_cast<uint64_t>(result) < n) n = static_cast<uint64_t>(result);
      if (n == 0) return false;
      add(addr, n);
      break;
    }
    case Arg::IovIn:
      for_each_iovec(addr, args[spec.n], static_cast<uint64_t>(result), add);
      break;
    case Arg::MsgIn: {
      Msghdr m;
      if (!read_guest(addr, &m)) return false;
      for_each_iovec(m.iov, m.iov_count, static_cast<uint64_t>(result), add);
      break;
    }
    default:
      return false;
  }
  *length = total;
  *crc = sum;
  return ok && total > 0;
}

void read_counts(const Syscall& row, uint64_t nr, const uint64_t args[6], uint64_t counts[6]) {
  for (int i = 0; i < row.argc; i++) {
    counts[i] = 0;
    if (is_scalar(row.args[i].kind) || args[i] == 0) continue;
    if (row.args[i].len <= Len::ByArgTimes && row.args[i].kind != Arg::Varies)
      continue;  // none of these has one
    ArgSpec spec = arg_spec(nr, args, i);
    if (uint64_t at = count_address(spec, args, i)) {
      if (!bs_guarded_copy(&counts[i], reinterpret_cast<const void*>(at),
                           static_cast<unsigned long>(count_width(spec.len))))
        counts[i] = 0;
    }
  }
}

}  // namespace backstep::guest
