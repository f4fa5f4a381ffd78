// Expressions are checked on real programs, compiled here in several ways and stopped at a place: what they
// give must be what the source says the variables are there.
#include "symbols/expression.h"

#include <gtest/gtest.h>

#include <random>

#include <fmt/format.h>

#include "tracee.h"

namespace backstep::symbols {
namespace {

using test::TempDir;
using test::Tracee;

class Here {
 public:
  explicit Here(Tracee& tracee) : tracee_(tracee), program_(tracee.program()), compiler_(program_) {}

  std::string value(const std::string& text, const EventVariables& event = {}) {
    try {
      return shown(compiler_.compile(text, tracee_.pc(), event));
    } catch (const ExpressionError& e) {
      return fmt::format("error at {}: {}", e.column, e.sentence);
    }
  }
  std::string condition(const std::string& text, const EventVariables& event = {}) {
    try {
      const auto code = compiler_.compile_condition(text, tracee_.pc(), event);
      const auto around = surroundings();
      const auto v = replayer::evaluate(code.data(), code.size(), around);
      return !v.known ? "unknown" : v.value ? "true" : "false";
    } catch (const ExpressionError& e) {
      return e.sentence;
    }
  }
  nlohmann::json json(const std::string& text) {
    const Compiled compiled = compiler_.compile(text, tracee_.pc());
    const auto captured = replayer::capture(compiled.code, surroundings());
    return to_json(compiled, captured.bytes, captured.readable);
  }
  const Program& program() const { return program_; }
  Compiler& compiler() { return compiler_; }
  replayer::Surroundings surroundings() {
    auto around = tracee_.surroundings();
    around.set(replayer::kStateTick, 1000);
    around.set(replayer::kStateThread, 77);
    around.set(replayer::kStateOld, 5);
    around.set(replayer::kStateNew, 0xffffffff);
    around.set(replayer::kStateAddress, 0x1234);
    return around;
  }
  std::string shown(const Compiled& compiled) {
    const auto captured = replayer::capture(compiled.code, surroundings());
    return format(compiled, captured.bytes, captured.readable);
  }

