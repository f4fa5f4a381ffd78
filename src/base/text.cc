// Bytes that a recorded program has made may be anything. What people and programs are shown of them is text:
// printable, or valid UTF-8.
#include "base/text.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/printable.h"

namespace backstep {
namespace {

// Length of the UTF-8 sequence at s[i]; 0: not valid there.
size_t utf8_length(const std::string& s, size_t i) {
  auto c = static_cast<unsigned char>(s[i]);
  size_t n = c < 0x80                ? 1
             : c >= 0xc2 && c < 0xe0 ? 2
             : c >= 0xe0 && c < 0xf0 ? 3
             : c >= 0xf0 && c < 0xf5 ? 4
                                     : 0;
  if (n == 0 || i + n > s.size()) return 0;
  for (size_t k = 1; k < n; k++)
    if ((static_cast<unsigned char>(s[i + k]) & 0xc0) != 0x80) return 0;
  auto second = n > 1 ? static_cast<unsigned char>(s[i + 1]) : 0;
  // Overlong forms, surrogates, beyond U+10FFFF.
  if ((c == 0xe0 && second < 0xa0) || (c == 0xed && second >= 0xa0) || (c == 0xf0 && second < 0x90) ||
      (c == 0xf4 && second >= 0x90))
    return 0;
  return n;
}

}  // namespace

std::string printable(const std::string& text, bool lines) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const size_t n = utf8_length(text, i);
    // U+0080 to U+009F are a second set of controls.
    const bool control =
        c < 0x20 || c == 0x7f || (c == 0xc2 && n == 2 && static_cast<unsigned char>(text[i + 1]) < 0xa0);
    if (n == 0 || (control && !(lines && (c == '\n' || c == '\t')))) {
      for (size_t k = 0; k < std::max<size_t>(n, 1); k++)
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i + k]));
    } else {
      out.append(text, i, n);
    }
    i += std::max<size_t>(n, 1);
  }
  return out;
}

std::string quote_bytes(const char* data, size_t size, size_t limit) {
  std::string out = "\"";
  size_t n = std::min(size, limit);
  for (size_t i = 0; i < n; i++) {
    auto c = static_cast<unsigned char>(data[i]);
    switch (c) {
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      default:
        if (c >= 0x20 && c < 0x7f) {
          out += static_cast<char>(c);
        } else {
          // Short octal, as strace does, unless a digit follows that would be read as part of it.
          bool digit_follows = i + 1 < n && data[i + 1] >= '0' && data[i + 1] <= '7';
          out += digit_follows ? fmt::format("\\{:03o}", c) : fmt::format("\\{:o}", c);
        }
    }
  }
  out += '"';
  if (size > limit) out += "...";
  return out;
}

std::string to_utf8(const std::string& bytes) {
  std::string out;
  for (size_t i = 0; i < bytes.size();) {
    size_t n = utf8_length(bytes, i);
    if (n)
      out.append(bytes, i, n);
    else
      out += "\xef\xbf\xbd";
    i += n ? n : 1;
  }
  return out;
}

}  // namespace backstep
