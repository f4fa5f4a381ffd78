// Queries line by line: from a person at a terminal, or from a file.
#pragma once
#include <string>

#include "cli/asking.h"
#include "cli/interrupts.h"
#include "cli/sql_print.h"

namespace backstep::cli {

class SqlShell {
 public:
  SqlShell(trace::Database& database, ProgressBar& bar, SqlForm form, bool explain)
      : database_(database), bar_(bar), form_(form), explain_(explain) {}

  // A query, or a command that begins with a dot. Throws Error. False: nobody reads the answers any more.
  bool run(const std::string& text);
  // Reads stdin, with a prompt and line editing at a terminal. There errors are told, and the shell goes on;
  // else the first one is thrown.
  void read_all();

 private:
  void read_terminal();
  void read_file();
  bool command(const std::string& line);
  bool explain(const std::string& query);

  trace::Database& database_;
  ProgressBar& bar_;
  SqlForm form_;
  bool explain_;
  bool over_ = false;
};

}  // namespace backstep::cli
