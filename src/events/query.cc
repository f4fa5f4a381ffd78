// Reading queries. The words up to `where` are rows of tables. Behind it, `and`, `or` and `not` are taken
// apart here, because their parts are answered in different ways: places in the source before anything is
// replayed, expressions in the replaying process, stacks by who collects its matches. What is left between
// these words is an expression, in which the names that the seed's language has are those of the event
// ($tick for tick) and a single = compares.
//
// A pattern stands in angle brackets behind a =, where no expression of C can have one, so variables of the
// program may be called src or stack, too.
#include "events/query.h"

#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include <fmt/format.h>

#include "events/reader.h"

namespace backstep::events {
namespace {

constexpr size_t kLongestQuery = 100'000;
constexpr unsigned kMostBrackets = 50;

template <class T>
struct QueryWord {
  const char* word;
  T value;
};
constexpr QueryWord<Query::From> kFroms[] = {
    {"current", Query::From::Current}, {"first", Query::From::First}, {"last", Query::From::Last}};
constexpr QueryWord<bool> kDirections[] = {{"forward", true}, {"backward", false}};
constexpr QueryWord<Query::Type> kTypes[] = {{"func_enter", Query::Type::FuncEnter},
                                             {"func_exit", Query::Type::FuncExit},
                                             {"block_entry", Query::Type::BlockEntry},
                                             {"store", Query::Type::Store},
                                             {"load", Query::Type::Load},
                                             {"syscall", Query::Type::Syscall},
                                             {"signal", Query::Type::Signal},
                                             {"line", Query::Type::Line}};

template <class T, size_t N>
T read_word_of(Reader& r, const QueryWord<T> (&rows)[N], const char* what) {
  const std::string word = r.peek_word();
  for (const auto& row : rows)
    if (word == row.word) {
      r.word();
      return row.value;
    }
  std::string list;
  for (size_t i = 0; i < N; i++) list += std::string(i == 0 ? "" : i + 1 == N ? " or " : ", ") + rows[i].word;
  r.fail(fmt::format("{} is expected here: {}{}", what, list,
                     word.empty() ? "" : fmt::format("; '{}' is none of them", word)));
}

bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_';
}
bool is_name(char c) {
  return is_letter(c) || std::isdigit(static_cast<unsigned char>(c));
}

// What the names of the language mean to expressions; null: it is a variable's.
std::string event_name_of(const std::string& name, Query::Type type) {
  if (name == "pc" || name == "tick" || name == "thread") return "$" + name;
  const bool data = type == Query::Type::Store || type == Query::Type::Load;
  if (data && name == "addr") return "$addr";
  if (data && name == "newval") return "$new";
  if (data && name == "oldval") return type == Query::Type::Load ? "$new" : "$old";  // a load changes nothing
  const bool call = type == Query::Type::FuncExit || type == Query::Type::Syscall;
  if (call && name == "retval") return "$retval";
  const bool arguments = type == Query::Type::FuncEnter || type == Query::Type::Syscall;
  if (arguments && name.size() > 3 && name.size() < 6 && name.starts_with("arg") &&
      std::all_of(name.begin() + 3, name.end(), [](char c) { return std::isdigit(c); }))
    return "$" + name;
  return "";
}

// A part of the condition's text: [from, to).
class Conditions {
 public:
  Conditions(const std::string& text, Query::Type type) : text_(text), type_(type) {}

  QueryCondition read(size_t from, size_t to, unsigned depth = 0) {
    trim(from, to);
    if (depth > kMostBrackets) fail(from, "this is nested too deeply");
    if (from >= to) fail(from, "a condition is missing here");
    if (auto parts = split(from, to, "or"); parts.size() > 1)
      return joined(QueryCondition::Op::Or, parts, depth);
    if (auto parts = split(from, to, "and"); parts.size() > 1)
      return joined(QueryCondition::Op::And, parts, depth);
    if (word_at(from, to, "not")) {
      QueryCondition c = leaf(QueryCondition::Op::Not, from);
      c.parts.push_back(read(from + 3, to, depth + 1));
      return c;
    }
    if (text_[from] == '(' && behind_bracket(from, to) == to) return read(from + 1, to - 1, depth + 1);
    return primary(from, to);
  }

