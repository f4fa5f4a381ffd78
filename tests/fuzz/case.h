// One case of the instruction fuzzer: a snippet of code, the state that it starts in, and what came of it
// natively and translated.
//
// A case is determined by three things that fit on one line (see regressions.txt): where the code lies, its
// bytes, and a seed for registers and memory. Everything else follows from them.
//
// Three processes share an array of cases. The parent makes them and compares; a native process runs them
// directly on the CPU; an engine process runs them translated. A snippet may do what it likes to its process:
// it has the same memory below 0x5000'0000'0000 in both, and whatever it finds there differing is a bug.
#pragma once
#include <cstdint>
#include <string>

#include "engine/context.h"
#include "engine/options.h"

namespace fuzz {

using backstep::Address;

// --- memory that both worlds have at the same place ---

inline constexpr unsigned kBatch = 64;
inline constexpr uint64_t kSlotSize = 0x2000;  // code of case i of a batch lies in slot i of its area
inline constexpr uint64_t kAreaSize = kBatch * kSlotSize;

struct CodeArea {
  Address start;
  bool writable;  // the snippet may write to its own code
  Address data;   // what RIP-relative operands can reach
};
inline constexpr Address kLowData = 0x3000'0000, kHighData = 0x2200'0200'0000, kStack = 0x2300'0000'0000;
inline constexpr CodeArea kAreas[] = {
    {0x2000'0000, false, kLowData},        // as ordinary programs have it
    {0x2100'0000, true, kLowData},         //
    {0x2200'0000'0000, false, kHighData},  // out of reach of 32-bit addresses: wide lookups, far operands
    {0x2200'0100'0000, true, kHighData},
    {0x4ff8'0000, false, kLowData},  // the last pages that the jump table covers
    {0x5100'0000, false, kLowData},  // behind it, within reach of 32-bit immediates
    {0x9000'0000, false, kLowData},  // beyond it, and beyond what `push imm32` can say
};
inline constexpr unsigned kAreaCount = sizeof kAreas / sizeof kAreas[0];
// A snippet ends by jumping here; nothing executable in the engine.
inline constexpr Address kExit = 0x1800'0000;

struct Memory {
  unsigned char low[0x2000];
  unsigned char high[0x1000];
  unsigned char stack[0x1000];
};
struct Piece {
  Address start;
  uint64_t offset, size;  // in Memory
};
inline constexpr Piece kPieces[] = {{kLowData, offsetof(Memory, low), sizeof(Memory::low)},
                                    {kHighData, offsetof(Memory, high), sizeof(Memory::high)},
                                    {kStack, offsetof(Memory, stack), sizeof(Memory::stack)}};

// --- state ---

inline constexpr size_t kXsave =
    2752;  // standard format with ZMM16-31; AMD's ends at 2440 + …, Intel's at 2688

struct alignas(64) State {
  uint64_t gpr[16];
  Address rip;
  uint64_t rflags;
  uint64_t fs_base, gs_base;
  alignas(64) unsigned char xsave[kXsave];
};

enum class End : uint8_t {
  None,
  Exit,     // came to kExit
  Fault,    // signo and the fields below; Syscall: SIGSYS
  Timeout,  // native only: did not end in a while
  Skipped,  // not comparable: a non-deterministic instruction or an access to what only the engine has
};

inline constexpr unsigned kMaxTrail = 64;

// System calls never reach the kernel. What a snippet meets:
enum class Syscalls : uint8_t { End, Hot, Host };  // it ends there; the hot half answers; the host answers
inline constexpr uint64_t kAnswer = 0x1234'5678'9abc'def0;  // in rax

// Where an x87 environment was stored: it holds addresses of x87 instructions, which are not compared.
struct EnvironmentStore {
  enum Kind : uint8_t { Short, Long, Fxsave } kind;  // 16-bit and 32-bit fnstenv and fnsave
  Address at;
};
inline constexpr unsigned kMaxEnvironments = 8;

struct Outcome {
  End end;
  int signo, code;
  bool has_address;
  uint64_t address, error, trapno;
  uint64_t ticks;
  bool ticks_known;
  bool all_vectors;            // ZMM16-31 are the guest's: ticks are not counted in one of them
  unsigned environments_size;  // translated only
  EnvironmentStore environments[kMaxEnvironments];
  unsigned trail_size;  // pcs at which ticks began, up to kMaxTrail
  Address trail[kMaxTrail];
  uint8_t last_code[16];  // native: the instruction at the end's rip, as the snippet left it
  State state;
  Memory memory;
};

struct Case {
  // The identity.
  Address at;
  uint64_t seed;
  bool evex;  // AVX-512 state is the guest's
  unsigned size;
  uint8_t code[512];

  // What follows from it (fill_start).
  unsigned area, slot;
  bool stepped;  // count ticks natively by single-stepping
  uint64_t start_tick;
  Syscalls syscalls;
  unsigned limit_step;  // checked engines: stop every so many ticks
  State start;
  Memory memory;

  Outcome native, translated;
};

// What the three processes share.
struct Shared {
  unsigned count;             // cases in the batch
  volatile unsigned current;  // being run
  bool reborn;                // the engine process has met AVX-512 and must be replaced
  uint64_t native_steps, interruptions;
  Case cases[kBatch];
};

// --- the parts ---

// Random numbers; the same everywhere for the same seed.
struct Random {
  uint64_t state;
  explicit Random(uint64_t seed) : state(seed) {}
  uint64_t operator()() {  // splitmix64
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t n) { return (*this)() % n; }
  bool chance(unsigned percent) { return below(100) < percent; }
};

// What the general registers hold at the start.
enum class Role : uint8_t { Pointer, Small, Value };
struct Roles {
  Role of[16];
};
Roles roles(uint64_t seed);

// Fills everything that follows from the identity.
void fill_start(Case& c);
bool parse_case(const std::string& line, Case& c, std::string* error);
std::string print_case(const Case& c);

// The XSAVE area with every component explicit, pointers of the last x87 instruction blanked, and what may
// not be compared zeroed.
void normalise(State& s, bool all_vectors);
struct XsaveLayout {
  uint64_t mask = 0;  // components that exist here, of engine kSavedComponents
  uint32_t avx = 576, opmask = 0, zmm_hi = 0, hi16 = 0;
};
const XsaveLayout& xsave_layout();

// Maps what both worlds have. Code areas are left without execute permission.
void map_memory();
// Lays down the code of a batch, int3 around it.
void put_code(const Shared& shared);
void put_code(const Case& c);
// What put_code(c) fills with int3 first: the case's slot, or the whole of a writable area, since the snippet
// may have written anywhere in it.
Piece cleared_by(const Case& c);
void set_memory(const Memory& m);
// Data segment selectors mean nothing in 64-bit code, but a snippet can change and store them.
inline void reset_segments() {
  asm volatile("movl %0, %%ds; movl %0, %%es" : : "r"(0));
}
void get_memory(Memory& m);

// The two processes: read a byte from `in` for each batch, write one to `out` when it is done. Never return.
[[noreturn]] void native_process(Shared& shared, int in, int out);
// How the engine process gets a snippet to its end.
enum class Drive {
  Run,        // Engine::run
  Step,       // Engine::step, instruction by instruction
  Interrupt,  // Engine::run, stopped by signals all the time
};
[[noreturn]] void engine_process(Shared& shared, int in, int out, const backstep::EngineOptions& options,
                                 bool evex, Drive drive);

// What differs between the two outcomes, a line each; empty: nothing.
std::string compare(const Case& c);
std::string disassemble(const Case& c);
// Can the engine be expected to do the same? Known after the native run.
bool comparable(const Case& c);

}  // namespace fuzz
