// Which CPU the guest sees. Features that are not deterministic (TSX) or that the engine keeps for itself
// (AVX-512: the tick counter lives in xmm31) are hidden; `--cpu` hides more, so that a recording replays on
// older machines.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace backstep::guest {

enum class CpuLevel : uint8_t { V1 = 1, V2 = 2, V3 = 3, Machine = 4 };  // x86-64-v1 … v3; all that we show

// --- hot world ---
// Takes hidden features out of the results of cpuid(leaf, subleaf): eax, ebx, ecx, edx.
void hide_features(CpuLevel level, uint32_t leaf, uint32_t subleaf, uint64_t values[4]);

// --- host world ---
// "x86-64-v2" and the like; nullopt: unknown name.
std::optional<CpuLevel> parse_cpu_level(const std::string& name);
std::string cpu_level_name(CpuLevel level);
// Feature words shown to the guest, "leaf.register" -> bits, as kept in the manifest.
std::map<std::string, uint64_t> shown_features(CpuLevel level);
// What this machine lacks of what a recording's guest was shown, in words; empty: nothing.
std::string missing_features(const std::map<std::string, uint64_t>& shown);

}  // namespace backstep::guest