  // The text in the language of expressions, and where each of its characters comes from.
  QueryCondition expression(QueryCondition::Op op, size_t from, size_t to) {
    QueryCondition c = leaf(op, from);
    auto put = [&](const std::string& what, size_t column) {
      c.text += what;
      c.columns.insert(c.columns.end(), what.size(), column);
    };
    for (size_t i = from; i < to;) {
      if (text_[i] == '"' || text_[i] == '\'') {
        for (const size_t end = behind_quotes(i, to); i < end; i++) put(std::string(1, text_[i]), i);
        continue;
      }
      if (is_letter(text_[i]) && (i == from || !(is_name(text_[i - 1]) || text_[i - 1] == '$'))) {
        size_t end = i;
        while (end < to && is_name(text_[end])) end++;
        put(is_member(i) || (end + 1 < to && text_.compare(end, 2, "::") == 0)
                ? text_.substr(i, end - i)
                : translated(text_.substr(i, end - i)),
            i);
        i = end;
        continue;
      }
      if (const size_t pattern = pattern_behind(i, to); pattern != std::string::npos)
        fail(i, "a pattern is compared with a word in front of it, as in func=<main>");
      static constexpr const char* kBefore = "=<>!+-*/%&|^";
      const bool alone = text_[i] == '=' && (i == from || !strchr(kBefore, text_[i - 1])) &&
                         (i + 1 >= to || (text_[i + 1] != '=' && text_[i + 1] != '~'));
      put(alone ? "==" : std::string(1, text_[i]), i);
      i++;
    }
    c.columns.push_back(to);
    return c;
  }

 private:
  using Part = std::pair<size_t, size_t>;

  [[noreturn]] void fail(size_t column, const std::string& sentence) const {
    throw SpecError(text_, std::min(column, text_.size()), sentence);
  }
  static QueryCondition leaf(QueryCondition::Op op, size_t column) {
    QueryCondition c;
    c.op = op;
    c.column = column;
    return c;
  }
  bool space(size_t i) const { return std::isspace(static_cast<unsigned char>(text_[i])); }
  void trim(size_t& from, size_t& to) const {
    while (from < to && space(from)) from++;
    while (to > from && space(to - 1)) to--;
  }
  bool word_at(size_t at, size_t to, const char* word) const {
    const size_t length = std::char_traits<char>::length(word);
    return at + length <= to && text_.compare(at, length, word) == 0 &&
           (at == 0 || !(is_name(text_[at - 1]) || text_[at - 1] == '$')) &&
           (at + length == to || !is_name(text_[at + length]));
  }

  size_t behind_quotes(size_t at, size_t to) const {
    const char quote = text_[at];
    for (size_t i = at + 1; i < to; i++) {
      if (text_[i] == '\\') {
        i++;
      } else if (text_[i] == quote) {
        return i + 1;
      }
    }
    fail(at, fmt::format("the closing {} is missing", quote));
  }
  // Behind the > of a pattern, which begins with a <.
  size_t behind_pattern(size_t at, size_t to) const {
    unsigned depth = 0;
    for (size_t i = at; i < to; i++) {
      if (text_[i] == '<') depth++;
      if (text_[i] == '>' && --depth == 0) return i + 1;
    }
    fail(at, "the '>' that closes this pattern is missing");
  }
  // At a = or !=, behind which a pattern stands: where that begins.
  size_t pattern_behind(size_t at, size_t to) const {
    if (text_[at] != '=') return std::string::npos;
    size_t i = at + 1;
    while (i < to && (space(i) || text_[i] == '=')) i++;
    return i < to && text_[i] == '<' ? i : std::string::npos;
  }
  // What begins here and has to be taken as a whole: quotes, patterns; else one character.
  size_t next(size_t at, size_t to) const {
    if (text_[at] == '"' || text_[at] == '\'') return behind_quotes(at, to);
    if (const size_t pattern = pattern_behind(at, to); pattern != std::string::npos)
      return behind_pattern(pattern, to);
    return at + 1;
  }
  size_t behind_bracket(size_t at, size_t to) const {
    unsigned depth = 0;
    for (size_t i = at; i < to; i = next(i, to)) {
      if (text_[i] == '(' || text_[i] == '[') depth++;
      if ((text_[i] == ')' || text_[i] == ']') && --depth == 0) return i + 1;
    }
    fail(at, fmt::format("the '{}' that closes this is missing", text_[at] == '(' ? ')' : ']'));
  }

  // At a word that stands by itself.
  std::vector<Part> split(size_t from, size_t to, const char* word) const {
    std::vector<Part> parts;
    size_t begin = from;
    const size_t length = std::char_traits<char>::length(word);
    for (size_t i = from; i < to;) {
      if (text_[i] == '(' || text_[i] == '[') {
        i = behind_bracket(i, to);
      } else if (text_[i] == ')' || text_[i] == ']') {
        fail(i, fmt::format("nothing was opened that this '{}' could close", text_[i]));
      } else if (word_at(i, to, word) && !is_member(i)) {
        parts.push_back({begin, i});
        begin = i += length;
      } else {
        i = next(i, to);
      }
    }
    parts.push_back({begin, to});
    return parts;
  }
  // p->and, x.or: whoever has such members.
  bool is_member(size_t at) const {
    while (at > 0 && space(at - 1)) at--;
    return (at > 0 && text_[at - 1] == '.') || (at > 1 && text_.compare(at - 2, 2, "->") == 0) ||
           (at > 1 && text_.compare(at - 2, 2, "::") == 0);
  }

