// Names of a whole program are checked on programs compiled here, in the ways people compile theirs, and
// against gdb where it has an opinion.
#include "symbols/program.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <regex>
#include <tuple>

#include "base/error.h"
#include "symbols/program_names.h"
#include "temp_dir.h"

namespace backstep::symbols {
namespace {

using test::TempDir;
using test::write_file;

constexpr uint64_t kBias = 0x10000000;

std::string output_of(const std::string& command) {
  FILE* in = popen(command.c_str(), "r");
  std::string all;
  for (char buffer[4096]; size_t n = fread(buffer, 1, sizeof buffer, in);) all.append(buffer, n);
  pclose(in);
  return all;
}

bool installed(const std::string& program) {
  return system(("command -v " + program + " > /dev/null").c_str()) == 0;
}

void run(const std::string& command) {
  ASSERT_EQ(system(command.c_str()), 0) << command;
}

Program open(const std::string& file, uint64_t bias = 0) {
  return Program({Module{file, file, bias, bias + 0x1000000, bias}});
}

std::vector<std::string> names_of(const std::vector<Function>& functions) {
  std::vector<std::string> names;
  for (const Function& f : functions) names.push_back(f.full);
  return names;
}
using Names = std::vector<std::string>;

constexpr char kC[] = R"(#include <stdio.h>
// a comment
static int counter;

static inline int twice(int x) {
  int r = x;
  r += x;
  return r;
}

__attribute__((noinline)) static int sum(const int *a, int n) {
  int s = 0;
  for (int i = 0; i < n; i++) {
    int t = a[i];
    if (t > 3)
      s += twice(t);
    else
      s -= t;
  }
  return s;
}

int empty(void) {}
int oneline(int x) { return x + 1; }

struct big { int a[100]; };
__attribute__((noinline)) struct big make(int x)
{
  struct big b;

  for (int i = 0; i < 100; i++)
    b.a[i] = x * i;
  return b;
}

int main(int argc, char **argv) {
  int data[] = {1, 2, 3, 4, 5};
  counter = sum(data, argc + 3);
  while (counter > 100) {
    counter /= 2; counter = twice(counter);
  }
  switch (argc) {
    case 1: puts("one"); break;
    default:
      printf("%d\n", twice(argc));
  }
  struct big b = make(argc);
  return counter + b.a[3] + oneline(3);
}
)";

constexpr char kCpp[] = R"(#include <algorithm>
#include <vector>
namespace shop {
struct Base {
  virtual ~Base() {}
  virtual int value() const = 0;
};
template <class T>
struct Holder : Base {
  T held;
  explicit Holder(T t) : held(t) {}
  int value() const override {
    return static_cast<int>(held);
  }
  bool operator<(const Holder& o) const { return held < o.held; }
  int operator()(int x) const { return x; }
};
template <class T>
T add(T a, T b) {
  T c = a;
  c += b;
  return c;
}
namespace {
int hidden(int x) {
  return x * 2;
}
}
int call(int x) { return hidden(x); }
}
int over(int x) { return x; }
int over(double x) {
  return (int)x;
}
int main(int argc, char**) {
  std::vector<int> v;
  for (int i = 0; i < argc + 10; i++)
    v.push_back(shop::add(i, argc));
  std::sort(v.begin(), v.end(), [](int a, int b) {
    return a > b;
  });
  shop::Holder<int> h(argc);
  shop::Holder<double> d(argc * 1.5);
  bool less = h < shop::Holder<int>(4);
  return h.value() + d.value() + shop::add(1.0, 2.0) + shop::call(1) + over(1) + over(2.0) + less + h(1);
}
)";

// gdb's breakpoints for each of the places, as addresses of the file.
std::vector<std::vector<uint64_t>> breakpoints_of_gdb(const TempDir& dir, const std::string& program,
                                                      const std::vector<std::string>& places) {
  std::string script = "set breakpoint pending off\nset confirm off\n";
  for (const std::string& place : places)
    script += "python\ntry:\n  gdb.execute('break " + place +
              "', to_string=True)\nexcept gdb.error: pass\nend\necho =====\\n\ninfo breakpoints\ndelete\n";
  write_file(dir / "script", script);
  std::string text = output_of("gdb -batch -nx -x " + (dir / "script") + " " + program + " 2> /dev/null");
  std::vector<std::vector<uint64_t>> all;
  std::regex address("^[0-9.]+ .*(0x[0-9a-f]+) (in|<)");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (line == "=====")
      all.emplace_back();
    else if (!all.empty() && std::regex_search(line, match, address))
      all.back().push_back(strtoull(match[1].str().c_str(), nullptr, 16));
  }
  for (auto& addresses : all) std::sort(addresses.begin(), addresses.end());
  return all;
}

