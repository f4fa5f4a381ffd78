// The language of queries and that of assertions: each form, where mistakes are pointed at, and that no text
// whatever crashes them.
#include "events/query.h"

#include <gtest/gtest.h>

#include <random>

#include "events/assertion.h"
#include "replay/bytecode.h"
#include "session/assertions.h"
#include "session/fixed_reads.h"
#include "session/kind.h"

namespace backstep::events {
namespace {

std::vector<Assertion> read_assertions(const std::string& text) {
  return parse_assertions(text, session::event_forms());
}

QueryCondition where(const std::string& condition, const char* type = "func_enter") {
  return parse_query(std::string("goto current forward ") + type + " where " + condition).where;
}

TEST(Query, the_seeds_example) {
  for (const char* text :
       {"goto current backward block_entry 2 where stack=<*,a,b> and src=<foo.c,7>",
        "current backward block_entry 2 where stack=<**,a,b> and src=<foo.c:7>",
        "  goto  current backward\tblock_entry 2 where stack = < * , a , b > and src = <foo.c, 7>"}) {
    const Query q = parse_query(text);
    EXPECT_EQ(q.from, Query::From::Current) << text;
    EXPECT_FALSE(q.forward);
    EXPECT_EQ(q.type, Query::Type::BlockEntry);
    EXPECT_EQ(q.count, 2u);
    ASSERT_EQ(q.where.op, QueryCondition::Op::And) << text;
    EXPECT_EQ(q.where.parts[0].frames, (std::vector<std::string>{"*", "a", "b"})) << text;
    EXPECT_EQ(q.where.parts[1].text, "foo.c");
    EXPECT_EQ(q.where.parts[1].first, 7);
    EXPECT_EQ(q.where.parts[1].last, 7);
  }
}

TEST(Query, words) {
  EXPECT_EQ(parse_query("goto first forward syscall").count, 1u);
  EXPECT_EQ(parse_query("last backward signal 3").count, 3u);
  EXPECT_EQ(parse_query("goto last backward line").where.op, QueryCondition::Op::Always);
  EXPECT_TRUE(is_query("current forward nonsense"));
  EXPECT_TRUE(is_query("goto last backward"));
  for (const char* text : {"", "start", "current", "first", "last write", "@12:0x30", "output first forward"})
    EXPECT_FALSE(is_query(text)) << text;
}

TEST(Query, names_of_the_language) {
  EXPECT_EQ(where("tick > 5").text, "$tick > 5");
  EXPECT_EQ(where("thread = 2").text, "$thread == 2");
  EXPECT_EQ(where("arg0 >= 3").text, "$arg0 >= 3");
  EXPECT_EQ(where("retval = 0").text, "retval == 0") << "of a func_exit only";
  EXPECT_EQ(where("retval=-1", "func_exit").text, "$retval==-1");
  EXPECT_EQ(where("newval != oldval", "store").text, "$new != $old");
  EXPECT_EQ(where("oldval = 3", "load").text, "$new == 3");
  EXPECT_EQ(where("p->tick = x.pc").text, "p->tick == x.pc") << "members are the program's";
  EXPECT_EQ(where("::tick = $pc").text, "::tick == $pc");
  EXPECT_EQ(where("s = \"a = b and pc\"").text, "s == \"a = b and pc\"");
  EXPECT_EQ(where("(a or b) + 1 > 2").text, "(a || b) + 1 > 2");
  EXPECT_EQ(where("a <= b").text, "a <= b");
  EXPECT_EQ(where("a == b && c != d").text, "a == b && c != d");
}

TEST(Query, conditions_nest) {
  const QueryCondition c = where("a and (b or not func=<f>) and src!=<x.c>");
  ASSERT_EQ(c.op, QueryCondition::Op::And);
  ASSERT_EQ(c.parts.size(), 3u);
  EXPECT_EQ(c.parts[1].op, QueryCondition::Op::Or);
  EXPECT_EQ(c.parts[1].parts[1].op, QueryCondition::Op::Not);
  EXPECT_EQ(c.parts[1].parts[1].parts[0].op, QueryCondition::Op::Function);
  EXPECT_EQ(c.parts[2].op, QueryCondition::Op::Not);
  EXPECT_EQ(c.parts[2].parts[0].first, 0) << "all of the file";
  EXPECT_EQ(where("a or b and c").op, QueryCondition::Op::Or) << "and binds more";
  EXPECT_EQ(where("android or nothing").parts.size(), 2u) << "words stand by themselves";
  EXPECT_EQ(where("(x)").text, "x");
}

TEST(Query, patterns) {
  EXPECT_EQ(where("func=<Box<int>::f>").text, "Box<int>::f");
  EXPECT_EQ(where("stack=<*,g<a, b>,f(int, char)>").frames,
            (std::vector<std::string>{"*", "g<a, b>", "f(int, char)"}));
  const QueryCondition lines = where("src=<dir/foo.c:7-12>");
  EXPECT_EQ(lines.text, "dir/foo.c");
  EXPECT_EQ(lines.first, 7);
  EXPECT_EQ(lines.last, 12);
  EXPECT_EQ(where("addr=&x and newval=3", "store").parts[0].op, QueryCondition::Op::Touches);
  EXPECT_EQ(where("addr=&x and newval=3", "store").parts[0].text, "&x");
  EXPECT_EQ(where("addr=x < 3", "store").op, QueryCondition::Op::Expression);
  EXPECT_EQ(where("addr=x").op, QueryCondition::Op::Expression) << "of data only";
  EXPECT_EQ(where("name=<write>", "syscall").op, QueryCondition::Op::Name);
}

TEST(Query, wildcards) {
  EXPECT_TRUE(fits_wildcards("read_*", "read_line"));
  EXPECT_FALSE(fits_wildcards("read_*", "reader"));
  EXPECT_TRUE(has_wildcards("*_line"));
  EXPECT_FALSE(has_wildcards("operator*"));
}

size_t column_of(const std::string& text) {
  try {
    parse_query(text);
  } catch (const SpecError& e) {
    return e.column;
  }
  ADD_FAILURE() << text << " is accepted";
  return ~0ull;
}

TEST(Query, mistakes_are_pointed_at) {
  EXPECT_EQ(column_of("goto"), 4u);
  EXPECT_EQ(column_of("goto here forward line"), 5u);
  EXPECT_EQ(column_of("goto last sideways line"), 10u);
  EXPECT_EQ(column_of("goto last forward stor"), 18u);
  EXPECT_EQ(column_of("goto last forward line two"), 23u);
  EXPECT_EQ(column_of("goto last forward line 0"), 23u);
  EXPECT_EQ(column_of("goto last forward line 1 if x"), 25u);
  EXPECT_EQ(column_of("goto last forward line where"), 28u);
  EXPECT_EQ(column_of("goto last forward line where a and"), 34u);
  EXPECT_EQ(column_of("goto last forward line where (a"), 29u);
  EXPECT_EQ(column_of("goto last forward line where a)"), 30u);
  EXPECT_EQ(column_of("goto last forward line where stack=<a,,b>"), 38u);
  EXPECT_EQ(column_of("goto last forward line where stack=<a"), 35u);
  EXPECT_EQ(column_of("goto last forward line where src=<foo.c:>"), 40u);
  EXPECT_EQ(column_of("goto last forward line where src=<foo.c:9-7>"), 40u);
  EXPECT_EQ(column_of("goto last forward line where file=<foo.c>"), 29u);
  EXPECT_EQ(column_of("goto last forward line where func=<f> x"), 38u);
  EXPECT_EQ(column_of("goto last forward line where s = \"a"), 33u);
}

Assertion one_of(const std::string& text) {
  const auto list = read_assertions(text);
  EXPECT_EQ(list.size(), 1u) << text;
  return list.at(0);
}

TEST(Assertion, forms) {
  using Form = Assertion::Form;
  EXPECT_EQ(one_of("never call f if x > 3").a.spec.condition, "x > 3");
  const Assertion at = one_of("always x > 3 && s == \" at \" at foo.c:7");
  EXPECT_EQ(at.form, Form::AlwaysAt);
  EXPECT_EQ(at.expression, "x > 3 && s == \" at \"");
  EXPECT_EQ(at.a.text, "foo.c:7");
  EXPECT_EQ(one_of("always at > 3 at f.c:1").expression, "at > 3");
  const Assertion between = one_of("always x between call a if n == 2 and call b");
  EXPECT_EQ(between.form, Form::Between);
  EXPECT_EQ(between.a.text, "call a if n == 2");
  EXPECT_EQ(between.b.text, "call b");
  const Assertion followed = one_of("call a is followed by call b within 1e3 ticks");
  EXPECT_EQ(followed.form, Form::Followed);
  EXPECT_EQ(followed.within, 1000u);
  EXPECT_EQ(followed.b.text, "call b");
  const Assertion composed = one_of("call a is preceded by call b and within 5 ticks call c");
  EXPECT_EQ(composed.form, Form::Preceded);
  EXPECT_FALSE(composed.within);
  EXPECT_EQ(composed.b.op, Event::Op::Within);
  EXPECT_EQ(one_of("call a alternates with call b").form, Form::Alternates);
  EXPECT_EQ(one_of("at most 0 of call b").n, 0u);
  const Assertion lock = one_of("only the holder of lock &table.m writes table.rows[3]");
  EXPECT_EQ(lock.lock, "&table.m");
  EXPECT_EQ(lock.expression, "table.rows[3]");
}

TEST(Assertion, lines_and_remarks) {
  const auto list =
      read_assertions("# all of it\nnever call a; never call b # or c; d\n\n;never output \"x;#y\"\n");
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].line, 2u);
  EXPECT_EQ(list[1].text, "never call b");
  EXPECT_EQ(list[2].line, 4u);
  EXPECT_EQ(list[2].a.spec.name, "x;#y");
  EXPECT_TRUE(read_assertions(" # nothing").empty());
}

