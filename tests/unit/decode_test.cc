// The table decoder (isa/decode.h) against Zydis: lengths, RIP-relative displacements, classes and branch
// displacements must agree on every instruction of large real programs and on millions of random byte strings
// that Zydis takes for instructions. Where the two differ on purpose, `deliberate` says so and why.
#include "isa/decode.h"

#include <gtest/gtest.h>

#include "code.h"

namespace {

using backstep::isa::Class;
using backstep::isa::Insn;

// The class that an instruction must have by what Zydis says about it. Plain stands for 'anything that
// is not in this list'; `agree` refines it.
Class expected_class(const ZydisDecodedInstruction& z) {
  switch (z.mnemonic) {
    case ZYDIS_MNEMONIC_JMP:
      if (z.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR) return Class::Forbidden;
      return z.raw.imm[0].is_relative ? Class::Jmp : Class::JmpInd;
    case ZYDIS_MNEMONIC_CALL:
      if (z.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR) return Class::Forbidden;
      return z.raw.imm[0].is_relative ? Class::Call : Class::CallInd;
    case ZYDIS_MNEMONIC_RET:
      return z.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR ? Class::FarRet : Class::Ret;
    case ZYDIS_MNEMONIC_LOOP:
    case ZYDIS_MNEMONIC_LOOPE:
    case ZYDIS_MNEMONIC_LOOPNE:
    case ZYDIS_MNEMONIC_JECXZ:
    case ZYDIS_MNEMONIC_JRCXZ:
      return Class::Loop;
    case ZYDIS_MNEMONIC_IRET:
    case ZYDIS_MNEMONIC_IRETD:
    case ZYDIS_MNEMONIC_IRETQ:
      return Class::Iret;
    case ZYDIS_MNEMONIC_SYSCALL:
      return Class::Syscall;
    case ZYDIS_MNEMONIC_CPUID:
      return Class::Cpuid;
    case ZYDIS_MNEMONIC_RDTSC:
      return Class::Rdtsc;
    case ZYDIS_MNEMONIC_RDTSCP:
      return Class::Rdtscp;
    case ZYDIS_MNEMONIC_RDRAND:
      return Class::Rdrand;
    case ZYDIS_MNEMONIC_RDSEED:
      return Class::Rdseed;
    case ZYDIS_MNEMONIC_RDPID:
      return Class::Rdpid;
    case ZYDIS_MNEMONIC_XGETBV:
      return Class::Xgetbv;
    case ZYDIS_MNEMONIC_XSAVE:
    case ZYDIS_MNEMONIC_XSAVE64:
    case ZYDIS_MNEMONIC_XSAVEC:
    case ZYDIS_MNEMONIC_XSAVEC64:
    case ZYDIS_MNEMONIC_XSAVEOPT:
    case ZYDIS_MNEMONIC_XSAVEOPT64:
      return Class::Xsave;
    case ZYDIS_MNEMONIC_XRSTOR:
    case ZYDIS_MNEMONIC_XRSTOR64:
      return Class::Xrstor;
    case ZYDIS_MNEMONIC_FNSTENV:
    case ZYDIS_MNEMONIC_FNSAVE:
    case ZYDIS_MNEMONIC_FXSAVE:
    case ZYDIS_MNEMONIC_FXSAVE64:
      return Class::FpEnv;
    case ZYDIS_MNEMONIC_RDGSBASE:
    case ZYDIS_MNEMONIC_WRGSBASE:
      return Class::Gs;
    case ZYDIS_MNEMONIC_LFS:
    case ZYDIS_MNEMONIC_LGS:
      return Class::Segment;
    case ZYDIS_MNEMONIC_SYSENTER:
    case ZYDIS_MNEMONIC_XBEGIN:
    case ZYDIS_MNEMONIC_XABORT:
    case ZYDIS_MNEMONIC_XEND:
    case ZYDIS_MNEMONIC_XTEST:
      return Class::Forbidden;
    case ZYDIS_MNEMONIC_INT:
      return z.raw.imm[0].value.u == 0x80 ? Class::Forbidden : Class::Trap;
    case ZYDIS_MNEMONIC_INT1:
    case ZYDIS_MNEMONIC_INT3:
    case ZYDIS_MNEMONIC_UD0:
    case ZYDIS_MNEMONIC_UD1:
    case ZYDIS_MNEMONIC_UD2:
    case ZYDIS_MNEMONIC_HLT:
      return Class::Trap;
    default:
      return z.meta.category == ZYDIS_CATEGORY_COND_BR ? Class::Jcc : Class::Plain;
  }
}

bool is_branch(Class c) {
  return c == Class::Jcc || c == Class::Jmp || c == Class::Call || c == Class::Loop;
}

bool has_legacy_prefix(const ZydisDecodedInstruction& z, uint8_t value) {
  for (unsigned i = 0; i < z.raw.prefix_count; i++)
    if (z.raw.prefixes[i].value == value) return true;
  return false;
}

// Differences that we want.
bool deliberate(const Insn& in, const ZydisDecodedInstruction& z, Class expected) {
  // 66 before a near branch without REX.W: Intel ignores it, AMD cuts RIP to 16 bits. Nothing sane uses it.
  if (in.cls == Class::Forbidden && in.opsize && !(in.rex & 8) &&
      (is_branch(expected) || expected == Class::JmpInd || expected == Class::CallInd ||
       expected == Class::Ret))
    return true;
  // mov to fs/gs, pop fs/gs: Zydis has no mnemonic of their own for them.
  if (in.cls == Class::Segment && (z.mnemonic == ZYDIS_MNEMONIC_MOV || z.mnemonic == ZYDIS_MNEMONIC_POP))
    return true;
  // Privileged ones and I/O always fault in user mode: the block ends there, which Plain would not need.
  if (in.cls == Class::Trap &&
      ((z.attributes & ZYDIS_ATTRIB_IS_PRIVILEGED) || z.meta.category == ZYDIS_CATEGORY_IO ||
       z.meta.category == ZYDIS_CATEGORY_IOSTRINGOP || z.mnemonic == ZYDIS_MNEMONIC_CLI ||
       z.mnemonic == ZYDIS_MNEMONIC_STI || z.mnemonic == ZYDIS_MNEMONIC_RSM ||
       z.mnemonic == ZYDIS_MNEMONIC_RDPMC || z.mnemonic == ZYDIS_MNEMONIC_GETSEC))
    return true;
  // A gs: prefix makes any copied instruction one that needs the guest's GS base.
  if (in.cls == Class::Gs && has_legacy_prefix(z, 0x65)) return true;
  // AVX-512.
  if (in.cls == Class::Evex && z.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX) return true;
  return false;
}

// An empty string, or what is wrong.
std::string agree(const uint8_t* code, const ZydisDecodedInstruction& z, const Insn& in) {
  if (in.length != z.length)
    return "length " + std::to_string(in.length) + " instead of " + std::to_string(z.length);
  // A mod=0 rm=5 operand, except for moves to and from control and debug registers, which ignore mod.
  bool moves_control = z.opcode_map == ZYDIS_OPCODE_MAP_0F && z.opcode >= 0x20 && z.opcode <= 0x23 &&
                       z.encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY;
  bool relative = (z.attributes & ZYDIS_ATTRIB_HAS_MODRM) && z.raw.modrm.mod == 0 && z.raw.modrm.rm == 5 &&
                  !moves_control;
  unsigned disp_at = relative ? z.raw.disp.offset : 0;
  if (in.disp_at != disp_at)
    return "RIP-relative displacement at " + std::to_string(in.disp_at) + " instead of " +
           std::to_string(disp_at);
  if ((z.attributes & ZYDIS_ATTRIB_HAS_MODRM) &&
      (in.modrm_at != z.raw.modrm.offset || in.modrm != code[in.modrm_at]))
    return "ModRM at " + std::to_string(in.modrm_at) + " instead of " + std::to_string(z.raw.modrm.offset);
  Class expected = expected_class(z);
  if (in.cls != expected && !deliberate(in, z, expected))
    return "class " + std::to_string(static_cast<int>(in.cls)) + " instead of " +
           std::to_string(static_cast<int>(expected));
  if (is_branch(in.cls) && in.rel != static_cast<int32_t>(z.raw.imm[0].value.s))
    return "branch displacement " + std::to_string(in.rel);
  if (in.cls == Class::Ret && z.raw.imm[0].size &&
      in.rel != static_cast<int32_t>(z.raw.imm[0].value.u & 0xffff))
    return "return immediate " + std::to_string(in.rel);
  return "";
}

TEST(Decode, agrees_with_zydis_on_real_code) {
  ZydisDecoder decoder = make_decoder();
  uint64_t count = 0, files = 0;
  unsigned shown = 0;
  for (const std::string& path : real_files()) {
    std::vector<Section> sections = executable_sections(path);
    files += !sections.empty();
    for (const Section& s : sections) {
      for (size_t at = 0; at < s.bytes.size();) {
        const uint8_t* code = s.bytes.data() + at;
        size_t available = s.bytes.size() - at;
        ZydisDecodedInstruction z;
        if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, nullptr, code, available, &z)) ||
            foreign(z)) {
          at++;  // data between the functions
          continue;
        }
        count++;
        std::string wrong = agree(code, z, backstep::isa::decode(code, available));
        if (!wrong.empty() && shown++ < 20)
          ADD_FAILURE() << s.file << " " << s.name << "+" << at << ": " << text(code, z) << ": " << wrong;
        at += z.length;
      }
    }
  }
  EXPECT_GE(files, 3u);
  EXPECT_GT(count, 500'000u);
  EXPECT_EQ(shown, 0u);
}

