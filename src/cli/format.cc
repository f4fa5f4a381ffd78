// Formatting for people. The rules: three significant digits are enough for a measurement, but counts (ticks,
// events) are exact, because people compare and paste them; sizes are decimal (kB = 1000 bytes), as disks and
// `ls --si` count.
#include "cli/format.h"

#include <time.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/error.h"
#include "base/printable.h"

namespace backstep::cli {
namespace {

// Three significant digits: 1.23, 12.3, 123.
std::string three_digits(double x) {
  return fmt::format("{:.{}f}", x, x < 9.995 ? 2 : x < 99.95 ? 1 : 0);
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

uint64_t parse_size(const std::string& text) {
  static constexpr std::pair<const char*, double> kUnits[] = {
      {"", 1}, {"B", 1}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}};
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  while (*end == ' ') end++;
  for (const auto& [unit, size] : kUnits)
    if (end != text.c_str() && std::string(end) == unit && number >= 0 && number * size < 9e18)
      return static_cast<uint64_t>(number * size);
  throw Error(fmt::format("'{}' is no size: write 500MB or 4GB", text), kExitUsage);
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
    const bool control = printable(arg) != arg;
    if (!control && !arg.empty() && std::all_of(arg.begin(), arg.end(), is_plain)) {
      out += arg;
    } else if (control) {  // $'…': one line, whatever is in it
      out += "$'";
      std::string plain;
      auto flush = [&] { out += printable(std::exchange(plain, "")); };
      for (char c : arg) {
        if (c != '\n' && c != '\t' && c != '\'' && c != '\\') {
          plain += c;
          continue;
        }
        flush();
        (out += '\\') += c == '\n' ? 'n' : c == '\t' ? 't' : c;
      }
      flush();
      out += "'";
    } else {
      out += '\'';
      for (char c : arg) c == '\'' ? out += "'\\''" : out += c;
      out += '\'';
    }
  }
  return out;
}

size_t text_columns(const std::string& s) {
  size_t n = 0;
  for (unsigned char c : s) n += (c & 0xc0) != 0x80;
  return n;
}

std::string shorten(const std::string& text, size_t width) {
  if (text_columns(text) <= width) return text;
  size_t seen = 0, i = 0;
  for (; i < text.size(); i++) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) == 0x80) continue;
    if (++seen == width) break;
  }
  return text.substr(0, i) + "…";
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
    for (size_t i = 0; i < row.size(); i++) width[i] = std::max(width[i], text_columns(row[i]));
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); i++) {
      std::string pad(width[i] - text_columns(row[i]), ' ');
      if (i > 0) line += "  ";
      line += right_[i] ? pad + row[i] : row[i] + pad;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

}  // namespace backstep::cli