TEST(Assertion, mistakes_are_pointed_at) {
  auto column = [](const std::string& text) -> size_t {
    try {
      parse_assertion(text, session::event_forms());
    } catch (const SpecError& e) {
      return e.column;
    }
    return ~0ull;
  };
  EXPECT_EQ(column("nver call a"), 0u);
  EXPECT_EQ(column("never"), 5u);
  EXPECT_EQ(column("never wirte x"), 6u);
  EXPECT_EQ(column("never call a in [5,3)"), 16u);
  EXPECT_EQ(column("always x"), 7u);
  EXPECT_EQ(column("always x between call a"), 17u);
  EXPECT_EQ(column("call a is folowed by call b"), 10u);
  EXPECT_EQ(column("call a is followed of call b"), 19u);
  EXPECT_EQ(column("call a is followed by call b within x ticks"), 36u);
  EXPECT_EQ(column("call a is followed by call b within 3 seconds"), 38u);
  EXPECT_EQ(column("at most x of call a"), 8u);
  EXPECT_EQ(column("only the owner of lock m writes x"), 9u);
  EXPECT_EQ(column("only the holder of lock m reads x"), 24u);
  try {
    read_assertions("never call a\nnver call b");
    FAIL();
  } catch (const Error& e) {
    EXPECT_TRUE(std::string(e.what()).starts_with("line 2: ")) << e.what();
  }
}

