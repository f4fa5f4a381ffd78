// Non-deterministic instructions: executing them, and giving their results to the guest.
#include "engine/host_ops.h"

namespace backstep::engine {
namespace {

// Operand size from the prefixes: rdrand, rdseed.
unsigned operand_bits(const isa::Insn& in) {
  return in.rex & 8 ? 64 : in.opsize ? 16 : 32;
}

void write_register(Context& ctx, unsigned reg, uint64_t value, unsigned bits) {
  if (bits == 16) {
    ctx.gpr[reg] = (ctx.gpr[reg] & ~0xffffull) | (value & 0xffff);
  } else {
    ctx.gpr[reg] = bits == 32 ? value & 0xffff'ffff : value;
  }
}

}  // namespace

HostOp host_op_of(const isa::Insn& insn) {
  switch (insn.cls) {
    case isa::Class::Cpuid:
      return HostOp::Cpuid;
    case isa::Class::Rdtsc:
      return HostOp::Rdtsc;
    case isa::Class::Rdtscp:
      return HostOp::Rdtscp;
    case isa::Class::Rdrand:
      return HostOp::Rdrand;
    case isa::Class::Rdseed:
      return HostOp::Rdseed;
    case isa::Class::Rdpid:
      return HostOp::Rdpid;
    case isa::Class::Xgetbv:
      return HostOp::Xgetbv;
    default:
      return HostOp::None;
  }
}

HostValues sample(HostOp op, const Context& ctx) {
  HostValues v;
  uint32_t a = 0, b = 0, c = 0, d = 0;
  uint64_t wide = 0;
  uint8_t ok = 0;
  switch (op) {
    case HostOp::Cpuid:
      asm volatile("cpuid"
                   : "=a"(a), "=b"(b), "=c"(c), "=d"(d)
                   : "a"(static_cast<uint32_t>(ctx.gpr[RAX])), "c"(static_cast<uint32_t>(ctx.gpr[RCX])));
      v = {4, {a, b, c, d}};
      break;
    case HostOp::Rdtsc:
      asm volatile("rdtsc" : "=a"(a), "=d"(d));
      v = {1, {a | static_cast<uint64_t>(d) << 32}};
      break;
    case HostOp::Rdtscp:
      asm volatile("rdtscp" : "=a"(a), "=d"(d), "=c"(c));
      v = {2, {a | static_cast<uint64_t>(d) << 32, c}};
      break;
    case HostOp::Rdrand:
      asm volatile("rdrand %0; setc %1" : "=r"(wide), "=qm"(ok) : : "cc");
      v = {2, {wide, ok}};
      break;
    case HostOp::Rdseed:
      asm volatile("rdseed %0; setc %1" : "=r"(wide), "=qm"(ok) : : "cc");
      v = {2, {wide, ok}};
      break;
    case HostOp::Rdpid:
      asm volatile("rdpid %0" : "=r"(wide));
      v = {1, {wide}};
      break;
    case HostOp::Xgetbv:
      asm volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(static_cast<uint32_t>(ctx.gpr[RCX])));
      v = {1, {a | static_cast<uint64_t>(d) << 32}};
      break;
    case HostOp::None:
      break;
  }
  return v;
}

void apply(HostOp op, const isa::Insn& insn, const HostValues& values, Context& ctx) {
  const uint64_t* v = values.value;
  unsigned reg = (insn.modrm & 7) | ((insn.rex & 1) << 3);
  constexpr uint64_t kArithmeticFlags = 0x8d5;  // OF SF ZF AF PF CF
  switch (op) {
    case HostOp::Cpuid:
      ctx.gpr[RAX] = v[0], ctx.gpr[RBX] = v[1], ctx.gpr[RCX] = v[2], ctx.gpr[RDX] = v[3];
      break;
    case HostOp::Rdtscp:
      ctx.gpr[RCX] = v[1];
      [[fallthrough]];
    case HostOp::Rdtsc:
    case HostOp::Xgetbv:
      ctx.gpr[RAX] = v[0] & 0xffff'ffff;
      ctx.gpr[RDX] = v[0] >> 32;
      break;
    case HostOp::Rdrand:
    case HostOp::Rdseed:
      write_register(ctx, reg, v[1] ? v[0] : 0, operand_bits(insn));
      ctx.rflags = (ctx.rflags & ~kArithmeticFlags) | (v[1] ? 1 : 0);
      break;
    case HostOp::Rdpid:
      ctx.gpr[reg] = v[0];
      break;
    case HostOp::None:
      break;
  }
  ctx.rip += insn.length;
}

}  // namespace backstep::engine
