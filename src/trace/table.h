// A table of the recorded history: its columns, what a query can say of them beforehand, and how its rows are
// found.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/history.h"
#include "trace/value.h"

namespace backstep::trace {

// What a query may say of a column before rows are looked for, so that fewer have to be.
enum Use : unsigned {
  kNothing = 0,
  kEqual = 1,    // =, IN
  kRange = 2,    // <, <=, >, >=, BETWEEN, and =
  kPattern = 4,  // LIKE, GLOB
};

struct Column {
  const char* name;
  // INT, TEXT, ANY; ADDRESS INT: people are shown it in hexadecimal; TIME INT: nanoseconds since 1970
  const char* type;
  unsigned uses;
  const char* meaning;
};

enum class Op : uint8_t { Equal, Less, LessEqual, Greater, GreaterEqual, Like, Glob };

struct Constraint {
  size_t column = 0;
  Op op = Op::Equal;
  bool known = true;          // false: its value is that of a row of another table
  bool list = false;          // an IN
  std::vector<Value> values;  // one; of an IN any number
};

struct Table;

// What one walk over a table is asked. It may answer with more rows than are meant (SQLite looks at each of
// them again), never with fewer.
struct Question {
  const Table* table = nullptr;
  std::vector<Constraint> constraints;
  bool all_processes = false;  // something is said of them that is no `=`
  bool newest_first = false;   // rows are wanted in the opposite of the table's first order
  uint64_t used = ~0ull;       // bit n: somebody looks at column n (bit 63: or at a later one)

  bool has(std::string_view column) const;
  const Constraint* find(std::string_view column, Op op) const;
  bool uses(std::string_view column) const;
  // From the constraints whose values are known: numbers that the column can be, both ends included.
  struct Range {
    std::optional<int64_t> low, high;
    bool empty() const { return low && high && *low > *high; }
    bool holds(int64_t n) const { return (!low || n >= *low) && (!high || n <= *high); }
  };
  Range range(std::string_view column) const;
  // Is it said from where on, or up to where, even if the value is not known yet?
  bool is_bounded(std::string_view column, bool above) const;
  // A text of all that is said, the same for the same question.
  std::string text() const;
};

// In microseconds, and how many rows; both are guesses that SQLite orders joins by.
struct Cost {
  double time = 0, rows = 0;
};

class Rows {
 public:
  virtual ~Rows() = default;
  virtual bool next() = 0;
  virtual Value value(size_t column) = 0;  // of the row that `next` came to
};

struct Table {
  const char* name;
  const char* meaning;
  std::vector<Column> columns;
  // Orders that the rows come in, each by several columns. What the query says a column is does not count.
  std::vector<std::vector<const char*>> orders;
  // One of these, all of its columns, has to be known, or the table cannot be walked over.
  std::vector<std::vector<const char*>> needs;
  bool of_one_process;  // it is about the query's process, unless the query says something of processes
  std::function<Cost(History& history, const Question& question)> cost;
  std::function<std::unique_ptr<Rows>(History& history, const Question& question)> open;
  // For people: what has to be read or replayed for the question.
  std::function<std::string(History& history, const Question& question)> explain;
  bool has_newest_first = false;  // of its first order, which is one column, it knows the opposite, too

  std::optional<size_t> column(std::string_view name) const;
  // Does the question say what has to be known?
  bool can_answer(const Question& question) const;
  // "function", "name or addr", "file and line"
  std::string needs_text() const;
};

const std::vector<Table>& tables();
const Table* find_table(std::string_view name);

// By file.
void add_log_tables(std::vector<Table>& tables);
void add_output_table(std::vector<Table>& tables);
void add_program_tables(std::vector<Table>& tables);
void add_swept_tables(std::vector<Table>& tables);
void add_heap_table(std::vector<Table>& tables);
void add_locks_table(std::vector<Table>& tables);
void add_messages_table(std::vector<Table>& tables);

// --- what tables have in common ---

// The processes that a question is about, of those whose log can be read: all, or those that it names.
std::vector<uint64_t> processes_of(History& history, const Question& question);
// The ones that are replayed: what it names, or the one that the whole query is about.
std::vector<uint64_t> replayed_processes_of(History& history, const Question& question);
// The values of an `=` or IN; nullopt: nothing is said.
std::optional<std::vector<Value>> equal(const Question& question, std::string_view column);
// … that are texts. NULL equals nothing.
std::optional<std::vector<std::string>> equal_texts(const Question& question, std::string_view column);

// Rows that are there already.
class ReadyRows : public Rows {
 public:
  explicit ReadyRows(std::shared_ptr<const std::vector<Row>> rows) : rows_(std::move(rows)) {}
  explicit ReadyRows(std::vector<Row> rows)
      : rows_(std::make_shared<const std::vector<Row>>(std::move(rows))) {}
  bool next() override { return next_++ < rows_->size(); }
  Value value(size_t column) override { return (*rows_)[next_ - 1][column]; }

 private:
  std::shared_ptr<const std::vector<Row>> rows_;
  size_t next_ = 0;
};

}  // namespace backstep::trace
