// Bytes of a type, for people and as JSON.
#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "symbols/types.h"

namespace backstep::symbols {
namespace {

using Kind = Type::Kind;
using Bytes = std::span<const uint8_t>;
__extension__ using Wide = unsigned __int128;
__extension__ using SignedWide = __int128;
constexpr unsigned kDeepestStruct = 16;  // structs in structs
constexpr uint64_t kMostElements = 200;  // of an array that are shown
constexpr uint64_t kSameFromHere = 10;   // elements in a row that are written once

uint64_t word(Bytes bytes, uint64_t offset, uint64_t size) {
  uint64_t value = 0;
  if (size <= 8 && offset + size <= bytes.size()) std::memcpy(&value, bytes.data() + offset, size);
  return value;
}

uint64_t extended(uint64_t value, unsigned bits, bool is_signed) {
  if (bits == 0 || bits >= 64) return value;
  value <<= 64 - bits;
  return is_signed ? static_cast<uint64_t>(static_cast<int64_t>(value) >> (64 - bits)) : value >> (64 - bits);
}

std::string printable(uint8_t c, char quote) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\t':
      return "\\t";
    case '\r':
      return "\\r";
    case '\\':
      return "\\\\";
    case 0:
      return "\\0";
    default:
      if (c == quote) return {'\\', quote};
      if (c < 0x20 || c == 0x7f) return fmt::format("\\x{:02x}", c);
      return std::string(1, static_cast<char>(c));
  }
}

// How many bytes of well-formed UTF-8 begin at `at`; 0: none.
size_t utf8_at(Bytes bytes, size_t at) {
  const uint8_t c = bytes[at];
  const size_t n = c < 0x80                ? 1
                   : c >= 0xc2 && c < 0xe0 ? 2
                   : c >= 0xe0 && c < 0xf0 ? 3
                   : c >= 0xf0 && c < 0xf5 ? 4
                                           : 0;
  if (n == 0 || at + n > bytes.size()) return 0;
  for (size_t i = 1; i < n; i++)
    if ((bytes[at + i] & 0xc0) != 0x80) return 0;
  if (n == 3 && ((c == 0xe0 && bytes[at + 1] < 0xa0) || (c == 0xed && bytes[at + 1] >= 0xa0))) return 0;
  if (n == 4 && ((c == 0xf0 && bytes[at + 1] < 0x90) || (c == 0xf4 && bytes[at + 1] >= 0x90))) return 0;
  return n;
}

Bytes before_nul(Bytes bytes) {
  size_t n = 0;
  while (n < bytes.size() && bytes[n]) n++;
  return bytes.first(n);
}

std::string float_text(const Type& type, Bytes bytes) {
  if (type.size == 4) {
    float v = 0;
    std::memcpy(&v, bytes.data(), sizeof v);
    return fmt::format("{}", v);
  }
  if (type.size == 8) {
    double v = 0;
    std::memcpy(&v, bytes.data(), sizeof v);
    return fmt::format("{}", v);
  }
  long double v = 0;
  std::memcpy(&v, bytes.data(), 10);
  return fmt::format("{}", v);
}

std::string wide_text(Wide value, bool is_signed) {
  const bool negative = is_signed && static_cast<SignedWide>(value) < 0;
  if (negative) value = -value;
  std::string out;
  do out.insert(out.begin(), static_cast<char>('0' + static_cast<int>(value % 10)));
  while (value /= 10);
  return negative ? "-" + out : out;
}

std::string integer_text(const Type& type, uint64_t value) {
  return type.is_signed ? fmt::format("{}", static_cast<int64_t>(value)) : fmt::format("{}", value);
}

const Type::Enumerator* enumerator(const Type& type, uint64_t value) {
  for (const auto& e : type.enumerators)
    if (extended(e.value, static_cast<unsigned>(type.size * 8), type.is_signed) == value) return &e;
  return nullptr;
}

// RED, or of flags (A | B), or the number.
std::string enum_text(const Type& type, uint64_t value) {
  if (const auto* e = enumerator(type, value)) return e->name;
  std::string flags;
  uint64_t rest = value;
  for (const auto& e : type.enumerators) {
    if (e.value == 0 || (e.value & (e.value - 1)) != 0 || (rest & e.value) == 0) continue;
    flags += (flags.empty() ? "" : " | ") + e.name;
    rest &= ~e.value;
  }
  return rest == 0 && !flags.empty() ? "(" + flags + ")" : integer_text(type, value);
}

