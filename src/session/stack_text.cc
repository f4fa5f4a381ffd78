#include "session/stack_text.h"

#include <fmt/format.h>

namespace backstep::session {

std::string frame_text(const StackFrame& f) {
  std::string text = f.function.empty() ? fmt::format("{:#x}", f.pc) : f.function;
  if (f.line) text += fmt::format(" ({}:{})", f.file.substr(f.file.rfind('/') + 1), f.line);
  return text;
}

std::string stack_line(const std::vector<StackFrame>& stack, bool complete) {
  std::string text;
  for (const StackFrame& f : stack) {
    if (!text.empty()) text += " < ";
    text += frame_text(f);
  }
  return complete ? text : text + " < …";
}

}  // namespace backstep::session
