// What one executed instruction wrote, and where each byte of it came from.
#pragma once
#include <Zydis/Zydis.h>

#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "replay/steps.h"

namespace backstep::session {

// One byte of memory or of a register.
struct Loc {
  enum Kind : uint8_t {
    Memory,   // where: its address
    General,  // where: number of the register (hardware numbering) * 64 + byte
    Vector,   // likewise
    Other,    // likewise: x87 and MMX registers 0 to 7, masks (k0 …) from 16 on
    Flags,    // where: 0 the carry flag, 1 the others
  };
  Kind kind = Memory;
  uint64_t where = 0;
  Loc operator+(uint64_t bytes) const { return {kind, where + bytes}; }
  bool in_register() const { return kind != Memory; }
  unsigned number() const { return static_cast<unsigned>(where / 64); }
  unsigned byte() const { return static_cast<unsigned>(where % 64); }
  friend auto operator<=>(const Loc&, const Loc&) = default;  // NOLINT(modernize-use-nullptr)
};
std::string register_name(const Loc& first, uint64_t bytes);  // "eax", "xmm1", "bytes 4 to 7 of xmm1"

struct ByteSource {
  enum Kind : uint8_t {
    Copy,       // of the byte `from`, as it was in front of the instruction
    Constant,   // `value`
    Extension,  // of a narrower value: zero, or as the sign of what ends with `from`
    Computed,   // from the inputs
  };
  Kind kind = Computed;
  Loc from = {};
  uint8_t value = 0;
};

struct Written {
  Loc first;
  uint64_t count = 0;
  // Of each byte; if there are fewer, those behind are as the last: a Copy goes on with the next byte.
  std::vector<ByteSource> sources = {};
  uint64_t period = 0;  // not 0: sources repeat after so many bytes (rep stos)
  ByteSource source_of(uint64_t byte) const;
};

struct FlowInput {
  Loc first;
  uint64_t count = 0;
  bool address = false;  // it only says where in memory an operand is
};

struct Effect {
  std::vector<Written> written;
  std::vector<FlowInput> inputs;    // of what is computed
  std::vector<uint64_t> constants;  // likewise: immediate operands
};

// An instruction, decoded once.
struct DecodedStep {
  ZydisDecodedInstruction in{};
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT]{};
  uint8_t code[15] = {};
  bool valid = false;
  uint64_t registers = 0;  // that it may write: bit 0 general 0, 16 vector 0, 48 Other, 49 flags
  bool stores = false;
  bool is_call = false;  // a system call
};

class Decoder {
 public:
  Decoder();
  const DecodedStep& decode(const replayer::StepRecord& step);
  Effect effect(const replayer::StepRecord& step);
  // What the instruction that begins with these bytes may write, as in DecodedStep; nothing: it is none.
  struct Writes {
    uint64_t registers = 0;
    bool is_call = false;
  };
  Writes writes(std::span<const uint8_t> code) const;
  // As an assembler writes it; addresses of the program as numbers.
  std::string text(const replayer::StepRecord& step);

 private:
  void fill(DecodedStep& d, std::span<const uint8_t> code) const;
  ZydisDecoder decoder_;
  ZydisFormatter formatter_;
  std::unordered_map<Address, std::unique_ptr<DecodedStep>> known_;
};

// The bit of DecodedStep::registers for a byte of a register.
uint64_t register_bit(const Loc& loc);

}  // namespace backstep::session
