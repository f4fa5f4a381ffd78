// Running the byte code of the call frame information takes microseconds; a profile asks for the same few
// thousand places a million times. So each row is turned into plain rules once, and found again by its pc in
// a hash map.
#include "symbols/unwind_rules.h"

#include <dwarf.h>

#include <cstdlib>

#include "base/error.h"

namespace backstep::symbols {
namespace {

constexpr size_t kMostUnwindRows = 1 << 18;  // of one module; a hostile file must not fill our memory
constexpr size_t kMostKnown = 1 << 20;

// "reg + offset", the usual way to say where the CFA is.
bool is_register_offset(const Dwarf_Op* ops, size_t count, FrameRow& row) {
  if (count != 1) return false;
  if (ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg31) {
    row.cfa_register = ops[0].atom - DW_OP_breg0;
    row.cfa_offset = static_cast<int64_t>(ops[0].number);
  } else if (ops[0].atom == DW_OP_bregx && ops[0].number < UnwindRegisters::kCount) {
    row.cfa_register = static_cast<int>(ops[0].number);
    row.cfa_offset = static_cast<int64_t>(ops[0].number2);
  } else {
    return false;
  }
  return row.cfa_register < static_cast<int>(UnwindRegisters::kCount);
}

FrameRule rule_of(Dwarf_Frame* frame, int number) {
  Dwarf_Op memory[3];
  Dwarf_Op* ops = nullptr;
  size_t count = 0;
  if (dwarf_frame_register(frame, number, memory, &ops, &count) != 0) return {FrameRule::kUndefined};
  // What is not said of a register that functions must preserve is that this one does not touch it. (libdw
  // knows that by its back ends, which its static library does not have.)
  constexpr uint32_t kPreserved = 1u << 3 | 1u << 6 | 0xf000;  // rbx, rbp, r12 to r15
  if (count == 0)
    return {ops == nullptr || kPreserved >> number & 1 ? FrameRule::kSame : FrameRule::kUndefined};
  bool is_value = ops[count - 1].atom == DW_OP_stack_value;
  size_t steps = count - (is_value ? 1 : 0);
  if (steps > 0 && steps <= 2 && ops[0].atom == DW_OP_call_frame_cfa &&
      (steps == 1 || ops[1].atom == DW_OP_plus_uconst))
    return {is_value ? FrameRule::kCfaPlus : FrameRule::kAtCfa,
            steps == 1 ? 0 : static_cast<int64_t>(ops[1].number)};
  if (count == 1 && ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg31)
    return {FrameRule::kRegister, ops[0].atom - DW_OP_reg0};
  if (count == 1 && ops[0].atom == DW_OP_regx)
    return {FrameRule::kRegister, static_cast<int64_t>(ops[0].number)};
  return {is_value ? FrameRule::kExpression : FrameRule::kAtExpression, 0, {ops, ops + steps}};
}

bool read_row(Dwarf_Frame* frame, FrameRow& row) {
  Dwarf_Op* ops = nullptr;
  size_t count = 0;
  if (dwarf_frame_cfa(frame, &ops, &count) != 0 || count == 0) return false;
  if (!is_register_offset(ops, count, row)) row.cfa_expression.assign(ops, ops + count);
  for (size_t i = 0; i < UnwindRegisters::kCount; i++) row.rules[i] = rule_of(frame, static_cast<int>(i));
  return true;
}

}  // namespace

FrameRules::~FrameRules() {
  for (auto& [module, frames] : modules_)
    if (frames && frames->sources[0]) dwarf_cfi_end(frames->sources[0]);
}

FrameRules::OfModule* FrameRules::open(const Module& module) {
  auto [at, added] = modules_.try_emplace(&module);
  if (!added) return at->second.get();
  try {
    const ElfFile& elf = module.elf();
    at->second = std::make_unique<OfModule>();
    at->second->sources[0] = dwarf_getcfi_elf(elf.elf());
    // It belongs to the Dwarf, unlike the other.
    if (elf.dwarf()) at->second->sources[1] = dwarf_getcfi(elf.dwarf());
  } catch (const Error&) {
  }
  return at->second.get();
}

const FrameRow* FrameRules::read(OfModule& frames, const Module& module, uint64_t pc) {
  uint64_t here = pc - module.bias;
  for (Dwarf_CFI* source : frames.sources) {
    Dwarf_Frame* frame = nullptr;
    if (!source || dwarf_cfi_addrframe(source, here, &frame) != 0) continue;
    Dwarf_Addr start = 0, end = 0;
    FrameRow row;
    bool good =
        dwarf_frame_info(frame, &start, &end, &row.signal) == static_cast<int>(UnwindRegisters::kRip) &&
        start <= here && here < end && read_row(frame, row);
    free(frame);
    if (!good) continue;
    row.end = end + module.bias;
    return &(frames.rows[start + module.bias] = std::move(row));
  }
  return nullptr;
}

const FrameRow* FrameRules::at(const Program& program, uint64_t pc) {
  if (auto known = by_pc_.find(pc); known != by_pc_.end()) return known->second;
  const Module* module = program.module_at(pc);
  OfModule* frames = module ? open(*module) : nullptr;
  if (!frames) return nullptr;
  if (by_pc_.size() > kMostKnown) by_pc_.clear();
  if (frames->rows.size() > kMostUnwindRows) {
    by_pc_.clear();
    frames->rows.clear();
  }
  const FrameRow* row = nullptr;
  auto after = frames->rows.upper_bound(pc);
  if (after != frames->rows.begin() && pc < std::prev(after)->second.end)
    row = &std::prev(after)->second;
  else
    row = read(*frames, *module, pc);
  by_pc_[pc] = row;
  return row;
}

}  // namespace backstep::symbols
