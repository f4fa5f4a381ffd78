// Where things lie in the one address space that the guest world and the host world share.
//
// The kernel puts host mappings near the top (and the host's PIE at 0x55…/0x56…), so everything below
// 0x5000'0000'0000 is ours to give out, and a replay can put every guest mapping where it was recorded.
//
//   0x0000'0001'0000  fixed-address executables (ET_EXEC usually starts at 0x400000)
//   0x0000'1140'0000  images: PIE executables, ld.so, libraries, small executable anonymous mappings
//   0x0000'4800'0000  … the last of these is the module of debug code, in a replay that has one
//   0x0000'5000'0000  … left free: SBCL wants its static space here
//   0x0000'6000'0000  code cache
//   0x0000'7ff0'0000  hot page: the running context, reached by 32-bit absolute addresses
//   0x0000'7ff0'2000  fence: tick checks run into it at the limit
//   0x0000'7ff1'0000  watch map: which pages hold watched bytes (watch_hot.cc)
//   0x0000'7ff2'0000  own map: which addresses debug code may write to (watch_hot.cc)
//   0x0000'7fff'7000  … left free: AddressSanitizer's shadow memory wants to start here
//   0x2000'0000'0000  guest data: brk heap upwards; downwards from below the stack: anonymous mappings, big
//   files 0x2e00'0000'0000  engine arenas (block table, exits, links, page records; sparse) 0x3000'0000'0000
//   jump table (4 bytes per byte of guest code below 0x5000'0000, sparse; GS base)
//
// Nothing of ours lies behind the jump table: wild jumps of the guest look there, four bytes per byte of
// address.
//
// Guest code and code cache below 2 GB keep things short and fast: a return address is `push imm32`, a
// RIP-relative operand becomes a 32-bit absolute one, spill slots are absolute. Guest code elsewhere (a JIT
// in a huge reservation) works through longer sequences.
//
// Why not round numbers: the first-level data cache of AMD's Zen finds the way of a line by a *micro-tag*,
// eight bits that are hashed from the address (below). Two lines of the same set with the same micro-tag push
// each other out: a program that reads them in turn takes 36 cycles for what should take 6, and a perl loop
// took 4.4 times native instead of 1.2. Bits above 27 are not looked at, so starts and ends at round
// addresses have equal micro-tags, and page k of the heap is in the way of page k of the stack for every k.
// Natively addresses are random, so this is bad luck now and then; here it would be the same bad luck in each
// run, in every environment of a certain size. So the 256 micro-tags are given to the pages that are hot in
// almost any program, and a static_assert below holds that none is given twice:
//
//   heap, first 128 pages                  0x00 - 0x7f    also malloc's arenas of threads: 64 MB aligned
//   stack, last 32 pages                   0x80 - 0x9f    also those of threads (stack_end)
//   executable, first 32 pages             0xa0 - 0xbf
//   anonymous mappings, topmost 62 pages   0xc0 - 0xfd    thread control blocks, the first large mallocs
//   context and its spill slots            0xfe, 0xff
//
// Whatever is larger meets all micro-tags anyway, each on one page in 256, as it does natively. The code
// cache is read by the instruction cache, and the jump table has a page for each KB of code: all over the
// place. (The heap is where it always was, since recordings do not tell where it starts.)
#pragma once
#include <cstdint>