void compare_with_gdb(const std::string& compile, const char* source, const std::string& file,
                      const Names& functions) {
  TempDir dir;
  write_file(dir / file, source);
  std::string out = dir / "program";
  run(compile + " -w -g -o " + out + " " + (dir / file));
  Names places = functions;
  int count = static_cast<int>(std::count(source, source + strlen(source), '\n'));
  for (int line = 1; line <= count; line++) places.push_back(file + ":" + std::to_string(line));
  auto theirs = breakpoints_of_gdb(dir, out, places);
  ASSERT_EQ(theirs.size(), places.size());
  Program program = open(out);
  for (size_t i = 0; i < places.size(); i++) {
    std::vector<uint64_t> ours;
    if (i < functions.size()) {
      for (const Function& f : program.functions(places[i], true)) ours.push_back(f.body);
    } else {
      auto matches = program.lines(file, static_cast<int>(i - functions.size()) + 1);
      if (!matches.empty()) ours = matches.at(0).addresses;
    }
    std::sort(ours.begin(), ours.end());
    EXPECT_EQ(ours, theirs[i]) << compile << " " << places[i];
  }
}

TEST(Program, BreaksWhereGdbDoes) {
  ASSERT_TRUE(installed("gdb")) << "apt-get install it";
  for (const char* compiler : {"gcc", "clang"}) {
    if (!installed(compiler)) continue;
    for (const char* flags : {"-O0", "-O0 -gdwarf-4 -no-pie", "-O2", "-O0 -fomit-frame-pointer"})
      compare_with_gdb(std::string(compiler) + " " + flags, kC, "code.c",
                       {"main", "sum", "twice", "empty", "oneline", "make", "nowhere"});
  }
}

TEST(Program, BreaksWhereGdbDoesInCpp) {
  ASSERT_TRUE(installed("gdb")) << "apt-get install it";
  for (const char* compiler : {"g++", "clang++"}) {
    if (!installed(compiler)) continue;
    // Without cold parts: gdb 13 takes those for the beginning of the function.
    for (const char* flags : {"-O0", "-O2 -fno-exceptions"})
      compare_with_gdb(
          std::string(compiler) + " -std=c++17 " + flags, kCpp, "code.cc",
          {"main", "add", "shop::add", "over", "over(int)", "over(double)", "shop::Holder<int>::value",
           "value", "hidden", "shop::call", "shop::Holder<int>::operator()"});
  }
}

std::string compile_cpp(const TempDir& dir, const std::string& flags) {
  write_file(dir / "code.cc", kCpp);
  run("g++ -std=c++17 " + flags + " -o " + (dir / "program") + " " + (dir / "code.cc"));
  return dir / "program";
}

TEST(Program, FindsFunctionsByPartsOfTheirNames) {
  TempDir dir;
  for (const char* flags : {"-O0 -g", "-O0"}) {
    Program program = open(compile_cpp(dir, flags), kBias);
    auto names = [&](const char* name) { return names_of(program.functions(name)); };
    EXPECT_EQ(names("over"), (Names{"over(int)", "over(double)"})) << flags;
    EXPECT_EQ(names("over(double)"), (Names{"over(double)"}));
    EXPECT_EQ(names("over( int )"), (Names{"over(int)"}));
    EXPECT_EQ(names("over(char)"), Names{});
    EXPECT_EQ(names("add").size(), 2u);
    EXPECT_EQ(names("shop::add<int>"), (Names{"int shop::add<int>(int, int)"}));
    EXPECT_EQ(names("add<double>").size(), 1u);
    EXPECT_EQ(names("add<char>"), Names{});
    EXPECT_EQ(names("other::add"), Names{});
    EXPECT_EQ(names("hidden"), (Names{"shop::(anonymous namespace)::hidden(int)"}));
    EXPECT_EQ(names("shop::hidden"), names("hidden"));
    EXPECT_EQ(names("Holder::value").size(), 2u);
    EXPECT_EQ(names("shop::Holder<int>::value"), (Names{"shop::Holder<int>::value() const"}));
    EXPECT_EQ(names("Holder<int>::operator<").size(), 1u);
    EXPECT_EQ(names("Holder<int>::operator()").size(), 1u);
    EXPECT_EQ(names("Holder<int>::Holder").size(), 1u);  // C1 and C2 are one
    EXPECT_EQ(names("::main"), (Names{"main"}));
    EXPECT_EQ(names(""), Names{});
    EXPECT_EQ(names("::"), Names{});
    Function call = program.functions("shop::call").at(0);
    EXPECT_EQ(call.name, "shop::call");
    EXPECT_EQ(call.entry, call.ranges.at(0).first);
    EXPECT_EQ(call.module, &program.modules()[0]);
    EXPECT_GE(call.entry, kBias);
    EXPECT_EQ(program.function_at(call.entry + 1)->full, call.full);
    EXPECT_EQ(call.line, strstr(flags, "-g") ? 29 : 0);
    EXPECT_EQ(call.body > call.entry, strstr(flags, "-g") != nullptr);
  }
}

