// Parts of the building of debug modules that need no program.
#include <gtest/gtest.h>

#include "base/error.h"
#include "probe/assembly.h"
#include "probe/preprocessed.h"
#include "probe/region_variables.h"
#include "probe/source_lines.h"
#include "probe/tokens.h"

namespace {

using namespace backstep;
using namespace backstep::probe;

TEST(Probe, TokensAreNamesNumbersTextsAndSigns) {
  const std::string code = "a->b1 = R\"x(\" c)x\" + 'd' /* e */ * 0x1'f; // g\n#include <h>\n\"i\\\"j\" k";
  std::vector<std::string> texts;
  for (const Token& t : tokens_of(code)) texts.emplace_back(t.text);
  EXPECT_EQ(texts, (std::vector<std::string>{"a", "->", "b1", "=", "R\"x(\" c)x\"", "+", "'d'", "*", "0x1'f",
                                             ";", "#include <h>", "\"i\\\"j\"", "k"}));
  EXPECT_EQ(tokens_of(code).back().line, 3);
}

TEST(Probe, RegionsKnowTheLinesOfTheirFile) {
  const Preprocessed p(
      "# 10 \"x.c\"\nint f() {\n backstep_region_begin\n g();\n backstep_region_end\n ;\n h(); }\n");
  ASSERT_EQ(p.regions().size(), 1u);
  EXPECT_EQ(p.regions()[0].file, "x.c");
  EXPECT_EQ(p.regions()[0].line, 11);
  EXPECT_EQ(p.regions()[0].last, 13);
  EXPECT_EQ(p.regions()[0].next, "h");
  EXPECT_EQ(p.regions()[0].next_line, 15);
}

TEST(Probe, ReturnsOfLambdasDoNotLeaveRegions) {
  const std::string begin = "backstep_region_begin ", end = " backstep_region_end";
  EXPECT_NO_THROW(Preprocessed(begin + "auto f = [&](int x) { if (x) { return 1; } return 2; };" + end));
  EXPECT_THROW(Preprocessed(begin + "if (x) { return; }" + end), Error);
  EXPECT_THROW(Preprocessed(begin + "x();"), Error);
  EXPECT_THROW(Preprocessed("x();" + end), Error);
}

TEST(Probe, LinesMoveWithRegionsAndWithoutThem) {
  const FunctionLines recorded{5, {5, 6, 7, 8, 9}};
  // A function that moved by two lines and got a region of three in front of its line 7.
  const auto removed = LineMove::find({7, {7, 8, 12, 13, 14}}, recorded, {{9, 11}});
  ASSERT_TRUE(removed);
  EXPECT_EQ(removed->recorded(12), 7);
  EXPECT_EQ(removed->recorded(8), 6);
  // The region was there already.
  const auto kept = LineMove::find({5, {5, 6, 10, 11, 12}}, {5, {5, 6, 10, 11, 12}}, {{7, 9}});
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->recorded(10), 10);
  // … and left an empty statement, which has a line in optimised code.
  EXPECT_TRUE(LineMove::find({3, {3, 4, 8, 14}}, {3, {3, 4, 7, 8, 13, 14}}, {{5, 7}, {11, 13}}));
  // Lines of the program's own came in: the next function tells.
  EXPECT_FALSE(LineMove::find({5, {5, 6, 7, 8, 9, 10, 11}}, recorded, {}, {{20, 18}}));
  // An inlined function has no code for its last line.
  EXPECT_TRUE(LineMove::find({5, {5, 6, 7, 8, 9, 10}}, recorded, {}, {{20, 20}}));
}

TEST(Probe, RegionsDeclareVariablesInTheirOutermostBlock) {
  auto outlines = [](const std::string& code, bool c) {
    std::vector<std::string> all;
    for (const DeclaredVariable& v : declared_variables(code, tokens_of(code), c))
      all.push_back(v.name + ": " + v.outline + (v.stays ? " (stays)" : ""));
    return all;
  };
  EXPECT_EQ(
      outlines("static int calls = 3; struct item *i = f(1, 2), one; char text[4] = \"abc\"; f(x); x = 3;",
               true),
      (std::vector<std::string>{"calls: int calls; (stays)", "i: struct item *i;", "one: struct item one;",
                                "text: char text[4];"}));
  EXPECT_EQ(outlines("std::map<int, std::vector<int>> all{}; if (x) { int no; } auto n = all.size(); int &r "
                     "= x; a->b = 1;",
                     false),
            (std::vector<std::string>{"all: std :: map < int , std :: vector < int > >  &all = *(std :: map "
                                      "< int , std :: vector < int > >  *)0;",
                                      "n: auto n = all.size();", "r: int  &r = *(int  *)0; (stays)"}));
  EXPECT_TRUE(
      outlines("for (int i = 0; i < 3; i++) { int n; } return_(x); delete p; f(a, b);", false).empty());
}

TEST(Probe, DefinitionsInAssemblyArePutAside) {
  const Assembly a(
      "\t.text\n\t.globl\tf\n\t.type\tf, @function\nf:\n\tcall\tg\n\tret\n\t.size\tf, .-f\n"
      "\t.type\tx, @object\n\t.size\tx, 4\nx:\n\t.zero\t4\n");
  EXPECT_TRUE(a.defined().at("f").function);
  EXPECT_FALSE(a.defined().at("x").function);
  EXPECT_TRUE(a.mentioned().count("g"));
  const Assembly aside(a.without_definitions({"x"}));
  EXPECT_FALSE(aside.defined().count("x"));
  EXPECT_TRUE(aside.defined().count("f"));
}

}  // namespace
