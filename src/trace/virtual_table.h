// Our tables as SQLite's virtual tables.
#pragma once
#include <sqlite3.h>

#include <deque>

#include "trace/table.h"

namespace backstep::trace {

// A way to walk over a table that SQLite was offered. If it takes it, it comes back with the number.
struct Plan {
  Question question;  // values are known if they stand in the query
  bool ordered = false;
};

// What the virtual tables of one connection share.
struct Connection {
  History& history;
  const std::vector<Table>& tables;
  std::deque<Plan> plans;  // of the statement under way, by number
  bool declaring = false;  // a table is telling SQLite its columns
  int exit_code = 0;       // of the last error that was one of ours
};

// Makes all tables known to the connection; they are there without being created.
void add_tables(sqlite3* db, Connection& connection);

Value value_of(sqlite3_value* value);
void set_result(sqlite3_context* context, const Value& value);
// From within a catch: tells SQLite what was thrown.
void set_failure(sqlite3_context* context, Connection& connection);

}  // namespace backstep::trace