TEST(Program, TellsStaticFunctionsOfOneNameApart) {
  TempDir dir;
  write_file(dir / "a.c", "static int f(int x) { return x; }\nint a(void) { return f(1); }\n");
  write_file(dir / "b.c",
             "static int f(int x) { return x + 1; }\nint a(void);\nint main(void) { return f(1) + a(); }\n");
  run("cd " + dir.path() + " && gcc -g -O0 -o program a.c b.c");
  Program program = open(dir / "program");
  EXPECT_EQ(program.functions("f").size(), 2u);
  ASSERT_EQ(program.functions("b.c:f").size(), 1u);
  EXPECT_TRUE(program.functions("b.c:f")[0].file.ends_with("b.c"));
  EXPECT_EQ(program.functions("c.c:f").size(), 0u);
  EXPECT_EQ(program.functions("b.c:a").size(), 0u);
}

TEST(Program, KnowsWhatWasInlined) {
  TempDir dir;
  for (const char* compiler : {"gcc", "clang"}) {
    if (!installed(compiler)) continue;
    write_file(dir / "code.c", kC);
    run(std::string(compiler) + " -w -g -O2 -o " + (dir / "program") + " " + (dir / "code.c"));
    Program program = open(dir / "program", kBias);
    EXPECT_EQ(program.functions("twice").size(), 0u);
    std::vector<Function> copies = program.functions("twice", true);
    ASSERT_GE(copies.size(), 1u) << compiler;
    size_t in_main = 0;
    for (const Function& copy : copies) {
      EXPECT_TRUE(copy.inlined);
      EXPECT_EQ(copy.line, 5);
      auto frames = program.frames_at(copy.ranges[0].first);
      ASSERT_GE(frames.size(), 2u);
      EXPECT_EQ(frames[0].function, "twice");
      EXPECT_GE(frames[0].line, 5);
      EXPECT_LE(frames[0].line, 8);
      EXPECT_TRUE(frames[0].file.ends_with("code.c"));
      in_main += frames.back().function == "main";
      EXPECT_GT(frames.back().line, 10);  // where the call is
      EXPECT_TRUE(frames.back().file.ends_with("code.c")) << compiler;
      EXPECT_FALSE(program.function_at(copy.entry)->inlined);
    }
    EXPECT_GE(in_main, 1u);
  }
}

// What libdw says about an address, the slow way.
Place slow_place(const ElfFile& elf, uint64_t address) {
  Place place;
  Dwarf_Die unit, *scopes = nullptr;
  if (!elf.dwarf() || !dwarf_addrdie(elf.dwarf(), address, &unit)) return place;
  if (Dwarf_Line* line = dwarf_getsrc_die(&unit, address)) {
    place.file = dwarf_linesrc(line, nullptr, nullptr);
    dwarf_lineno(line, &place.line);
  }
  int count = dwarf_getscopes(&unit, address, &scopes);
  for (int i = 0; i < count; i++) {
    if (dwarf_tag(&scopes[i]) != DW_TAG_inlined_subroutine) continue;
    place.inlined = dwarf_diename(&scopes[i]);
    break;
  }
  free(scopes);
  return place;
}

TEST(Program, KnowsTheLineAndTheInlinedFunctionOfEveryInstruction) {
  TempDir dir;
  for (const char* flags : {"-g -O2", "-g -O0 -gdwarf-4", "-O2"}) {
    std::string file = compile_cpp(dir, flags);
    Program program = open(file, kBias);
    ElfFile elf(file);
    for (const Function& f : program.all_functions(program.modules()[0]))
      for (auto [start, end] : f.ranges)
        for (uint64_t at = start; at < end; at++) {
          Place ours = program.place(at), slow = slow_place(elf, at - kBias);
          ASSERT_EQ(std::tie(ours.file, ours.line, ours.inlined),
                    std::tie(slow.file, slow.line, slow.inlined))
              << flags << " " << std::hex << at - kBias;
        }
  }
}