namespace backstep::layout {

inline constexpr uint64_t kPage = 4096;
constexpr uint64_t page_down(uint64_t n) {
  return n & ~(kPage - 1);
}
constexpr uint64_t page_up(uint64_t n) {
  return page_down(n + kPage - 1);
}

inline constexpr uint64_t kImagesStart = 0x1140'0000;
inline constexpr uint64_t kImagesEnd = 0x5000'0000;
inline constexpr uint64_t kCacheStart = 0x6000'0000;
inline constexpr uint64_t kCacheMax = 0x1f00'0000;  // 496 MB of addresses; how much is used is an option
inline constexpr uint64_t kHotPage = 0x7ff0'0000;
inline constexpr uint64_t kHotSize = 0x8000;
inline constexpr uint64_t kFence = kHotPage + 0x2000;  // from here on none of it is accessible
inline constexpr uint64_t kWatchMap = 0x7ff1'0000;
inline constexpr uint64_t kWatchMapSize = 0x1'0000;
inline constexpr uint64_t kOwnMap = 0x7ff2'0000;
inline constexpr uint64_t kOwnMapSize = 0x1'0000;
inline constexpr uint64_t kDirectEnd = 0x5000'0000;  // guest code below this has jump table entries

inline constexpr uint64_t kDataStart = 0x2000'0000'0000;
inline constexpr uint64_t kDataEnd = 0x2a00'0000'0000;
inline constexpr uint64_t kBrkStart = 0x2000'0000'0000;      // brk heap grows up from here
inline constexpr uint64_t kBrkEnd = 0x2100'0000'0000;        // ... 1 TB at most
inline constexpr uint64_t kStackEnd = 0x29ff'ff00'0000;      // initial stack ends here
inline constexpr uint64_t kAnonymousEnd = 0x29ff'be80'0000;  // anonymous mappings, from here downwards
inline constexpr uint64_t kJumpTable = 0x3000'0000'0000;
inline constexpr uint64_t kJumpTableSize = kDirectEnd * 4;
inline constexpr uint64_t kArenas = 0x2e00'0000'0000;
inline constexpr uint64_t kBreaks = 0x2f00'0000'0000;  // books of breakpoints, if there are any
inline constexpr uint64_t kBreaksSize = 0x1000'0000;
inline constexpr uint64_t kCovered =
    0x2f10'0000'0000;  // code that was executed and is not in the cache any more
inline constexpr uint64_t kCoveredSize = 0x4000'0000;
// What translated code reports of its loads and stores (report.h): the records, behind them a page without
// access, and what is known of the code that writes them.
inline constexpr uint64_t kReports = 0x2f20'0000'0000;
inline constexpr uint64_t kReportsSize = 0x20'0000;
inline constexpr uint64_t kReportSites = 0x2f30'0000'0000;
inline constexpr uint64_t kReportSitesSize = 0x1000'0000;

// The shadow of the guest's memory (shadow_hot.cc): one byte for each, at a distance that translated code
// reaches by a gs: prefix (the jump table is GS's base) and a 32-bit displacement. No multiple of 4096, or a
// store to the shadow would be taken for one to what is loaded next. Not all addresses have a place for
// theirs: not those whose shadow would be the jump table or the host's own memory. Whoever uses memory there
// does without.
inline constexpr int32_t kShadowDistance = -0x7000'0000 + 0x540;
inline constexpr uint64_t shadow_of(uint64_t address) {
  return address + kJumpTable + static_cast<int64_t>(kShadowDistance);
}
struct Zone {
  uint64_t start, end;
};
inline constexpr Zone kShadowed[] = {
    {0x1'0000, 0x6000'0000}, {0x1'c000'0000, 0x2550'0000'0000}, {0x2670'0000'0000, kDataEnd}};
inline constexpr bool has_shadow(uint64_t start, uint64_t end) {
  for (const Zone& z : kShadowed)
    if (start >= z.start && end <= z.end) return true;
  return false;
}
static_assert(shadow_of(kShadowed[0].start) > kReportSites + kReportSitesSize);
static_assert(shadow_of(kShadowed[0].end) < kJumpTable);
static_assert(shadow_of(kShadowed[1].start) > kJumpTable + kJumpTableSize);
static_assert(shadow_of(kShadowed[1].end) < 0x5555'0000'0000);    // where the kernel puts our program …
static_assert(shadow_of(kShadowed[2].start) > 0x5660'0000'0000);  // … and its heap

// Debug code (docs/architecture.md): its module, and its stack, heap and mappings. No guest is kept from
// asking for these addresses, as a recorder does not know what will be asked of its recording; images are
// placed from below and mappings from above, so a guest that gets there is a rare one, and debug code is
// refused then. A translated store of debug code looks up which 4 GB it goes to (kOwnMap), so the second zone
// consists of such pieces, and nothing else may ever lie in them.
inline constexpr uint64_t kProbe = 0x4800'0000;
inline constexpr uint64_t kProbeSize = 0x800'0000;
inline constexpr uint64_t kProbeData = 0x2c00'0000'0000;
inline constexpr uint64_t kProbeDataSize = 0x10'0000'0000;
inline constexpr bool is_probe(uint64_t address) {
  return address - kProbe < kProbeSize;
}
static_assert(kProbe + kProbeSize <= kDirectEnd && kProbeData % (1ull << 32) == 0 &&
              kProbeDataSize % (1ull << 32) == 0 && kProbeData + kProbeDataSize <= kArenas);
// Where indirect branches of debug code find its landings, four bytes per byte of the module.
inline constexpr uint64_t kProbeJumps = 0x2f40'0000'0000;
static_assert(kProbe == 0x4800'0000 && kProbeSize == 0x800'0000 && kProbeJumps == 0x2f40'0000'0000,
              "entry.S knows these");

// What the guest may never get, whatever address it asks for.
inline constexpr bool overlaps_engine(uint64_t start, uint64_t end) {
  auto hits = [&](uint64_t a, uint64_t b) { return start < b && a < end; };
  return hits(kCacheStart, kCacheStart + kCacheMax) || hits(kHotPage, kHotPage + kHotSize) ||
         hits(kWatchMap, kWatchMap + kWatchMapSize) || hits(kArenas, kJumpTable + 0x100'0000'0000);
}

inline constexpr uint8_t micro_tag(uint64_t address) {
  constexpr int kPairs[8][2] = {{12, 27}, {13, 26}, {14, 25}, {15, 20},
                                {16, 21}, {17, 22}, {18, 23}, {19, 24}};
  unsigned tag = 0;
  for (int i = 0; i < 8; i++) tag |= ((address >> kPairs[i][0] ^ address >> kPairs[i][1]) & 1) << i;
  return static_cast<uint8_t>(tag);
}

inline constexpr uint64_t kHotStack = 32 * kPage;  // of a stack, below its end

// The highest address up to `most` where a stack can end so that its hot pages have the micro-tags that the
// hot pages of the initial stack have. Less than 1 MB below, as bits 12 to 19 alone can give any micro-tag.
inline constexpr uint64_t stack_end(uint64_t most) {
  constexpr int kTagBits = 5;  // that pages of a stack differ in
  uint64_t end = most & ~(kHotStack - 1);
  while (end && (micro_tag(end - kPage) ^ micro_tag(kStackEnd - kPage)) >> kTagBits) end -= kHotStack;
  return end;
}

namespace detail {
struct HotPages {
  uint64_t start, count;
};
inline constexpr HotPages kHotPages[] = {{kBrkStart, 128},
                                         {kStackEnd - kHotStack, kHotStack / kPage},
                                         {kImagesStart, 32},
                                         {kAnonymousEnd - 62 * kPage, 62},
                                         {kHotPage, 2}};
constexpr bool all_micro_tags_differ() {
  bool taken[256] = {};
  for (auto [start, count] : kHotPages)
    for (uint64_t i = 0; i < count; i++) {
      bool& tag = taken[micro_tag(start + i * kPage)];
      if (tag) return false;
      tag = true;
    }
  return true;
}
}  // namespace detail
static_assert(detail::all_micro_tags_differ(), "see above: pages that are hot together push each other out");
static_assert(stack_end(kStackEnd) == kStackEnd);

}  // namespace backstep::layout
