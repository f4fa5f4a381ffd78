// Instruction lengths and classes for the translator.
//
// The translator copies most instructions byte by byte; of an instruction it must know only the length,
// whether an operand is RIP-relative, and whether it is one of the few that cannot be copied (control
// transfers, non-deterministic ones, those that would show engine state). A full decoder (Zydis, 209 cycles
// an instruction without operands) costs more than all the rest of translation, so this small table
// decoder does it in about 10 ns. tests/unit/decode_test.cc holds it against Zydis on real code and random
// bytes. It does not reject undefined encodings: those are copied, and the CPU raises #UD at the right place.
#pragma once
#include <cstdint>

namespace backstep::isa {

enum class Class : uint8_t {
  Plain,    // copied
  Jcc,      // conditional branch, rel = displacement
  Jmp,      // direct jump
  Call,     // direct call
  Loop,     // loop/loope/loopne/jrcxz
  JmpInd,   // jmp r/m64
  CallInd,  // call r/m64
  Ret,      // ret, ret imm16
  FarRet,   // retf: to the host
  Iret,     // iretq: to the host
  Syscall,
  Cpuid,
  Rdtsc,
  Rdtscp,
  Rdrand,
  Rdseed,
  Rdpid,
  Xgetbv,  // answered by the host
  Xsave,
  Xrstor,     // xsave/xsavec/xsaveopt, xrstor: engine registers must not leak
  FpEnv,      // fnstenv, fnsave, fxsave: would store a code cache address (FIP)
  Evex,       // AVX-512 encodings: may touch the tick counter's register
  Gs,         // gs: prefix, rdgsbase, wrgsbase: GS is the engine's
  Segment,    // mov to fs/gs selectors, lfs, lgs: to the host
  Trap,       // int3, ud2, hlt, privileged ones …: copied, always faults
  Forbidden,  // int 0x80, sysenter, xbegin: replaced by ud2
  Bad,        // no instruction fits into the bytes given
};

struct Insn {
  uint8_t length = 0;
  Class cls = Class::Bad;
  uint8_t opcode = 0;
  uint8_t map = 0;        // 0: one byte, 1: 0F, 2: 0F38, 3: 0F3A
  uint8_t encoding = 0;   // 0 legacy, 1 VEX, 2 EVEX, 3 XOP
  uint8_t rex = 0;        // legacy REX prefix or 0
  uint8_t rex_at = 0;     // its offset (valid when rex != 0)
  uint8_t opcode_at = 0;  // offset of the last opcode byte
  uint8_t modrm_at = 0;   // 0: none
  uint8_t modrm = 0;
  uint8_t disp_at = 0;  // offset of the disp32 of a RIP-relative operand, 0: not RIP-relative
  bool rep = false, repne = false, opsize = false, addrsize = false, fs = false, gs = false, lock = false;
  int32_t rel = 0;  // direct branches; Ret: immediate

  bool memory_operand() const { return modrm_at != 0 && (modrm >> 6) != 3; }
};

// Decodes the instruction at `code`, of which `available` bytes may be read.
Insn decode(const uint8_t* code, uint64_t available);

// movs, cmps, stos, lods, scas, ins or outs with a repeat prefix.
inline bool is_repeated_string(const Insn& in) {
  if (!(in.rep || in.repne) || in.map != 0 || in.encoding != 0) return false;
  return (in.opcode >= 0xa4 && in.opcode <= 0xa7) || (in.opcode >= 0xaa && in.opcode <= 0xaf) ||
         (in.opcode >= 0x6c && in.opcode <= 0x6f);
}

}  // namespace backstep::isa
