// What a mapped file holds: the 128 bits of its XXH3, which is also its key in the store. All zero: unknown,
// or memory that the guest may have changed since.
#pragma once
#include <charconv>
#include <cstdint>
#include <string_view>

namespace backstep {

struct Content {
  uint64_t high = 0, low = 0;
  explicit operator bool() const { return high || low; }
  friend bool operator==(const Content&, const Content&) = default;
};

// From a key of the store: 32 hex digits. Anything else is unknown content.
inline Content content_of(std::string_view key) {
  Content c;
  if (key.size() != 32) return c;
  auto number = [](std::string_view digits, uint64_t& to) {
    return std::from_chars(digits.data(), digits.data() + digits.size(), to, 16).ptr ==
           digits.data() + digits.size();
  };
  if (!number(key.substr(0, 16), c.high) || !number(key.substr(16), c.low)) return {};
  return c;
}

}  // namespace backstep
