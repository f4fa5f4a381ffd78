#include "cli/stacks.h"

#include <fmt/format.h>

#include "cli/asking.h"
#include "cli/format.h"
#include "session/stack_text.h"

namespace backstep::cli {

bool print_frames(const std::vector<session::StackFrame>& frames, bool complete) {
  for (size_t i = 0; i < frames.size(); i++) {
    const auto& f = frames[i];
    std::string place = session::frame_name(f);
    if (f.line) place += fmt::format(" at {}:{}", f.file.substr(f.file.rfind('/') + 1), f.line);
    if (f.inlined) place += " (inlined)";
    if (!put_line(fmt::format("    #{:<3} {}", i, place))) return false;
  }
  return complete || put_line("    … what called this is not known");
}

void print_stack(const std::string& heading, const session::StackAt& stack) {
  put_line(heading);
  print_frames(stack.frames, stack.complete);
}

std::string point_of(const session::Position& at) {
  return format_point({at.tick, at.pc});
}

}  // namespace backstep::cli
