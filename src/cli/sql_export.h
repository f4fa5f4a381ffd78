// `backstep sql --export` and `cluster sql --export`: tables and answers for other programs.
#pragma once
#include <string>

#include "cli/asking.h"
#include "trace/export.h"

namespace backstep::cli {

struct SqlExport {
  std::string target;  // postgresql://…, a file FILE.csv, or a folder; empty: not wanted
  std::string name;    // of the table that a query becomes
  std::string schema;  // of PostgreSQL
  bool replace = false;

  void add_options(CommandLine& line);
  bool wanted() const { return !target.empty(); }
  // Throws Error: options that make no sense.
  void check() const;
  // Names of tables with commas between them? Throws Error if one is misspelt.
  static bool names_tables(const std::string& text);
  // `what`: such names, or a query; empty: all tables that can be. Throws Error, trace::Interrupted.
  void run(trace::Database& database, ProgressBar& bar, const std::string& what, bool json) const;
};

}  // namespace backstep::cli