TEST(Program, DoesWithoutTheQuickTable) {
  TempDir dir;
  std::string file = compile_cpp(dir, "-g");
  run("objcopy --remove-section .debug_aranges " + file);
  EXPECT_EQ(open(file).functions("shop::call").at(0).line, 29);
}

TEST(Program, MakesTheBestOfStrippedFiles) {
  TempDir dir;
  std::string file = compile_cpp(dir, "-g -O0 -rdynamic");
  uint64_t call = open(file).functions("shop::call").at(0).entry;
  run("strip -g " + file);
  EXPECT_EQ(open(file).functions("hidden").size(), 1u);
  EXPECT_EQ(open(file).lines("code.cc", 25).size(), 0u);
  run("strip " + file);  // what other modules may call is still known
  Program program = open(file);
  EXPECT_EQ(program.functions("hidden").size(), 0u);
  ASSERT_EQ(program.functions("shop::call").size(), 1u);
  EXPECT_EQ(program.functions("shop::call")[0].entry, call);
  EXPECT_EQ(program.functions("shop::call")[0].body, call);
  EXPECT_EQ(program.frames_at(call).at(0).function, "shop::call");
  file = compile_cpp(dir, "-O0 -s");
  EXPECT_EQ(open(file).functions("main").size(), 0u);
  EXPECT_FALSE(open(file).function_at(call));
  EXPECT_EQ(open(file).frames_at(call).size(), 0u);
}

TEST(Program, UsesASeparateDebugFile) {
  TempDir dir, store;
  std::string file = compile_cpp(dir, "-g -O0");
  run("cd " + dir.path() +
      " && objcopy --only-keep-debug program program.debug && strip program && "
      "objcopy --add-gnu-debuglink=program.debug program && mv program " +
      (store / "0001"));
  Program program({Module{file, store / "0001", 0, 0x1000000, 0}});
  EXPECT_EQ(program.functions("hidden").at(0).line, 25);
  EXPECT_EQ(program.lines("code.cc", 25).size(), 1u);
  // Another build's is none.
  run("cd " + dir.path() + " && g++ -g -O1 -std=c++17 -o other code.cc && mv other program.debug");
  EXPECT_EQ(Program({Module{file, store / "0001", 0, 0x1000000, 0}}).functions("hidden").size(), 0u);
}

TEST(Program, ReadsHandWrittenAssembler) {
  TempDir dir;
  write_file(dir / "code.s",
             ".text\n.globl first\nfirst:\n  nop\n  ret\nlocal:\n  nop\n.globl main\n.type "
             "main,@function\nmain:\n  call first\n  xor %eax,%eax\n  ret\n"
             ".size main,.-main\n.section .note.GNU-stack,\"\",@progbits\n");
  for (const char* flags : {"", "-g"}) {
    run(std::string("gcc -no-pie ") + flags + " -o " + (dir / "program") + " " + (dir / "code.s"));
    Program program = open(dir / "program");
    ASSERT_EQ(program.functions("first").size(), 1u) << flags;
    Function first = program.functions("first")[0];
    EXPECT_EQ(first.ranges.at(0).second - first.entry, 2u);
    EXPECT_EQ(program.function_at(first.entry + 1)->name, "first");
    EXPECT_EQ(program.functions("local").size(), 1u);
    EXPECT_EQ(program.place(first.entry + 1).line, *flags ? 5 : 0);
    EXPECT_EQ(program.lines("code.s", 12).size(), *flags ? 1u : 0u);
  }
}

