// Local time is that of whoever looks: a recording knows no time zone.
#include "timeline/times.h"

#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include <fmt/format.h>

namespace backstep::timeline {
namespace {

std::optional<int64_t> parse_distance(const std::string& text) {
  char* end = nullptr;
  if (text.size() < 2 || !std::isdigit(static_cast<unsigned char>(text[1]))) return std::nullopt;
  const double value = std::strtod(text.c_str() + 1, &end);
  const std::string unit = end;
  const double scale = unit == "s" || unit.empty()    ? 1
                       : unit == "ms"                 ? 1e-3
                       : unit == "m" || unit == "min" ? 60
                                                      : 0;
  if (scale == 0 || !std::isfinite(value) || value * scale > 1e9) return std::nullopt;
  return std::llround(value * scale * static_cast<double>(kSecond));
}

}  // namespace

std::optional<int64_t> parse_time(const std::string& text, int64_t start_ns) {
  if (text.starts_with('+')) {
    auto distance = parse_distance(text);
    return distance ? std::optional(start_ns + *distance) : std::nullopt;
  }
  int hours = 0, minutes = 0, used = 0;
  double seconds = 0;
  if (std::sscanf(text.c_str(), "%2d:%2d%n", &hours, &minutes, &used) != 2) return std::nullopt;
  std::string rest = text.substr(static_cast<size_t>(used));
  if (!rest.empty()) {
    char* end = nullptr;
    if (rest[0] != ':' || rest.size() < 2 || !std::isdigit(static_cast<unsigned char>(rest[1])))
      return std::nullopt;
    seconds = std::strtod(rest.c_str() + 1, &end);
    if (*end) return std::nullopt;
  }
  if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59 || !(seconds >= 0 && seconds < 61))
    return std::nullopt;
  time_t day = start_ns / kSecond;
  tm date{};
  localtime_r(&day, &date);
  date.tm_hour = hours;
  date.tm_min = minutes;
  date.tm_sec = 0;
  date.tm_isdst = -1;
  const int64_t fraction = std::llround(seconds * static_cast<double>(kSecond));
  int64_t ns = mktime(&date) * kSecond + fraction;
  // What was given in milliseconds may lie a little before the start; what lies far before it is tomorrow.
  if (ns < start_ns - 60 * kSecond) {
    date.tm_mday++;
    ns = mktime(&date) * kSecond + fraction;
  }
  return ns;
}

std::string time_text(int64_t ns) {
  time_t seconds = ns / kSecond;
  tm date{};
  localtime_r(&seconds, &date);
  return fmt::format("{:02}:{:02}:{:02}.{:03}", date.tm_hour, date.tm_min, date.tm_sec,
                     ns % kSecond / 1'000'000);
}

}  // namespace backstep::timeline
