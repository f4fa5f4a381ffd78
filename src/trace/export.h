// Tables of the history, and answers of queries, for programs that people already have.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trace/database.h"
#include "trace/table.h"

namespace backstep::trace {

struct ExportedColumn {
  // What all of its values are, or NULL. Any: not known before all of them were seen.
  enum Type : uint8_t { Any, Integer, Time, Real, Text, Bytes };
  std::string name, meaning;
  Type type = Any;
};

struct ExportedTable {
  std::string name, meaning;
  std::vector<ExportedColumn> columns;
};

// Where they go. One table after the other: begin, rows, end. Nothing stays unless it comes to `finish`.
// All throw Error.
class Export {
 public:
  virtual ~Export() = default;
  // Has it to know the types of all columns before the first row?
  virtual bool needs_types() const = 0;
  virtual void begin(const ExportedTable& table) = 0;
  virtual void row(const Row& row) = 0;
  virtual void end() = 0;
  virtual void finish() = 0;
  // Texts that could not be taken over byte by byte.
  virtual uint64_t changed_texts() const { return 0; }
};

// A file with one table, or a folder that gets NAME.csv for each of `tables`. `replace`: what is there
// already.
std::unique_ptr<Export> export_to_csv(const std::string& path, const std::vector<std::string>& tables,
                                      bool replace);
// By the program psql, in one transaction. `schema`: empty: where the server puts tables of this user.
// `listen` is called while the server keeps us waiting, and throws to stop.
std::unique_ptr<Export> export_to_postgres(const std::string& address, const std::string& schema,
                                           bool replace, std::function<void()> listen);
bool is_postgres_address(const std::string& target);

struct ExportWish {
  std::vector<const Table*> tables;  // all of each
  std::string query, name;           // … or this, under a name
};
struct ExportedRows {
  std::string table;
  uint64_t rows = 0;
};
// Throws Error, Interrupted.
std::vector<ExportedRows> run_export(Database& database, Export& target, const ExportWish& wish,
                                     const std::function<void(double done)>& progress);
// Those that can be exported as a whole: they need not be told what to look for.
std::vector<const Table*> whole_tables(const Database& database);

}  // namespace backstep::trace