 private:
  Tracee& tracee_;
  Program program_;
  Compiler compiler_;
};

struct Case {
  const char *expression, *value;
};

constexpr char kC[] = R"(
#include <stdio.h>
#include <string.h>
enum color { RED, GREEN = 5, BLUE = -1 };
enum flags { A = 1, B = 2, C = 4 };
struct point { int x, y; };
struct bits { unsigned a : 3; int b : 5; unsigned long c : 40; enum color d : 8; };
struct node { char* name; struct node* next; struct point at; double weight; union { int i; float f; }; struct bits bits;
              int table[2][3]; void (*call)(int); char buffer[8]; };
int counter = 42;
int optind = 4711;  // the C library has one, too
static int hidden = -7;
unsigned char bytes[4] = {1, 2, 255, 4};
__thread int per_thread = 99;
const char* greeting = "hello \"you\"\n";
struct opaque; struct opaque* secret;
long double longer = 2.5L;
_Bool yes = 1;
__int128 wide = (__int128)1 << 100;
static void callback(int x) { counter += x; }
__attribute__((noinline)) int work(struct node* n, int count, float ratio, unsigned char small) {
  static int calls = 3;
  int local = count * 2;
  unsigned u = 4000000000u;
  long big = -5000000000;
  int numbers[4] = {10, 20, 30, 40};
  struct point p = {3, -4};
  double d = 0.5;
  char c = 'a';
  int* pointer = &numbers[1];
  char* nothing = 0;
  enum color color = GREEN;
  enum flags flags = A | C;
  { int local = 1000; __asm__ volatile("" : : "r"(&local) : "memory"); }
  __asm__ volatile("" : : "r"(&local), "r"(&numbers), "r"(&p), "r"(&d), "r"(&c), "r"(&pointer), "r"(n) : "memory");
  __asm__ volatile("" : : "r"(&u), "r"(&big), "r"(&nothing), "r"(&color), "r"(&flags), "r"(&calls), "r"(&ratio), "r"(&small) : "memory");
  __asm__ volatile("int3" : : : "memory");
  __asm__ volatile("" : : "r"(&local), "r"(&numbers), "r"(&p), "r"(&d), "r"(&c), "r"(&pointer), "r"(n), "r"(count) : "memory");
  return local + calls + hidden;
}
int main(void) {
  struct node second = {.name = "second", .at = {7, 8}};
  struct node first = {"first", &second, {1, 2}, 1.25, {.i = 1}, {5, -3, 1234567, GREEN}, {{1, 2, 3}, {4, 5, 6}}, callback, "abc"};
  return work(&first, 21, 1.5f, 200) == 0;
}
)";

constexpr Case kCases[] = {
    {"count", "21"},
    {"local", "42"},
    {"local + 1", "43"},
    {"u", "4000000000"},
    {"u + u", "3705032704"},
    {"big", "-5000000000"},
    {"big / 7", "-714285714"},
    {"-big", "5000000000"},
    {"big < 0 && u > 0", "1"},
    {"local < u", "1"},
    {"-1 < u", "0"},
    {"-1L < u", "1"},
    {"ratio", "1.5"},
    {"ratio * 2", "3"},
    {"d", "0.5"},
    {"d + ratio == 2.0", "1"},
    {"(int)(ratio * 10)", "15"},
    {"d > ratio", "0"},
    {"-d", "-0.5"},
    {"1 / 2.0", "0.5"},
    {"small", "200"},
    {"small + 100", "300"},
    {"(signed char)small", "-56"},
    {"c", "'a' (97)"},
    {"c + 1", "98"},
    {"c == 'a'", "1"},
    {"numbers", "{10, 20, 30, 40}"},
    {"numbers[2]", "30"},
    {"*numbers", "10"},
    {"pointer[1]", "30"},
    {"*(pointer - 1)", "10"},
    {"*pointer", "20"},
    {"pointer - numbers", "1"},
    {"&numbers[3] - pointer", "2"},
    {"pointer == &numbers[1]", "1"},
    {"pointer == 0", "0"},
    {"p", "{x = 3, y = -4}"},
    {"p.y", "-4"},
    {"(&p)->x", "3"},
    {"*&p.y", "-4"},
    {"color", "GREEN"},
    {"color == GREEN", "1"},
    {"(enum color)0", "RED"},
    {"(enum color)-1", "BLUE"},
    {"color + 1", "6"},
    {"flags", "(A | C)"},
    {"n->name", "\"first\""},
    {"n->next->name", "\"second\""},
    {"n->next->at", "{x = 7, y = 8}"},
    {"n->next->next", "0x0"},
    {"*n->name", "'f' (102)"},
    {"n->name[1]", "'i' (105)"},
    {"n->weight * 4", "5"},
    {"n->i", "1"},
    {"n->bits.a", "5"},
    {"n->bits.b", "-3"},
    {"n->bits.c", "1234567"},
    {"n->bits.d", "GREEN"},
    {"n->bits", "{a = 5, b = -3, c = 1234567, d = GREEN}"},
    {"n->table[1][2]", "6"},
    {"n->table", "{{1, 2, 3}, {4, 5, 6}}"},
    {"n->table[1]", "{4, 5, 6}"},
    {"n->buffer", "\"abc\""},
    {"n->call == &callback", "1"},
    {"n->call == callback", "1"},
    {"n->name == \"first\"", "1"},
    {"n->name == \"fir\"", "0"},
    {"n->name == \"firsts\"", "0"},
    {"\"first\" == n->name", "1"},
    {"n->name != \"second\"", "1"},
    {"n->buffer == \"abc\"", "1"},
    {"n->name ~ \"rst\"", "1"},
    {"n->name ~ \"rsx\"", "0"},
    {"greeting", "\"hello \\\"you\\\"\\n\""},
    {"counter", "42"},
    {"optind", "4711"},
    {"hidden", "-7"},
    {"::counter", "42"},
    {"\"a.c\"::hidden", "-7"},
    {"calls", "3"},
    {"bytes", "{1, 2, 255, 4}"},
    {"bytes[2]", "255"},
    {"per_thread", "99"},
    {"longer", "2.5"},
    {"longer * 2", "5"},
    {"yes", "true"},
    {"wide", "1267650600228229401496703205376"},
    {"(long)wide", "0"},
    {"nothing", "<cannot read 0x0>"},
    {"(long)nothing", "0"},
    {"nothing == 0", "1"},
    {"!nothing", "1"},
    {"*nothing", "<cannot read 0x0>"},
    {"local / (local - 42)", "<no value>"},
    {"local % 5", "2"},
    {"local << 2 | 1", "169"},
    {"local ^ 0xff", "213"},
    {"~local", "-43"},
    {"~u", "294967295"},
    {"local >> 1", "21"},
    {"big >> 1", "-2500000000"},
    {"local > 40 ? 1 : 2", "1"},
    {"local > 50 ? 1 : local > 41 ? 2 : 3", "2"},
    {"count && nothing", "0"},
    {"nothing && *nothing", "0"},
    {"count || *nothing", "1"},
    {"sizeof(struct node)", "88"},
    {"sizeof *n", "88"},
    {"sizeof(int)", "4"},
    {"sizeof numbers", "16"},
    {"sizeof numbers / sizeof numbers[0]", "4"},
    {"(unsigned char)local", "42"},
    {"(short)70000", "4464"},
    {"*(unsigned short *)&u", "10240"},
    {"*(struct point *)&p", "{x = 3, y = -4}"},
    {"((struct node *)n)->at.y", "2"},
    {"(long)&p == (long)&p.x", "1"},
    {"0x10 + 010 + 0b11", "27"},
    {"1.5e3", "1500"},
    {"2147483647 + 1", "-2147483648"},
    {"2147483648 + 1", "2147483649"},
    {"0xffffffff + 1", "0"},
    {"'\\n'", "'\\n' (10)"},
    {"1 ? 2 : 3", "2"},
    {"$tick", "1000"},
    {"$thread == 77", "1"},
    {"*(int *)((char *)numbers + 4)", "20"},
    {"2[numbers]", "30"},
};

TEST(Expression, GivesWhatTheProgramHasWithAndWithoutOptimisation) {
  for (const char* compiler :
       {"gcc -O0", "gcc -O2", "gcc -O1 -gdwarf-4 -no-pie", "gcc -O0 -gdwarf-2", "clang -O0", "clang -O2",
        "gcc -O2 -static", "gcc -O2 -fomit-frame-pointer -fPIE -pie"}) {
    if (system(("echo 'int main(){}' | " + std::string(compiler) + " -x c - -o /dev/null 2>/dev/null")
                   .c_str()) != 0)
      continue;
    SCOPED_TRACE(compiler);
    TempDir dir;
    Tracee tracee(dir, compiler, "a.c", kC);
    tracee.run();
    Here here(tracee);
    int gone = 0;
    for (const Case& c : kCases) {
      const std::string value = here.value(c.expression);
      if (value == "<optimized out>")
        gone++;
      else
        EXPECT_EQ(value, c.value) << c.expression;
    }
    if (strstr(compiler, "-O0")) {
      EXPECT_EQ(gone, 0);
    }
    EXPECT_LT(gone, 20);
  }
}

TEST(Expression, SaysWhatIsWrongAndWhere) {
  TempDir dir;
  Tracee tracee(dir, "gcc -O0", "a.c", kC);
  tracee.run();
  Here here(tracee);
  const Case cases[] = {
      {"cuont + 1", "error at 0: there is no variable 'cuont' here; did you mean 'count'?"},
      {"1 + n->nam", "error at 7: 'node' has no member 'nam'; did you mean 'name'?"},
      {"n.name", "error at 2: 'n' is a pointer: write '->'"},
      {"p->x", "error at 3: 'p' is not a pointer: write '.'"},
      {"local = 3", "error at 6: '=' would assign, and expressions change nothing; '==' compares"},
      {"local += 3", "error at 6: '+=' would assign, and expressions change nothing"},
      {"local++", "error at 5: '++' would assign, and expressions change nothing"},
      {"work(1)", "error at 4: functions cannot be called: this run is over"},
      {"(local", "error at 0: the ')' that closes this is missing"},
      {"numbers[1", "error at 7: the ']' that closes this is missing"},
      {"local +", "error at 7: a value is expected here, but the expression ends"},
      {"", "error at 0: an expression is expected"},
      {"local local", "error at 6: an operator is expected before this"},
      {"* local", "error at 0: 'local' is of the type 'int', not a pointer"},
      {"&1", "error at 1: only what is in memory has an address"},
      {"&n->bits.a", "error at 9: 'n->bits.a' is a bit-field and has no address"},
      {"p + 1", "error at 0: 'p' is a struct: name one of its members"},
      {"secret->x", "error at 8: what is in 'opaque' is not known: it is only declared"},
      {"(struct nod *)n", "error at 8: there is no type 'nod'"},
      {"d % 2", "error at 2: '%' needs integers"},
      {"'ab'", "error at 0: a character has the form 'a'; texts have double quotes"},
      {"\"abc", "error at 0: the closing \" is missing"},
      {"089", "error at 0: a number that begins with 0 is octal, and has no 8 or 9"},
      {"123abc", "error at 3: 'abc' cannot follow a number"},
      {"99999999999999999999", "error at 0: this number does not fit into 64 bits"},
      {"$rxa", "error at 0: there is no $rxa; did you mean $rax?"},
      {"$retval", "error at 0: $retval is known only where a function returns"},
      {"$arg0",
       "error at 0: $arg0 is known only where a function is entered, at a system call, and behind one that "
       "is named"},
      {"$old", "error at 0: this event has no $old"},
      {"count == \"x\"", "error at 0: 'count' is of the type 'int', which is no text: cast it to (char *)"},
      {"int(local)", "error at 3: write (int)x to convert x"},
      {"struct node", "error at 0: a type can stand in a cast, '(type)x', or in 'sizeof(type)'"},
      {"local # 2", "error at 6: '#' has no meaning here"},
  };
  for (const Case& c : cases) EXPECT_EQ(here.value(c.expression), c.value) << c.expression;
  try {
    here.compiler().compile("1 + cuont", tracee.pc());
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "there is no variable 'cuont' here; did you mean 'count'?\n  1 + cuont\n      ^");
  }
}

