// The memory map keeps books as the kernel does: replacing, cutting, joining; and gives out addresses that
// depend on nothing but its contents.
#include "guest/memory_map.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <vector>

namespace backstep::guest {
namespace {

constexpr uint64_t kPage = layout::kPage;
constexpr uint64_t kBase = 0x2200'0000'0000;
constexpr int kRead = PROT_READ, kReadWrite = PROT_READ | PROT_WRITE, kReadExec = PROT_READ | PROT_EXEC;

Region anonymous(uint64_t first_page, uint64_t pages, int prot = kReadWrite) {
  Region r;
  r.start = kBase + first_page * kPage, r.end = r.start + pages * kPage;
  r.prot = prot, r.flags = MAP_PRIVATE | MAP_ANONYMOUS;
  return r;
}

Region file(uint64_t first_page, uint64_t pages, uint64_t offset, int prot = kRead) {
  Region r = anonymous(first_page, pages, prot);
  r.flags = MAP_PRIVATE, r.offset = offset, r.name = "/lib/x.so", r.dev = 7, r.inode = 99;
  return r;
}

uint64_t page(uint64_t n) {
  return kBase + n * kPage;
}

// "start+pages:prot@offset" of each region, in pages.
std::string shape(const MemoryMap& map) {
  std::ostringstream out;
  map.for_each([&](const Region& r) {
    out << (r.start - kBase) / kPage << "+" << (r.end - r.start) / kPage << ":" << r.prot;
    if (r.offset) out << "@" << r.offset / kPage;
    out << " ";
  });
  return out.str();
}

TEST(MemoryMap, JoinsAdjacentEqualAnonymousRegions) {
  MemoryMap map;
  map.add(anonymous(0, 2));
  map.add(anonymous(4, 2));
  EXPECT_EQ(shape(map), "0+2:3 4+2:3 ");
  map.add(anonymous(2, 2));
  EXPECT_EQ(shape(map), "0+6:3 ");
}

TEST(MemoryMap, JoinsFileRegionsOnlyWhereTheOffsetContinues) {
  MemoryMap map;
  map.add(file(0, 2, 0));
  map.add(file(2, 2, 2 * kPage));
  EXPECT_EQ(shape(map), "0+4:1 ");
  map.add(file(4, 1, 9 * kPage));
  EXPECT_EQ(shape(map), "0+4:1 4+1:1@9 ");
}

TEST(MemoryMap, KeepsSeparateSharedAnonymousMappingsApart) {
  MemoryMap map;
  Region a = anonymous(0, 1), b = anonymous(1, 1);
  a.flags = b.flags = MAP_SHARED | MAP_ANONYMOUS;
  map.add(a);
  map.add(b);
  EXPECT_EQ(shape(map), "0+1:3 1+1:3 ");
}

TEST(MemoryMap, FlagsThatOnlySayHowToMapDoNotPreventJoining) {
  MemoryMap map;
  Region a = anonymous(0, 1);
  a.flags |= MAP_FIXED | MAP_POPULATE;
  map.add(a);
  map.add(anonymous(1, 1));
  EXPECT_EQ(shape(map), "0+2:3 ");
}

TEST(MemoryMap, AddReplacesWhatWasThere) {
  MemoryMap map;
  map.add(file(0, 10, 0));
  map.add(anonymous(3, 2));
  EXPECT_EQ(shape(map), "0+3:1 3+2:3 5+5:1@5 ");
  map.add(anonymous(0, 10));
  EXPECT_EQ(shape(map), "0+10:3 ");
}

TEST(MemoryMap, RemoveCutsRegions) {
  MemoryMap map;
  map.add(file(0, 10, kPage));
  map.remove(page(2), page(4));
  EXPECT_EQ(shape(map), "0+2:1@1 4+6:1@5 ");
  map.remove(page(0), page(100));
  EXPECT_EQ(shape(map), "");
  map.remove(page(0), page(100));
}

TEST(MemoryMap, ProtectCutsAndJoinsAgain) {
  MemoryMap map;
  map.add(file(0, 6, 0));
  EXPECT_TRUE(map.protect(page(2), page(4), kReadWrite));
  EXPECT_EQ(shape(map), "0+2:1 2+2:3@2 4+2:1@4 ");
  EXPECT_TRUE(map.protect(page(2), page(4), kRead));
  EXPECT_EQ(shape(map), "0+6:1 ");
}

TEST(MemoryMap, ProtectChangesNothingWhenPartIsNotMapped) {
  MemoryMap map;
  map.add(anonymous(0, 2));
  map.add(anonymous(3, 2));
  EXPECT_FALSE(map.protect(page(0), page(4), kRead));
  EXPECT_FALSE(map.protect(page(4), page(6), kRead));
  EXPECT_FALSE(map.protect(page(10), page(11), kRead));
  EXPECT_EQ(shape(map), "0+2:3 3+2:3 ");
}

TEST(MemoryMap, FindAndNext) {
  MemoryMap map;
  map.add(anonymous(1, 2));
  EXPECT_EQ(map.find(page(1) - 1), nullptr);
  ASSERT_NE(map.find(page(1)), nullptr);
  EXPECT_EQ(map.find(page(3) - 1)->start, page(1));
  EXPECT_EQ(map.find(page(3)), nullptr);
  EXPECT_EQ(map.next(0)->start, page(1));
  EXPECT_EQ(map.next(page(2))->start, page(1));
  EXPECT_EQ(map.next(page(3)), nullptr);
}

TEST(MemoryMap, IsMappedLooksAcrossRegions) {
  MemoryMap map;
  map.add(anonymous(0, 2));
  map.add(anonymous(2, 2, kRead));
  EXPECT_TRUE(map.is_mapped(page(0), page(4)));
  EXPECT_TRUE(map.is_mapped(page(1) + 5, page(2) + 5));
  EXPECT_FALSE(map.is_mapped(page(3), page(5)));
  EXPECT_TRUE(map.is_mapped(page(9), page(9)));
}

TEST(MemoryMap, IsFreeKnowsTheEngineAndTheHost) {
  MemoryMap map;
  map.add(anonymous(1, 1));
  EXPECT_TRUE(map.is_free(page(0), page(1)));
  EXPECT_FALSE(map.is_free(page(0), page(2)));
  EXPECT_FALSE(map.is_free(layout::kCacheStart, layout::kCacheStart + kPage));
  EXPECT_FALSE(map.is_free(layout::kHotPage - kPage, layout::kHotPage + kPage));
  EXPECT_FALSE(map.is_free(kGuestEnd, kGuestEnd + kPage));
  EXPECT_FALSE(map.is_free(page(5), page(4)));
}

TEST(MemoryMap, ImagesAreGivenOutBottomUpAndHolesAreReused) {
  MemoryMap map;
  std::vector<uint64_t> at;
  for (int i = 0; i < 3; i++) {
    at.push_back(map.find_free(2 * kPage, 0, Zone::Images).value());
    Region r = anonymous(0, 0);
    r.start = at.back(), r.end = r.start + 2 * kPage, r.prot = i;
    map.add(r);
  }
  EXPECT_EQ(at[0], layout::kImagesStart);
  EXPECT_EQ(at[1], layout::kImagesStart + 2 * kPage);
  map.remove(at[1], at[1] + 2 * kPage);
  EXPECT_EQ(map.find_free(3 * kPage, 0, Zone::Images), at[2] + 2 * kPage);
  EXPECT_EQ(map.find_free(kPage + 1, 0, Zone::Images), at[1]);
}

TEST(MemoryMap, DataIsGivenOutTopDown) {
  MemoryMap map;
  Region stack = anonymous(0, 0);
  stack.start = layout::kStackEnd - (8 << 20), stack.end = layout::kStackEnd;
  map.add(stack);
  uint64_t top = layout::kAnonymousEnd;
  auto first = map.find_free(1, 0, Zone::Data);
  EXPECT_EQ(first, top - kPage);
  Region r = anonymous(0, 0);
  r.start = *first, r.end = top;
  map.add(r);
  EXPECT_EQ(map.find_free(4 * kPage, 0, Zone::Data), top - 5 * kPage);
  map.remove(r.start, r.end);
  EXPECT_EQ(map.find_free(kPage, 0, Zone::Data), first);
}

TEST(MemoryMap, StacksOfThreadsHaveTheMicroTagsOfTheInitialStack) {
  constexpr uint64_t kSize = (8 << 20) + kPage;
  MemoryMap map;
  std::vector<uint64_t> at;
  for (int i = 0; i < 40; i++) {
    Region r = anonymous(0, 0);
    r.start = map.find_free(kSize, 0, Zone::Stacks).value(), r.end = r.start + kSize, r.prot = i % 2;
    EXPECT_TRUE(map.is_free(r.start, r.end));
    for (uint64_t page = r.end - layout::kHotStack; page < r.end; page += kPage)
      EXPECT_EQ(layout::micro_tag(page) >> 5, layout::micro_tag(layout::kStackEnd - kPage) >> 5);
    const uint64_t above = at.empty() ? layout::kAnonymousEnd : at.back();
    EXPECT_LE(r.end, above);
    EXPECT_LT(above - r.end, 1u << 20);
    at.push_back(r.start);
    map.add(r);
  }
  // Where one was, one fits.
  map.remove(at[7], at[7] + kSize);
  EXPECT_EQ(map.find_free(kSize, 0, Zone::Stacks), at[7]);
}

TEST(MemoryMap, ARegionAcrossTheUpperBorderOfTheZoneIsSteppedOver) {
  MemoryMap map;
  uint64_t top = layout::kAnonymousEnd;
  Region r = anonymous(0, 0);
  r.start = top - kPage, r.end = top + kPage;
  map.add(r);
  EXPECT_EQ(map.find_free(kPage, 0, Zone::Data), top - 2 * kPage);
}

TEST(MemoryMap, UsableHintsAreHonouredAndRoundedDown) {
  MemoryMap map;
  map.add(anonymous(1, 1));
  EXPECT_EQ(map.find_free(kPage, page(5) + 123, Zone::Data), page(5));
  EXPECT_EQ(map.find_free(kPage, 0x400000, Zone::Data), 0x400000u);
  uint64_t elsewhere = layout::kAnonymousEnd - 2 * kPage;
  for (uint64_t bad : {page(1), page(0), uint64_t{0x1000}, layout::kCacheStart, layout::kHotPage, kGuestEnd,
                       kGuestEnd - kPage, ~uint64_t{0}})
    EXPECT_EQ(map.find_free(2 * kPage, bad, Zone::Data), elsewhere) << std::hex << bad;
}

TEST(MemoryMap, AFullZoneOverflowsIntoTheOther) {
  MemoryMap map;
  Region images = anonymous(0, 0);
  images.start = layout::kImagesStart, images.end = layout::kImagesEnd;
  map.add(images);
  EXPECT_EQ(map.find_free(kPage, 0, Zone::Images), layout::kAnonymousEnd - kPage);
  EXPECT_EQ(map.find_free(kPage, 0, Zone::Images, true), std::nullopt);
  EXPECT_EQ(map.find_free(0x2800'0000'0000, 0, Zone::Data), std::nullopt);
  EXPECT_EQ(map.find_free(~0ull, 0, Zone::Data), std::nullopt);
  EXPECT_EQ(map.find_free(0, 0, Zone::Data), std::nullopt);
}

TEST(MemoryMap, Low32StaysBelowTwoGigabytes) {
  MemoryMap map;
  EXPECT_EQ(map.find_free(kPage, page(0), Zone::Data, true), layout::kImagesStart);
  EXPECT_EQ(map.find_free(kPage, 0x200000, Zone::Data, true), 0x200000u);
}

TEST(MemoryMap, ExecutableRangeSpansNeighbours) {
  MemoryMap map;
  map.add(file(0, 2, 0));
  map.add(file(2, 2, 2 * kPage, kReadExec));
  map.add(anonymous(4, 2, kReadExec));
  map.add(file(7, 1, 0, kReadExec));
  EXPECT_EQ(map.executable_range(page(3)), std::make_pair(page(2), page(6)));
  EXPECT_EQ(map.executable_range(page(5)), std::make_pair(page(2), page(6)));
  EXPECT_EQ(map.executable_range(page(7)), std::make_pair(page(7), page(8)));
  for (uint64_t other : {page(1), page(6), page(8)}) {
    auto [start, end] = map.executable_range(other);
    EXPECT_EQ(start, end);
  }
}

// Random changes against the simplest possible model: an array with one entry per page.
TEST(MemoryMap, AgreesWithAPageByPageModel) {
  constexpr int kPages = 40;
  std::mt19937 random(1);
  auto below = [&](uint64_t n) { return random() % n; };
  MemoryMap map;
  int model[kPages];  // prot, -1: unmapped
  std::fill(std::begin(model), std::end(model), -1);
  for (int step = 0; step < 5000; step++) {
    uint64_t from = below(kPages), to = from + 1 + below(kPages - from);
    int prot = static_cast<int>(below(4));
    switch (below(3)) {
      case 0:
        map.add(anonymous(from, to - from, prot));
        std::fill(model + from, model + to, prot);
        break;
      case 1:
        map.remove(page(from), page(to));
        std::fill(model + from, model + to, -1);
        break;
      case 2: {
        bool mapped = std::find(model + from, model + to, -1) == model + to;
        ASSERT_EQ(map.protect(page(from), page(to), prot), mapped);
        if (mapped) std::fill(model + from, model + to, prot);
      }
    }
    size_t regions = 0, runs = 0;
    map.for_each([&](const Region&) { regions++; });
    for (int i = 0; i < kPages; i++) {
      const Region* r = map.find(page(i) + 7);
      ASSERT_EQ(r ? r->prot : -1, model[i]) << "page " << i << " after step " << step;
      if (model[i] >= 0 && (i == 0 || model[i - 1] != model[i])) runs++;
    }
    ASSERT_EQ(regions, runs) << "not joined after step " << step;
    auto pages = [&](auto&& counts) { return std::count_if(std::begin(model), std::end(model), counts); };
    ASSERT_EQ(map.size(), kPage * pages([](int p) { return p >= 0; }));
    ASSERT_EQ(map.data_size(), kPage * pages([](int p) { return p >= 0 && (p & PROT_WRITE); }));
    ASSERT_EQ(map.mapped_bytes(page(from), page(to)),
              kPage * std::count_if(model + from, model + to, [](int p) { return p >= 0; }));
  }
}

TEST(MemoryMap, CountsWhatLimitsCount) {
  MemoryMap map;
  Region stack = anonymous(100, 10), shared = anonymous(0, 5);
  stack.name = kStackName;
  shared.flags = MAP_SHARED | MAP_ANONYMOUS;
  map.add(stack);
  map.add(shared);
  map.add(file(10, 3, 0, kReadWrite));
  map.add(file(20, 7, 0));
  EXPECT_EQ(map.size(), 15 * kPage);
  EXPECT_EQ(map.data_size(), 3 * kPage);
  map.remove(page(11), page(105));
  EXPECT_EQ(map.size(), 6 * kPage);
  EXPECT_EQ(map.data_size(), 1 * kPage);
}

TEST(MemoryMap, ProcMapsReadsLikeTheKernels) {
  MemoryMap map;
  Region low = file(0, 0, 0, kReadExec);
  low.start = 0x400000, low.end = 0x401000, low.offset = 0x1000;
  low.dev = makedev(254, 1), low.inode = 12345, low.name = "/usr/bin/a\nb";
  map.add(low);
  Region shared = anonymous(0, 1);
  shared.flags = MAP_SHARED | MAP_ANONYMOUS;
  map.add(shared);
  Region stack = anonymous(2, 1);
  stack.name = "[stack]";
  map.add(stack);
  std::string expected =
      "00400000-00401000 r-xp 00001000 fe:01 12345                              /usr/bin/a\\012b\n"
      "220000000000-220000001000 rw-s 00000000 00:00 0 \n"
      "220000002000-220000003000 rw-p 00000000 00:00 0                          [stack]\n";
  EXPECT_EQ(map.proc_maps(), expected);
}

// Every line of this process's own maps comes out byte for byte. Memory areas with special names or that are
// not where guests live do not matter to the printing.
TEST(MemoryMap, ProcMapsReproducesThisProcess) {
  std::ifstream in("/proc/self/maps");
  for (std::string line; std::getline(in, line);) {
    unsigned long start, end, offset, inode;
    unsigned dev_major, dev_minor;
    char perms[5];
    int name = 0;
    ASSERT_EQ(sscanf(line.c_str(), "%lx-%lx %4s %lx %x:%x %lu %n", &start, &end, perms, &offset, &dev_major,
                     &dev_minor, &inode, &name),
              7);
    Region r;
    r.start = start, r.end = end, r.offset = offset, r.dev = makedev(dev_major, dev_minor), r.inode = inode;
    r.prot = (perms[0] == 'r' ? PROT_READ : 0) | (perms[1] == 'w' ? PROT_WRITE : 0) |
             (perms[2] == 'x' ? PROT_EXEC : 0);
    r.flags = (perms[3] == 's' ? MAP_SHARED : MAP_PRIVATE) | (inode ? 0 : MAP_ANONYMOUS);
    r.name = line.substr(name);
    MemoryMap map;
    map.add(r);
    EXPECT_EQ(map.proc_maps(), line + "\n");
  }
}

}  // namespace
}  // namespace backstep::guest
