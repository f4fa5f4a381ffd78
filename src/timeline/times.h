// Times of the day and distances in time, as people type and read them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace backstep::timeline {

inline constexpr int64_t kSecond = 1'000'000'000;  // in the unit of all times

// "14:03", "14:03:22", "14:03:22.5" in local time, on the day of `start_ns` or, if that was earlier, the
// next;
// "+1.5s", "+200ms", "+2m" from `start_ns` on. Nanoseconds since 1970; nullopt: not a time.
std::optional<int64_t> parse_time(const std::string& text, int64_t start_ns);
// "14:03:22.512"
std::string time_text(int64_t ns);

}  // namespace backstep::timeline
