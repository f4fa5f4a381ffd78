#include "trace/csv.h"

#include <fmt/format.h>

namespace backstep::trace {
namespace {

std::string csv_text(const std::string& text) {
  if (!text.empty() && text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string csv_value(const Value& value) {
  if (const auto* n = std::get_if<int64_t>(&value)) return std::to_string(*n);
  if (const auto* x = std::get_if<double>(&value)) return fmt::format("{}", *x);
  if (const auto* text = std::get_if<std::string>(&value)) return csv_text(*text);
  if (const auto* blob = std::get_if<Blob>(&value)) return csv_text(hexadecimal(blob->bytes));
  return "";
}

}  // namespace

std::string hexadecimal(const std::string& bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (unsigned char c : bytes) text += fmt::format("{:02x}", c);
  return text;
}

std::string csv_heading(const std::vector<Heading>& headings) {
  std::string line;
  for (size_t i = 0; i < headings.size(); i++) line += (i ? "," : "") + csv_text(headings[i].name);
  return line;
}

std::string csv_line(const Row& row) {
  std::string line;
  for (size_t i = 0; i < row.size(); i++) line += (i ? "," : "") + csv_value(row[i]);
  return line;
}

}  // namespace backstep::trace