  QueryCondition joined(QueryCondition::Op op, const std::vector<Part>& parts, unsigned depth) {
    QueryCondition c = leaf(op, parts[0].first);
    for (const auto& [from, to] : parts) c.parts.push_back(read(from, to, depth + 1));
    return c;
  }

  QueryCondition primary(size_t from, size_t to) {
    size_t end = from;
    while (end < to && is_name(text_[end])) end++;
    const std::string word = text_.substr(from, end - from);
    size_t sign = end;
    while (sign < to && space(sign)) sign++;
    const bool other = sign + 1 < to && text_.compare(sign, 2, "!=") == 0;
    const size_t pattern = sign < to ? pattern_behind(sign + (other ? 1 : 0), to) : std::string::npos;
    if (!word.empty() && pattern != std::string::npos) {
      size_t behind = behind_pattern(pattern, to), rest = behind;
      while (rest < to && space(rest)) rest++;
      if (rest < to) fail(rest, "'and', 'or' or the end is expected behind a pattern");
      QueryCondition c = of_pattern(word, from, pattern + 1, behind - 1);
      if (!other) return c;
      QueryCondition negated = leaf(QueryCondition::Op::Not, from);
      negated.parts.push_back(std::move(c));
      return negated;
    }
    const bool data = type_ == Query::Type::Store || type_ == Query::Type::Load;
    if (data && word == "addr" && sign < to && text_[sign] == '=') {
      size_t value = sign + 1;
      if (value < to && text_[value] == '=') value++;
      if (!has_comparison(value, to)) {
        size_t last = to;
        trim(value, last);
        if (value == last) fail(value, "an address is missing here, as in addr=&total or addr=0x601040");
        return expression(QueryCondition::Op::Touches, value, last);
      }
    }
    return expression(QueryCondition::Op::Expression, from, to);
  }

  bool has_comparison(size_t from, size_t to) const {
    for (size_t i = from; i < to;) {
      if (text_[i] == '(' || text_[i] == '[') {
        i = behind_bracket(i, to);
        continue;
      }
      if (text_.compare(i, 2, "->") == 0) {
        i += 2;
        continue;
      }
      if (text_[i] == '=' || text_[i] == '<' || text_[i] == '>' || text_.compare(i, 2, "&&") == 0 ||
          text_.compare(i, 2, "||") == 0 || text_[i] == '?')
        return true;
      i = next(i, to);
    }
    return false;
  }

  QueryCondition of_pattern(const std::string& word, size_t column, size_t from, size_t to) {
    trim(from, to);
    const std::string inside = text_.substr(from, to - from);
    if (inside.empty()) fail(from, "there is nothing in this pattern");
    if (word == "src") return source(column, from, to);
    QueryCondition c = leaf(QueryCondition::Op::Function, column);
    c.text = inside;
    if (word == "func") return c;
    if (word == "stack") {
      c.op = QueryCondition::Op::Stack;
      read_frames(c, from, to);
      return c;
    }
    const bool named = type_ == Query::Type::Syscall || type_ == Query::Type::Signal;
    if (word == "name" && named) {
      c.op = QueryCondition::Op::Name;
      return c;
    }
    fail(column, fmt::format("patterns are of src, func and stack{}: there is no '{}' here",
                             named ? ", and name" : "", word));
  }

  // foo.c:7, foo.c,7, foo.c:7-12, foo.c
  QueryCondition source(size_t column, size_t from, size_t to) {
    QueryCondition c = leaf(QueryCondition::Op::Source, column);
    size_t digits = to;
    while (digits > from && (std::isdigit(static_cast<unsigned char>(text_[digits - 1])) ||
                             text_[digits - 1] == '-' || space(digits - 1)))
      digits--;
    const bool lines =
        digits > from + 1 && digits < to && (text_[digits - 1] == ':' || text_[digits - 1] == ',');
    size_t end = lines ? digits - 1 : to, begin = from;
    trim(begin, end);
    c.text = text_.substr(begin, end - begin);
    if (c.text.empty()) fail(from, "the name of a file is missing here, as in src=<foo.c:7>");
    if (!lines) {
      if (text_[to - 1] == ':' || text_[to - 1] == ',') fail(to, "the number of a line is missing here");
      return c;
    }
    const size_t dash = text_.find('-', digits);
    const size_t middle = dash < to ? dash : to;
    c.first = line_number(digits, middle);
    c.last = dash < to ? line_number(dash + 1, to) : c.first;
    if (c.last < c.first) fail(digits, "no line is in that range");
    return c;
  }
  int line_number(size_t from, size_t to) const {
    trim(from, to);
    const auto n = read_number(text_.substr(from, to - from));
    if (!n || *n == 0 || *n > 100'000'000) fail(from, "the number of a line is expected here");
    return static_cast<int>(*n);
  }

