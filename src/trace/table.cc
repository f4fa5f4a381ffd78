#include "trace/table.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace backstep::trace {
namespace {

// The least integer that is not less than a number, or the greatest that is not greater; nullopt: the value
// says nothing about integers (or they are all on one side of it).
std::optional<int64_t> integer_at(const Value& value, bool up) {
  if (const auto* n = std::get_if<int64_t>(&value)) return *n;
  if (const auto* text = std::get_if<std::string>(&value)) {
    // A number in quotes is one where SQL compares it with a number.
    int64_t n = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), n);
    return error == std::errc() && end == text->data() + text->size() ? std::optional(n) : std::nullopt;
  }
  const auto* x = std::get_if<double>(&value);
  constexpr double kMost = 9e18;
  if (!x || !(std::abs(*x) < kMost)) return std::nullopt;
  return static_cast<int64_t>(up ? std::ceil(*x) : std::floor(*x));
}

bool is_whole(const Value& value) {
  const auto* x = std::get_if<double>(&value);
  return !x || *x == std::floor(*x);
}

void narrow(Question::Range& range, std::optional<int64_t> low, std::optional<int64_t> high) {
  if (low && (!range.low || *low > *range.low)) range.low = low;
  if (high && (!range.high || *high < *range.high)) range.high = high;
}

std::string value_text(const Value& value) {
  struct Text {
    std::string operator()(std::monostate) const { return "n"; }
    std::string operator()(int64_t n) const { return fmt::format("i{}", n); }
    std::string operator()(double x) const { return fmt::format("d{}", x); }
    std::string operator()(const std::string& s) const { return fmt::format("s{}:{}", s.size(), s); }
    std::string operator()(const Blob& b) const { return fmt::format("b{}:{}", b.bytes.size(), b.bytes); }
  };
  return std::visit(Text{}, value);
}

}  // namespace

const Constraint* Question::find(std::string_view column, Op op) const {
  for (const Constraint& c : constraints)
    if (c.op == op && table->columns[c.column].name == column) return &c;
  return nullptr;
}

bool Question::uses(std::string_view column) const {
  const auto place = table->column(column);
  return place && (used >> std::min<size_t>(*place, 63) & 1);
}

Question::Range Question::range(std::string_view column) const {
  Range range;
  for (const Constraint& c : constraints) {
    if (table->columns[c.column].name != column || !c.known || c.values.size() != 1) continue;
    const Value& v = c.values[0];
    const int64_t step = is_whole(v) ? 1 : 0;  // behind a whole number comes the next one
    const auto low = integer_at(v, true), high = integer_at(v, false);
    switch (c.op) {
      case Op::Equal:
        narrow(range, low, high);
        break;
      case Op::GreaterEqual:
        narrow(range, low, {});
        break;
      case Op::Greater:
        if (low && *low < INT64_MAX) narrow(range, *low + step, {});
        break;
      case Op::LessEqual:
        narrow(range, {}, high);
        break;
      case Op::Less:
        if (high && *high > INT64_MIN) narrow(range, {}, *high - step);
        break;
      case Op::Like:
      case Op::Glob:
        break;
    }
  }
  return range;
}

bool Question::is_bounded(std::string_view column, bool above) const {
  for (const Constraint& c : constraints) {
    if (table->columns[c.column].name != column) continue;
    if (c.op == Op::Equal) return true;
    if (above ? c.op == Op::Less || c.op == Op::LessEqual : c.op == Op::Greater || c.op == Op::GreaterEqual)
      return true;
  }
  return false;
}

std::string Question::text() const {
  std::string text = table->name;
  for (const Constraint& c : constraints) {
    text += fmt::format(" {}.{}", c.column, static_cast<int>(c.op));
    for (const Value& v : c.values) text += " " + value_text(v);
  }
  return text + fmt::format(" {:x} {} {}", used, all_processes, newest_first);
}

std::optional<size_t> Table::column(std::string_view wanted) const {
  for (size_t i = 0; i < columns.size(); i++)
    if (columns[i].name == wanted) return i;
  return std::nullopt;
}

bool Question::has(std::string_view column) const {
  return std::any_of(constraints.begin(), constraints.end(),
                     [&](const Constraint& c) { return table->columns[c.column].name == column; });
}

bool Table::can_answer(const Question& question) const {
  return needs.empty() || std::any_of(needs.begin(), needs.end(), [&](const auto& columns_needed) {
           return std::all_of(columns_needed.begin(), columns_needed.end(),
                              [&](const char* c) { return question.has(c); });
         });
}

std::string Table::needs_text() const {
  std::string text;
  for (const auto& all : needs) {
    if (!text.empty()) text += " or ";
    for (size_t i = 0; i < all.size(); i++) text += fmt::format("{}{}", i ? " and " : "", all[i]);
  }
  return text;
}

const std::vector<Table>& tables() {
  static const std::vector<Table> all = [] {
    std::vector<Table> list;
    add_log_tables(list);
    add_output_table(list);
    add_messages_table(list);
    add_program_tables(list);
    add_swept_tables(list);
    add_heap_table(list);
    add_locks_table(list);
    return list;
  }();
  return all;
}

const Table* find_table(std::string_view name) {
  for (const Table& t : tables())
    if (t.name == name) return &t;
  return nullptr;
}

std::optional<std::vector<Value>> equal(const Question& question, std::string_view column) {
  const Constraint* c = question.find(column, Op::Equal);
  if (!c || !c->known) return std::nullopt;
  return c->values;
}

std::optional<std::vector<std::string>> equal_texts(const Question& question, std::string_view column) {
  const auto values = equal(question, column);
  if (!values) return std::nullopt;
  std::vector<std::string> texts;
  for (const Value& v : *values)
    if (const auto* text = std::get_if<std::string>(&v)) texts.push_back(*text);
  return texts;
}

namespace {

// Those that are named by integers; nullopt: none are.
std::optional<std::vector<uint64_t>> named_processes(const Question& question) {
  const auto values = equal(question, "process");
  if (!values) return std::nullopt;
  std::vector<uint64_t> named;
  for (const Value& v : *values)
    if (const auto n = integer_at(v, true); n && is_whole(v) && *n > 0)
      named.push_back(static_cast<uint64_t>(*n));
  return named;
}

}  // namespace

std::vector<uint64_t> processes_of(History& history, const Question& question) {
  const auto named = named_processes(question);
  std::vector<uint64_t> found;
  for (const auto& p : history.processes()) {
    const uint64_t number = p.info.number;
    if (p.info.damaged) history.damaged(number, "its log is damaged");
    if (!history.is_readable(number)) continue;
    if (!named || std::find(named->begin(), named->end(), number) != named->end()) found.push_back(number);
  }
  return found;
}

std::vector<uint64_t> replayed_processes_of(History& history, const Question& question) {
  const auto named = named_processes(question);
  if (!named && question.all_processes) return processes_of(history, question);
  if (!named) return {history.process()};
  std::vector<uint64_t> found;
  for (uint64_t number : *named)
    if (history.is_readable(number)) found.push_back(number);
  return found;
}

}  // namespace backstep::trace
