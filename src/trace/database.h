// SQL over the recorded history.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trace/table.h"

struct sqlite3;

namespace backstep::trace {

struct Connection;

struct Heading {
  std::string name;
  bool address = false;   // people are shown its numbers in hexadecimal
  std::string type = {};  // as Column::type; empty: it is computed
};
// Names of an answer's columns, each once: a second "n" is "n_2".
std::vector<std::string> distinct_names(const std::vector<Heading>& headings);

// Who gets the answer. False from either ends the query.
struct Reader {
  std::function<bool(const std::vector<Heading>&)> headings;  // once for each statement that has an answer
  std::function<bool(const Row&)> row;
};

// What a table of a query is asked for, and what that takes.
struct Step {
  std::string table;
  std::string text;  // a sentence or two
};

// For people and for completion.
struct FunctionHelp {
  const char* form;
  const char* meaning;
};

// What SQL can call. The same arguments always have the same answer.
struct Function {
  FunctionHelp help;
  const char* name;
  int least, most;  // arguments
  std::function<Value(History&, const std::vector<Value>&)> run;
};
// Of one recording.
const std::vector<Function>& functions();

// What there is in a database.
struct Schema {
  std::vector<Table> tables;
  std::vector<Function> functions;
};

class Database {
 public:
  explicit Database(History& history);
  // With other tables and functions than those of one recording; `schema` must outlive it. These know what
  // they are about, and may leave `history` alone.
  Database(History& history, const Schema& schema);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // One statement or several. Throws Error: a sentence, and where in the text; Interrupted. False: the reader
  // had enough.
  bool ask(const std::string& query, const Reader& reader);
  // Asks nothing.
  std::vector<Step> explain(const std::string& query);
  // Is it a whole statement, or does it go on in the next line?
  static bool is_complete(const std::string& text);

  History& history() { return history_; }
  const std::vector<Table>& tables() const { return tables_; }
  const std::vector<Function>& functions() const { return functions_; }
  const Table* find_table(std::string_view name) const;

 private:
  Database(History& history, const std::vector<Table>& tables, const std::vector<Function>& functions);
  std::string explained(const std::string& message) const;
  void fail(const std::string& query, size_t begin);

  History& history_;
  const std::vector<Table>& tables_;
  const std::vector<Function>& functions_;
  std::unique_ptr<Connection> connection_;
  sqlite3* db_ = nullptr;
};

// --- for this layer ---
void add_functions(sqlite3* db, Connection& connection, const std::vector<Function>& functions);

}  // namespace backstep::trace
