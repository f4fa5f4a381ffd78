// Bytes of a recorded program as text.
#pragma once
#include <cstddef>
#include <string>

namespace backstep {

// "text" with C escapes, cut after `limit` bytes (then followed by "...").
std::string quote_bytes(const char* data, size_t size, size_t limit);

// Valid UTF-8 for JSON: bytes that are not become U+FFFD.
std::string to_utf8(const std::string& bytes);

}  // namespace backstep
