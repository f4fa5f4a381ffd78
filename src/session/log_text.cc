#include "session/log_text.h"

#include <fmt/format.h>

#include "base/error.h"

namespace backstep::session {
namespace {

// Of the brace before `at`; what is in quotes does not count.
size_t closing_brace(const std::string& text, size_t at) {
  const size_t open = at - 1;
  char quote = 0;
  for (; at < text.size(); at++) {
    if (quote) {
      if (text[at] == '\\')
        at++;
      else if (text[at] == quote)
        quote = 0;
    } else if (text[at] == '"' || text[at] == '\'') {
      quote = text[at];
    } else if (text[at] == '}') {
      return at;
    }
  }
  throw Error(fmt::format("this '{{' is not closed:\n  {}\n  {}^", text, std::string(open, ' ')), kExitUsage);
}

}  // namespace

LogText::LogText(const std::string& text) {
  texts_.emplace_back();
  for (size_t i = 0; i < text.size(); i++) {
    const char c = text[i];
    if ((c == '{' || c == '}') && i + 1 < text.size() && text[i + 1] == c) {
      texts_.back() += c;
      i++;
    } else if (c == '{') {
      const size_t end = closing_brace(text, i + 1);
      values_.push_back(text.substr(i + 1, end - i - 1));
      texts_.emplace_back();
      i = end;
    } else if (c == '}') {
      throw Error(fmt::format("there is a '}}' without a '{{':\n  {}\n  {}^", text, std::string(i, ' ')),
                  kExitUsage);
    } else {
      texts_.back() += c;
    }
  }
}

std::string LogText::fill(const std::vector<std::string>& with) const {
  std::string line = texts_[0];
  for (size_t i = 0; i < with.size(); i++) line += with[i] + texts_[i + 1];
  return line;
}

}  // namespace backstep::session
