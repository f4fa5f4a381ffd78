#include "cli/stacks.h"

#include <fmt/format.h>

#include "cli/asking.h"
#include "cli/format.h"

namespace backstep::cli {

void print_stack(const std::string& heading, const session::StackAt& stack) {
  put_line(heading);
  for (size_t i = 0; i < stack.frames.size(); i++) {
    const auto& f = stack.frames[i];
    std::string place = f.function.empty() ? fmt::format("{:#x}", f.pc) : f.function;
    if (f.line) place += fmt::format(" at {}:{}", f.file.substr(f.file.rfind('/') + 1), f.line);
    if (f.inlined) place += " (inlined)";
    put_line(fmt::format("    #{:<3} {}", i, place));
  }
  if (!stack.complete) put_line("    … what called this is not known");
}

std::string point_of(const session::Position& at) {
  return format_point({at.tick, at.pc});
}

}  // namespace backstep::cli
