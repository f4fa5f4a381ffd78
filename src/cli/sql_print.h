// Answers of queries, for people and for programs.
#pragma once
#include <memory>

#include "trace/database.h"

namespace backstep::cli {

enum class SqlForm { Table, Json, Csv };

// Prints each statement's rows to stdout as they come. A false answer means that nobody reads them any more.
class SqlPrinter {
 public:
  explicit SqlPrinter(SqlForm form) : form_(form) {}

  trace::Reader reader();
  // What is still waiting for its columns to be measured.
  bool finish();
  // After a failure: nothing, if there was no row.
  bool finish_failed() { return waiting_.empty() || finish(); }

 private:
  bool begin(const std::vector<trace::Heading>& headings);
  bool add(const trace::Row& row);
  bool print_row(const std::vector<std::string>& cells) const;
  static std::string cell(const trace::Value& value, bool address);

  SqlForm form_;
  std::vector<trace::Heading> headings_;
  std::vector<std::string> names_;  // for JSON: each one once
  // Tables: columns are as wide as the widest of the first rows.
  std::vector<std::vector<std::string>> waiting_;
  std::vector<size_t> widths_;
  std::vector<bool> right_;
  bool measured_ = false, has_columns_ = false;
};

}  // namespace backstep::cli
