#include "session/exits.h"

#include <algorithm>

#include "isa/decode.h"

namespace backstep::session {

std::vector<Exit> exits_of(const symbols::Program& program, const symbols::Function& function) {
  constexpr size_t kMostRanges = 16;
  std::vector<Exit> exits;
  if (!function.module) return exits;
  auto inside = [&](uint64_t a) {
    return std::any_of(function.ranges.begin(), function.ranges.end(),
                       [&](const auto& r) { return a >= r.first && a < r.second; });
  };
  for (size_t i = 0; i < function.ranges.size() && i < kMostRanges; i++) {
    const auto [start, end] = function.ranges[i];
    const std::string_view text = function.module->elf().bytes(start - function.module->bias, end - start);
    const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
    for (size_t at = 0; at < text.size();) {
      const isa::Insn in = isa::decode(bytes + at, text.size() - at);
      if (in.cls == isa::Class::Bad || in.length == 0) break;
      const uint64_t pc = start + at, target = pc + in.length + static_cast<uint64_t>(in.rel);
      at += in.length;
      if (in.cls == isa::Class::Ret) {
        exits.push_back({pc, false});
      } else if (in.cls == isa::Class::Jmp && !inside(target)) {
        const auto other = program.function_at(target);
        if (!other || other->name != function.name + ".cold") exits.push_back({pc, true});
      }
    }
  }
  return exits;
}

}  // namespace backstep::session