  // *,a,b: the innermost last. Commas in brackets belong to a name: f(int, char), g<a, b>.
  void read_frames(QueryCondition& c, size_t from, size_t to) const {
    size_t begin = from;
    int depth = 0;
    for (size_t i = from; i <= to; i++) {
      if (i < to && (text_[i] == '(' || text_[i] == '<')) depth++;
      if (i < to && (text_[i] == ')' || text_[i] == '>')) depth--;
      if (i < to && (text_[i] != ',' || depth > 0)) continue;
      size_t first = begin, last = i;
      trim(first, last);
      if (first == last)
        fail(first, "the name of a function is missing here; * stands for any number of them");
      std::string frame = text_.substr(first, last - first);
      if (frame == "**" || frame == "...") frame = "*";
      c.frames.push_back(std::move(frame));
      begin = i + 1;
    }
  }

  std::string translated(const std::string& word) const {
    if (word == "and") return "&&";
    if (word == "or") return "||";
    if (word == "not") return "!";
    const std::string name = event_name_of(word, type_);
    return name.empty() ? word : name;
  }

  const std::string& text_;
  Query::Type type_;
};

}  // namespace

bool is_query(const std::string& text) {
  Reader r(text, 0, text.size());
  if (r.peek_word() == "goto") r.word();
  const std::string from = r.word(), direction = r.peek_word();
  auto among = [](const std::string& word, const auto& rows) {
    return std::any_of(std::begin(rows), std::end(rows), [&](const auto& row) { return word == row.word; });
  };
  return among(from, kFroms) && among(direction, kDirections);
}

Query parse_query(const std::string& text) {
  if (text.size() > kLongestQuery)
    throw Error("a query of more than 100,000 characters is refused", kExitUsage);
  Query q;
  q.text = text;
  Reader r(text, 0, text.size());
  if (r.peek_word() == "goto") r.word();
  q.from = read_word_of(r, kFroms, "where to begin");
  q.forward = read_word_of(r, kDirections, "a direction");
  q.type = read_word_of(r, kTypes, "what to look for");
  if (!r.empty() && r.peek_word() != "where") {
    const size_t column = r.at();
    q.count = need_number(r, column, r.word(), "how many of them, or 'where',");
    if (q.count == 0) r.fail_at(column, "matches are counted from 1");
  }
  if (r.empty()) return q;
  if (r.peek_word() != "where") r.fail("'where' and a condition are expected here");
  r.word();
  q.where = Conditions(text, q.type).read(r.at(), r.end());
  return q;
}

std::string expression_of(const std::string& text, Query::Type type) {
  return Conditions(text, type).expression(QueryCondition::Op::Expression, 0, text.size()).text;
}

bool has_wildcards(const std::string& name) {
  return name.find_first_of("*?") != std::string::npos && !name.starts_with("operator");
}

bool fits_wildcards(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

const std::vector<KindHelp>& query_grammar() {
  static const std::vector<KindHelp> rows = {
      {"func_enter", "a function is entered; arg0, arg1, … are its arguments"},
      {"func_exit", "a function is left by its ret, or by a jump to another; retval"},
      {"block_entry", "the first instruction of a basic block is about to be executed"},
      {"line", "a source line is begun, where a debugger would have its breakpoint"},
      {"store", "memory is written to; addr=EXPRESSION, oldval, newval"},
      {"load", "memory is read; addr=EXPRESSION, newval"},
      {"syscall", "in front of a system call (behind it if retval is asked for); name=<write>, arg0, …"},
      {"signal", "in front of the delivery of a signal; name=<SIGUSR1>"},
      {"src=<foo.c:7>", "code of that line; also <foo.c,7>, <foo.c:7-12>, <foo.c>"},
      {"func=<f>", "the innermost function is f; * in it stands for any letters"},
      {"stack=<*,a,b>", "the stack of calls, innermost last; * for any number of functions, ? for one"},
      {"x > 3, p->name = \"a\"", "any expression over the program's variables; = compares, as == does"},
      {"pc, tick, thread", "the instruction's address, the tick, the thread's number"},
      {"A and B, A or B, not A, ( )", "conditions, put together"},
  };
  return rows;
}

}  // namespace backstep::events
