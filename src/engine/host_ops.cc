// Deterministic instructions that must not see the engine: done here on the saved state.
//
// XSAVE and its relatives store the components that the guest may see, always in full and always with the
// same header: which components count as 'in use' is up to the CPU and would differ between two runs.
// FNSTENV/FNSAVE/FXSAVE would store the code cache address of the last x87 instruction; the pointers are
// stored as zero instead, as AMD CPUs do it when no exception is pending.
#include "engine/host_ops.h"

#include <cstring>

#include "engine/engine.h"

namespace backstep::engine {
namespace {

constexpr size_t kLegacy = 512, kHeader = 64, kAvxOffset = 576, kAvxSize = 256;

uint64_t bits_of(const Context& ctx) {
  uint64_t bits;
  std::memcpy(&bits, ctx.xsave + 512, 8);
  return bits;
}
void set_bits(Context& ctx, uint64_t bits) {
  std::memcpy(ctx.xsave + 512, &bits, 8);
}

// Makes the saved x87/SSE/AVX components explicit (bit set, contents valid).
void materialise(Context& ctx) {
  uint64_t bits = bits_of(ctx);
  if (!(bits & 1)) {
    std::memset(ctx.xsave, 0, 24);
    uint16_t fcw = 0x37f;
    std::memcpy(ctx.xsave, &fcw, 2);
    std::memset(ctx.xsave + 32, 0, 128);
  }
  if (!(bits & 2)) std::memset(ctx.xsave + 160, 0, 256);
  if (!(bits & 4)) std::memset(ctx.xsave + kAvxOffset, 0, kAvxSize);
  set_bits(ctx, bits | (7 & ctx.save_mask));
}

// Last x87 instruction: opcode, instruction and data pointers.
void clear_pointers(unsigned char* legacy) {
  std::memset(legacy + 6, 0, 18);
}

Emulated xsave(const isa::Insn& in, Context& ctx, uint64_t xcr0, const GuestAccess& access, Address* fault) {
  Address to = effective_address(in, ctx);
  bool compact = in.opcode == 0xc7;
  uint64_t mask = (ctx.gpr[RAX] & 0xffff'ffff) & xcr0;
  if (to % 64) return Emulated::GeneralProtection;
  uint64_t size = kLegacy + kHeader + (mask & 4 ? kAvxSize : 0);
  if (!access.writable(to, size)) {
    *fault = to;
    return Emulated::MemoryFault;
  }
  materialise(ctx);
  auto* out = reinterpret_cast<unsigned char*>(to);
  const unsigned char* from = ctx.xsave;
  if (mask & 1) {
    std::memcpy(out, from, 24);
    std::memcpy(out + 32, from + 32, 128);
    clear_pointers(out);
  }
  if (mask & 6) std::memcpy(out + 24, from + 24, 8);  // MXCSR and its mask
  if (mask & 2) std::memcpy(out + 160, from + 160, 256);
  if (mask & 4) std::memcpy(out + kAvxOffset, from + kAvxOffset, kAvxSize);
  uint64_t old;
  std::memcpy(&old, out + 512, 8);
  uint64_t header = compact ? mask : (old & ~(ctx.gpr[RAX] & 0xffff'ffff)) | mask;
  std::memcpy(out + 512, &header, 8);
  if (compact) {
    uint64_t layout_bits = mask | 1ull << 63;
    std::memcpy(out + 520, &layout_bits, 8);
    std::memset(out + 528, 0, 48);
  }
  return Emulated::Done;
}

Emulated xrstor(const isa::Insn& in, Context& ctx, uint64_t xcr0, const GuestAccess& access, Address* fault) {
  Address from = effective_address(in, ctx);
  uint64_t mask = (ctx.gpr[RAX] & 0xffff'ffff) & xcr0;
  if (from % 64) return Emulated::GeneralProtection;
  uint64_t size = kLegacy + kHeader;
  if (!access.readable(from, size)) {
    *fault = from;
    return Emulated::MemoryFault;
  }
  auto* p = reinterpret_cast<const unsigned char*>(from);
  uint64_t have, compaction;
  std::memcpy(&have, p + 512, 8);
  std::memcpy(&compaction, p + 520, 8);
  if ((have & ~xcr0) || ((compaction >> 63) && (have & ~compaction))) return Emulated::GeneralProtection;
  if ((mask & have & 4) && !access.readable(from, size + kAvxSize)) {
    *fault = from + size;
    return Emulated::MemoryFault;
  }
  uint32_t mxcsr;
  std::memcpy(&mxcsr, p + 24, 4);
  bool loads_mxcsr = (compaction >> 63) ? (mask & have & 6) : (mask & 6);
  if (loads_mxcsr && (mxcsr & ~0xffffu)) return Emulated::GeneralProtection;
  materialise(ctx);
  uint64_t bits = bits_of(ctx);
  if (mask & 1) {
    if (have & 1) {
      std::memcpy(ctx.xsave, p, 24);
      std::memcpy(ctx.xsave + 32, p + 32, 128);
    } else {
      bits &= ~1ull;
    }
  }
  if (mask & 6) {
    uint32_t initial = 0x1f80;
    if (loads_mxcsr)
      std::memcpy(ctx.xsave + 24, p + 24, 4);
    else
      std::memcpy(ctx.xsave + 24, &initial, 4);
  }
  if (mask & 2) {
    if (have & 2)
      std::memcpy(ctx.xsave + 160, p + 160, 256);
    else
      std::memset(ctx.xsave + 160, 0, 256);
  }
  if (mask & 4) {
    if (have & 4)
      std::memcpy(ctx.xsave + kAvxOffset, p + kAvxOffset, kAvxSize);
    else
      bits &= ~4ull;
  }
  set_bits(ctx, bits);
  return Emulated::Done;
}

Emulated fp_environment(const isa::Insn& in, Context& ctx, const GuestAccess& access, Address* fault) {
  Address to = effective_address(in, ctx);
  bool fxsave = in.map == 1;
  bool save_all = !fxsave && in.opcode == 0xdd;
  const bool short_form = in.opsize && !(in.rex & 8);
  uint64_t size = fxsave ? 512 : short_form ? (save_all ? 94 : 14) : (save_all ? 108 : 28);
  if (fxsave && to % 16) return Emulated::GeneralProtection;
  if (!access.writable(to, size)) {
    *fault = to;
    return Emulated::MemoryFault;
  }
  materialise(ctx);
  auto* out = reinterpret_cast<unsigned char*>(to);
  if (fxsave) {
    // Bytes 464..511 are not written by the CPU.
    std::memcpy(out, ctx.xsave, 416);
    clear_pointers(out);
    return Emulated::Done;
  }
  // Let the CPU do it on the guest's x87 state, then blank the pointers.
  alignas(64) unsigned char image[512], buffer[128];
  std::memcpy(image, ctx.xsave, 512);
  uint32_t mxcsr = 0x1f80;
  std::memcpy(image + 24, &mxcsr, 4);
  if (short_form) {
    if (save_all)
      asm volatile("fxrstor64 %1; data16 fnsave %0; fxsave64 %1" : "=m"(buffer), "+m"(image));
    else
      asm volatile("fxrstor64 %1; data16 fnstenv %0; fxsave64 %1" : "=m"(buffer), "+m"(image));
    std::memset(buffer + 6, 0, 8);
  } else {
    if (save_all)
      asm volatile("fxrstor64 %1; fnsave %0; fxsave64 %1" : "=m"(buffer), "+m"(image));
    else
      asm volatile("fxrstor64 %1; fnstenv %0; fxsave64 %1" : "=m"(buffer), "+m"(image));
    std::memset(buffer + 12, 0, 14);
  }
  asm volatile("fninit");
  std::memcpy(out, buffer, size);
  std::memcpy(ctx.xsave, image, 24);
  clear_pointers(ctx.xsave);
  std::memcpy(ctx.xsave + 32, image + 32, 128);
  return Emulated::Done;
}

// retf and iretq within 64-bit code: the program's code segment only.
Emulated far_return(const isa::Insn& in, Context& ctx, const GuestAccess& access, Address* fault) {
  bool iret = in.cls == isa::Class::Iret;
  if (!(in.rex & 8)) return Emulated::GeneralProtection;
  uint64_t words = iret ? 5 : 2;
  Address sp = ctx.gpr[RSP];
  if (!access.readable(sp, words * 8)) {
    *fault = sp;
    return Emulated::MemoryFault;
  }
  auto* stack = reinterpret_cast<const uint64_t*>(sp);
  if ((stack[1] & 0xffff) != 0x33 || !canonical(stack[0])) return Emulated::GeneralProtection;
  constexpr uint64_t kNestedTask = 0x4000;
  if (iret && ((stack[4] & 0xffff) != 0x2b || (ctx.rflags & kNestedTask))) return Emulated::GeneralProtection;
  ctx.rip = stack[0];
  if (iret) {
    constexpr uint64_t kUserFlags = 0x254dd5;
    ctx.rflags = (stack[2] & kUserFlags) | 0x202;
    ctx.gpr[RSP] = stack[3];
  } else {
    ctx.gpr[RSP] = sp + 16 + (in.opcode == 0xca ? static_cast<uint64_t>(in.rel) : 0);
  }
  ctx.tick++;
  return Emulated::Done;
}

Emulated gs_base(const isa::Insn& in, Context& ctx) {
  if (in.map != 1 || in.opcode != 0xae || in.gs) return Emulated::IllegalInstruction;
  unsigned reg = (in.modrm & 7) | ((in.rex & 1) << 3);
  bool wide = in.rex & 8;
  if (((in.modrm >> 3) & 7) == 1) {
    ctx.gpr[reg] = wide ? ctx.gs_base : ctx.gs_base & 0xffff'ffff;
  } else {
    uint64_t value = wide ? ctx.gpr[reg] : ctx.gpr[reg] & 0xffff'ffff;
    if (static_cast<int64_t>(value << 16) >> 16 != static_cast<int64_t>(value))
      return Emulated::GeneralProtection;
    ctx.gs_base = value;
  }
  return Emulated::Done;
}

// Selectors for fs and gs: only the null selector is usable in a 64-bit process without an LDT, and loading
// it clears the base.
Emulated segment(const isa::Insn& in, Context& ctx, const GuestAccess& access, Address* fault) {
  if (in.map != 0 || in.opcode != 0x8e) return Emulated::GeneralProtection;
  uint64_t selector;
  if (in.memory_operand()) {
    Address at = effective_address(in, ctx);
    if (!access.readable(at, 2)) {
      *fault = at;
      return Emulated::MemoryFault;
    }
    uint16_t value;
    std::memcpy(&value, reinterpret_cast<const void*>(at), 2);
    selector = value;
  } else {
    selector = ctx.gpr[(in.modrm & 7) | ((in.rex & 1) << 3)] & 0xffff;
  }
  if (selector > 3) return Emulated::GeneralProtection;
  (((in.modrm >> 3) & 7) == 4 ? ctx.fs_base : ctx.gs_base) = 0;
  return Emulated::Done;
}

}  // namespace

Address effective_address(const isa::Insn& in, const Context& ctx) {
  auto* code = reinterpret_cast<const unsigned char*>(ctx.rip);
  unsigned mod = in.modrm >> 6, rm = in.modrm & 7;
  unsigned at = in.modrm_at + 1u;
  Address ea = 0;
  unsigned disp = mod == 1 ? 1 : mod == 2 ? 4 : 0;
  if (rm == 4) {
    uint8_t sib = code[at++];
    unsigned base = sib & 7, index = ((sib >> 3) & 7) | (in.rex & 2 ? 8 : 0);
    if (base == 5 && mod == 0)
      disp = 4;
    else
      ea = ctx.gpr[base | (in.rex & 1 ? 8 : 0)];
    if (index != 4) ea += ctx.gpr[index] << (sib >> 6);
  } else if (rm == 5 && mod == 0) {
    ea = ctx.rip + in.length;
    disp = 4;
  } else {
    ea = ctx.gpr[rm | (in.rex & 1 ? 8 : 0)];
  }
  if (disp == 1) ea += static_cast<uint64_t>(static_cast<int64_t>(static_cast<int8_t>(code[at])));
  if (disp == 4) {
    int32_t d;
    std::memcpy(&d, code + at, 4);
    ea += static_cast<uint64_t>(static_cast<int64_t>(d));
  }
  if (in.addrsize) ea &= 0xffff'ffff;
  if (in.fs) ea += ctx.fs_base;
  if (in.gs) ea += ctx.gs_base;
  return ea;
}

Emulated emulate(const isa::Insn& in, Context& ctx, uint64_t xcr0, const GuestAccess& access,
                 Address* fault) {
  Emulated result;
  switch (in.cls) {
    case isa::Class::Xsave:
      result = xsave(in, ctx, xcr0, access, fault);
      break;
    case isa::Class::Xrstor:
      result = xrstor(in, ctx, xcr0, access, fault);
      break;
    case isa::Class::FpEnv:
      result = fp_environment(in, ctx, access, fault);
      break;
    case isa::Class::Gs:
      result = gs_base(in, ctx);
      break;
    case isa::Class::Segment:
      result = segment(in, ctx, access, fault);
      break;
    case isa::Class::FarRet:
    case isa::Class::Iret:
      result = far_return(in, ctx, access, fault);
      if (result == Emulated::Done) return result;  // rip is set
      break;
    default:
      return Emulated::IllegalInstruction;
  }
  if (result == Emulated::MemoryFault && !canonical(*fault)) result = Emulated::GeneralProtection;
  if (result == Emulated::Done) ctx.rip += in.length;
  return result;
}

}  // namespace backstep::engine