std::string scalar_text(const Type& type, uint64_t value) {
  switch (type.kind) {
    case Kind::Bool:
      return value == 0 ? "false" : value == 1 ? "true" : fmt::format("{}", value);
    case Kind::Char:
      if (type.size == 1)
        return fmt::format("'{}' ({})", printable(static_cast<uint8_t>(value), '\''),
                           integer_text(type, value));
      return value >= 0x20 && value < 0x7f ? fmt::format("'{}' ({})", static_cast<char>(value), value)
                                           : integer_text(type, value);
    case Kind::Enum:
      return enum_text(type, value);
    case Kind::Integer:
      return integer_text(type, value);
    default:
      return fmt::format("{:#x}", value);
  }
}

std::string text_of(const Type& type, Bytes bytes, unsigned depth);

std::string array_text(const Type& type, Bytes bytes, unsigned depth) {
  if (type.text()) {
    const Bytes text = before_nul(bytes);
    return quoted(text, false);
  }
  const uint64_t size = type.element->size;
  const uint64_t count = size ? std::min(type.count.value_or(0), bytes.size() / size) : 0;
  std::string out = "{";
  uint64_t shown = 0;
  for (uint64_t i = 0; i < count;) {
    if (shown++ == kMostElements) break;
    const Bytes one = bytes.subspan(i * size, size);
    uint64_t same = 1;
    while (i + same < count && std::memcmp(one.data(), bytes.data() + (i + same) * size, size) == 0) same++;
    out += (out.size() > 1 ? ", " : "") + text_of(*type.element, one, depth + 1);
    if (same >= kSameFromHere) {
      out += fmt::format(" <{} times>", same);
      i += same;
    } else {
      i++;
    }
  }
  if (shown > kMostElements || count < type.count.value_or(0)) out += ", ...";
  return out + "}";
}

uint64_t bit_field(const Type::Member& member, Bytes bytes) {
  const uint64_t unit = word(bytes, member.offset, member.unit);
  return extended(unit >> member.bit_shift, member.bit_size, member.type->is_signed);
}

Bytes part(Bytes bytes, uint64_t offset, uint64_t size) {
  if (offset >= bytes.size()) return {};
  return bytes.subspan(offset, std::min<uint64_t>(size, bytes.size() - offset));
}

std::string struct_text(const Type& type, Bytes bytes, unsigned depth) {
  if (type.incomplete) return "<incomplete type>";
  std::string out = "{";
  for (const auto& member : type.members) {
    if (member.artificial) continue;
    if (out.size() > 1) out += ", ";
    if (member.base) out += "<" + member.type->text_name() + "> = ";
    if (!member.name.empty()) out += member.name + " = ";
    out += member.virtual_base ? "<virtual base>"
           : member.bit_size
               ? scalar_text(*member.type, bit_field(member, bytes))
               : text_of(*member.type, part(bytes, member.offset, member.type->size), depth + 1);
  }
  return out + "}";
}

std::string text_of(const Type& type, Bytes bytes, unsigned depth) {
  if (depth > kDeepestStruct) return "...";
  switch (type.kind) {
    case Kind::Array:
      return array_text(type, bytes, depth);
    case Kind::Struct:
      return struct_text(type, bytes, depth);
    case Kind::Void:
    case Kind::Function:
      return "<" + type.text_name() + ">";
    default:
      break;
  }
  if (bytes.size() < type.size || type.size == 0) return "<missing>";
  if (type.kind == Kind::Float) return float_text(type, bytes);
  if (type.kind == Kind::Other) {
    std::string hex;
    for (uint8_t b : bytes) hex += fmt::format("{:02x}", b);
    return "<bytes " + hex + ">";
  }
  if (type.size == 16) {
    Wide value = 0;
    std::memcpy(&value, bytes.data(), 16);
    return wide_text(value, type.is_signed);
  }
  return scalar_text(
      type, extended(word(bytes, 0, type.size), static_cast<unsigned>(type.size * 8), type.is_signed));
}

