// Reading specifications. A kind of event begins with a word and reads what stands behind that. What begins
// with none is of the kind that has no word.
#include "events/spec.h"

#include <cctype>

#include <fmt/format.h>

#include "events/reader.h"

namespace backstep::events {
namespace {

std::string with_caret(const std::string& text, size_t column, const std::string& sentence) {
  return fmt::format("{}\n  {}\n  {}^", sentence, text, std::string(column, ' '));
}

constexpr unsigned kMostNested = 50;
constexpr size_t kLongest = 100'000;

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

Spec read_spec(Reader r, Forms forms) {
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
  const Form* wordless = nullptr;
  for (const Form* form : forms) {
    const std::string word = form->word;
    if (word.empty()) {
      wordless = form;
    } else if (std::isalnum(static_cast<unsigned char>(word[0])) ? r.peek_word() == word
                                                                 : r.rest().starts_with(word)) {
      Reader rest = r.behind(r.at(), word.size());
      s.kind = form;
      form->read(rest, s);
      return s;
    }
  }
  s.kind = wordless;
  wordless->read(r, s);
  return s;
}

Event read_event(Reader r, Forms forms, unsigned depth) {
  if (depth > kMostNested) r.fail("this is nested too deeply");
  Event e;
  e.text = r.rest();
  auto composed = [&](Event::Op op, std::initializer_list<Reader> parts) {
    e.op = op;
    for (const Reader& p : parts) e.parts.push_back(read_event(p, forms, depth + 1));
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
  e.spec = read_spec(r, forms);
  return e;
}

}  // namespace

SpecError::SpecError(const std::string& text, size_t at, const std::string& sentence)
    : Error(with_caret(text, at, sentence), kExitUsage), column(at) {}

Event parse(const std::string& text, Forms forms) {
  if (text.size() > kLongest)
    throw Error("a specification of more than 100,000 characters is refused", kExitUsage);
  return read_event(Reader(text, 0, text.size()), forms, 0);
}

std::vector<const Spec*> specs_of(const Event& event) {
  if (event.op == Event::Op::One) return {&event.spec};
  std::vector<const Spec*> all;
  for (const Event& part : event.parts)
    for (const Spec* s : specs_of(part)) all.push_back(s);
  return all;
}

std::vector<KindHelp> grammar(Forms forms) {
  std::vector<KindHelp> rows;
  for (const Form* form : forms) rows.insert(rows.end(), form->help.begin(), form->help.end());
  rows.insert(rows.end(), {
                              {"E in [A,B)", "E, from tick A up to, not including, tick B"},
                              {"E if CONDITION", "E, where a condition over the program's variables holds"},
                              {"A then B", "the first B behind each A"},
                              {"A and within N ticks B", "… if it comes within N ticks"},
                              {"nth N of A", "every N-th A"},
                              {"A between B and C", "each A between a B and the next C"},
                          });
  return rows;
}

}  // namespace backstep::events
