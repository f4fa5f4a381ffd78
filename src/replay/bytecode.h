// The bytecode of conditions and of values that are logged: what a worker runs at each match of an event.
//
// It is the bytecode of gdb's agent expressions ("The GDB Agent Expression Mechanism"), which gdb sends for
// its conditions, with operations of our own behind those of gdb: the state around the event (tick, thread,
// the address that was touched), text, and floating point. A stack of 64-bit words; operands follow their
// operation, most significant byte first; the target of a jump is a position in the code.
//
// Code may come from a stranger (gdb's packets): the interpreter checks every operation, and the number of
// steps is bounded. An expression that divides by zero or reads memory that is not there has no value: it is
// *unknown*. gdb's conditions take unknown for true (better to stop than to miss); our own events take it for
// "no match, and tell".
//
// Compiled to from source-level expressions by symbols/expression.h.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/context.h"

namespace backstep::replayer {

enum Op : uint8_t {
  // gdb's; its names with k in front.
  kAdd = 0x02,
  kSub,
  kMul,
  kDivSigned,
  kDivUnsigned,
  kRemSigned,
  kRemUnsigned,
  kLsh,
  kRshSigned,
  kRshUnsigned,
  kLogNot = 0x0e,
  kBitAnd,
  kBitOr,
  kBitXor,
  kBitNot,
  kEqual,
  kLessSigned,
  kLessUnsigned,
  kExt,  // operand: bits to keep, sign-extended
  kRef8,
  kRef16,
  kRef32,
  kRef64,
  kIfGoto = 0x20,
  kGoto,
  kConst8,
  kConst16,
  kConst32,
  kConst64,
  kReg,  // gdb's numbers: rax rbx rcx rdx rsi rdi rbp rsp r8..r15 rip eflags
  kEnd,
  kDup,
  kPop,
  kZeroExt,
  kSwap,
  kPick = 0x32,
  kRot,

  // Ours. Those of both worlds:
  kState = 0x80,  // operand: StateWord
  kFail,          // there is nothing: a thread-local variable that the thread has not got (yet)
  // Text of n bytes (the operand) is on the stack, eight bytes a word, its first word deepest, each word's
  // first
  // byte the lowest; below it the address of a text in memory, which ends with a NUL. -> 0 or 1
  kTextEqual,
  kTextContains,

  // Those of the host world only; in the hot world their value is unknown, and the host evaluates again.
  kVector = 0x90,  // operand n: the low 64 bits of xmm n; 0x80 + n: the 64 bits above
  kFloatAdd,       // words are the bits of doubles
  kFloatSub,
  kFloatMul,
  kFloatDiv,
  kFloatNeg,
  kFloatLess,
  kFloatLessEqual,
  kFloatEqual,
  kFloatFromSigned,
  kFloatFromUnsigned,
  kFloatToSigned,  // unknown if it does not fit
  kFloatToUnsigned,
  kFloatWiden,   // bits of a float -> bits of a double
  kFloatNarrow,  // and back
  kFloatRef80,   // a long double in memory, as a double
};

// What kState pushes, if the event at hand has it (Surroundings::known_state).
enum StateWord : uint8_t {
  kStateTick,
  kStateThread,  // the virtual name (tid) of the thread
  kStateFsBase,
  kStateGsBase,
  kStateAddress,    // of data events: what was touched
  kStateOld,        // its value before, zero-extended
  kStateNew,        // and after
  kStateSize,       // how many bytes
  kStateNumber,     // of moments of the log: of the system call
  kStateFirstFree,  // an event's own words, in EventVariables::named (symbols/expression.h)
  kStateWords = 16,
};

// Reads guest memory for an expression: 1, 2, 4 or 8 bytes, zero-extended; false: it cannot be read.
using ReadMemory = bool (*)(uint64_t address, uint64_t* to, unsigned size, const void* argument);
// Does a kFloat… operation on `a` (the result goes there) and, if it takes two, `b`; false: it has no value.
using FloatOperation = bool (*)(uint8_t op, uint64_t* a, uint64_t b);
bool float_operation(uint8_t op, uint64_t* a, uint64_t b);  // host world only

// All that an expression can see.
struct Surroundings {
  const Context& ctx;
  ReadMemory read;
  const void* argument = nullptr;  // of `read`
  uint64_t state[kStateWords] = {};
  uint32_t known_state = 0;         // bit n: state[n] is set
  bool vectors = false;             // ctx.xsave is up to date: kVector may be used
  uint32_t lost_registers = 0;      // bit n: kReg n has no value (outer frames: what callees did not save)
  FloatOperation floats = nullptr;  // float_operation, or null in the hot world

  void set(StateWord word, uint64_t value) {
    state[word] = value;
    known_state |= 1u << word;
  }
};

enum class Unknown : uint8_t {
  No,
  BadCode,   // or too many steps
  Memory,    // Value::value is the address that cannot be read
  Division,  // by zero, or a number that fits no integer
  State,     // the event has no such word, the frame no such register
  HostOnly,  // the host world may know
  Failed,    // kFail
};

struct Value {
  bool known = false;
  uint64_t value = 0;
  Unknown why = Unknown::BadCode;  // unless known
};
Value evaluate(const uint8_t* code, size_t size, const Surroundings& around);
// The same for values of several words: the topmost `count` of the stack at the end, the deepest first.
Value evaluate(const uint8_t* code, size_t size, const Surroundings& around, uint64_t* words, unsigned count);

// Which part of it is a value to keep.
enum class Capture : uint8_t {
  Scalar,  // the word on top of the stack
  Words,   // size / 8 words, rounded up, of which `size` bytes count (a struct that lives in registers)
  Bytes,   // `size` bytes at the address on the stack
  Text,    // at most `size` bytes at the address on the stack, up to a NUL, which is not kept
};
inline constexpr uint32_t kMaxCapturedWords = 16;

struct CapturedExpression {
  std::vector<uint8_t> code;
  Capture capture = Capture::Scalar;
  uint32_t size = 8;
};

// A captured value: Scalar 8 bytes, Words `size`, Bytes `size`, Text as many as there were before the NUL.
struct Captured {
  bool readable =
      false;  // false: unknown. `bytes` then has the 8 bytes of the address that cannot be read, one
  std::vector<uint8_t> bytes;  // if there is nothing to be read (kFail), or nothing, if it was not for that
};
Captured capture(const CapturedExpression& expression, const Surroundings& around);  // host world

}  // namespace backstep::replayer