TEST(Expression, ConditionsAreTrueFalseOrUnknown) {
  TempDir dir;
  Tracee tracee(dir, "gcc -O0", "a.c", kC);
  tracee.run();
  Here here(tracee);
  EXPECT_EQ(here.condition("local > 40"), "true");
  EXPECT_EQ(here.condition("local > 50"), "false");
  EXPECT_EQ(here.condition("ratio"), "true");
  EXPECT_EQ(here.condition("d - 0.5"), "false");
  EXPECT_EQ(here.condition("n->next->next->name"), "unknown");
  EXPECT_EQ(here.condition("1 / (local - 42)"), "unknown");
  EXPECT_EQ(here.condition("n"), "true");
  EXPECT_EQ(here.condition("nothing"), "false");
  EXPECT_EQ(here.condition("*n"), "'*n' is a struct: name one of its members");
}

TEST(Expression, WritesJson) {
  TempDir dir;
  Tracee tracee(dir, "gcc -O0", "a.c", kC);
  tracee.run();
  Here here(tracee);
  EXPECT_EQ(here.json("p").dump(), R"({"x":3,"y":-4})");
  EXPECT_EQ(here.json("n->name").dump(), R"("first")");
  EXPECT_EQ(here.json("numbers").dump(), "[10,20,30,40]");
  EXPECT_EQ(here.json("color").dump(), R"("GREEN")");
  EXPECT_EQ(here.json("yes").dump(), "true");
  EXPECT_EQ(here.json("ratio").dump(), "1.5");
  EXPECT_EQ(here.json("u").dump(), "4000000000");
  EXPECT_EQ(here.json("nothing").dump(), R"({"unavailable":"cannot read 0x0"})");
  EXPECT_EQ(here.json("(void *)16").dump(), R"("0x10")");
}

