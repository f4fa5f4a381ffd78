// The text of a log line: 'n={n} name={s->name}'.
#pragma once
#include <string>
#include <vector>

namespace backstep::session {

// Text and expressions in turns. {{ and }} stand for the braces themselves.
class LogText {
 public:
  explicit LogText(const std::string& text);  // throws Error

  const std::vector<std::string>& values() const { return values_; }  // the expressions
  std::string fill(const std::vector<std::string>& with) const;

 private:
  std::vector<std::string> texts_;  // one more than
  std::vector<std::string> values_;
};

}  // namespace backstep::session
