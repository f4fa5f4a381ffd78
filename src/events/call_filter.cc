// Which calls a filter names; what it says about them is in call_filter_condition.cc.
//
// Classes are not lists: a call belongs to one by what the system-call table says of its arguments. Only
// calls without arguments that would tell (fork, pause, …) are named.
#include "events/call_filter.h"

#include <sys/syscall.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include <fmt/format.h>

#include "base/nearest.h"
#include "events/call_filter_condition.h"
#include "guest/syscall_names.h"
#include "guest/syscall_print.h"
#include "guest/syscall_table.h"

namespace backstep::events {
namespace {

using guest::Arg;
using guest::ArgSpec;
using guest::Names;
using guest::Shape;
using guest::Syscall;

constexpr size_t kNumbers = 65536;  // that a log can tell apart

template <typename F>
bool any_argument(const Syscall& row, const F& f) {
  return std::any_of(row.args, row.args + row.argc, f);
}
bool has_names(const Syscall& row, std::initializer_list<Names> wanted) {
  return any_argument(row, [&](const ArgSpec& a) {
    return std::find(wanted.begin(), wanted.end(), static_cast<Names>(a.names)) != wanted.end();
  });
}
bool is_one_of(uint16_t nr, std::initializer_list<int> numbers) {
  return std::find(numbers.begin(), numbers.end(), nr) != numbers.end();
}

bool is_file(const Syscall& row, uint16_t nr) {
  return any_argument(row, [](const ArgSpec& a) { return a.kind == Arg::Path; }) || nr == SYS_getcwd;
}
bool is_descriptor(const Syscall& row, uint16_t nr) {
  return (row.traits & guest::kCreatesFd) || nr == SYS_close_range || any_argument(row, [](const ArgSpec& a) {
           return a.kind == Arg::Fd || a.kind == Arg::Pollfds || a.kind == Arg::FdSet ||
                  a.shape == Shape::IntPair;
         });
}
bool is_network(const Syscall& row, uint16_t nr) {
  return nr == SYS_listen ||
         has_names(row, {Names::SocketDomain, Names::SocketLevel, Names::MsgFlags, Names::ShutdownHow}) ||
         any_argument(row, [](const ArgSpec& a) { return a.shape == Shape::Sockaddr; });
}
bool is_process(const Syscall& row, uint16_t nr) {
  return (row.traits & guest::kNoReturn) || is_one_of(nr, {SYS_fork, SYS_vfork, SYS_clone, SYS_clone3}) ||
         has_names(row, {Names::WaitOptions}) ||
         any_argument(row, [](const ArgSpec& a) { return a.kind == Arg::Argv; });
}
bool is_memory(const Syscall& row, uint16_t nr) {
  const bool replaces_all = any_argument(row, [](const ArgSpec& a) { return a.kind == Arg::Argv; });
  const bool range = row.argc > 1 && row.args[0].kind == Arg::Address && row.args[1].kind == Arg::Size &&
                     nr != SYS_set_robust_list;
  return ((row.traits & guest::kChangesMap) && !replaces_all) || range || nr == SYS_munlockall ||
         has_names(row, {Names::MlockallFlags, Names::MempolicyMode, Names::MembarrierCommand}) ||
         is_one_of(nr, {SYS_get_mempolicy, SYS_migrate_pages, SYS_move_pages});
}
bool is_signal(const Syscall& row, uint16_t nr) {
  // A set further behind is what is blocked while one waits for something else (ppoll).
  const bool sets =
      row.argc > 0 && (row.args[0].shape == Shape::Sigset || row.args[1].shape == Shape::Sigset);
  return sets || is_one_of(nr, {SYS_pause, SYS_rt_sigreturn}) || any_argument(row, [](const ArgSpec& a) {
           return a.kind == Arg::Signal || a.shape == Shape::Sigaction || a.shape == Shape::Sigstack;
         });
}

constexpr struct {
  const char* name;
  bool (*has)(const Syscall&, uint16_t);
} kClasses[] = {{"file", is_file},       {"desc", is_descriptor}, {"net", is_network},
                {"network", is_network}, {"process", is_process}, {"memory", is_memory},
                {"signal", is_signal}};

bool is_call(uint16_t nr) {
  return nr < guest::kSyscallCount && guest::syscall_row(nr).name;
}

bool is_pattern(const std::string& word) {
  return word.find_first_of("*?[") != std::string::npos;
}

std::vector<std::string> call_names() {
  std::vector<std::string> names;
  for (int nr = 0; nr < guest::kSyscallCount; nr++)
    if (const char* name = guest::syscall_row(static_cast<uint64_t>(nr)).name) names.emplace_back(name);
  return names;
}

// The part in front of `if`.
class Selection {
 public:
  explicit Selection(const std::string& text) : text_(text) {}

