// A jump through a register or a table stays in the function, if it is a `switch`, or leaves it: a tail call
// of a function that a pointer or the loader's table names. Which one it is depends on where it leads, so
// such a place is an exit with a condition. So is a conditional jump to another function.
#include "session/exits.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/operand.h"
#include "isa/decode.h"

namespace backstep::session {
namespace {

constexpr const char* kRegisters[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                      "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
constexpr size_t kMostRanges = 16;

using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;

// Where `jmp r/m64` leads, as an expression; empty: it cannot be said.
std::string target_of(const isa::Insn& in, const uint8_t* code, uint64_t pc) {
  if (in.modrm_at == 0 || in.fs || in.gs || in.addrsize) return "";
  if (!in.memory_operand())
    return fmt::format("(unsigned long)${}", kRegisters[(in.modrm & 7) | (in.rex & 1) << 3]);
  const engine::Operand op = engine::operand_of(in, code, pc);
  std::string sum = fmt::format("{:#x}UL", static_cast<uint64_t>(op.disp));
  if (op.base >= 0) sum += fmt::format(" + ${}", kRegisters[op.base]);
  if (op.index >= 0) sum += fmt::format(" + ${} * {}", kRegisters[op.index], 1 << op.scale);
  return fmt::format("*(unsigned long *)({})", sum);
}

std::string outside(const std::string& target, const Ranges& ranges) {
  std::string all;
  for (const auto& [start, end] : ranges)
    all += fmt::format("{}{} - {:#x}UL >= {:#x}UL", all.empty() ? "" : " && ", target, start, end - start);
  return all;
}

// When a conditional jump is taken, of the flags: the condition is in the lower four bits of its opcode.
std::string taken(uint8_t opcode) {
  constexpr const char* kSign = "($eflags >> 7 & 1)";
  constexpr const char* kOverflow = "($eflags >> 11 & 1)";
  std::string when;
  switch (opcode >> 1 & 7) {
    case 0:
      when = "($eflags & 0x800) != 0";
      break;
    case 1:
      when = "($eflags & 1) != 0";
      break;
    case 2:
      when = "($eflags & 0x40) != 0";
      break;
    case 3:
      when = "($eflags & 0x41) != 0";
      break;
    case 4:
      when = "($eflags & 0x80) != 0";
      break;
    case 5:
      when = "($eflags & 4) != 0";
      break;
    case 6:
      when = fmt::format("{} != {}", kSign, kOverflow);
      break;
    default:
      when = fmt::format("($eflags & 0x40) != 0 || {} != {}", kSign, kOverflow);
  }
  return opcode & 1 ? "!(" + when + ")" : when;
}

}  // namespace

std::vector<Exit> exits_of(const symbols::Program& program, const symbols::Function& function) {
  std::vector<Exit> exits;
  if (!function.module) return exits;
  Ranges ranges = function.ranges;
  const bool bounded = ranges.size() <= kMostRanges;
  ranges.resize(std::min(ranges.size(), kMostRanges));
  auto inside = [&](uint64_t a) {
    return std::any_of(function.ranges.begin(), function.ranges.end(),
                       [&](const auto& r) { return a >= r.first && a < r.second; });
  };
  auto leaves = [&](uint64_t target) {
    if (inside(target)) return false;
    const auto other = program.function_at(target);
    return !other || other->name != function.name + ".cold";
  };
  for (const auto& [start, end] : ranges) {
    const std::string_view text = function.module->elf().bytes(start - function.module->bias, end - start);
    const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
    for (size_t at = 0; at < text.size();) {
      const uint8_t* code = bytes + at;
      const isa::Insn in = isa::decode(code, text.size() - at);
      if (in.cls == isa::Class::Bad || in.length == 0) break;
      const uint64_t pc = start + at, target = pc + in.length + static_cast<uint64_t>(in.rel);
      at += in.length;
      if (in.cls == isa::Class::Ret) {
        exits.push_back({pc, false});
      } else if (in.cls == isa::Class::Jmp && leaves(target)) {
        exits.push_back({pc, true});
      } else if (in.cls == isa::Class::Jcc && leaves(target)) {
        exits.push_back({pc, true, taken(in.opcode)});
      } else if (in.cls == isa::Class::JmpInd && bounded) {
        if (const std::string to = target_of(in, code, pc); !to.empty())
          exits.push_back({pc, true, outside(to, ranges)});
      }
    }
  }
  return exits;
}

}  // namespace backstep::session