// Texts of pieces that mean something, and good ones with a few characters changed.
template <class Parse>
void stands_any_text(const std::vector<std::string>& pieces, const std::vector<std::string>& good,
                     unsigned seed, const Parse& parse) {
  std::mt19937 random(seed);
  auto try_one = [&](const std::string& text) {
    try {
      parse(text);
    } catch (const SpecError& e) {
      EXPECT_LE(e.column, text.size()) << text;
    } catch (const Error&) {
    }
  };
  for (int round = 0; round < 20'000; round++) {
    std::string text;
    for (unsigned n = random() % 14; n; n--) {
      text += pieces[random() % pieces.size()];
      if (random() % 4) text += ' ';
    }
    try_one(text);
    std::string changed = good[random() % good.size()];
    for (unsigned n = 1 + random() % 4; n && !changed.empty(); n--) {
      const size_t at = random() % changed.size();
      switch (random() % 4) {
        case 0:
          changed.erase(at, 1 + random() % 5);
          break;
        case 1:
          changed.insert(at, 1, static_cast<char>(random()));
          break;
        case 2:
          changed[at] = static_cast<char>(random());
          break;
        default:
          changed.insert(at, pieces[random() % pieces.size()]);
      }
    }
    try_one(changed);
  }
}

TEST(Query, any_text_is_stood) {
  stands_any_text({"goto",  "current", "first",       "last",    "forward", "backward",  "func_enter",
                   "store", "load",    "block_entry", "2",       "0",       "where",     "and",
                   "or",    "not",     "(",           ")",       "[",       "]",         "<",
                   ">",     "=",       "==",          "!=",      "src=<",   "stack=<*,", "func=<f>",
                   "addr=", "name=<",  ",",           "*",       "\"",      "'",         "\\",
                   "$",     "tick",    "p->x",        "foo.c:7", ":",       "-",         "1e6",
                   "::"},
                  {"goto current backward block_entry 2 where stack=<*,a,b> and src=<foo.c:7>",
                   "goto last backward store where addr=&total and (newval > 3 or not func=<f>)",
                   "goto first forward syscall 3 where name=<write> and arg0 = 1 and s = \"a\\\"b\""},
                  1, [](const std::string& text) { parse_query(text); });
  EXPECT_THROW(parse_query("goto last forward line where " + std::string(5000, '(')), Error);
  EXPECT_THROW(
      parse_query("goto last forward line where " + std::string(60, '(') + "x" + std::string(60, ')')),
      Error);
}

