// A table's columns are measured by its first rows and printed then; what comes later and is wider sticks
// out. So a long answer needs no memory, and its beginning is seen at once. What a recorded program has
// written may be anything: no control character of it reaches the terminal.
#include "cli/sql_print.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/asking.h"
#include "cli/format.h"
#include "trace/csv.h"

namespace backstep::cli {
namespace {

constexpr size_t kMeasured = 500;  // rows

std::string without_controls(const std::string& bytes) {
  std::string text;
  for (unsigned char c : to_utf8(bytes)) {
    if (c == '\n')
      text += "\\n";
    else if (c == '\t')
      text += "\\t";
    else if (c < 0x20 || c == 0x7f)
      text += fmt::format("\\x{:02x}", c);
    else
      text += static_cast<char>(c);
  }
  // The C1 controls, which some terminals obey in UTF-8 as well.
  for (size_t at = 0; (at = text.find('\xc2', at)) != std::string::npos; at++) {
    const auto next = static_cast<unsigned char>(at + 1 < text.size() ? text[at + 1] : 0);
    if (next >= 0x80 && next < 0xa0) text.replace(at, 2, fmt::format("\\x{:02x}", next));
  }
  return text;
}

nlohmann::ordered_json json_of(const trace::Value& value) {
  struct Convert {
    nlohmann::ordered_json operator()(std::monostate) const { return nullptr; }
    nlohmann::ordered_json operator()(const trace::Blob& b) const { return trace::hexadecimal(b.bytes); }
    nlohmann::ordered_json operator()(const std::string& s) const { return to_utf8(s); }
    nlohmann::ordered_json operator()(int64_t n) const { return n; }
    nlohmann::ordered_json operator()(double x) const { return x; }
  };
  return std::visit(Convert{}, value);
}

}  // namespace

std::string SqlPrinter::cell(const trace::Value& value, bool address) {
  if (const auto* n = std::get_if<int64_t>(&value))
    return address ? fmt::format("{:#x}", static_cast<uint64_t>(*n)) : std::to_string(*n);
  if (const auto* x = std::get_if<double>(&value)) return fmt::format("{}", *x);
  if (const auto* text = std::get_if<std::string>(&value)) return without_controls(*text);
  if (const auto* blob = std::get_if<trace::Blob>(&value))
    return fmt::format("x'{}'", trace::hexadecimal(blob->bytes));
  return "";
}

trace::Reader SqlPrinter::reader() {
  return {[this](const auto& headings) { return begin(headings); },
          [this](const trace::Row& row) { return add(row); }};
}

bool SqlPrinter::begin(const std::vector<trace::Heading>& headings) {
  if (!finish()) return false;
  headings_ = headings;
  has_columns_ = true;
  measured_ = false;
  right_.assign(headings.size(), true);  // until a text comes
  names_ = trace::distinct_names(headings);
  if (form_ != SqlForm::Csv) return true;
  return put_line(trace::csv_heading(headings));
}

bool SqlPrinter::add(const trace::Row& row) {
  if (form_ == SqlForm::Json) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    for (size_t i = 0; i < row.size(); i++) object[names_[i]] = json_of(row[i]);
    return put_line(object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  }
  if (form_ == SqlForm::Csv) return put_line(trace::csv_line(row));
  std::vector<std::string> cells;
  for (size_t i = 0; i < row.size(); i++) cells.push_back(cell(row[i], headings_[i].address));
  if (measured_) return print_row(cells);
  for (size_t i = 0; i < row.size(); i++)
    if (std::holds_alternative<std::string>(row[i]) || std::holds_alternative<trace::Blob>(row[i]))
      right_[i] = false;
  waiting_.push_back(std::move(cells));
  return waiting_.size() < kMeasured || finish();
}

bool SqlPrinter::finish() {
  if (form_ != SqlForm::Table || measured_ || !has_columns_) return true;
  measured_ = true;
  std::vector<std::string> names;
  for (const auto& h : headings_) names.push_back(without_controls(h.name));
  widths_.clear();
  for (const std::string& name : names) widths_.push_back(text_columns(name));
  for (const auto& row : waiting_)
    for (size_t i = 0; i < row.size(); i++) widths_[i] = std::max(widths_[i], text_columns(row[i]));
  if (waiting_.empty()) right_.assign(headings_.size(), false);
  bool heard = print_row(names);
  for (const auto& row : waiting_) heard = heard && print_row(row);
  waiting_.clear();
  return heard;
}

bool SqlPrinter::print_row(const std::vector<std::string>& cells) const {
  std::string line;
  for (size_t i = 0; i < cells.size(); i++) {
    const size_t width = text_columns(cells[i]);
    const std::string pad(widths_[i] - std::min(widths_[i], width), ' ');
    if (i > 0) line += "  ";
    line += right_[i] ? pad + cells[i] : cells[i] + pad;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return put_line(line);
}

}  // namespace backstep::cli
