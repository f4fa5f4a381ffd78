// Names and lines are checked on real programs, compiled here in the ways people compile theirs.
#include "symbols/symbols.h"

#include <gelf.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "temp_dir.h"

namespace backstep::symbols {
namespace {

using test::TempDir;
using test::write_file;

constexpr char kSource[] = R"(
namespace shop {
struct Item { int price; };
static inline __attribute__((always_inline)) int twice(volatile int* x) { return *x + *x; }  // line 4
__attribute__((noinline)) int total(volatile Item* item, int n) {
  item->price += n;
  return item->price;
}
__attribute__((noinline)) int doubled(volatile int* x) {
  return twice(x);
}
}
int main(int argc, char**) { shop::Item i{argc}; volatile int x = 2; return shop::total(&i, 1) + shop::doubled(&x) - 6; }
)";

// The address of a function, as `nm` sees it.
uint64_t address_of(const std::string& file, const std::string& symbol) {
  FILE* nm = popen(("nm " + file + " | grep ' " + symbol + "$'").c_str(), "r");
  char line[64] = "";
  EXPECT_NE(fgets(line, sizeof line, nm), nullptr) << symbol;
  pclose(nm);
  return strtoull(line, nullptr, 16);
}

std::string compile(const TempDir& dir, const std::string& flags) {
  write_file(dir / "shop.cc", kSource);
  std::string out = dir / "shop";
  EXPECT_EQ(system(("g++ " + flags + " -o " + out + " " + (dir / "shop.cc")).c_str()), 0);
  return out;
}

TEST(Symbols, KnowFunctionAndLineOfAProgramWithDebugInformation) {
  for (const char* flags : {"-g -pie", "-g -no-pie", "-g -gdwarf-4", "-g -static"}) {
    TempDir dir;
    std::string program = compile(dir, flags);
    ElfFile elf(program);
    uint64_t total = address_of(program, "_ZN4shop5totalEPVNS_4ItemEi");
    Place place = elf.at(total);
    EXPECT_EQ(place.function, "shop::total(shop::Item volatile*, int)") << flags;
    EXPECT_EQ(place.offset, 0u);
    EXPECT_EQ(place.line, 5) << flags;
    EXPECT_TRUE(place.file.ends_with("shop.cc")) << place.file;
    EXPECT_EQ(place.text(), "shop::total(shop::Item volatile*, int) (shop.cc:5)");
    EXPECT_EQ(elf.at(total + 2).offset, 2u);
  }
}

TEST(Symbols, FindLinesWithoutTheQuickTable) {
  TempDir dir;
  std::string program = compile(dir, "-g");
  ASSERT_EQ(system(("objcopy --remove-section .debug_aranges " + program).c_str()), 0);
  EXPECT_EQ(ElfFile(program).at(address_of(program, "_ZN4shop7doubledEPVi")).line, 9);
}

TEST(Symbols, NameTheFunctionThatWasInlined) {
  TempDir dir;
  std::string program = compile(dir, "-g -O2");
  uint64_t doubled = address_of(program, "_ZN4shop7doubledEPVi");
  ElfFile elf(program);
  bool seen = false;
  for (uint64_t i = 0; i < 8; i++) seen |= elf.at(doubled + i).inlined == "twice";
  EXPECT_TRUE(seen);
}

TEST(Symbols, FindAddressesByPositionInTheFile) {
  TempDir dir;
  for (const char* flags : {"-g -pie", "-g -no-pie"}) {
    std::string program = compile(dir, flags);
    ElfFile elf(program);
    uint64_t main = address_of(program, "main");
    // In the text segment of these files address and position differ by a constant multiple of the page size.
    for (uint64_t base : {0ull, 0x400000ull, 0x1000ull, 0x401000ull})
      if (main > base && elf.address_of(main - base) == main) {
        EXPECT_EQ(elf.at_offset(main - base).function, "main");
      }
    EXPECT_TRUE(elf.address_of(0).has_value());
    EXPECT_FALSE(elf.address_of(1ull << 40).has_value());
    EXPECT_EQ(elf.at_offset(1ull << 40).text(), "");
  }
}

TEST(Symbols, WithoutDebugInformationKnowTheFunctionOnly) {
  TempDir dir;
  std::string program = compile(dir, "-O2 -no-pie");
  uint64_t total = address_of(program, "_ZN4shop5totalEPVNS_4ItemEi");
  Place place = ElfFile(program).at(total + 1);
  EXPECT_EQ(place.function, "shop::total(shop::Item volatile*, int)");
  EXPECT_EQ(place.line, 0);
  EXPECT_EQ(place.text(), "shop::total(shop::Item volatile*, int)+0x1");
}

TEST(Symbols, OfAStrippedProgramAreUnknown) {
  TempDir dir;
  std::string program = compile(dir, "-O2 -no-pie");
  uint64_t total = address_of(program, "_ZN4shop5totalEPVNS_4ItemEi");
  ASSERT_EQ(system(("strip " + program).c_str()), 0);
  EXPECT_EQ(ElfFile(program).at(total).text(), "");
}

TEST(Symbols, OfWhatIsNotElfAreAnError) {
  TempDir dir;
  write_file(dir / "text", "#!/bin/sh\n");
  write_file(dir / "empty", "");
  EXPECT_THROW(ElfFile(dir / "text"), Error);
  EXPECT_THROW(ElfFile(dir / "empty"), Error);
  EXPECT_THROW(ElfFile(dir / "missing"), Error);
}

TEST(Symbols, OfADamagedFileAreNeverACrash) {
  TempDir dir;
  std::string program = compile(dir, "-g -O1");
  uint64_t main = address_of(program, "main");
  std::string good = test::read_file(program);
  srand(1);
  for (int round = 0; round < 300; round++) {
    std::string bad = round < 100 ? good.substr(0, static_cast<size_t>(rand()) % good.size()) : good;
    for (int i = 0; i < 20 && !bad.empty(); i++)
      bad[static_cast<size_t>(rand()) % bad.size()] = static_cast<char>(rand());
    write_file(dir / "bad", bad);
    try {
      ElfFile elf(dir / "bad");
      (void)elf.at(main);
      (void)elf.at_offset(main);
    } catch (const Error&) {  // just as good
    }
  }
}

TEST(Symbols, Demangle) {
  EXPECT_EQ(demangle("_Z3fooi"), "foo(int)");
  EXPECT_EQ(demangle("main"), "main");
  EXPECT_EQ(demangle(""), "");
  EXPECT_EQ(demangle("f"), "f");  // not "float"
  EXPECT_EQ(demangle("_Z"), "_Z");
}

TEST(Symbols, DoNotGrowBeyondMeasure) {
  // Each part is a pair of the part before.
  std::string name = "_Z1f1PI1aS0_E";
  for (char c : std::string("123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    name += std::string("S_IS") + c + "_S" + c + "_E";
  EXPECT_EQ(demangle(name), name);
}

}  // namespace
}  // namespace backstep::symbols