TEST(Program, AsksForAFileByItsLastComponents) {
  TempDir dir;
  run("mkdir " + (dir / "x") + " " + (dir / "y"));
  write_file(dir / "x/same.c", "int x(void) {\n  return 1;\n}\n");
  write_file(dir / "y/same.c", "int y(void) {\n\n  return 1;\n}\n");
  write_file(dir / "main.c", "int x(void), y(void);\nint main(void) { return x() + y(); }\n");
  run("cd " + (dir / "x") + " && gcc -g -o ../program ../main.c same.c ../y/same.c");
  Program program = open(dir / "program");
  auto both = program.lines("same.c", 2);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].line, 2);
  EXPECT_EQ(both[1].line, 3);  // the next with code
  EXPECT_EQ(program.lines("y/same.c", 2).size(), 1u);
  EXPECT_EQ(program.lines(dir / "y/same.c", 2).size(), 1u);
  EXPECT_EQ(program.lines("x/../y/same.c", 2).size(), 1u);
  EXPECT_EQ(program.lines("ame.c", 2).size(), 0u);
  EXPECT_EQ(program.lines("same.c", 100).size(), 0u);
  EXPECT_EQ(program.lines("", 1).size(), 0u);
  EXPECT_EQ(program.lines("same.c", -5).size(), 2u);
}

TEST(Program, GivesEachLineItsCode) {
  TempDir dir;
  write_file(dir / "code.c", kC);
  run("gcc -w -g -O0 -o " + (dir / "program") + " " + (dir / "code.c"));
  Program program = open(dir / "program", kBias);
  auto table = program.line_table(program.modules()[0]);
  ASSERT_GT(table.size(), 20u);
  for (size_t i = 0; i < table.size(); i++) {
    EXPECT_LT(table[i].start, table[i].end);
    EXPECT_LE(table[i > 0 ? i - 1 : 0].start, table[i].start);
    EXPECT_EQ(program.place(table[i].end - 1).line, table[i].line);
  }
  Function oneline = program.functions("oneline").at(0);
  uint64_t covered = 0;
  for (const auto& code : table)
    if (code.line == 24) covered += code.end - code.start;
  EXPECT_EQ(covered, oneline.ranges[0].second - oneline.ranges[0].first);
}

TEST(Program, SuggestsNamesThatAreNear) {
  TempDir dir;
  Program program = open(compile_cpp(dir, "-g -O0"));
  EXPECT_EQ(program.nearest_functions("hiden", 1), (Names{"shop::(anonymous namespace)::hidden"}));
  EXPECT_EQ(program.nearest_functions("shop::clal", 1), (Names{"shop::call"}));
  EXPECT_EQ(program.nearest_functions("nothinglikeit"), Names{});
  EXPECT_EQ(program.nearest_functions(""), Names{});
  EXPECT_EQ(program.nearest_files("cod.cc"), (Names{"code.cc"}));
  EXPECT_EQ(program.nearest_files("/src/coed.cc"), (Names{"code.cc"}));
}

TEST(Program, LeavesOutModulesThatAreNotElf) {
  TempDir dir;
  write_file(dir / "text", "#!/bin/sh\n");
  write_file(dir / "code.c", kC);
  run("gcc -w -g -shared -fPIC -O0 -o " + (dir / "library") + " " + (dir / "code.c"));
  Program program({Module{"a", dir / "text", 0, 0x1000, 0}, Module{"b", dir / "missing", 0x1000, 0x2000, 0},
                   Module{"c", dir / "library", kBias, kBias + 0x100000, kBias}});
  ASSERT_EQ(program.functions("sum").size(), 1u);
  EXPECT_EQ(program.functions("sum")[0].module->name, "c");
  EXPECT_EQ(program.place(0x10).text(), "");
  EXPECT_FALSE(program.function_at(0x1010));
  EXPECT_EQ(program.module_at(0x3000), nullptr);
  EXPECT_THROW(program.modules()[0].elf(), Error);
  EXPECT_THROW(program.modules()[0].elf(), Error);
}

void ask_everything(const std::string& file) {
  Program program = open(file);
  (void)program.functions("shop::call", true);
  (void)program.functions("operator<", true);
  (void)program.nearest_functions("hiden");
  (void)program.lines("code.cc", 25);
  const Module& module = program.modules()[0];
  (void)program.line_table(module);
  for (const Function& f : program.all_functions(module)) {
    (void)program.place(f.entry);
    (void)program.frames_at(f.entry + 3);
  }
}

TEST(Program, IsNeverConfusedIntoACrash) {
  TempDir dir;
  std::string good = test::read_file(compile_cpp(dir, "-g -O1"));
  srand(1);
  for (int round = 0; round < 200; round++) {
    std::string bad = round < 50 ? good.substr(0, static_cast<size_t>(rand()) % good.size()) : good;
    for (int i = 0; i < 30 && !bad.empty(); i++)
      bad[static_cast<size_t>(rand()) % bad.size()] = static_cast<char>(rand());
    write_file(dir / "bad", bad);
    ask_everything(dir / "bad");
  }
}

