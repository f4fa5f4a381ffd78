// CPUID as the guest sees it.
#include "guest/cpu.h"

namespace backstep::guest {
namespace {

constexpr uint32_t bit(unsigned n) {
  return 1u << n;
}

// Leaf 1 ECX: what x86-64-v2 and -v3 add. Bits outside of any level stay (hypervisor, x2apic …).
constexpr uint32_t kV2Ecx = bit(0) | bit(9) | bit(13) | bit(19) | bit(20) | bit(23);
constexpr uint32_t kV3Ecx = bit(12) | bit(22) | bit(28) | bit(29);
constexpr uint32_t kBeyondV3Ecx = bit(1) | bit(25) | bit(30);  // pclmul, aes, rdrand
// Leaf 7 EBX
constexpr uint32_t kV3Ebx = bit(3) | bit(5) | bit(8);           // bmi1, avx2, bmi2
constexpr uint32_t kBeyondV3Ebx = bit(18) | bit(19) | bit(29);  // rdseed, adx, sha
constexpr uint32_t kAvx512Ebx = bit(16) | bit(17) | bit(21) | bit(26) | bit(27) | bit(28) | bit(30) | bit(31);
constexpr uint32_t kTsxEbx = bit(4) | bit(11);
constexpr uint32_t kMpxSgxEbx = bit(2) | bit(14) | bit(25);  // sgx, mpx, intel_pt
// Leaf 7 ECX: avx512 vbmi, vbmi2, vnni, bitalg, vpopcntdq; pku, ospke, waitpkg, cet_ss, key locker, movdir64b
// off enqcmd, sgx_lc
constexpr uint32_t kHiddenEcx = bit(1) | bit(6) | bit(11) | bit(12) | bit(14) | bit(3) | bit(4) | bit(5) |
                                bit(7) | bit(23) | bit(29) | bit(30);
constexpr uint32_t kBeyondV3Ecx7 = bit(8) | bit(9) | bit(10) | bit(22);  // gfni, vaes, vpclmul, rdpid
// Leaf 7 EDX: avx512 4vnniw, 4fmaps, vp2intersect, fp16; uintr, tsx_force_abort, cet_ibt, amx
constexpr uint32_t kHiddenEdx =
    bit(2) | bit(3) | bit(5) | bit(8) | bit(11) | bit(13) | bit(20) | bit(22) | bit(23) | bit(24) | bit(25);
// Leaf 7.1 EAX: avx512_bf16 (avx_vnni stays), amx, fred, lkgs
constexpr uint32_t kHiddenEax71 = bit(5) | bit(17) | bit(18) | bit(21);

}  // namespace

void hide_features(CpuLevel level, uint32_t leaf, uint32_t subleaf, uint64_t v[4]) {
  auto hide = [&](int reg, uint32_t bits) { v[reg] &= ~static_cast<uint64_t>(bits); };
  bool low = level != CpuLevel::Machine;
  switch (leaf) {
    case 1:
      if (low) hide(2, kBeyondV3Ecx);
      if (level < CpuLevel::V3) hide(2, kV3Ecx);
      if (level < CpuLevel::V2) hide(2, kV2Ecx);
      break;
    case 7:
      if (subleaf == 0) {
        hide(1, kAvx512Ebx | kTsxEbx | kMpxSgxEbx);
        hide(2, kHiddenEcx);
        hide(3, kHiddenEdx);
        if (low) hide(1, kBeyondV3Ebx), hide(2, kBeyondV3Ecx7);
        if (level < CpuLevel::V3) hide(1, kV3Ebx);
      } else {
        hide(0, kHiddenEax71);
        hide(3, ~0u);  // APX, AVX10, AMX parts
        if (low) hide(0, bit(4));
      }
      break;
    case 0xd: {
      // XSAVE: x87, SSE and, from v3 on, AVX; sizes accordingly.
      uint32_t visible = level < CpuLevel::V3 ? 3 : 7;
      uint32_t size = visible == 7 ? 832 : 576;
      if (subleaf == 0) {
        v[0] &= visible;
        v[1] = v[2] = v[0] & 4 ? size : 576;
        v[3] = 0;
      } else if (subleaf == 1) {
        v[0] &= 7;  // xsaveopt, xsavec, xgetbv1; no xsaves
        v[1] = size;
        v[2] = v[3] = 0;
      } else if (subleaf != 2 || visible != 7) {
        v[0] = v[1] = v[2] = v[3] = 0;
      }
      break;
    }
    case 0x12:
    case 0x14:
    case 0x19:
    case 0x1d:
    case 0x1e:
    case 0x24:
      v[0] = v[1] = v[2] = v[3] = 0;  // SGX, PT, key locker, AMX, AVX10
      break;
    case 0x80000001:
      hide(2, bit(11) | bit(16));                 // XOP, FMA4: gone from CPUs anyway
      if (level < CpuLevel::V3) hide(2, bit(5));  // lzcnt
      break;
    default:
      break;
  }
}

}  // namespace backstep::guest