  // Numbers that are meant; `all`: no name was given.
  std::vector<bool> parse(bool& all) {
    std::vector<bool> chosen(kNumbers, false);
    all = true;
    skip_blanks();
    while (at_ < text_.size() && !at_if()) {
      const size_t start = at_;
      const bool without = text_[at_] == '!';
      if (without) at_++;
      const std::vector<bool> item = parse_item();
      // "!futex" alone means all others.
      if (all && without) chosen.assign(kNumbers, true);
      all = false;
      for (size_t i = 0; i < kNumbers; i++)
        if (item[i]) chosen[i] = !without;
      skip_blanks();
      if (at_ == text_.size() || at_if()) break;
      if (text_[at_] != ',') fail_behind(start);
      at_++;
      skip_blanks();
      if (at_ == text_.size() || at_if()) fail(at_, "the name of a system call is missing behind the comma");
    }
    if (all) chosen.assign(kNumbers, true);
    return chosen;
  }

  // Behind `if`; npos: there is none.
  size_t condition() const { return at_ < text_.size() ? at_ + 2 : std::string::npos; }

 private:
  [[noreturn]] void fail(size_t column, const std::string& sentence) const {
    throw FilterError(text_, column, sentence);
  }
  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) at_++;
  }
  static bool is_part(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || (c && std::strchr("_*?[]-%^", c));
  }
  bool at_if() const {
    return text_.compare(at_, 2, "if") == 0 && (at_ + 2 == text_.size() || !is_part(text_[at_ + 2]));
  }

  [[noreturn]] void fail_behind(size_t start) const {
    const std::string word = text_.substr(start, at_ - start);
    if (text_.find_first_of("<>=~&|\"", at_) != std::string::npos)
      fail(at_, "a condition begins with 'if': write if ret < 0");
    fail(at_, "a comma and another name, or 'if', is expected here");
  }

  std::vector<bool> parse_item() {
    const size_t start = at_;
    while (at_ < text_.size() && is_part(text_[at_])) at_++;
    const std::string word = text_.substr(start, at_ - start);
    if (word.empty())
      fail(start, text_[start] == ',' ? "the name of a system call is missing in front of the comma"
                                      : "the name of a system call, a %class or 'if' is expected here");
    return word[0] == '%' ? of_class(word.substr(1), start) : by_name(word, start);
  }

  std::vector<bool> of_class(const std::string& name, size_t start) const {
    const std::vector<std::string> classes = call_classes();
    if (std::find(classes.begin(), classes.end(), name) == classes.end()) {
      std::string list;
      for (const std::string& c : classes) list += (list.empty() ? "%" : ", %") + c;
      fail(start, fmt::format("there is no class '%{}'; there are {}", name, list));
    }
    std::vector<bool> chosen(kNumbers, false);
    for (uint16_t nr = 0; nr < guest::kSyscallCount; nr++) chosen[nr] = is_in_class(name, nr);
    return chosen;
  }

