// Assertions are sentences with events in them. The words that belong to the sentence are looked for outside
// of quotes and brackets, as those between events are.
#include "events/assertion.h"

#include <fmt/format.h>

#include "events/reader.h"

namespace backstep::events {
namespace {

constexpr size_t kLongestText = 1 << 20;
constexpr size_t kMostAssertions = 1000;

Event event_in(const Reader& r, Forms forms) {
  if (r.empty()) r.fail("an event is missing here, such as 'call malloc', 'foo.c:12' or 'write x'");
  try {
    return parse(r.rest(), forms);
  } catch (const SpecError& e) {
    // The same mistake, where it stands in the whole.
    const std::string sentence(e.what());
    r.fail_at(r.at() + e.column, sentence.substr(0, sentence.find('\n')));
  }
}

void expect_words(Reader& r, std::initializer_list<const char*> words) {
  for (const char* word : words) {
    if (r.peek_word() != word) r.fail(fmt::format("'{}' is expected here", word));
    r.word();
  }
}

// `within N ticks` at the end of what follows.
void take_within(Reader& r, Assertion& a) {
  size_t at = std::string::npos;
  for (size_t next = r.find("within"); next != std::string::npos; next = r.find("within", next + 1))
    at = next;
  if (at == std::string::npos) return;
  // "A and within N ticks B" is an event.
  Reader first = r.before(at), rest = r.behind(at, 6);
  if (first.last_word({"and"})) return;
  const size_t column = rest.at();
  a.within = need_number(rest, column, rest.word(), "a number of ticks");
  expect_words(rest, {"ticks"});
  if (!rest.empty()) rest.fail("nothing is expected behind 'within N ticks'");
  r.cut(at);
}

void read_always(Reader r, Assertion& a, Forms forms) {
  if (const size_t at = r.find("between"); at != std::string::npos && at > r.at()) {
    Reader bounds = r.behind(at, 7);
    const size_t middle = bounds.find("and");
    if (middle == std::string::npos) bounds.fail("write it as 'always P between A and B'");
    a.form = Assertion::Form::Between;
    a.expression = r.before(at).rest();
    a.a = event_in(bounds.before(middle), forms);
    a.b = event_in(bounds.behind(middle, 3), forms);
    return;
  }
  size_t at = r.find("at");
  if (at == r.at()) at = r.find("at", at + 1);
  if (at == std::string::npos)
    r.fail("write it as 'always P at E' or 'always P between A and B', with an expression P");
  a.form = Assertion::Form::AlwaysAt;
  a.expression = r.before(at).rest();
  a.a = event_in(r.behind(at, 2), forms);
}

void read_holder(Reader r, Assertion& a) {
  expect_words(r, {"the", "holder", "of", "lock"});
  const size_t at = r.find("writes");
  if (at == std::string::npos) r.fail("write it as 'only the holder of lock M writes X'");
  a.form = Assertion::Form::OnlyHolder;
  const Reader lock = r.before(at), data = r.behind(at, 6);
  if (lock.empty()) r.fail("which lock? A variable, or an expression for its address");
  if (data.empty()) data.fail("what is written is missing here: a variable");
  a.lock = lock.rest();
  a.expression = data.rest();
}

void read_at_most(Reader r, Assertion& a, Forms forms) {
  expect_words(r, {"most"});
  const size_t column = r.at();
  a.form = Assertion::Form::AtMost;
  a.n = need_number(r, column, r.word(), "a number");
  expect_words(r, {"of"});
  a.a = event_in(r, forms);
}

// A is followed by B, A is preceded by B, A alternates with B
bool read_pair(const Reader& r, Assertion& a, Forms forms) {
  for (size_t at = r.find("is"); at != std::string::npos; at = r.find("is", at + 1)) {
    Reader behind = r.behind(at, 2);
    const std::string word = behind.peek_word();
    if (word != "followed" && word != "preceded") continue;
    a.form = word == "followed" ? Assertion::Form::Followed : Assertion::Form::Preceded;
    behind.word();
    expect_words(behind, {"by"});
    take_within(behind, a);
    a.a = event_in(r.before(at), forms);
    a.b = event_in(behind, forms);
    return true;
  }
  const size_t at = r.find("alternates");
  if (at == std::string::npos) {
    const size_t is = r.find("is");
    if (is == std::string::npos) return false;
    r.behind(is, 2).fail("'followed by' or 'preceded by' is expected here");
  }
  Reader behind = r.behind(at, 10);
  expect_words(behind, {"with"});
  a.form = Assertion::Form::Alternates;
  a.a = event_in(r.before(at), forms);
  a.b = event_in(behind, forms);
  return true;
}

}  // namespace

Assertion parse_assertion(const std::string& text, Forms forms) {
  Assertion a;
  Reader r(text, 0, text.size());
  a.text = r.rest();
  if (r.empty()) r.fail("an assertion is missing here, such as 'never call abort'");
  Reader behind = r;
  const std::string word = behind.word();
  if (word == "never") {
    a.form = Assertion::Form::Never;
    a.a = event_in(behind, forms);
  } else if (word == "always") {
    read_always(behind, a, forms);
  } else if (word == "only") {
    read_holder(behind, a);
  } else if (word == "at" && behind.peek_word() == "most") {
    read_at_most(behind, a, forms);
  } else if (!read_pair(r, a, forms)) {
    r.fail(
        "this is no assertion: 'never E', 'always P at E', 'always P between A and B', 'A is followed by B', "
        "'A "
        "is preceded by B', 'A alternates with B', 'at most N of E' or 'only the holder of lock M writes X' "
        "are");
  }
  return a;
}

std::vector<Assertion> parse_assertions(const std::string& text, Forms forms) {
  if (text.size() > kLongestText)
    throw Error("assertions of more than a million characters are refused", kExitUsage);
  std::vector<Assertion> list;
  size_t line = 1, begin = 0, end = 0;
  bool comment = false;
  char quote = 0;
  auto take = [&](size_t next) {
    std::string part = text.substr(begin, end - begin);
    begin = end = next;
    if (part.find_first_not_of(" \t\r\v\f") == std::string::npos) return;
    if (list.size() == kMostAssertions)
      throw Error(fmt::format("more than {} assertions are refused", kMostAssertions), kExitUsage);
    try {
      list.push_back(parse_assertion(part, forms));
      list.back().line = line;
    } catch (const SpecError& e) {
      if (text.find('\n') == std::string::npos) throw;
      throw Error(fmt::format("line {}: {}", line, e.what()), kExitUsage);
    }
  };
  for (size_t i = 0; i < text.size(); i++) {
    const char c = text[i];
    if (c == '\n' || (c == ';' && !quote && !comment)) {
      take(i + 1);
      if (c == '\n') line++, comment = false, quote = 0;
      continue;
    }
    if (comment) continue;
    if (quote) {
      if (c == '\\' && i + 1 < text.size() && text[i + 1] != '\n')
        i++;
      else if (c == quote)
        quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      comment = true;
      continue;
    }
    end = i + 1;
  }
  take(text.size());
  return list;
}

const std::vector<KindHelp>& assertion_grammar() {
  static const std::vector<KindHelp> rows = {
      {"never E [if C]", "the event does not happen"},
      {"always P at E", "the expression is not 0 wherever the event happens"},
      {"always P between A and B", "… at each A, whenever what it reads is written, and up to B"},
      {"A is followed by B [within N ticks]", "behind each A comes a B"},
      {"A is preceded by B [within N ticks]", "before each A was a B"},
      {"A alternates with B", "an A comes first, then a B, then an A, …"},
      {"at most N of E", "the event happens no more often"},
      {"only the holder of lock M writes X", "who writes X has locked M (a pthread_mutex_t, or its address)"},
  };
  return rows;
}

}  // namespace backstep::events
