// The grammar of events: each form, where mistakes are pointed at, and that no text whatever crashes it.
#include "events/spec.h"

#include <gtest/gtest.h>

#include <cctype>
#include <random>
#include <set>

#include "session/kind.h"

namespace backstep::events {
namespace {

Event parse(const std::string& text) {
  return session::parse_event(text);
}

Spec one(const std::string& text) {
  const Event e = parse(text);
  EXPECT_EQ(e.op, Event::Op::One) << text;
  return e.spec;
}

TEST(Spec, places) {
  for (const char* text : {"foo.c:12", "pc foo.c:12", "  foo.c:12  "}) {
    EXPECT_EQ(one(text).name, "foo.c:12") << text;
  }
  EXPECT_EQ(one("0x401136").name, "0x401136");
  EXPECT_EQ(one("*0x401136").name, "0x401136");
  EXPECT_EQ(one("pc main").name, "main");
  EXPECT_EQ(one("f(int, char)").name, "f(int, char)");
}

// "foo.c:12" and "pc foo.c:12" are the same; what only looks like a kind is told of.
TEST(Spec, kinds_begin_with_their_words) {
  for (const Form* form : session::event_forms()) {
    const std::string word = form->word;
    if (word.empty() || !std::isalpha(static_cast<unsigned char>(word[0]))) continue;
    EXPECT_STREQ(one(word + "s.c:12").kind->word, "") << word;
  }
  EXPECT_STREQ(one("main").kind->word, "");
  EXPECT_STREQ(one("pc main").kind->word, "pc");
  EXPECT_THROW(one("calls malloc"), SpecError);
  std::set<std::string> words;
  for (const Form* form : session::event_forms()) EXPECT_TRUE(words.insert(form->word).second) << form->word;
}

TEST(Spec, moments) {
  EXPECT_EQ(one("tick 12345").tick, 12345u);
  EXPECT_EQ(one("tick 1e6").tick, 1'000'000u);
  EXPECT_EQ(one("tick 12_345").tick, 12345u);
  EXPECT_EQ(one("@77").tick, 77u);
  EXPECT_EQ(one("@77").pc, 0u);
  const Spec point = one("@12345:0x401136");
  EXPECT_STREQ(point.kind->word, "@");
  EXPECT_EQ(point.tick, 12345u);
  EXPECT_EQ(point.pc, 0x401136u);
  EXPECT_EQ(one("every 1e6").tick, 1'000'000u);
}

TEST(Spec, data) {
  EXPECT_EQ(one("write &x size 8").name, "&x");
  EXPECT_EQ(one("write &x size 8").size, 8u);
  EXPECT_EQ(one("write x").size, std::nullopt);
  EXPECT_STREQ(one("read a[i]").kind->word, "read");
  EXPECT_STREQ(one("change p->q").kind->word, "change");
  EXPECT_STREQ(one("access x").kind->word, "access");
  EXPECT_EQ(one("write x if $new > 3").condition, "$new > 3");
}

TEST(Spec, functions_and_the_world) {
  EXPECT_EQ(one("call ns::f").name, "ns::f");
  EXPECT_STREQ(one("return parse").kind->word, "return");
  EXPECT_FALSE(one("syscall write").after);
  EXPECT_TRUE(one("syscall write after").after);
  EXPECT_EQ(one("syscall write after").name, "write");
  EXPECT_TRUE(one("syscall after").after);
  EXPECT_EQ(one("syscall after").name, "");
  EXPECT_EQ(one("signal SIGUSR1").name, "SIGUSR1");
  EXPECT_EQ(one("signal").name, "");
  EXPECT_STREQ(one("fork").kind->word, "fork");
  EXPECT_STREQ(one("exec").kind->word, "exec");
  const Spec crash = one("at before-the-crash");
  EXPECT_STREQ(crash.kind->word, "at");
  EXPECT_EQ(crash.name, "before-the-crash");
  EXPECT_STREQ(one("thread").kind->word, "thread");
  EXPECT_EQ(one("output \"a then b\"").name, "a then b");
  EXPECT_EQ(one("output plain").name, "plain");
}

TEST(Spec, eras_and_conditions) {
  const Spec s = one("foo.c:12 in [1000, 2000) if n > 10");
  EXPECT_EQ(s.name, "foo.c:12");
  EXPECT_EQ(s.from, 1000u);
  EXPECT_EQ(s.to, 2000u);
  EXPECT_EQ(s.condition, "n > 10");
  EXPECT_EQ(s.condition_at, 28u);
  EXPECT_EQ(one("main in [,5)").from, 0u);
  EXPECT_EQ(one("main in [5,)").to, ~0ull);
}

TEST(Spec, compositions) {
  const Event then = parse("call a if x then call b");
  EXPECT_EQ(then.op, Event::Op::Then);
  EXPECT_EQ(then.parts[0].spec.condition, "x");
  EXPECT_EQ(then.parts[1].spec.name, "b");
  const Event within = parse("call a and within 1e3 ticks call b");
  EXPECT_EQ(within.op, Event::Op::Within);
  EXPECT_EQ(within.n, 1000u);
  const Event nth = parse("nth 3 of call a");
  EXPECT_EQ(nth.op, Event::Op::Nth);
  EXPECT_EQ(nth.n, 3u);
  const Event between = parse("write x between call a and call b");
  EXPECT_EQ(between.op, Event::Op::Between);
  ASSERT_EQ(specs_of(between).size(), 3u);
  EXPECT_EQ(specs_of(between)[1]->name, "a");
  EXPECT_EQ(specs_of(between)[2]->name, "b");
}

// The column of the mistake: where `^` is in the second line.
TEST(Spec, mistakes_are_pointed_at) {
  const std::pair<const char*, size_t> cases[] = {
      {"", 0},
      {"tick x", 5},
      {"tick 12x", 5},
      {"every 0", 6},
      {"write x size y", 13},
      {"write x size 0", 13},
      {"write", 5},
      {"call", 4},
      {"main in 5", 8},
      {"main in [9,3)", 8},
      {"main in [x,3)", 9},
      {"main in [3,x)", 11},
      {"main if", 7},
      {"call a then tick q", 17},
      {"call a then", 11},
      {"call a within 3 ticks call b", 7},
      {"call a and within x ticks call b", 18},
      {"call a and within 3 call b", 20},
      {"call a between call b", 15},
      {"nth 0 of main", 4},
      {"fork now", 5},
      {"@x:0x1", 1},
      {"@12:zz", 4},
  };
  for (auto [text, column] : cases) {
    try {
      parse(text);
      ADD_FAILURE() << "'" << text << "' is understood";
    } catch (const SpecError& e) {
      EXPECT_EQ(e.column, column) << text << ": " << e.what();
    }
  }
}

TEST(Spec, no_text_crashes_it) {
  const char* const words[] = {"pc",       "tick",    "every",  "read",   "write",  "call",
                               "return",   "syscall", "signal", "fork",   "output", "in",
                               "if",       "then",    "and",    "within", "ticks",  "nth",
                               "of",       "between", "size",   "after",  "[1,2)",  "[",
                               ")",        "(",       "\"",     "'",      "\\",     "@",
                               "@1:0x2",   "1e6",     "1e999",  "0x",     "-1",     ",",
                               "foo.c:12", "main",    "\t",     "\n",     "{",      "99999999999999999999"};
  std::mt19937 random(1);
  for (int i = 0; i < 100'000; i++) {
    std::string text;
    const size_t length = random() % 12;
    for (size_t n = 0; n < length; n++) {
      if (i % 2) {
        text += static_cast<char>(random());
      } else {
        text += words[random() % std::size(words)];
        if (random() % 8) text += ' ';
      }
    }
    try {
      specs_of(parse(text));
    } catch (const SpecError& e) {
      EXPECT_LE(e.column, text.size()) << text;
    } catch (const Error&) {
    }
  }
}

TEST(Spec, nesting_has_an_end) {
  std::string text = "main";
  for (int i = 0; i < 1000; i++) text += " then main";
  EXPECT_THROW(parse(text), Error);
  EXPECT_THROW(parse(std::string(200'000, 'x')), Error);
}

}  // namespace
}  // namespace backstep::events
