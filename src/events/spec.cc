// Reading specifications. A kind of event is a row in kRows: the word that it begins with, and what is to be
// read behind that. What is no known word is a place in the code.
#include "events/spec.h"

#include <fmt/format.h>

#include "events/reader.h"

namespace backstep::events {
namespace {

std::string with_caret(const std::string& text, size_t column, const std::string& sentence) {
  return fmt::format("{}\n  {}\n  {}^", sentence, text, std::string(column, ' '));
}

constexpr unsigned kMostNested = 50;
constexpr size_t kLongest = 100'000;

std::string unquote(const std::string& text) {
  if (text.size() < 2 || text.front() != text.back() || (text[0] != '"' && text[0] != '\'')) return text;
  std::string out;
  for (size_t i = 1; i + 1 < text.size(); i++) {
    char c = text[i];
    if (c == '\\' && i + 2 < text.size()) {
      c = text[++i];
      c = c == 'n' ? '\n' : c == 't' ? '\t' : c;
    }
    out += c;
  }
  return out;
}

// --- one function per form ---

void read_place(Reader& r, Spec& s) {
  s.name = r.rest();
  if (s.name.starts_with("*")) s.name.erase(0, 1);
}

void read_name(Reader& r, Spec& s) {
  s.name = r.rest();
  if (s.name.empty()) r.fail("the name of a function is missing here, as in 'call malloc'");
}

void read_moment(Reader& r, Spec& s) {
  s.name = r.rest();
  if (s.name.empty()) r.fail("the moment is missing here: a bookmark, 50%, 14:03:22, 'event 106', end");
}

void read_optional(Reader& r, Spec& s) {
  s.name = r.rest();
}

void read_nothing(Reader& r, Spec&) {
  if (!r.empty()) r.fail(fmt::format("nothing is expected here, but there is '{}'", r.rest()));
}

void read_tick(Reader& r, Spec& s) {
  s.tick = need_number(r, r.at(), r.rest(), "a number of ticks");
}

void read_period(Reader& r, Spec& s) {
  read_tick(r, s);
  if (s.tick == 0) r.fail("every 0 ticks would be at all times: the least is 1");
}

void read_data(Reader& r, Spec& s) {
  if (size_t at = r.find("size"); at != std::string::npos) {
    Reader size = r.behind(at, 4);
    s.size = need_number(size, size.at(), size.rest(), "a number of bytes");
    if (*s.size == 0) size.fail("no bytes are never touched: the least is 1");
    r.cut(at);
  }
  s.name = r.rest();
  if (s.name.empty()) r.fail("what is to be watched is missing here: a variable, or an address and 'size N'");
}

void read_syscall(Reader& r, Spec& s) {
  s.after = r.last_word({"after", "before"}) == "after";
  s.name = r.rest();
  if (s.name == "after" || s.name == "before") s.after = s.name == "after", s.name.clear();
  if (s.name.find(' ') != std::string::npos)
    r.fail("one system call is expected here, then 'before' or 'after', as in 'syscall write after'");
}

void read_text(Reader& r, Spec& s) {
  s.name = unquote(r.rest());
  if (s.name.empty()) r.fail("the text that is written is missing here, as in 'output \"error\"'");
}

struct Row {
  const char* word;
  Kind kind;
  void (*read)(Reader&, Spec&);
};
constexpr Row kRows[] = {
    {"pc", Kind::Place, read_place},         {"tick", Kind::Tick, read_tick},
    {"every", Kind::Every, read_period},     {"read", Kind::Read, read_data},
    {"write", Kind::Write, read_data},       {"change", Kind::Change, read_data},
    {"access", Kind::Access, read_data},     {"call", Kind::Call, read_name},
    {"return", Kind::Return, read_name},     {"syscall", Kind::Syscall, read_syscall},
    {"signal", Kind::Signal, read_optional}, {"thread", Kind::Thread, read_nothing},
    {"fork", Kind::Fork, read_nothing},      {"exec", Kind::Exec, read_nothing},
    {"output", Kind::Output, read_text},     {"at", Kind::Moment, read_moment},
};

void read_point(Reader& r, Spec& s) {
  const size_t column = r.at();
  const std::string text = r.rest().substr(1);
  const size_t colon = text.find(':');
  s.tick = need_number(r, column + 1, text.substr(0, colon), "a tick");
  s.kind = Kind::Tick;
  if (colon == std::string::npos) return;
  s.kind = Kind::Point;
  s.pc = need_number(r, column + 2 + colon, text.substr(colon + 1), "an address");
}

// in [a,b)
void read_era(Reader& r, size_t at, Spec& s) {
  Reader era = r.behind(at, 2);
  const std::string text = era.rest();
  const size_t comma = text.find(',');
  if (text.size() < 4 || text.front() != '[' || text.back() != ')' || comma == std::string::npos)
    era.fail("an era is expected here, as in 'in [1000,2000)': from one tick up to, not including, another");
  auto trimmed = [&](size_t from, size_t to) {
    Reader part = era.part(era.at() + from, era.at() + to);
    return std::pair(part.rest(), part.at());
  };
  const auto [low, low_at] = trimmed(1, comma);
  const auto [high, high_at] = trimmed(comma + 1, text.size() - 1);
  if (!low.empty()) s.from = need_number(era, low_at, low, "a tick");
  if (!high.empty()) s.to = need_number(era, high_at, high, "a tick");
  if (s.from >= s.to) era.fail("no tick is in that era");
  r.cut(at);
}

Spec read_spec(Reader r) {
  Spec s;
  s.text = r.rest();
  if (r.empty()) r.fail("an event is missing here, such as 'call malloc', 'foo.c:12' or 'write x'");
  if (size_t at = r.find("if"); at != std::string::npos) {
    Reader condition = r.behind(at, 2);
    if (condition.empty()) condition.fail("the condition is missing here");
    s.condition = condition.rest();
    s.condition_at = condition.at();
    r.cut(at);
  }
  if (size_t at = r.find("in"); at != std::string::npos && at > r.at()) read_era(r, at, s);
  if (r.empty()) r.fail("the event is missing in front of this");
  if (r.rest().starts_with("@")) {
    read_point(r, s);
    return s;
  }
  const std::string word = r.peek_word();
  for (const Row& row : kRows)
    if (word == row.word) {
      r.word();
      s.kind = row.kind;
      row.read(r, s);
      if (row.kind == Kind::Place && s.name.empty()) r.fail("a place is missing here, such as foo.c:12");
      return s;
    }
  read_place(r, s);
  if (s.name.find(' ') != std::string::npos && s.name.find('(') == std::string::npos &&
      s.name.find('<') == std::string::npos)
    r.fail(fmt::format("'{}' is no kind of event; 'backstep events' lists them", word));
  return s;
}

Event read_event(Reader r, unsigned depth) {
  if (depth > kMostNested) r.fail("this is nested too deeply");
  Event e;
  e.text = r.rest();
  auto composed = [&](Event::Op op, std::initializer_list<Reader> parts) {
    e.op = op;
    for (const Reader& p : parts) e.parts.push_back(read_event(p, depth + 1));
    return e;
  };
  if (size_t at = r.find("then"); at != std::string::npos)
    return composed(Event::Op::Then, {r.before(at), r.behind(at, 4)});
  if (size_t at = r.find("within"); at != std::string::npos) {
    Reader first = r.before(at), second = r.behind(at, 6);
    if (!first.last_word({"and"})) first.fail_at(at, "write it as 'A and within N ticks B'");
    const size_t column = second.at();
    e.n = need_number(second, column, second.word(), "a number of ticks");
    if (second.peek_word() != "ticks")
      second.fail("'ticks' is expected here, as in 'A and within 100 ticks B'");
    second.word();
    return composed(Event::Op::Within, {first, second});
  }
  if (size_t at = r.find("between"); at != std::string::npos) {
    Reader bounds = r.behind(at, 7);
    const size_t middle = bounds.find("and");
    if (middle == std::string::npos) bounds.fail("write it as 'A between B and C'");
    return composed(Event::Op::Between, {r.before(at), bounds.before(middle), bounds.behind(middle, 3)});
  }
  if (r.peek_word() == "nth") {
    Reader rest = r;
    rest.word();
    const size_t column = rest.at();
    e.n = need_number(rest, column, rest.word(), "which match");
    if (e.n == 0) rest.fail_at(column, "matches are counted from 1");
    if (rest.peek_word() == "of") rest.word();
    return composed(Event::Op::Nth, {rest});
  }
  e.spec = read_spec(r);
  return e;
}

}  // namespace

SpecError::SpecError(const std::string& text, size_t at, const std::string& sentence)
    : Error(with_caret(text, at, sentence), kExitUsage), column(at) {}

Event parse(const std::string& text) {
  if (text.size() > kLongest)
    throw Error("a specification of more than 100,000 characters is refused", kExitUsage);
  return read_event(Reader(text, 0, text.size()), 0);
}

std::vector<const Spec*> specs_of(const Event& event) {
  if (event.op == Event::Op::One) return {&event.spec};
  std::vector<const Spec*> all;
  for (const Event& part : event.parts)
    for (const Spec* s : specs_of(part)) all.push_back(s);
  return all;
}

const std::vector<KindHelp>& grammar() {
  static const std::vector<KindHelp> rows = {
      {"foo.c:12, pc foo.c:12", "the line is about to be executed (each place of its code)"},
      {"0x401136, pc main", "this instruction; the first one of a function"},
      {"call F", "F is called; $arg0… are its arguments"},
      {"return F", "F is left by its ret, or by a jump to another function; $retval"},
      {"write X [size N]", "memory is written to: a variable, or an address with a size; $old, $new, $addr"},
      {"change X, read X, access X", "… and is different then; is read; either"},
      {"syscall [NAME] [before|after]",
       "a system call; $arg0… or, of one that is named, $fd, $path…; after it its result in $retval"},
      {"signal [NAME]", "in front of the delivery of a signal"},
      {"thread, fork, exec", "the call that starts a thread, makes a process, becomes another program"},
      {"output TEXT", "the call that writes TEXT to stdout or stderr"},
      {"tick N, @N:0xPC", "a moment of the run"},
      {"at MOMENT", "a moment by another name: a bookmark, 50%, 14:03:22, event 106, end"},
      {"every N", "each multiple of N ticks"},
      {"E in [A,B)", "E, from tick A up to, not including, tick B"},
      {"E if CONDITION", "E, where a condition over the program's variables holds"},
      {"A then B", "the first B behind each A"},
      {"A and within N ticks B", "… if it comes within N ticks"},
      {"nth N of A", "every N-th A"},
      {"A between B and C", "each A between a B and the next C"},
  };
  return rows;
}

}  // namespace backstep::events
