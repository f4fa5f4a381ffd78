#include "session/stack_text.h"

#include <cstring>

#include <fmt/format.h>

namespace backstep::session {

symbols::Stack unwound(const Session& session, const symbols::UnwindRegisters& registers, Address stack,
                       std::span<const uint8_t> bytes) {
  auto read = [&](uint64_t address, void* to, size_t size) {
    if (address < stack || address - stack > bytes.size() || bytes.size() - (address - stack) < size)
      return false;
    std::memcpy(to, bytes.data() + (address - stack), size);
    return true;
  };
  return symbols::unwind(session.program(), registers, read);
}

std::string frame_name(const StackFrame& f) {
  if (!f.function.empty()) return f.function;
  if (f.module.empty()) return fmt::format("{:#x}", f.pc);
  return fmt::format("{:#x} in {}", f.pc, f.module.substr(f.module.rfind('/') + 1));
}

std::string frame_text(const StackFrame& f) {
  std::string text = frame_name(f);
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