constexpr char kCpp[] = R"(
#include <string>
namespace shop {
int stock = 12;
enum class Size : unsigned char { Small = 1, Large = 9 };
struct Base { int id = 5; virtual ~Base() {} };
struct Other { short tag = 6; };
struct Item : Base, Other {
  static int made;
  int price;
  std::string name = "a name that is long enough for the heap";
  std::string brief = "sso";
  Size size = Size::Large;
  explicit Item(int p) : price(p) {}
  __attribute__((noinline)) int total(const int& factor, int&& moved) {
    int sum = price * factor + moved;
    __asm__ volatile("int3" : : "r"(&sum) : "memory");
    __asm__ volatile("" : : "r"(&sum), "r"(this), "r"(&factor), "r"(&moved) : "memory");
    return sum;
  }
};
int Item::made = 77;
template <class T> struct Box { T value; static int boxes; };
template <class T> int Box<T>::boxes = 31;
struct V { int v = 1; };
struct D : virtual V { int d = 2; };
}
namespace { int anonymous = 13; }
shop::Box<int> box{4};
shop::D derived;
int shadowed = 1;
int main() {
  shop::Item item(10);
  item.id += shop::Box<int>::boxes - 31 + anonymous - 13;
  __asm__ volatile("" : : "r"(&anonymous), "r"(&shop::stock) : "memory");
  return item.total(3, 4) == 0;
}
)";

TEST(Expression, KnowsClassesReferencesAndNamespaces) {
  const Case cases[] = {
      {"price", "10"},
      {"this->price", "10"},
      {"factor", "3"},
      {"moved + 1", "5"},
      {"&factor == 0", "0"},
      {"sum", "34"},
      {"id", "5"},
      {"tag", "6"},
      {"this->tag", "6"},
      {"name", "\"a name that is long enough for the heap\""},
      {"this->brief", "\"sso\""},
      {"brief == \"sso\"", "1"},
      {"name ~ \"heap\"", "1"},
      {"size", "Large"},
      {"size == Size::Large", "1"},
      {"(int)size", "9"},
      {"made", "77"},
      {"Item::made", "77"},
      {"shop::Item::made", "77"},
      {"this->made", "77"},
      {"stock", "12"},
      {"shop::stock", "12"},
      {"::shop::stock", "12"},
      {"anonymous", "13"},
      {"box", "{value = 4}"},
      {"box.value", "4"},
      {"Box<int>::boxes", "31"},
      {"((shop::Item *)this)->price", "10"},
      {"((Box<int> *)&box)->value", "4"},
      {"sizeof(Item)", "96"},
      {"derived.d", "2"},
      {"derived.v", "1"},
      {"derived.V::v", "1"},
      {"((V *)&derived)->v", "1"},
      {"true", "true"},
      {"price > 5 == true", "1"},
      {"this == nullptr", "0"},
      {"prise", "error at 0: there is no variable 'prise' here; did you mean 'price'?"},
  };
  for (const char* compiler : {"g++ -O0", "g++ -O2", "clang++ -O0 -fstandalone-debug"}) {
    if (system(
            ("echo '#include <string>' | " + std::string(compiler) + " -x c++ -c - -o /dev/null 2>/dev/null")
                .c_str()) != 0)
      continue;
    SCOPED_TRACE(compiler);
    TempDir dir;
    Tracee tracee(dir, compiler, "a.cc", kCpp);
    tracee.run();
    Here here(tracee);
    for (const Case& c : cases) {
      const std::string value = here.value(c.expression);
      if (!strstr(compiler, "-O2") || value != "<optimized out>") {
        EXPECT_EQ(value, c.value) << c.expression;
      }
    }
  }
}

// Expressions at random, of which the compiler says what they are: whole ones in `whole`, others in
// `floating`.
class RandomExpressions {
 public:
  RandomExpressions(unsigned seed, bool cpp) : random_(seed), cpp_(cpp) {}

