// The table decoder. An instruction is: legacy prefixes, REX | VEX | EVEX | XOP, opcode in one of the maps,
// ModRM + SIB + displacement if the opcode has one, immediate. Two 256-entry tables say for the one-byte and
// the 0F map whether there is a ModRM and what immediate follows; the other maps are regular.
#include "isa/decode.h"

namespace backstep::isa {
namespace {

constexpr uint8_t M = 0x10;  // has ModRM
constexpr uint8_t X = 0x20;  // not an instruction in 64-bit mode
// Immediate kinds.
constexpr uint8_t I8 = 1, I16 = 2, IZ = 3, IV = 4, IMOFFS = 5, IENTER = 6, IGRP3B = 7, IGRP3V = 8;
constexpr uint8_t MB = M | I8, MZ = M | IZ;

// clang-format off
constexpr uint8_t kOneByte[256] = {
    // 0     1     2     3     4     5     6     7     8     9     a     b     c     d     e     f
    M, M, M, M, I8, IZ, X, X, M, M, M, M, I8, IZ, X, X,                              // 00
    M, M, M, M, I8, IZ, X, X, M, M, M, M, I8, IZ, X, X,                              // 10
    M, M, M, M, I8, IZ, X, X, M, M, M, M, I8, IZ, X, X,                              // 20
    M, M, M, M, I8, IZ, X, X, M, M, M, M, I8, IZ, X, X,                              // 30
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,                                  // 40 (REX)
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,                                  // 50
    X, X, X, M, X, X, X, X, IZ, MZ, I8, MB, 0, 0, 0, 0,                              // 60
    I8, I8, I8, I8, I8, I8, I8, I8, I8, I8, I8, I8, I8, I8, I8, I8,                  // 70
    MB, MZ, X, MB, M, M, M, M, M, M, M, M, M, M, M, M,                               // 80
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, X, 0, 0, 0, 0, 0,                                  // 90
    IMOFFS, IMOFFS, IMOFFS, IMOFFS, 0, 0, 0, 0, I8, IZ, 0, 0, 0, 0, 0, 0,            // a0
    I8, I8, I8, I8, I8, I8, I8, I8, IV, IV, IV, IV, IV, IV, IV, IV,                  // b0
    MB, MB, I16, 0, X, X, MB, MZ, IENTER, 0, I16, 0, 0, I8, X, 0,                    // c0
    M, M, M, M, X, X, X, 0, M, M, M, M, M, M, M, M,                                  // d0
    I8, I8, I8, I8, I8, I8, I8, I8, IZ, IZ, X, I8, 0, 0, 0, 0,                       // e0
    X, 0, X, X, 0, 0, M | IGRP3B, M | IGRP3V, 0, 0, 0, 0, 0, 0, M, M,                // f0
};

constexpr uint8_t kTwoByte[256] = {
    M, M, M, M, X, 0, 0, 0, 0, 0, X, 0, X, M, 0, MB,                                  // 00
    M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,                                   // 10
    M, M, M, M, X, X, X, X, M, M, M, M, M, M, M, M,                                   // 20
    0, 0, 0, 0, 0, 0, X, 0, X, X, X, X, X, X, X, X,                                   // 30
    M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,                                   // 40
    M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,                                   // 50
    M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,                                   // 60
    MB, MB, MB, MB, M, M, M, 0, M, M, X, X, M, M, M, M,                               // 70
    IZ, IZ, IZ, IZ, IZ, IZ, IZ, IZ, IZ, IZ, IZ, IZ, IZ, IZ, IZ, IZ,                   // 80
    M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,                                   // 90
    0, 0, 0, M, MB, M, X, X, 0, 0, 0, M, MB, M, M, M,                                 // a0
    M, M, M, M, M, M, M, M, M, M, MB, M, M, M, M, M,                                  // b0
    M, M, MB, M, MB, MB, MB, M, 0, 0, 0, 0, 0, 0, 0, 0,                               // c0
    M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,                                   // d0
    M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,                                   // e0
    M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,                                   // f0
};

// clang-format on

// Map 1 under VEX and EVEX: the same immediates as the legacy map, ModRM nearly everywhere.
uint8_t vector_map1(uint8_t opcode, bool evex) {
  if (opcode == 0x77 && !evex) return 0;
  if ((opcode >= 0x70 && opcode <= 0x73) || opcode == 0xc2 || (opcode >= 0xc4 && opcode <= 0xc6)) return MB;
  return M;
}

// A near branch with an operand size prefix: AMD cuts the target to 16 bits, Intel ignores the prefix.
bool short_target(const Insn& in) {
  return in.opsize && !(in.rex & 8);
}

Class classify_one_byte(const Insn& in) {
  uint8_t reg = (in.modrm >> 3) & 7;
  uint8_t op = in.opcode;
  if (op >= 0x70 && op <= 0x7f) return short_target(in) ? Class::Forbidden : Class::Jcc;
  switch (op) {
    case 0x8e:  // mov sreg: only fs and gs carry a base
      return reg == 4 || reg == 5 ? Class::Segment : Class::Plain;
    case 0x9b:
      return Class::Plain;
    case 0xc2:
    case 0xc3:
      return short_target(in) ? Class::Forbidden : Class::Ret;
    case 0xc6:
    case 0xc7:
      return reg == 7 && in.modrm == 0xf8 ? Class::Forbidden : Class::Plain;
    case 0xca:
    case 0xcb:
      return Class::FarRet;
    case 0xcc:
    case 0xf1:
    case 0xf4:
      return Class::Trap;
    case 0xcd:
      return (in.rel & 0xff) == 0x80 ? Class::Forbidden : Class::Trap;  // 32-bit system calls
    case 0xcf:
      return Class::Iret;
    case 0xd9:
      return reg == 6 && in.modrm < 0xc0 ? Class::FpEnv : Class::Plain;  // fnstenv
    case 0xdd:
      return reg == 6 && in.modrm < 0xc0 ? Class::FpEnv : Class::Plain;  // fnsave
    case 0xe0:
    case 0xe1:
    case 0xe2:
    case 0xe3:
      return short_target(in) ? Class::Forbidden : Class::Loop;
    case 0xe4:
    case 0xe5:
    case 0xe6:
    case 0xe7:
    case 0xec:
    case 0xed:
    case 0xee:
    case 0xef:
    case 0x6c:
    case 0x6d:
    case 0x6e:
    case 0x6f:
    case 0xfa:
    case 0xfb:
      return Class::Trap;  // I/O, cli, sti
    case 0xe8:
      return short_target(in) ? Class::Forbidden : Class::Call;
    case 0xe9:
    case 0xeb:
      return short_target(in) ? Class::Forbidden : Class::Jmp;
    case 0xff:
      if (reg == 2 || reg == 4) {
        if (short_target(in)) return Class::Forbidden;
        return reg == 2 ? Class::CallInd : Class::JmpInd;
      }
      return reg == 3 || reg == 5 ? Class::Forbidden : Class::Plain;  // far ones
    default:
      return Class::Plain;
  }
}

Class classify_two_byte(const Insn& in) {
  uint8_t reg = (in.modrm >> 3) & 7;
  bool mem = in.modrm < 0xc0;
  uint8_t op = in.opcode;
  if (op >= 0x80 && op <= 0x8f) return short_target(in) ? Class::Forbidden : Class::Jcc;
  switch (op) {
    case 0x01:
      if (in.modrm == 0xd0) return Class::Xgetbv;
      if (in.modrm == 0xf9) return Class::Rdtscp;
      if (in.modrm == 0xd5 || in.modrm == 0xd6) return Class::Forbidden;  // xend, xtest: no TSX
      return Class::Plain;
    case 0x05:
      return Class::Syscall;
    case 0x06:
    case 0x07:
    case 0x08:
    case 0x09:
    case 0x0b:
    case 0x30:
    case 0x32:
    case 0x33:
    case 0x35:
    case 0x37:
    case 0xaa:
    case 0xb9:
    case 0xff:
      return Class::Trap;
    case 0x34:
      return Class::Forbidden;
    case 0x31:
      return Class::Rdtsc;
    case 0xa2:
      return Class::Cpuid;
    case 0xa1:
    case 0xa9:
    case 0xb4:
    case 0xb5:
      return Class::Segment;  // pop fs/gs, lfs, lgs
    case 0xae:
      if (!mem) {
        if (in.rep && (reg == 1 || reg == 3)) return Class::Gs;  // rdgsbase, wrgsbase
        return Class::Plain;                                     // rdfsbase, fences, …
      }
      if (in.rep || in.repne) return Class::Plain;
      if (reg == 0) return Class::FpEnv;                              // fxsave
      if (reg == 4 || (reg == 6 && !in.opsize)) return Class::Xsave;  // xsave, xsaveopt (66 /6: clwb)
      if (reg == 5) return Class::Xrstor;
      return Class::Plain;
    case 0xc7:
      if (!mem) {
        if (reg == 6 && !in.rep) return Class::Rdrand;
        if (reg == 7) return in.rep ? Class::Rdpid : Class::Rdseed;
        return Class::Plain;
      }
      if (reg == 4) return Class::Xsave;  // xsavec
      return Class::Plain;                // cmpxchg8b/16b; xsaves/xrstors fault by themselves
    default:
      return Class::Plain;
  }
}

}  // namespace

Insn decode(const uint8_t* code, uint64_t available) {
  Insn in;
  const unsigned limit = available < 15 ? static_cast<unsigned>(available) : 15;
  unsigned at = 0;
#define BACKSTEP_NEED(n) \
  if (at + (n) > limit) return in
  // Legacy prefixes, any order. A REX counts only directly before the opcode: one before another prefix or
  // another REX is ignored.
  uint8_t byte;
  for (;; at++) {
    BACKSTEP_NEED(1);
    byte = code[at];
    if ((byte & 0xf0) == 0x40) {
      in.rex = byte;
      in.rex_at = static_cast<uint8_t>(at);
      continue;
    }
    switch (byte) {
      case 0x66:
        in.opsize = true;
        break;
      case 0x67:
        in.addrsize = true;
        break;
      case 0xf2:
        in.repne = true;
        in.rep = false;
        break;
      case 0xf3:
        in.rep = true;
        in.repne = false;
        break;
      case 0xf0:
        in.lock = true;
        break;
      case 0x2e:
      case 0x36:
      case 0x3e:
      case 0x26:
        break;  // ignored in 64-bit mode
      case 0x64:
        in.fs = true;
        in.gs = false;
        break;
      case 0x65:
        in.gs = true;
        in.fs = false;
        break;
      default:
        goto opcode;
    }
    in.rex = 0;
  }
opcode:

  uint8_t shape;
  bool vector = false;
  if ((byte == 0xc5 || byte == 0xc4) && !in.rex) {
    in.encoding = 1;
    vector = true;
    unsigned prefix = byte == 0xc5 ? 2 : 3;
    BACKSTEP_NEED(prefix + 1);
    in.map = byte == 0xc5 ? 1 : code[at + 1] & 0x1f;
    if (byte == 0xc5) {
      uint8_t pp = code[at + 1] & 3;
      in.rep = pp == 2, in.repne = pp == 3, in.opsize = pp == 1;
    } else {
      uint8_t pp = code[at + 2] & 3;
      in.rep = pp == 2, in.repne = pp == 3, in.opsize = pp == 1;
    }
    at += prefix;
    in.opcode = code[at];
    shape = in.map == 1 ? vector_map1(in.opcode, false) : in.map == 3 ? MB : M;
    if (in.map == 0 || in.map > 3) shape = M;
  } else if (byte == 0x62 && !in.rex) {
    in.encoding = 2;
    vector = true;
    BACKSTEP_NEED(5);
    in.map = code[at + 1] & 7;
    at += 4;
    in.opcode = code[at];
    shape = in.map == 1 ? vector_map1(in.opcode, true) : in.map == 3 ? MB : M;
  } else if (byte == 0x8f && !in.rex && at + 1 < limit && (code[at + 1] & 0x1f) >= 8) {
    in.encoding = 3;  // AMD XOP
    vector = true;
    BACKSTEP_NEED(4);
    in.map = code[at + 1] & 0x1f;
    at += 3;
    in.opcode = code[at];
    shape = in.map == 8 ? MB : in.map == 10 ? MZ : M;
  } else if (byte == 0x0f) {
    BACKSTEP_NEED(2);
    at++;
    byte = code[at];
    if (byte == 0x38 || byte == 0x3a) {
      BACKSTEP_NEED(2);
      at++;
      in.map = byte == 0x38 ? 2 : 3;
      in.opcode = code[at];
      shape = byte == 0x38 ? M : MB;
    } else {
      in.map = 1;
      in.opcode = byte;
      shape = kTwoByte[byte];
    }
  } else {
    in.opcode = byte;
    shape = kOneByte[byte];
  }
  in.opcode_at = static_cast<uint8_t>(at);
  at++;

  if (shape & M) {
    BACKSTEP_NEED(1);
    in.modrm_at = static_cast<uint8_t>(at);
    in.modrm = code[at++];
    unsigned mod = in.modrm >> 6, rm = in.modrm & 7;
    // mov cr/dr ignore mod.
    bool registers_only = !vector && in.map == 1 && in.opcode >= 0x20 && in.opcode <= 0x23;
    if (mod != 3 && !registers_only) {
      unsigned disp = mod == 1 ? 1 : mod == 2 ? 4 : 0;
      if (rm == 4) {
        BACKSTEP_NEED(1);
        if ((code[at] & 7) == 5 && mod == 0) disp = 4;
        at++;
      } else if (rm == 5 && mod == 0) {
        disp = 4;
        in.disp_at = static_cast<uint8_t>(at);
      }
      at += disp;
    }
  }

  unsigned imm = 0;
  bool wide = in.rex & 8;
  switch (shape & 0xf) {
    case I8:
      imm = 1;
      break;
    case I16:
      imm = 2;
      break;
    case IZ:
      imm = in.opsize && !wide && !vector ? 2 : 4;
      break;
    case IV:
      imm = wide ? 8 : in.opsize ? 2 : 4;
      break;
    case IMOFFS:
      imm = in.addrsize ? 4 : 8;
      break;
    case IENTER:
      imm = 3;
      break;
    case IGRP3B:
      imm = (in.modrm & 0x38) < 0x10 ? 1 : 0;
      break;
    case IGRP3V:
      imm = (in.modrm & 0x38) < 0x10 ? (in.opsize && !wide ? 2 : 4) : 0;
      break;
    default:
      break;
  }
  // Near branches have 32-bit displacements whatever the operand size (Intel; with 66 AMD differs:
  // Forbidden).
  bool near_branch = !vector && ((in.map == 0 && (in.opcode == 0xe8 || in.opcode == 0xe9)) ||
                                 (in.map == 1 && in.opcode >= 0x80 && in.opcode <= 0x8f));
  if (near_branch) imm = 4;
  if (!vector && in.map == 1 && in.opcode == 0x78 && (in.opsize || in.repne))
    imm = 2;  // SSE4a extrq, insertq
  BACKSTEP_NEED(imm);
  if (at + imm > limit) return in;
  if (imm == 1) in.rel = static_cast<int8_t>(code[at]);
  if (imm == 2) in.rel = code[at] | code[at + 1] << 8;
  if (imm == 4) __builtin_memcpy(&in.rel, code + at, 4);
  at += imm;
  in.length = static_cast<uint8_t>(at);
#undef BACKSTEP_NEED

  if (in.encoding == 2) {
    in.cls = Class::Evex;
  } else if (vector) {
    in.cls = Class::Plain;
  } else if (shape & X) {
    in.cls = Class::Trap;
  } else if (in.map == 0) {
    in.cls = classify_one_byte(in);
  } else if (in.map == 1) {
    in.cls = classify_two_byte(in);
  } else {
    in.cls = Class::Plain;
  }
  // Of what is not simply copied nothing may have a lock prefix.
  if (in.lock && in.cls != Class::Plain && in.cls != Class::Evex) in.cls = Class::Forbidden;
  if (in.gs && in.cls == Class::Plain) in.cls = Class::Gs;
  return in;
}

}  // namespace backstep::isa
