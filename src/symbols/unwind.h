// From the registers of a thread to the functions that it is in: its stack, frame by frame.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "symbols/program.h"

namespace backstep::symbols {

// By DWARF's numbers for x86-64: rax rdx rcx rbx rsi rdi rbp rsp r8..r15, rip.
struct UnwindRegisters {
  static constexpr size_t kCount = 17, kRbp = 6, kRsp = 7, kRip = 16;
  uint64_t gpr[kCount] = {};
};

struct Frame {
  uint64_t pc = 0;
  uint64_t cfa = 0;        // the frame's canonical address: rsp before the call; 0: not known
  bool call_site = false;  // pc is behind a call, which may be the last of its function: look up pc - 1
};

// What the registers were in a frame, as far as callees saved them.
struct FrameRegisters {
  UnwindRegisters values;
  uint32_t known = 0;  // bit n: register n
};

struct Stack {
  std::vector<Frame> frames;  // innermost first
  bool complete = true;       // the last one is where the thread began
};

// False: cannot be read.
using ReadStack = std::function<bool(uint64_t address, void* to, size_t size)>;

// By the call frame information of the modules (.eh_frame, .debug_frame); where there is none, as in code
// made at run time, by frame pointers if they look sane. `registers`: those of each frame, if wanted.
Stack unwind(const Program& program, const UnwindRegisters& start, const ReadStack& read, size_t most = 512,
             std::vector<FrameRegisters>* registers = nullptr);

}  // namespace backstep::symbols