  std::string program(unsigned count) {
    std::string out = R"(
#include <stdlib.h>
enum color { RED, GREEN = 5, BLUE = 7 };
enum below { DOWN = -3, UP = 4 };
struct bits { int a : 3; unsigned b : 5; signed char c : 7; };
signed char sc = -100; unsigned char uc = 200; char ch = 'x'; short ss = -30000; unsigned short us = 60000;
int i = -7, big = 2147483647; unsigned u = 4000000000u; long l = -5000000000; unsigned long ul = 18446744073709551000ul;
_Bool yes = 1, no = 0; enum color color = BLUE; enum below below = DOWN; struct bits bits = {-3, 29, -50};
float f = 1.1f, g = -300.5f; double d = 0.1, e = 1e10;
int numbers[8] = {1, -2, 3, -4, 5, -6, 7, -8}; int* null; int* p = numbers + 2; struct pair { char c; long l; } pairs[8];
)";
    if (cpp_) out.replace(out.find("_Bool"), 5, "bool");
    out += fmt::format("long whole[{0}]; double floating[{0}];\nint main(int argc, char** argv) {{\n", count);
    for (unsigned n = 0; n < count; n++) {
      const bool is_floating = chance(25);
      texts.push_back(is_floating ? real(4) : integer(4));
      out += fmt::format("  {}[{}] = {};\n", is_floating ? "floating" : "whole", n, texts.back());
      is_real.push_back(is_floating);
    }
    return out + "  __asm__ volatile(\"int3\" : : : \"memory\");\n  return 0;\n}\n";
  }

  std::vector<std::string> texts;
  std::vector<bool> is_real;

 private:
  bool chance(unsigned percent) { return random_() % 100 < percent; }
  template <size_t N>
  std::string one(const char* const (&of)[N]) {
    return of[random_() % N];
  }

  std::string integer(unsigned depth) {
    if (depth == 0 || chance(15))
      return one({"sc",         "uc",
                  "ch",         "ss",
                  "us",         "i",
                  "big",        "u",
                  "l",          "ul",
                  "yes",        "no",
                  "color",      "below",
                  "bits.a",     cpp_ ? "+bits.b" : "bits.b",  // g++ forgets in `?:` how small it is
                  "bits.c",     "GREEN",
                  "DOWN",       "'a'",
                  "0",          "1",
                  "-1",         "7",
                  "0x7fffffff", "0x80000000",
                  "2147483648", "3u",
                  "5L",         "0xffffffffffffffff",
                  "6ul",        "sizeof(long)",
                  "sizeof i",   "010",
                  "numbers[3]", "*p",
                  "p[-1]"});
    const auto less = depth - 1;
    switch (random_() % 16) {
      case 0:
      case 1:
        return "(" + integer(less) + one({" + ", " - ", " * "}) + integer(less) + ")";
      case 2:
        return "(" + integer(less) + one({" / ", " % "}) + "((" + integer(less) + " & 7) + 1))";
      case 3:
      case 4:
        return "(" + integer(less) + one({" & ", " | ", " ^ "}) + integer(less) + ")";
      case 5:
        return "(" + integer(less) + one({" << ", " >> "}) + "(" + integer(less) + " & 15))";
      case 6:
      case 7:
        return "(" + integer(less) + one({" < ", " > ", " <= ", " >= ", " == ", " != "}) + integer(less) +
               ")";
      case 8:
        return "(" + real(less) + one({" < ", " > ", " <= ", " >= ", " == ", " != "}) + either(less) + ")";
      case 9:
        return "(" + either(less) + one({" && ", " || "}) + either(less) + ")";
      case 10:
        return "(" + either(less) + " ? " + integer(less) + " : " + integer(less) + ")";
      case 11:
        return one({"-", "~", "+"}) + ("(" + integer(less) + ")");
      case 12:
        return "!(" + either(less) + ")";
      case 13:
        return "((" +
               one({"signed char", "unsigned char", "short", "unsigned short", "int", "unsigned", "long",
                    "unsigned long", cpp_ ? "bool" : "_Bool"}) +
               ")" + integer(less) + ")";
      case 14:
        return chance(50) ? "numbers[" + integer(less) + " & 7]" : "*(p - 2 + (" + integer(less) + " & 7))";
      default:
        return one({"(p > numbers)", "(p == null)", "(&pairs[3] - pairs)",
                    "((char *)(pairs + 2) - (char *)pairs)", "(!null)", "(long)&((struct pair *)0)->l",
                    "sizeof pairs", "(p ? 3 : 4u)"});
    }
  }

  std::string real(unsigned depth) {
    if (depth == 0 || chance(20)) return one({"f", "g", "d", "e", "1.5", "0.25f", "-2e3", "1e-3f"});
    const auto less = depth - 1;
    switch (random_() % 5) {
      case 0:
      case 1:
        return "(" + real(less) + one({" + ", " - ", " * ", " / "}) + either(less) + ")";
      case 2:
        return "(" + either(less) + " ? " + real(less) + " : " + either(less) + ")";
      case 3:
        return "((" + one({"float", "double"}) + ")" + either(less) + ")";
      default:
        return "-(" + real(less) + ")";
    }
  }
  std::string either(unsigned depth) { return chance(50) ? integer(depth) : real(depth); }

  std::mt19937 random_;
  bool cpp_;
};

TEST(Expression, CalculatesAsTheCompilerDoes) {
  constexpr unsigned kCount = 400;
  const char* const other = std::getenv("SEED");  // other expressions
  unsigned seed = other ? static_cast<unsigned>(std::atoi(other)) : 0;
  for (const char* compiler : {"gcc -O0", "g++ -O0"}) {
    seed++;
    SCOPED_TRACE(fmt::format("{} with seed {}", compiler, seed));
    const bool cpp = strstr(compiler, "g++") != nullptr;
    RandomExpressions random(seed, cpp);
    const std::string program = random.program(kCount);
    TempDir dir;
    Tracee tracee(dir, std::string(compiler) + " -fwrapv", cpp ? "a.cc" : "a.c", program);
    tracee.run();
    Here here(tracee);
    for (unsigned n = 0; n < kCount; n++) {
      const char *as = random.is_real[n] ? "double" : "long", *in = random.is_real[n] ? "floating" : "whole";
      EXPECT_EQ(here.value(fmt::format("({})({})", as, random.texts[n])),
                here.value(fmt::format("{}[{}]", in, n)))
          << random.texts[n];
    }
  }
}