// Text that JSON can hold: what is not UTF-8 is escaped as in C.
std::string json_text(Bytes bytes) {
  std::string out;
  for (size_t i = 0; i < bytes.size();) {
    const size_t n = utf8_at(bytes, i);
    if (n == 0) {
      out += fmt::format("\\x{:02x}", bytes[i++]);
      continue;
    }
    out.append(reinterpret_cast<const char*>(bytes.data()) + i, n);
    i += n;
  }
  return out;
}

nlohmann::json scalar_json(const Type& type, uint64_t value) {
  switch (type.kind) {
    case Kind::Bool:
      if (value <= 1) return value == 1;
      return value;
    case Kind::Enum:
      if (const auto* e = enumerator(type, value)) return e->name;
      break;
    case Kind::Char:
    case Kind::Integer:
      break;
    default:
      return fmt::format("{:#x}", value);
  }
  if (type.is_signed) return static_cast<int64_t>(value);
  return value;
}

nlohmann::json json_of(const Type& type, Bytes bytes, unsigned depth);

nlohmann::json float_json(const Type& type, Bytes bytes) {
  double v = 0;
  if (type.size == 4) {
    float f = 0;
    std::memcpy(&f, bytes.data(), sizeof f);
    v = std::isfinite(f) ? std::stod(fmt::format("{}", f)) : f;  // 0.1, not 0.10000000149
  } else if (type.size == 8) {
    std::memcpy(&v, bytes.data(), sizeof v);
  } else {
    long double l = 0;
    std::memcpy(&l, bytes.data(), 10);
    v = static_cast<double>(l);
  }
  if (!std::isfinite(v)) return float_text(type, bytes);
  return v;
}

void add_members(nlohmann::json& to, const Type& type, Bytes bytes, unsigned depth) {
  for (const auto& member : type.members) {
    if (member.artificial || member.virtual_base) continue;
    const Bytes its = part(bytes, member.offset, member.type->size);
    if (member.name.empty() && member.type->kind == Kind::Struct) {
      if (depth < kDeepestStruct) add_members(to, *member.type, its, depth + 1);
    } else {
      to[json_text({reinterpret_cast<const uint8_t*>(member.name.data()), member.name.size()})] =
          member.bit_size ? scalar_json(*member.type, bit_field(member, bytes))
                          : json_of(*member.type, its, depth + 1);
    }
  }
}

nlohmann::json json_of(const Type& type, Bytes bytes, unsigned depth) {
  if (depth > kDeepestStruct) return nullptr;
  if (type.text()) return json_text(before_nul(bytes));
  if (type.kind == Kind::Array) {
    nlohmann::json out = nlohmann::json::array();
    const uint64_t size = type.element->size;
    const uint64_t count = size ? std::min(type.count.value_or(0), bytes.size() / size) : 0;
    for (uint64_t i = 0; i < count; i++)
      out.push_back(json_of(*type.element, bytes.subspan(i * size, size), depth + 1));
    return out;
  }
  if (type.kind == Kind::Struct && !type.incomplete) {
    nlohmann::json out = nlohmann::json::object();
    add_members(out, type, bytes, depth);
    return out;
  }
  if (bytes.size() < type.size || type.size == 0) return nullptr;
  if (type.kind == Kind::Float) return float_json(type, bytes);
  if (type.size > 8 || type.kind == Kind::Other || type.kind == Kind::Struct)
    return text_of(type, bytes, depth);
  return scalar_json(
      type, extended(word(bytes, 0, type.size), static_cast<unsigned>(type.size * 8), type.is_signed));
}

}  // namespace

std::string quoted(std::span<const uint8_t> bytes, bool more) {
  std::string out = "\"";
  for (size_t i = 0; i < bytes.size();) {
    const size_t n = utf8_at(bytes, i);
    if (n <= 1) {
      out += n == 1 ? printable(bytes[i], '"') : fmt::format("\\x{:02x}", bytes[i]);
      i++;
    } else {
      out.append(reinterpret_cast<const char*>(bytes.data()) + i, n);
      i += n;
    }
  }
  return out + (more ? "\"..." : "\"");
}

std::string format(const Type& type, std::span<const uint8_t> bytes) {
  return text_of(type, bytes, 0);
}

nlohmann::json to_json(const Type& type, std::span<const uint8_t> bytes) {
  return json_of(type, bytes, 0);
}

nlohmann::json text_json(std::span<const uint8_t> bytes) {
  return json_text(bytes);
}

}  // namespace backstep::symbols
