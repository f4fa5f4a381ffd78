// Formatting for people. The rules: three significant digits are enough for a measurement, but counts (ticks,
// events) are exact, because people compare and paste them; sizes are decimal (kB = 1000 bytes), as disks and
// `ls --si` count.
#include "cli/format.h"

#include <time.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace backstep::cli {
namespace {

// Three significant digits: 1.23, 12.3, 123.
std::string three_digits(double x) {
  return fmt::format("{:.{}f}", x, x < 9.995 ? 2 : x < 99.95 ? 1 : 0);
}

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

size_t columns(const std::string& s) {
  size_t n = 0;
  for (unsigned char c : s) n += (c & 0xc0) != 0x80;
  return n;
}

}  // namespace

std::string format_count(uint64_t n) {
  std::string digits = std::to_string(n);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string format_size(uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  double x = static_cast<double>(bytes);
  for (const char* unit : {"kB", "MB", "GB", "TB"}) {
    x /= 1000;
    if (x < 999.5) return three_digits(x) + " " + unit;
  }
  return fmt::format("{:.0f} TB", x);
}

std::string format_duration(int64_t ns) {
  if (ns < 0) return "-" + format_duration(-ns);
  double x = static_cast<double>(ns);
  if (ns < 1000) return fmt::format("{} ns", ns);
  if (x < 999.5e3) return three_digits(x / 1e3) + " µs";
  if (x < 999.5e6) return three_digits(x / 1e6) + " ms";
  if (x < 59.95e9) return three_digits(x / 1e9) + " s";
  int64_t seconds = (ns + 500'000'000) / 1'000'000'000;
  if (seconds < 3600) return fmt::format("{} min {:02} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {:02} min", seconds / 3600, seconds / 60 % 60);
}

std::string format_time(int64_t realtime_ns) {
  time_t seconds = realtime_ns / 1'000'000'000;
  tm parts{};
  localtime_r(&seconds, &parts);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", parts);
}

std::string format_time_iso(int64_t realtime_ns) {
  time_t seconds = realtime_ns / 1'000'000'000;
  tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:09}Z", parts, realtime_ns % 1'000'000'000);
}

std::string format_point(const ControlPoint& point) {
  if (point.pc == 0) return fmt::format("@{}", point.tick);  // start of the quantum
  return fmt::format("@{}:{:#x}", point.tick, point.pc);
}

std::string format_command(const std::vector<std::string>& argv) {
  auto is_plain = [](unsigned char c) { return isalnum(c) || c >= 0x80 || strchr("_-./=:,+@%^", c); };
  std::string out;
  for (const auto& arg : argv) {
    if (!out.empty()) out += ' ';
    bool control = std::any_of(arg.begin(), arg.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
    if (!arg.empty() && std::all_of(arg.begin(), arg.end(), is_plain)) {
      out += arg;
    } else if (control) {  // $'…': one line, whatever is in it
      out += "$'";
      for (unsigned char c : arg) {
        if (c == '\n')
          out += "\\n";
        else if (c == '\t')
          out += "\\t";
        else if (c < 0x20 || c == 0x7f)
          out += fmt::format("\\x{:02x}", c);
        else if (c == '\'' || c == '\\')
          (out += '\\') += static_cast<char>(c);
        else
          out += static_cast<char>(c);
      }
      out += "'";
    } else {
      out += '\'';
      for (char c : arg) c == '\'' ? out += "'\\''" : out += c;
      out += '\'';
    }
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

std::string shorten(const std::string& text, size_t width) {
  if (columns(text) <= width) return text;
  size_t seen = 0, i = 0;
  for (; i < text.size(); i++) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) == 0x80) continue;
    if (++seen == width) break;
  }
  return text.substr(0, i) + "…";
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

Table::Table(std::vector<std::string> header) {
  for (auto& cell : header) {
    right_.push_back(cell.starts_with('>'));
    if (right_.back()) cell.erase(0, 1);
  }
  rows_.push_back(std::move(header));
}

std::string Table::text() const {
  std::vector<size_t> width(right_.size());
  for (const auto& row : rows_)
    for (size_t i = 0; i < row.size(); i++) width[i] = std::max(width[i], columns(row[i]));
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); i++) {
      std::string pad(width[i] - columns(row[i]), ' ');
      if (i > 0) line += "  ";
      line += right_[i] ? pad + row[i] : row[i] + pad;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

}  // namespace backstep::cli
