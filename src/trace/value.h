// What a cell of a table, and an argument of a function, can be.
#pragma once
#include <compare>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

namespace backstep::trace {

struct Blob {
  std::string bytes;
  friend auto operator<=>(const Blob&, const Blob&) = default;
};

// Nothing is SQL's NULL. Addresses are integers; those beyond 2^63 do not exist in a user's program, and
// other unsigned numbers that large are shown as negative ones.
using Value = std::variant<std::monostate, int64_t, double, std::string, Blob>;
using Row = std::vector<Value>;

inline Value number(uint64_t n) {
  return static_cast<int64_t>(n);
}
// Nothing for an empty text: not known.
inline Value known_text(const std::string& text) {
  return text.empty() ? Value() : Value(text);
}

// What the session has captured: numbers and texts as they are, structures and arrays as the text of their
// JSON. A pointer, which JSON has as "0x401136", is a number here, so that it can be compared with addresses.
// `text` is the same for people, which tells a pointer from a text that looks like one: that is in quotes.
Value captured(const nlohmann::ordered_json& json, const std::string& text);

}  // namespace backstep::trace