// Classes K0… that are derived from each other at random, and what the compiler makes of all casts between
// them and of all names of members: "casts[3][1]" is (K1 *)p3, "back[3][1]" that pointer cast to K3 again.
std::string random_classes(unsigned seed, unsigned classes) {
  std::mt19937 random(seed);
  auto chance = [&](unsigned percent) { return random() % 100 < percent; };
  std::string out = R"(
#include <type_traits>
struct Expected { long value; bool valid; };
template <class B, class D> constexpr Expected up(D* d) {
  if constexpr (std::is_convertible_v<D*, B*>) return {(long)static_cast<B*>(d), true};
  return {};
}
template <class B, class D> constexpr Expected down(D* d) {
  if constexpr (std::is_convertible_v<D*, B*>)
    if constexpr (requires(B* b) { static_cast<D*>(b); }) return {(long)static_cast<D*>(static_cast<B*>(d)), true};
  return {};
}
#define MEMBER(x) [](auto* p) -> Expected { if constexpr (requires { p->x; }) return {(long)p->x, true}; return {}; }
)";
  for (unsigned k = 0; k < classes; k++) {
    std::string bases;
    for (unsigned b = 0; b < k; b++)
      if (chance(k < 3 ? 60 : 40))
        bases += fmt::format("{}{}K{}", bases.empty() ? " : " : ", ", chance(35) ? "virtual " : "", b);
    out += fmt::format("struct K{}{} {{ long m{} = {};", k, bases, k, 100 + k);
    if (chance(50)) out += fmt::format(" int x = {};", 200 + k);
    if (chance(30)) out += fmt::format(" static inline long s = {};", 300 + k);
    if (chance(20)) out += fmt::format(" union {{ int u = {}; float f; }};", 400 + k);
    if (chance(25)) out += " virtual ~K" + std::to_string(k) + "() {}";
    out += " };\n";
  }
  std::string casts, back, fill;
  for (unsigned d = 0; d < classes; d++) {
    out += fmt::format("K{0} k{0}; K{0}* p{0} = &k{0};\n", d);
    for (unsigned b = 0; b < classes; b++)
      fill += fmt::format("  casts[{0}][{1}] = up<K{1}>(p{0}); back[{0}][{1}] = down<K{1}>(p{0});\n", d, b);
    for (const char* name : {"x", "s", "u", "m0", "m1", "K0::x", "K1::m1", "K2::x"})
      fill += fmt::format("  *members++ = MEMBER({1})(p{0});\n", d, name);
  }
  return out +
         fmt::format("Expected casts[{0}][{0}], back[{0}][{0}], all[1000], *members = all;\n", classes) +
         "int main() {\n" + fill + "  __asm__ volatile(\"int3\" : : : \"memory\");\n}\n";
}

TEST(Expression, ConvertsPointersAndFindsMembersAsTheCompilerDoes) {
  constexpr unsigned kClasses = 7;
  const char* const other = std::getenv("SEED");  // other classes
  unsigned seed = other ? static_cast<unsigned>(std::atoi(other)) : 0, checked = 0, refused = 0;
  for (const char* compiler : {"g++ -O0", "g++ -gdwarf-4 -O0", "clang++ -O0 -fstandalone-debug"}) {
    const std::string is_there = std::string(compiler) + " --version >/dev/null 2>&1";
    if (system(is_there.c_str()) != 0) continue;
    seed++;
    SCOPED_TRACE(fmt::format("{} with seed {}", compiler, seed));
    TempDir dir;
    Tracee tracee(dir, std::string(compiler) + " -std=c++20", "a.cc", random_classes(seed, kClasses));
    tracee.run();
    Here here(tracee);
    const bool clang = strstr(compiler, "clang") != nullptr;
    auto check = [&](const std::string& text, const std::string& expected, bool may_refuse = true) {
      const std::string value = here.value("(long)(" + text + ")");
      if (here.value(expected + ".valid") == "true") {
        EXPECT_EQ(value, here.value(expected + ".value")) << text;
        checked++;
      } else if (may_refuse) {
        EXPECT_TRUE(value.starts_with("error")) << text << " is " << value;
        refused++;
      }
    };
    unsigned member = 0;
    for (unsigned d = 0; d < kClasses; d++) {
      for (unsigned b = 0; b < kClasses; b++) {
        const std::string up = fmt::format("casts[{}][{}]", d, b);
        const bool is_base = here.value(up + ".valid") == "true";
        if (is_base) {
          check(fmt::format("(K{} *)p{}", b, d), up);
          check(fmt::format("(K{0} *)(K{1} *)p{0}", d, b), fmt::format("back[{}][{}]", d, b));
          EXPECT_EQ(here.value(fmt::format("(K{} *)(K{} *)0 == 0", b, d)), "1");
          EXPECT_EQ(here.value(fmt::format("(K{0} *)p{1} == p{1}", b, d)), "1");
          EXPECT_EQ(here.value(fmt::format("p{1} != (K{0} *)p{1}", b, d)), "0");
          EXPECT_EQ(here.value(fmt::format("(K{0} *)(0 ? p{1} : (K{0} *)p{1}) == p{1}", b, d)), "1");
        }
      }
      for (const char* name : {"x", "s", "u", "m0", "m1", "K0::x", "K1::m1", "K2::x"}) {
        // gcc takes some names to be ambiguous that are not; clang takes names of classes that are no base
        // class.
        const bool qualified = strstr(name, "::") != nullptr;
        const std::string expected = fmt::format("all[{}]", member++);
        if (clang && qualified) continue;
        check(fmt::format("p{}->{}", d, name), expected, clang || qualified);
        check(fmt::format("k{}.{}", d, name), expected, clang || qualified);
      }
    }
  }
  EXPECT_GT(checked, 100u);
  EXPECT_GT(refused, 10u);
}

