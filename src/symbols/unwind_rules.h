// How to get from a frame to its caller's, for each place in the code: rows of the call frame information,
// kept.
#pragma once
#include <elfutils/libdw.h>

#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "symbols/program.h"
#include "symbols/unwind.h"

namespace backstep::symbols {

// Where the caller's value of a register is.
struct FrameRule {
  enum Kind : uint8_t {
    kSame,          // still in the register
    kUndefined,     // lost
    kAtCfa,         // in memory at CFA + offset
    kCfaPlus,       // it is CFA + offset
    kRegister,      // in register `offset`
    kAtExpression,  // in memory at what the expression gives
    kExpression,    // what the expression gives
  };
  Kind kind = kUndefined;
  int64_t offset = 0;
  std::vector<Dwarf_Op> expression = {};
};

// Holds for a range of code.
struct FrameRow {
  uint64_t end = 0;     // guest address behind the last one it holds for
  bool signal = false;  // a signal's trampoline: the caller's frame was interrupted, it did not call
  // The CFA: register + offset, unless there is an expression.
  int cfa_register = UnwindRegisters::kRsp;
  int64_t cfa_offset = 0;
  std::vector<Dwarf_Op> cfa_expression = {};
  std::array<FrameRule, UnwindRegisters::kCount> rules = {};
};

class FrameRules {
 public:
  FrameRules() = default;
  FrameRules(const FrameRules&) = delete;
  FrameRules& operator=(const FrameRules&) = delete;
  ~FrameRules();

  // The row for a guest address; null: nothing is said about it. Good until the next call.
  const FrameRow* at(const Program& program, uint64_t pc);

 private:
  struct OfModule {
    Dwarf_CFI* sources[2] = {};  // .eh_frame of the file, .debug_frame of its debug information; may be null
    std::map<uint64_t, FrameRow> rows;  // by their first guest address
  };
  OfModule* open(const Module& module);
  const FrameRow* read(OfModule& frames, const Module& module, uint64_t pc);

  std::unordered_map<const Module*, std::unique_ptr<OfModule>> modules_;  // null: not an ELF file
  std::unordered_map<uint64_t, const FrameRow*> by_pc_;
};

}  // namespace backstep::symbols