TEST(Decode, agrees_with_zydis_on_random_bytes) {
  ZydisDecoder decoder = make_decoder();
  std::mt19937_64 random(20240601);
  uint64_t valid = 0;
  unsigned shown = 0;
  for (unsigned i = 0; i < 20'000'000; i++) {
    uint8_t code[16];
    size_t size = random_code(random, code);
    ZydisDecodedInstruction z;
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, nullptr, code, size, &z)) || foreign(z))
      continue;
    valid++;
    std::string wrong = agree(code, z, backstep::isa::decode(code, size));
    if (!wrong.empty() && shown++ < 40) ADD_FAILURE() << text(code, z) << ": " << wrong;
  }
  EXPECT_GT(valid, 8'000'000u);
  EXPECT_EQ(shown, 0u);
}

TEST(Decode, says_bad_when_the_bytes_end_inside_of_an_instruction) {
  ZydisDecoder decoder = make_decoder();
  std::mt19937_64 random(7);
  for (unsigned i = 0; i < 200'000; i++) {
    uint8_t code[16];
    size_t size = random_code(random, code);
    ZydisDecodedInstruction z;
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, nullptr, code, size, &z)) || foreign(z))
      continue;
    for (unsigned cut = 0; cut < z.length; cut++)
      ASSERT_EQ(backstep::isa::decode(code, cut).cls, Class::Bad) << text(code, z) << " cut to " << cut;
  }
}

}  // namespace
