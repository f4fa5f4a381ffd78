// Feature words for the manifest, and comparing them with the machine that replays.
#include "guest/cpu.h"

#include <cpuid.h>
#include <fmt/format.h>

namespace backstep::guest {
namespace {

struct Word {
  uint32_t leaf, subleaf;
  int reg;
  const char* name;
  uint32_t ignore;  // bits that are no features of the instruction set
};
constexpr Word kWords[] = {
    {1, 0, 2, "1.ecx",
     1u << 31 | 1u << 21 | 1u << 24 | 1u << 27 | 1u << 15 | 1u << 17 | 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5 |
         1u << 6 | 1u << 7 | 1u << 8 | 1u << 10 | 1u << 11 | 1u << 14 | 1u << 18},
    {1, 0, 3, "1.edx", 0xf8ff7fff & ~(1u << 8 | 1u << 15)},
    {7, 0, 1, "7.ebx",
     1u << 1 | 1u << 6 | 1u << 7 | 1u << 10 | 1u << 12 | 1u << 13 | 1u << 15 | 1u << 22 | 1u << 20},
    {7, 0, 2, "7.ecx", 1u << 2 | 1u << 13 | 1u << 15 | 1u << 16 | 0x3e0000 | 1u << 24 | 1u << 31},
    {0x80000001, 0, 2, "80000001.ecx", ~(1u << 5 | 1u << 6 | 1u << 8)},
};

uint64_t word(const Word& w, CpuLevel level) {
  unsigned r[4] = {};
  __get_cpuid_count(w.leaf, w.subleaf, &r[0], &r[1], &r[2], &r[3]);
  uint64_t v[4] = {r[0], r[1], r[2], r[3]};
  hide_features(level, w.leaf, w.subleaf, v);
  return v[w.reg] & ~static_cast<uint64_t>(w.ignore);
}

}  // namespace

std::optional<CpuLevel> parse_cpu_level(const std::string& name) {
  if (name.empty()) return CpuLevel::Machine;
  if (name == "x86-64" || name == "x86-64-v1") return CpuLevel::V1;
  if (name == "x86-64-v2") return CpuLevel::V2;
  if (name == "x86-64-v3") return CpuLevel::V3;
  return std::nullopt;
}

std::string cpu_level_name(CpuLevel level) {
  return level == CpuLevel::Machine ? "machine" : fmt::format("x86-64-v{}", static_cast<int>(level));
}

std::map<std::string, uint64_t> shown_features(CpuLevel level) {
  std::map<std::string, uint64_t> shown;
  for (const Word& w : kWords) shown[w.name] = word(w, level);
  return shown;
}

std::string missing_features(const std::map<std::string, uint64_t>& shown) {
  std::string text;
  for (const Word& w : kWords) {
    auto it = shown.find(w.name);
    if (it == shown.end()) continue;
    // With nothing hidden: the replaying machine may use what it has.
    uint64_t missing = it->second & ~word(w, CpuLevel::Machine);
    if (!missing) continue;
    text += fmt::format("{}cpuid {} bits {:#x}", text.empty() ? "" : ", ", w.name, missing);
  }
  return text;
}

}  // namespace backstep::guest
