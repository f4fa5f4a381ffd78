// What is exported is what a query answers: `SELECT * FROM` a table is one as well.
//
// A database wants to know what a column holds before the first row comes. The columns of our tables say so;
// of what a query computes nobody knows before all of it is there. So rows with such a column wait in a file
// (one without a name, which is gone with us) until all have been seen.
#include "trace/export.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"

namespace backstep::trace {
namespace {

using Type = ExportedColumn::Type;

Type declared_type(const std::string& type) {
  if (type == "TIME INT") return Type::Time;
  if (type == "INT" || type == "ADDRESS INT") return Type::Integer;
  return type == "TEXT" ? Type::Text : Type::Any;
}

Type type_of(const Value& value) {
  constexpr Type kTypes[] = {Type::Any, Type::Integer, Type::Real, Type::Text, Type::Bytes};
  return kTypes[value.index()];
}

// What can hold both.
Type common_type(Type a, Type b) {
  if (a == b || b == Type::Any) return a;
  if (a == Type::Any) return b;
  const bool numbers = (a == Type::Integer || a == Type::Real) && (b == Type::Integer || b == Type::Real);
  return numbers ? Type::Real : Type::Text;
}

// Rows that wait.
class Waiting {
 public:
  Waiting() : file_(std::tmpfile()) {
    if (!file_) throw Error("cannot make a temporary file: " + errno_text(errno));
  }
  ~Waiting() { std::fclose(file_); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  void add(const Row& row) {
    for (const Value& value : row) {
      std::fputc(static_cast<int>(value.index()), file_);
      if (const auto* n = std::get_if<int64_t>(&value)) put(n, sizeof *n);
      if (const auto* x = std::get_if<double>(&value)) put(x, sizeof *x);
      if (const auto* text = std::get_if<std::string>(&value)) put_text(*text);
      if (const auto* blob = std::get_if<Blob>(&value)) put_text(blob->bytes);
    }
    rows_++;
    columns_ = row.size();
  }

  void tell(const std::function<void(const Row&)>& reader) {
    if (std::fflush(file_) != 0 || std::ferror(file_))
      throw Error("cannot write to a temporary file: " + errno_text(errno));
    std::rewind(file_);
    Row row(columns_);
    for (uint64_t i = 0; i < rows_; i++) {
      for (Value& value : row) value = next();
      reader(row);
    }
  }

 private:
  void put(const void* bytes, size_t n) { std::fwrite(bytes, 1, n, file_); }
  void put_text(const std::string& text) {
    const uint64_t size = text.size();
    put(&size, sizeof size);
    put(text.data(), text.size());
  }
  void get(void* bytes, size_t n) {
    if (std::fread(bytes, 1, n, file_) != n)
      throw Error("cannot read a temporary file: " + errno_text(std::ferror(file_) ? errno : EIO));
  }
  template <typename T>
  T get() {
    T value;
    get(&value, sizeof value);
    return value;
  }
  std::string get_text() {
    std::string text(get<uint64_t>(), '\0');
    get(text.data(), text.size());
    return text;
  }
  Value next() {
    switch (std::fgetc(file_)) {
      case 0:
        return {};
      case 1:
        return get<int64_t>();
      case 2:
        return get<double>();
      case 3:
        return get_text();
      default:
        return Blob{get_text()};
    }
  }

  std::FILE* file_;
  uint64_t rows_ = 0;
  size_t columns_ = 0;
};

// One query, whose answer becomes a table.
class OneTable {
 public:
  OneTable(Export& target, ExportedTable table, const Table* known)
      : target_(target), table_(std::move(table)), known_(known) {}

  Reader reader(const std::function<void(uint64_t rows)>& progress) {
    return {[this](const std::vector<Heading>& headings) {
              begin(headings);
              return true;
            },
            [this, progress](const Row& row) {
              add(row);
              progress(++rows_);
              return true;
            }};
  }

  uint64_t end() {
    if (!begun_) throw Error("there is nothing to export: the query has no answer", kExitUsage);
    if (waiting_) {
      target_.begin(table_);
      waiting_->tell([&](const Row& row) { target_.row(row); });
    }
    target_.end();
    return rows_;
  }

 private:
  void begin(const std::vector<Heading>& headings) {
    if (std::exchange(begun_, true))
      throw Error("only one query with an answer can be exported at a time", kExitUsage);
    const std::vector<std::string> names = distinct_names(headings);
    bool all_known = true;
    for (size_t i = 0; i < headings.size(); i++) {
      ExportedColumn c;
      c.name = names[i].empty() ? fmt::format("column_{}", i + 1) : names[i];
      c.type = declared_type(headings[i].type);
      if (known_) c.meaning = meaning_of(i);
      all_known = all_known && c.type != Type::Any;
      table_.columns.push_back(c);
    }
    if (target_.needs_types() && !all_known)
      waiting_ = std::make_unique<Waiting>();
    else
      target_.begin(table_);
    for (const ExportedColumn& c : table_.columns) computed_.push_back(c.type == Type::Any);
  }

  // Columns that belong together have one text, at the first of them.
  std::string meaning_of(size_t column) const {
    while (column > 0 && !*known_->columns[column].meaning) column--;
    return known_->columns[column].meaning;
  }

  void add(const Row& row) {
    if (!waiting_) return target_.row(row);
    for (size_t i = 0; i < row.size(); i++)
      if (computed_[i]) table_.columns[i].type = common_type(table_.columns[i].type, type_of(row[i]));
    waiting_->add(row);
  }

  Export& target_;
  ExportedTable table_;
  const Table* known_;  // null: it is a query's
  std::vector<bool> computed_;
  std::unique_ptr<Waiting> waiting_;
  bool begun_ = false;
  uint64_t rows_ = 0;
};

}  // namespace

std::vector<const Table*> whole_tables(const Database& database) {
  std::vector<const Table*> all;
  for (const Table& t : database.tables())
    if (t.needs.empty()) all.push_back(&t);
  return all;
}

std::vector<ExportedRows> run_export(Database& database, Export& target, const ExportWish& wish,
                                     const std::function<void(double done)>& progress) {
  std::vector<ExportedRows> exported;
  const auto parts = static_cast<double>(wish.tables.size());
  for (const Table* table : wish.tables) {
    Question all;
    all.table = table;
    const double expected = std::max(1.0, table->cost(database.history(), all).rows);
    const auto before = static_cast<double>(exported.size());
    OneTable one(target, {table->name, table->meaning, {}}, table);
    database.ask(fmt::format("SELECT * FROM {}", table->name), one.reader([&](uint64_t rows) {
      progress((before + std::min(1.0, static_cast<double>(rows) / expected)) / parts);
    }));
    exported.push_back({table->name, one.end()});
  }
  if (!wish.query.empty()) {
    OneTable one(target, {wish.name, wish.query, {}}, nullptr);
    database.ask(wish.query, one.reader([](uint64_t) {}));
    exported.push_back({wish.name, one.end()});
  }
  target.finish();
  return exported;
}

}  // namespace backstep::trace
