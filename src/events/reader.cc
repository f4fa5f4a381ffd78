// Numbers, as users write them.
#include "events/reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

namespace backstep::events {

std::optional<uint64_t> read_number(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
  if (text.empty()) return std::nullopt;
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  auto [p, error] = std::from_chars(text.data() + (hex ? 2 : 0), end, value, hex ? 16 : 10);
  if (error == std::errc() && p == end) return value;
  if (hex || text.find_first_of("eE") == std::string::npos) return std::nullopt;
  char* stop = nullptr;
  const double number = std::strtod(text.c_str(), &stop);
  if (stop != text.c_str() + text.size() || !(number >= 0 && number < 1.8e19)) return std::nullopt;
  return number == std::floor(number) ? std::optional(static_cast<uint64_t>(number)) : std::nullopt;
}

uint64_t need_number(const Reader& r, size_t column, const std::string& text, const char* what) {
  if (auto n = read_number(text)) return *n;
  r.fail_at(column, fmt::format("{} is needed here, such as 12345, 0x30 or 1e6", what));
}

}  // namespace backstep::events
