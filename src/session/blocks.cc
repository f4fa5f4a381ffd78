// Most blocks can be read off the code: it is decoded from the first byte of each of the function's ranges,
// as compilers put instructions behind each other. What cannot be read off is where the tables of a switch
// lead to. That is counted instead (instructions.h): an instruction that was executed more often than the one
// in front of it, from which control can only fall into it, was entered from elsewhere. Signals and faults in
// between change nothing of these counts, so they make no blocks.
#include "session/blocks.h"

#include <algorithm>
#include <set>

#include "isa/decode.h"

namespace backstep::session {
namespace {

constexpr size_t kMostPieces = 64;

// Behind which ones is control somewhere else, or may be?
bool ends_block(isa::Class cls) {
  using isa::Class;
  switch (cls) {
    case Class::Jcc:
    case Class::Jmp:
    case Class::Call:
    case Class::Loop:
    case Class::JmpInd:
    case Class::CallInd:
    case Class::Ret:
    case Class::FarRet:
    case Class::Iret:
      return true;
    default:
      return false;
  }
}

bool is_direct_jump(isa::Class cls) {
  return cls == isa::Class::Jcc || cls == isa::Class::Jmp || cls == isa::Class::Loop;
}

}  // namespace

// The instructions of a function.
struct Blocks::Code {
  struct Instruction {
    uint8_t length = 0;
    bool ends = false;
  };
  std::map<Address, Instruction> instructions;
  std::set<Address> leaders;
  bool has_indirect_jumps = false;

  explicit Code(const symbols::Function& function) {
    if (!function.module) return;
    leaders.insert(function.entry);
    for (size_t i = 0; i < function.ranges.size() && i < kMostPieces; i++) {
      const auto [start, end] = function.ranges[i];
      const std::string_view text = function.module->elf().bytes(start - function.module->bias, end - start);
      const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
      if (!text.empty()) leaders.insert(start);
      for (size_t at = 0; at < text.size();) {
        const isa::Insn in = isa::decode(bytes + at, text.size() - at);
        if (in.cls == isa::Class::Bad || in.length == 0) break;
        const Address pc = start + at, next = pc + in.length;
        const bool ends = ends_block(in.cls);
        instructions[pc] = {in.length, ends};
        if (ends) leaders.insert(next);
        if (is_direct_jump(in.cls)) leaders.insert(next + static_cast<Address>(static_cast<int64_t>(in.rel)));
        has_indirect_jumps |= in.cls == isa::Class::JmpInd;
        at += in.length;
      }
    }
    // Jumps to other functions, and what stands behind the last instruction.
    std::erase_if(leaders, [&](Address pc) { return !instructions.count(pc); });
  }

  void add_entered(const InstructionCounts& counts) {
    auto executed = [&](Address pc) {
      auto found = counts.executed.find(pc);
      return found == counts.executed.end() ? 0 : found->second;
    };
    for (auto in = instructions.begin(); in != instructions.end(); ++in) {
      const auto next = std::next(in);
      if (next == instructions.end() || next->first != in->first + in->second.length || in->second.ends)
        continue;
      if (executed(next->first) > executed(in->first)) leaders.insert(next->first);
    }
  }

  std::vector<Block> blocks() const {
    std::vector<Block> list;
    for (const auto& [pc, in] : instructions) {
      const bool straight = !list.empty() && list.back().end == pc;
      if (leaders.count(pc) || !straight) list.push_back({pc, pc});
      list.back().end = pc + in.length;
    }
    return list;
  }
};

const InstructionCounts& Blocks::counts() {
  if (!counts_) counts_ = count_instructions(session_, {}, watcher_);
  return *counts_;
}

std::vector<Block> Blocks::of(const symbols::Function& function) {
  Code code(function);
  if (code.has_indirect_jumps) code.add_entered(counts());
  return code.blocks();
}

std::vector<Block> Blocks::executed() {
  std::vector<Block> all;
  std::set<Address> known;
  Address end = 0;  // of the function that was looked at last
  for (const auto& [pc, times] : counts().executed) {
    if (pc < end) continue;
    const auto function = session_.program().function_at(pc);
    if (!function) continue;
    for (const auto& [from, to] : function->ranges)
      if (pc >= from && pc < to) end = to;
    if (!known.insert(function->entry).second) continue;
    for (const Block& block : of(*function))
      if (counts().executed.count(block.start)) all.push_back(block);
  }
  std::sort(all.begin(), all.end(), [](const Block& a, const Block& b) { return a.start < b.start; });
  return all;
}

}  // namespace backstep::session