  std::vector<bool> by_name(const std::string& word, size_t start) const {
    std::vector<bool> chosen(kNumbers, false);
    bool found = false;
    for (uint16_t nr = 0; nr < guest::kSyscallCount; nr++) {
      if (!is_call(nr)) continue;
      const char* name = guest::syscall_row(nr).name;
      if (is_pattern(word) ? !matches_glob(word, name) : word != name) continue;
      found = chosen[nr] = true;
    }
    // As calls that have no name are printed.
    if (word == guest::kUnknownCall) found = chosen[guest::kBeyondNumbers] = true;
    constexpr std::string_view kNameless = "syscall_";
    if (!found && word.starts_with(kNameless) && word.size() <= kNameless.size() + 5 &&
        word.find_first_not_of("0123456789", kNameless.size()) == std::string::npos &&
        word.size() > kNameless.size()) {
      const unsigned long nr = std::stoul(word.substr(kNameless.size()));
      if (nr < kNumbers) found = chosen[nr] = true;
    }
    if (found) return chosen;
    if (is_pattern(word)) fail(start, fmt::format("no system call matches '{}'", word));
    if (find_fact(word))
      fail(start,
           fmt::format("there is no system call '{}'; a condition begins with 'if': if {} …", word, word));
    fail(start, fmt::format("there is no system call '{}'{}", word, did_you_mean(word, call_names())));
  }

  const std::string& text_;
  size_t at_ = 0;
};

}  // namespace

FilterError::FilterError(const std::string& text, size_t column, const std::string& sentence)
    : Error(
          [&] {
            // One line, with the mark below it where a terminal shows the place.
            std::string line, mark;
            for (size_t i = 0; i < text.size(); i++) {
              const auto c = static_cast<unsigned char>(text[i]);
              line += c < 0x20 || c == 0x7f ? ' ' : text[i];
              if (i < column && (c & 0xc0) != 0x80) mark += ' ';
            }
            return fmt::format("the filter is wrong at column {}: {}\n  {}\n  {}^", column + 1, sentence,
                               line, mark);
          }(),
          kExitUsage),
      column(column),
      sentence(sentence) {}

std::vector<std::string> call_classes() {
  std::vector<std::string> names;
  for (const auto& c : kClasses) names.emplace_back(c.name);
  return names;
}

bool is_in_class(const std::string& name, uint16_t nr) {
  if (!is_call(nr)) return false;
  for (const auto& c : kClasses)
    if (name == c.name) return c.has(guest::syscall_row(nr), nr);
  return false;
}

CallFilter::CallFilter() : calls_(kNumbers, true) {}

CallFilter::CallFilter(const std::string& text) {
  Selection selection(text);
  bool all = true;
  calls_ = selection.parse(all);
  if (selection.condition() == std::string::npos) return;
  std::vector<uint16_t> calls;
  for (uint16_t nr = 0; nr < guest::kSyscallCount; nr++)
    if (calls_[nr] && is_call(nr)) calls.push_back(nr);
  condition_ = parse_condition(text, selection.condition(), calls, all);
}

bool CallFilter::matches(const Call& call) const {
  return selects(call.view.nr) && (!condition_ || condition_->evaluate(call) == Truth::Yes);
}

namespace {

// Does the set that begins with '[' at pattern[at] have the character? Behind it, `at` is behind the set.
// A '[' without its ']' is itself.
bool matches_set(std::string_view pattern, size_t& at, char c) {
  size_t i = at + 1;
  const bool inverted = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (inverted) i++;
  bool found = false;
  for (bool first = true; i < pattern.size() && (first || pattern[i] != ']'); first = false, i++) {
    const auto low = static_cast<unsigned char>(pattern[i]);
    auto high = low;
    if (i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
      high = static_cast<unsigned char>(pattern[i + 2]);
      i += 2;
    }
    found |= static_cast<unsigned char>(c) >= low && static_cast<unsigned char>(c) <= high;
  }
  if (i >= pattern.size()) {
    at++;
    return c == '[';
  }
  at = i + 1;
  return found != inverted;
}

}  // namespace

bool matches_glob(std::string_view pattern, std::string_view text) {
  // At a mismatch, the last star takes one character more.
  size_t p = 0, t = 0, star = std::string_view::npos, retry = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = t;
      continue;
    }
    size_t next = p;
    bool same = false;
    if (p < pattern.size()) {
      const char c = pattern[p];
      if (c == '[') {
        same = matches_set(pattern, next, text[t]);
      } else {
        const bool escaped = c == '\\' && p + 1 < pattern.size();
        same = escaped ? pattern[p + 1] == text[t] : c == '?' || c == text[t];
        next = p + (escaped ? 2 : 1);
      }
    }
    if (same) {
      p = next;
      t++;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') p++;
  return p == pattern.size();
}

}  // namespace backstep::events
