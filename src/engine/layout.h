// Where things lie in the one address space that the guest world and the host world share.
//
// The kernel puts host mappings near the top (and the host's PIE at 0x55…/0x56…), so everything below
// 0x5000'0000'0000 is ours to give out, and a replay can put every guest mapping where it was recorded.
//
//   0x0000'0001'0000  fixed-address executables (ET_EXEC usually starts at 0x400000)
//   0x0000'1000'0000  images: PIE executables, ld.so, libraries, small executable anonymous mappings
//   0x0000'5000'0000  … left free: SBCL wants its static space here
//   0x0000'6000'0000  code cache
//   0x0000'7ff0'0000  hot page: the running context, reached by 32-bit absolute addresses
//   0x0000'7ff0'2000  fence: tick checks run into it at the limit
//   0x0000'7ff1'0000  watch map: which pages hold watched bytes (watch_hot.cc)
//   0x0000'7fff'7000  … left free: AddressSanitizer's shadow memory wants to start here
//   0x2000'0000'0000  guest data: anonymous mappings, big files, brk heap, stack
//   0x2e00'0000'0000  engine arenas (block table, exits, links, page records; sparse)
//   0x3000'0000'0000  jump table (4 bytes per byte of guest code below 0x5000'0000, sparse; GS base)
//
// Nothing of ours lies behind the jump table: wild jumps of the guest look there, four bytes per byte of
// address.
//
// Guest code and code cache below 2 GB keep things short and fast: a return address is `push imm32`, a
// RIP-relative operand becomes a 32-bit absolute one, spill slots are absolute. Guest code elsewhere (a JIT
// in a huge reservation) works through longer sequences.
#pragma once
#include <cstdint>

namespace backstep::layout {

inline constexpr uint64_t kPage = 4096;

inline constexpr uint64_t kImagesStart = 0x1000'0000;
inline constexpr uint64_t kImagesEnd = 0x5000'0000;
inline constexpr uint64_t kCacheStart = 0x6000'0000;
inline constexpr uint64_t kCacheMax = 0x1f00'0000;  // 496 MB of addresses; how much is used is an option
inline constexpr uint64_t kHotPage = 0x7ff0'0000;
inline constexpr uint64_t kHotSize = 0x8000;
inline constexpr uint64_t kFence = kHotPage + 0x2000;  // from here on none of it is accessible
inline constexpr uint64_t kWatchMap = 0x7ff1'0000;
inline constexpr uint64_t kWatchMapSize = 0x1'0000;
inline constexpr uint64_t kDirectEnd = 0x5000'0000;  // guest code below this has jump table entries

inline constexpr uint64_t kDataStart = 0x2000'0000'0000;
inline constexpr uint64_t kDataEnd = 0x2a00'0000'0000;
inline constexpr uint64_t kBrkStart = 0x2000'0000'0000;  // brk heap grows up from here
inline constexpr uint64_t kBrkEnd = 0x2100'0000'0000;    // ... 1 TB at most
inline constexpr uint64_t kStackEnd = 0x2a00'0000'0000;  // initial stack ends here
inline constexpr uint64_t kJumpTable = 0x3000'0000'0000;
inline constexpr uint64_t kJumpTableSize = kDirectEnd * 4;
inline constexpr uint64_t kArenas = 0x2e00'0000'0000;

// What the guest may never get, whatever address it asks for.
inline constexpr bool overlaps_engine(uint64_t start, uint64_t end) {
  auto hits = [&](uint64_t a, uint64_t b) { return start < b && a < end; };
  return hits(kCacheStart, kCacheStart + kCacheMax) || hits(kHotPage, kHotPage + kHotSize) ||
         hits(kWatchMap, kWatchMap + kWatchMapSize) || hits(kArenas, kJumpTable + 0x100'0000'0000);
}

}  // namespace backstep::layout
