// Numbers in event bodies: LEB128 varints, zigzag for signed ones. Inline, for the hot world.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/hot.h"
#include "recording/format.h"

namespace backstep::recording {

inline uint8_t* put_varint(uint8_t* p, uint64_t v) {
  while (v >= 0x80) {
    *p++ = static_cast<uint8_t>(v | 0x80);
    v >>= 7;
  }
  *p++ = static_cast<uint8_t>(v);
  return p;
}
inline uint64_t zigzag(int64_t v) {
  return static_cast<uint64_t>(v) << 1 ^ static_cast<uint64_t>(v >> 63);
}
inline int64_t unzigzag(uint64_t v) {
  return static_cast<int64_t>(v >> 1) ^ -static_cast<int64_t>(v & 1);
}

inline uint8_t* put_u32(uint8_t* p, uint32_t v) {
  __builtin_memcpy(p, &v, 4);
  return p + 4;
}

// The order of an event, relative to `last`, which becomes its (last) number.
inline uint8_t* put_order(uint8_t* p, Order order, uint64_t& last) {
  const uint64_t first = order.number();
  const uint64_t kind = order.given ? order.got ? kOrderBoth : kOrderGiven : kOrderGot;
  p = put_varint(p, zigzag(static_cast<int64_t>(first - last)) << 2 | kind);
  if (kind == kOrderBoth) p = put_varint(p, order.got - order.given);
  last = kind == kOrderBoth ? order.got : first;
  return p;
}

// What is different in `now`, in words of eight bytes (`size` is a multiple): runs of v bytes that are the
// same, v count, bytes. At most 1.25 times `size` bytes.
inline uint8_t* put_runs(uint8_t* p, const uint8_t* before, const uint8_t* now, uint64_t size) {
  auto differs = [&](uint64_t at) {
    uint64_t a, b;
    __builtin_memcpy(&a, before + at, 8);
    __builtin_memcpy(&b, now + at, 8);
    return a != b;
  };
  uint64_t last = 0;
  for (uint64_t at = 0; at < size;) {
    if (!differs(at)) {
      at += 8;
      continue;
    }
    uint64_t end = at + 8;
    while (end < size && differs(end)) end += 8;
    p = put_varint(p, at - last);
    p = put_varint(p, end - at);
    __builtin_memcpy(p, now + at, end - at);
    p += end - at;
    last = at = end;
  }
  return p;
}

inline uint32_t chunk_header_crc(ChunkHeader header) {
  header.state = 0;
  header.header_crc = 0;
  return hot::crc32c(0, &header, sizeof header);
}

inline uint32_t packed_header_check(const PackedHeader& packed, const ChunkHeader& chunk) {
  return hot::crc32c(hot::crc32c(0, &packed, offsetof(PackedHeader, header_check)), &chunk, sizeof chunk);
}

// Reads within [p, end); `ok` turns false when the bytes run out.
struct Cursor {
  const uint8_t* p;
  const uint8_t* end;
  bool ok = true;

  uint64_t varint() {
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && p < end; shift += 7) {
      uint8_t byte = *p++;
      v |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return v;
    }
    ok = false;
    return 0;
  }
  int64_t signed_varint() { return unzigzag(varint()); }
  uint32_t u32() {
    if (end - p < 4) {
      ok = false;
      return 0;
    }
    uint32_t v;
    __builtin_memcpy(&v, p, 4);
    p += 4;
    return v;
  }
  uint8_t u8() {
    if (p >= end) {
      ok = false;
      return 0;
    }
    return *p++;
  }
  // Of an event with kOrdered; `last` as for put_order.
  Order order(uint64_t& last) {
    const uint64_t word = varint();
    const uint64_t first = last + static_cast<uint64_t>(unzigzag(word >> 2));
    last = first;
    switch (word & 3) {
      case kOrderGiven:
        return {first, 0};
      case kOrderGot:
        return {0, first};
      case kOrderBoth:
        last = first + varint();
        return {first, last};
      default:
        ok = false;
        return {};
    }
  }
  // … where it is of no interest.
  void skip_order(uint8_t flags) {
    uint64_t last = 0;
    if (flags & kOrdered) order(last);
  }
  // Of a count of things that take at least so many bytes each: no more than there can be.
  uint64_t count(uint64_t each) {
    const uint64_t n = varint();
    if (n > static_cast<uint64_t>(end - p) / each) ok = false;
    return ok ? n : 0;
  }
  const uint8_t* bytes(uint64_t n) {
    if (n > static_cast<uint64_t>(end - p)) {
      ok = false;
      return nullptr;
    }
    const uint8_t* at = p;
    p += n;
    return at;
  }
};

}  // namespace backstep::recording
