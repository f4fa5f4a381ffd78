// What a user has typed, read word by word: specifications of events, assertions and queries have the same
// ways, and the same errors, with a caret under the column.
#pragma once
#include <cctype>
#include <initializer_list>
#include <optional>
#include <string>

#include "events/spec.h"

namespace backstep::events {

// A part of the text; columns are those of the whole.
class Reader {
 public:
  Reader(const std::string& text, size_t from, size_t to) : text_(text), at_(from), end_(to) { trim(); }

  bool empty() const { return at_ >= end_; }
  size_t at() const { return at_; }
  std::string rest() const { return text_.substr(at_, end_ - at_); }
  [[noreturn]] void fail(const std::string& sentence) const { throw SpecError(text_, at_, sentence); }
  [[noreturn]] void fail_at(size_t column, const std::string& sentence) const {
    throw SpecError(text_, column, sentence);
  }

  std::string peek_word() const {
    size_t end = at_;
    while (end < end_ && !std::isspace(static_cast<unsigned char>(text_[end]))) end++;
    return text_.substr(at_, end - at_);
  }
  std::string word() {
    std::string w = peek_word();
    at_ += w.size();
    trim();
    return w;
  }
  // The word at the end, if it is one of those.
  std::optional<std::string> last_word(std::initializer_list<const char*> words) {
    for (const char* w : words) {
      const std::string with_space = std::string(" ") + w;
      if (end_ - at_ > with_space.size() &&
          text_.compare(end_ - with_space.size(), with_space.size(), with_space) == 0) {
        end_ -= with_space.size();
        trim();
        return w;
      }
    }
    return std::nullopt;
  }

  // Where a word stands by itself, outside of quotes and brackets; npos: nowhere. `from`: not before this
  // column.
  size_t find(const std::string& word, size_t from = 0) const {
    int depth = 0;
    char quote = 0;
    for (size_t i = at_; i < end_; i++) {
      const char c = text_[i];
      if (quote) {
        if (c == '\\') i++;
        if (c == quote) quote = 0;
      } else if (c == '"' || c == '\'') {
        quote = c;
      } else if (c == '(' || c == '[' || c == '{') {
        depth++;
      } else if (c == ')' || c == ']' || c == '}') {
        depth--;
      } else if (i >= from && depth <= 0 && text_.compare(i, word.size(), word) == 0 &&
                 i + word.size() <= end_ && (i == at_ || is_space(i - 1)) &&
                 (i + word.size() == end_ || is_space(i + word.size()))) {
        return i;
      }
    }
    return std::string::npos;
  }
  Reader part(size_t from, size_t to) const { return {text_, from, to}; }
  Reader before(size_t column) const { return {text_, at_, column}; }
  Reader behind(size_t column, size_t length) const { return {text_, column + length, end_}; }
  void cut(size_t column) {
    end_ = column;
    trim();
  }
  const std::string& text() const { return text_; }
  size_t end() const { return end_; }

 private:
  bool is_space(size_t i) const { return std::isspace(static_cast<unsigned char>(text_[i])); }
  void trim() {
    while (at_ < end_ && is_space(at_)) at_++;
    while (end_ > at_ && is_space(end_ - 1)) end_--;
  }

  const std::string& text_;
  size_t at_, end_;
};

// 12345, 0x10, 1e6, 12_345; nullopt: 12,345 is not one.
std::optional<uint64_t> read_number(std::string text);
uint64_t need_number(const Reader& r, size_t column, const std::string& text, const char* what);

}  // namespace backstep::events