TEST(Assertion, any_text_is_stood) {
  stands_any_text(
      {"never",
       "always",
       "at",
       "most",
       "between",
       "and",
       "is",
       "followed",
       "preceded",
       "by",
       "within",
       "5",
       "ticks",
       "alternates",
       "with",
       "only",
       "the holder of lock",
       "writes",
       "call a",
       "write x",
       "if",
       "in [",
       ",",
       ")",
       "(",
       "\"",
       "'",
       ";",
       "#",
       "\n",
       "x > 3",
       "then",
       "nth 2 of",
       "output"},
      {"call a is followed by call b within 100 ticks", "always x > 3 && y between call a and call b",
       "only the holder of lock &m writes x; never call abort if n > 3 # remark",
       "at most 3 of call a\ncall a alternates with call b"},
      2, [](const std::string& text) { read_assertions(text); });
}

TEST(Assertion, operands_are_told) {
  using session::operands_of;
  using Texts = std::vector<std::string>;
  EXPECT_EQ(operands_of("n >= 0"), (Texts{"n"}));
  EXPECT_EQ(operands_of("a + 1 < *p && !done"), (Texts{"a + 1", "*p", "done"}));
  EXPECT_EQ(operands_of("(a == b || p->x << 2 > 3) && s != \"x && y\""), (Texts{"a", "b", "p->x << 2", "s"}));
  EXPECT_EQ(operands_of("f(a < b)[c > d] == 1"), (Texts{"f(a < b)[c > d]"}));
  EXPECT_EQ(operands_of("$new > 100 && other > 30"), (Texts{"$new", "other"}));
  EXPECT_TRUE(operands_of("1 == 2").empty());
  EXPECT_TRUE(operands_of("").empty());
  std::mt19937 random(3);
  static constexpr char kSigns[] = "ab() [] && || <>=!\"'\\->$1";
  for (int i = 0; i < 20'000; i++) {
    std::string text;
    for (unsigned n = random() % 20; n; n--) text += kSigns[random() % (sizeof kSigns - 1)];
    operands_of(text);
  }
}

using namespace replayer;

TEST(FixedReads, of_globals) {
  auto address = [](uint64_t a) {
    std::vector<uint8_t> code{kConst64};
    for (int i = 56; i >= 0; i -= 8) code.push_back(static_cast<uint8_t>(a >> i));
    return code;
  };
  std::vector<uint8_t> code = address(0x1000);
  code.insert(code.end(), {kRef32, kConst8, 3, kLessSigned, kEnd});
  auto reads = session::fixed_reads(code);
  ASSERT_TRUE(reads);
  ASSERT_EQ(reads->size(), 1u);
  EXPECT_EQ(reads->at(0).address, 0x1000u);
  EXPECT_EQ(reads->at(0).size, 4u);

  // a[3], both sides of a branch
  code = address(0x1000);
  code.insert(code.end(), {kConst8, 3, kConst8, 8, kMul, kAdd, kRef64, kIfGoto, 0, 30, kConst8, 0, kEnd});
  while (code.size() < 30) code.push_back(kEnd);
  const auto other = address(0x2000);
  code.insert(code.end(), other.begin(), other.end());
  code.insert(code.end(), {kRef8, kEnd});
  reads = session::fixed_reads(code);
  ASSERT_TRUE(reads);
  ASSERT_EQ(reads->size(), 2u);
  EXPECT_EQ(reads->at(0).address, 0x1018u);
  EXPECT_EQ(reads->at(1).address, 0x2000u);

  // What a pointer leads to, a register, the time.
  code = address(0x1000);
  code.insert(code.end(), {kRef64, kRef32, kEnd});
  EXPECT_FALSE(session::fixed_reads(code));
  EXPECT_FALSE(session::fixed_reads(std::vector<uint8_t>{kReg, 0, 1, kEnd}));
  EXPECT_FALSE(session::fixed_reads(std::vector<uint8_t>{kState, kStateTick, kEnd}));
  EXPECT_FALSE(session::fixed_reads(std::vector<uint8_t>{kAdd, kEnd}));
  std::mt19937 random(4);
  for (int i = 0; i < 20'000; i++) {
    std::vector<uint8_t> any;
    for (unsigned n = random() % 30; n; n--) any.push_back(static_cast<uint8_t>(random() % 0xa0));
    session::fixed_reads(any);
  }
}

}  // namespace
}  // namespace backstep::events