constexpr char kCalls[] = R"(
struct small { int a; double b; };
struct big { long l[4]; };
struct pair { long first, second; };
__attribute__((noinline, noclone)) struct pair mix(int a, double d, struct small s, char* t, struct big b, float g, char c, short h, long on_stack) {
  struct pair p = {a + h + on_stack, (long)d};
  __asm__ volatile("" : : "r"(&a), "r"(&t), "r"(&c), "r"(&s), "r"(&b), "r"(&g) : "memory");
  return p;
}
__attribute__((noinline, noclone)) double half(int x) { __asm__ volatile("" : : : "memory"); return x / 2.0; }
__attribute__((noinline, noclone)) struct big large(int x) { struct big b = {{x, 2, 3, 4}}; __asm__ volatile("" : : : "memory"); return b; }
__attribute__((noinline, noclone)) void none(int x) { __asm__ volatile("" : : "r"(x) : "memory"); }
int main(int argc, char** argv) {
  struct small s = {7, 2.5};
  struct big b = {{11, 12, 13, 14}};
  struct pair p = mix(-3, 1.25, s, "text", b, 0.5f, 'q', -9, 1234567890123);
  double d = half(9);
  struct big l = large(5);
  none(3);
  return p.first == 0 && d == 0 && l.l[0] == 0;
}
)";

TEST(Expression, KnowsArgumentsAtTheEntryAndResultsAtTheReturn) {
  const Case arguments[] = {{"a", "-3"},
                            {"$arg0", "-3"},
                            {"d", "1.25"},
                            {"$arg1 * 2", "2.5"},
                            {"s", "{a = 7, b = 2.5}"},
                            {"s.b", "2.5"},
                            {"$arg2.a", "7"},
                            {"t", "\"text\""},
                            {"$arg3 == \"text\"", "1"},
                            {"b.l[2]", "13"},
                            {"$arg4", "{l = {11, 12, 13, 14}}"},
                            {"g", "0.5"},
                            {"c", "'q' (113)"},
                            {"h", "-9"},
                            {"on_stack", "1234567890123"},
                            {"$arg8", "1234567890123"},
                            {"$arg9", "error at 0: mix has 9 arguments, counted from $arg0"}};
  for (const char* compiler : {"gcc -O0", "gcc -O2", "clang -O1"}) {
    if (system(("echo 'int main(){}' | " + std::string(compiler) + " -x c - -o /dev/null 2>/dev/null")
                   .c_str()) != 0)
      continue;
    SCOPED_TRACE(compiler);
    TempDir dir;
    Tracee tracee(dir, compiler, "a.c", kCalls);
    const EventVariables entered{.args = true};
    EventVariables returned{.retval = true};
    auto enter = [&](const char* name) {
      const auto functions = Here(tracee).program().functions(name);
      ASSERT_EQ(functions.size(), 1u) << name;
      returned.function = functions[0].entry;
      tracee.run_to(functions[0].entry);
    };
    auto leave = [&] {
      uint64_t back = 0;
      const auto around = tracee.surroundings();
      ASSERT_TRUE(around.read(tracee.context().gpr[RSP], &back, 8, around.argument));
      tracee.run_to(back);
    };
    enter("mix");
    {
      Here here(tracee);
      for (const Case& c : arguments) {
        const std::string value = here.value(c.expression, entered);
        if (value != "<optimized out>" || strstr(compiler, "-O0")) {
          EXPECT_EQ(value, c.value) << c.expression;
        }
      }
    }
    leave();
    EXPECT_EQ(Here(tracee).value("$retval", returned), "{first = 1234567890111, second = 1}");
    EXPECT_EQ(Here(tracee).value("$retval.second == 1", returned), "1");
    enter("half");
    leave();
    EXPECT_EQ(Here(tracee).value("$retval", returned), "4.5");
    enter("large");
    EXPECT_EQ(Here(tracee).value("$arg0", entered), "5");
    leave();
    EXPECT_EQ(Here(tracee).value("$retval.l[0] + $retval.l[3]", returned), "9");
    enter("none");
    leave();
    EXPECT_EQ(Here(tracee).value("$retval", returned), "error at 0: none returns nothing");
  }
}

TEST(Expression, NeverShowsAWrongValueWhileAFunctionSetsUpItsFrame) {
  for (const char* compiler : {"gcc -O0", "gcc -O2", "clang -O0"}) {
    if (system(("echo 'int main(){}' | " + std::string(compiler) + " -x c - -o /dev/null 2>/dev/null")
                   .c_str()) != 0)
      continue;
    SCOPED_TRACE(compiler);
    TempDir dir;
    Tracee tracee(dir, compiler, "a.c", kCalls);
    const auto function = Here(tracee).program().functions("mix").at(0);
    tracee.run_to(function.entry);
    Here here(tracee);
    while (tracee.pc() >= function.ranges[0].first && tracee.pc() < function.ranges[0].second) {
      for (const auto& [name, right] :
           {std::pair("a", "-3"), std::pair("t", "\"text\""), std::pair("s.b", "2.5")}) {
        const std::string value = here.value(name);
        EXPECT_TRUE(value == right || value == "<optimized out>")
            << name << " " << value << std::hex << tracee.pc() - function.entry;
      }
      tracee.step();
    }
  }
}