// Blocks in blocks, more than a stack could hold calls for, and a function that is said to be a copy of
// itself.
TEST(Program, IsNotLostInATreeWithoutEnd) {
  TempDir dir;
  write_file(dir / "code.s", R"(
.text
.globl main
main: ret
.Lend:
.section .debug_info,"",@progbits
.Lunit: .long .Lunit_end - .Lversion
.Lversion: .short 4
.long .Labbrev
.byte 8
.uleb128 1
.quad main
.quad .Lend - main
.Lfunction: .uleb128 2
.quad main
.quad .Lend - main
.long .Lfunction - .Lunit
.rept 300000
.byte 3
.quad main
.byte 1
.endr
.fill 300002
.Lunit_end:
.section .debug_abbrev,"",@progbits
.Labbrev:
.byte 1, 0x11, 1, 0x11, 1, 0x12, 7, 0, 0
.byte 2, 0x2e, 1, 0x11, 1, 0x12, 7, 0x31, 0x13, 0, 0
.byte 3, 0x0b, 1, 0x11, 1, 0x12, 0x0b, 0, 0
.byte 0
.section .note.GNU-stack,"",@progbits
)");
  run("gcc -no-pie -o " + (dir / "program") + " " + (dir / "code.s"));
  ask_everything(dir / "program");
  Program program = open(dir / "program");
  EXPECT_EQ(program.functions("main").size(), 1u);
  EXPECT_EQ(ElfFile(dir / "program").at(program.functions("main")[0].entry).function, "main");
}

TEST(Names, AreTakenApart) {
  auto parts = [](const char* text) {
    SplitName name = split_name(text);
    Names parts(name.parts.begin(), name.parts.end());
    parts.push_back(std::string(name.parameters.value_or("-")));
    return parts;
  };
  EXPECT_EQ(parts("f"), (Names{"f", "-"}));
  EXPECT_EQ(parts("a::b<c::d>::e(f::g) const"), (Names{"a", "b<c::d>", "e", "(f::g) const"}));
  EXPECT_EQ(parts("std::vector<int> make<int>(int)"), (Names{"make<int>", "(int)"}));
  EXPECT_EQ(parts("A::operator()(int)"), (Names{"A", "operator()", "(int)"}));
  EXPECT_EQ(parts("A::operator<(A)"), (Names{"A", "operator<", "(A)"}));
  EXPECT_EQ(parts("bool operator< <int>(A<int>)"), (Names{"operator< <int>", "(A<int>)"}));
  EXPECT_EQ(parts("A::operator unsigned long() const"), (Names{"A", "operator unsigned long", "() const"}));
  EXPECT_EQ(parts("operator new[](unsigned long)"), (Names{"operator new[]", "(unsigned long)"}));
  EXPECT_EQ(parts("(anonymous namespace)::f()"), (Names{"(anonymous namespace)", "f", "()"}));
  EXPECT_EQ(parts("f(int)::L::g(char)"), (Names{"f(int)", "L", "g", "(char)"}));
  EXPECT_EQ(parts("f()::{lambda(int)#1}::operator()(int) const"),
            (Names{"f()", "{lambda(int)#1}", "operator()", "(int) const"}));
  EXPECT_EQ(parts("core::fmt::write::h0123456789abcdef"), (Names{"core", "fmt", "write", "-"}));
  EXPECT_EQ(parts("f(int) [clone .isra.0]"), (Names{"f", "(int)"}));
  EXPECT_EQ(without_arguments("operator<<int>"), "operator<");
  EXPECT_EQ(without_arguments("operator<< <int>"), "operator<<");
  EXPECT_EQ(without_arguments("f[abi:cxx11]"), "f");
  for (const char* odd : {"", "<", ">", "(", ")", "a::", "::", "operator", "f<(", "a b c", "f)>("})
    (void)split_name(odd);
}

TEST(Names, OfVariantsStandForTheFunction) {
  EXPECT_EQ(split_clone("f.isra.0").base, "f");
  EXPECT_FALSE(split_clone("f.constprop.0.isra.1").fragment);
  EXPECT_TRUE(split_clone("f.cold").fragment);
  EXPECT_TRUE(split_clone("f.isra.0.cold").fragment);
  EXPECT_TRUE(split_clone("f.part.0").fragment);
  EXPECT_EQ(split_clone("f@@V_2").base, "f");
  EXPECT_EQ(split_clone(".hidden").base, ".hidden");
}

}  // namespace
}  // namespace backstep::symbols