TEST(Expression, UsesWhatTheEventHas) {
  TempDir dir;
  Tracee tracee(dir, "gcc -O0", "a.c", kC);
  tracee.run();
  Here here(tracee);
  EventVariables event{.addr = true, .old_value = true, .new_value = true};
  EXPECT_EQ(here.value("$new", event), "4294967295");
  event.value_type = here.compiler().compile("local", tracee.pc()).type;
  EXPECT_EQ(here.value("$new", event), "-1");
  EXPECT_EQ(here.value("$old > $new", event), "1");
  EXPECT_EQ(here.value("$addr", event), "0x1234");
  event.named = {{"ret", EventVariables::Named::Kind::Signed, replayer::kStateOld},
                 {"path", EventVariables::Named::Kind::Text, replayer::kStateAddress}};
  EXPECT_EQ(here.value("ret < 0", event), "0");
  EXPECT_EQ(here.value("path", event), "<cannot read 0x1234>");
  EXPECT_EQ(here.condition("path ~ \"conf\"", event), "unknown");
  EXPECT_EQ(here.value("$rip == $pc"), "1");
  EXPECT_EQ(here.value("$eax == (int)$rax"), "1");
}

// Whatever somebody types: an error or code, in bounded time, and the code ends.
TEST(Expression, WithstandsAnyText) {
  TempDir dir;
  Tracee tracee(dir, "gcc -O2", "a.c", kC);
  tracee.run();
  Here here(tracee);
  std::mt19937 random(7);
  const std::vector<std::string> words = {
      "n",    "local", "p",   "d",     "numbers", "->",     ".",     "[",  "]",    "(", ")",    "*",
      "&",    "+",     "-",   "/",     "%",       "<<",     ">>",    "==", "!=",   "<", ">",    "&&",
      "||",   "?",     ":",   "!",     "~",       "sizeof", "(int)", "x",  "bits", "a", "next", "1",
      "0x7f", "2.5",   "'c'", "\"t\"", "struct",  "node",   "$rax",  "::", "="};
  int compiled = 0;
  for (int i = 0; i < 4000; i++) {
    std::string text;
    const unsigned length = random() % 12 + 1;
    for (unsigned j = 0; j < length; j++)
      text += i % 4 ? words[random() % words.size()] + " " : std::string(1, static_cast<char>(random()));
    try {
      here.shown(here.compiler().compile(text, tracee.pc()));
      compiled++;
    } catch (const ExpressionError& e) {
      EXPECT_LE(e.column, text.size()) << text;
    }
  }
  EXPECT_GT(compiled, 20);
  for (const std::string& deep :
       {std::string(4000, '('), std::string(4000, '!'), std::string(4000, '-') + "1", std::string(5000, '1'),
        "1" + std::string(4000, '?')})
    EXPECT_THROW(here.compiler().compile(deep, tracee.pc()), ExpressionError);
  std::string sum = "1";
  for (int i = 0; i < 1000; i++) sum += "+n";
  EXPECT_THROW(here.compiler().compile(sum, tracee.pc()), ExpressionError);  // pointers cannot be added
  sum = "1";
  for (int i = 0; i < 1500; i++) sum += "+1";
  EXPECT_EQ(here.value(sum), "1501");
}

TEST(Expression, WithstandsAnyBytecode) {
  std::mt19937 random(11);
  auto context = std::make_unique<Context>();
  auto none = [](uint64_t address, uint64_t* to, unsigned, const void*) {
    *to = address;
    return address % 3 != 0;
  };
  replayer::Surroundings around{.ctx = *context, .read = none};
  around.vectors = true;
  around.floats = replayer::float_operation;
  around.set(replayer::kStateTick, 9);
  for (int i = 0; i < 20000; i++) {
    std::vector<uint8_t> code;
    for (unsigned n = random() % 40; n > 0; n--)
      code.push_back(static_cast<uint8_t>(random() % 3 ? random() % 0x34 : 0x80 + random() % 0x24));
    uint64_t words[4];
    replayer::evaluate(code.data(), code.size(), around, words, 4);
  }
  auto run = [&](const std::vector<uint8_t>& code) {
    return replayer::evaluate(code.data(), code.size(), around);
  };
  using namespace replayer;
  EXPECT_EQ(run({kState, kStateTick, kEnd}).value, 9u);
  EXPECT_EQ(run({kState, kStateOld, kEnd}).why, Unknown::State);
  EXPECT_EQ(run({kConst8, 3, kRef8, kEnd}).why, Unknown::Memory);
  EXPECT_EQ(run({kConst8, 3, kRef8, kEnd}).value, 3u);
  EXPECT_EQ(run({kConst8, 3, kConst8, 0, kDivSigned, kEnd}).why, Unknown::Division);
  EXPECT_EQ(run({kGoto, 0, 0}).why, Unknown::BadCode);
  EXPECT_EQ(run({kReg, 0, 3, kEnd}).known, true);
  around.lost_registers = 1 << 3;
  EXPECT_EQ(run({kReg, 0, 3, kEnd}).known, false);
  EXPECT_EQ(run({kConst8, 2, kFloatFromSigned, kFloatToSigned, kEnd}).value, 2u);
  around.floats = nullptr;  // the hot world
  EXPECT_EQ(run({kConst8, 2, kFloatFromSigned, kEnd}).why, Unknown::HostOnly);
}

}  // namespace
}  // namespace backstep::symbols
