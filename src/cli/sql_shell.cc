// The lines of a terminal come from libedit, with a history that is kept in the user's state folder and
// completion of all names that a query can have. Ctrl-C while a query runs ends the query; at the prompt, the
// line.
#include "cli/sql_shell.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <sstream>

#include <fmt/format.h>

#include "cli/format.h"
#include "cli/line_editor.h"
#include "trace/table.h"

namespace backstep::cli {
namespace {

struct DotCommand {
  const char* form;
  const char* meaning;
};
constexpr DotCommand kDotCommands[] = {
    {".tables", "the tables"},
    {".schema [TABLE]", "the columns of a table, or of all, and what they mean"},
    {".functions", "functions besides those of SQLite"},
    {".explain QUERY", "what a query would read and replay"},
    {".mode table|json|csv", "how answers are printed"},
    {".help", "this list"},
    {".quit", "the end; also Ctrl-D"},
};
constexpr const char* kSqlWords[] = {
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "HAVING",
    "LIMIT",
    "JOIN",
    "LEFT JOIN",
    "ON",
    "AND",
    "OR",
    "NOT",
    "IN",
    "LIKE",
    "GLOB",
    "IS",
    "NULL",
    "BETWEEN",
    "DISTINCT",
    "COUNT(",
    "SUM(",
    "MIN(",
    "MAX(",
    "AVG(",
    "WITH",
    "AS",
    "UNION",
    "EXISTS",
    "DESC",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "VALUES",
    "CREATE TEMP TABLE",
};

std::string first_word(const std::string& text) {
  return text.substr(0, std::min(text.find_first_of(" ("), text.size()));
}

std::vector<std::string> completion_words() {
  std::vector<std::string> words;
  for (const auto& t : trace::tables()) {
    words.emplace_back(t.name);
    for (const auto& c : t.columns) words.emplace_back(c.name);
  }
  for (const auto& f : trace::functions()) words.push_back(first_word(f.help.form) + "(");
  for (const char* word : kSqlWords) words.emplace_back(word);
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

std::vector<std::string> completions_of(const std::string& before, const std::string& word) {
  static const std::vector<std::string> words = completion_words();
  std::vector<std::string> matches;
  if (before == "." + word) {
    for (const auto& c : kDotCommands) {
      const std::string name = first_word(c.form).substr(1);
      if (name.starts_with(word)) matches.push_back(name);
    }
    return matches;
  }
  for (const std::string& w : words)
    if (!word.empty() && w.size() >= word.size() && strncasecmp(w.c_str(), word.c_str(), word.size()) == 0)
      matches.push_back(w);
  return matches;
}

// Where the history of lines is kept; empty: nowhere.
std::string history_path() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  std::string folder;
  if (state && *state == '/')
    folder = std::string(state) + "/backstep";
  else if (home && *home == '/')
    folder = std::string(home) + "/.local/state/backstep";
  else
    return "";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return "";
  chmod(folder.c_str(), 0700);
  return folder + "/sql-history";
}

// One table with its columns, and what they are.
std::string schema_of(const trace::Table& table) {
  size_t width = 0;
  for (const auto& c : table.columns) width = std::max(width, std::strlen(c.name));
  std::string text = fmt::format("{}: {}\n", table.name, table.meaning);
  for (const auto& c : table.columns) text += fmt::format("  {:<{}}  {}\n", c.name, width, c.meaning);
  return text;
}

std::string trimmed(const std::string& text) {
  constexpr const char* kBlanks = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlanks);
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

bool print(const std::string& text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
}

}  // namespace

bool SqlShell::explain(const std::string& query) {
  for (const trace::Step& step : database_.explain(query)) {
    if (step.table.empty()) continue;
    if (!print(fmt::format("{:<12} {}\n", step.table, step.text))) return false;
  }
  return true;
}

bool SqlShell::command(const std::string& line) {
  std::istringstream in(line);
  std::string name, argument;
  in >> name;
  std::getline(in, argument);
  argument = trimmed(argument);
  if (!argument.empty() && argument.back() == ';' && name != ".explain") argument.pop_back();
  if (name == ".quit" || name == ".exit") {
    over_ = true;
    return true;
  }
  if (name == ".help") {
    std::string text = "Queries are SQL, as SQLite has it, and end with a semicolon. Other lines:\n";
    for (const auto& c : kDotCommands) text += fmt::format("  {:<22} {}\n", c.form, c.meaning);
    return print(text);
  }
  if (name == ".tables") {
    std::string text;
    for (const auto& t : database_.tables()) text += fmt::format("{:<12} {}\n", t.name, t.meaning);
    return print(text);
  }
  if (name == ".functions") {
    std::string text;
    for (const auto& f : database_.functions())
      text += fmt::format("{:<31} {}\n", f.help.form, f.help.meaning);
    return print(text);
  }
  if (name == ".schema") {
    if (argument.empty())
      return std::all_of(database_.tables().begin(), database_.tables().end(),
                         [](const auto& t) { return print(schema_of(t)); });
    const trace::Table* table = database_.find_table(argument);
    if (!table) throw Error(fmt::format("there is no table '{}'; .tables lists them", argument), kExitUsage);
    return print(schema_of(*table));
  }
  if (name == ".explain") return explain(argument);
  if (name == ".mode" && (argument == "table" || argument == "json" || argument == "csv")) {
    form_ = argument == "json" ? SqlForm::Json : argument == "csv" ? SqlForm::Csv : SqlForm::Table;
    return true;
  }
  throw Error(fmt::format("there is no command '{}'; .help lists them", line), kExitUsage);
}

bool SqlShell::run(const std::string& text) {
  const std::string query = trimmed(text);
  if (query.empty()) return true;
  if (query[0] == '.') return command(query);
  if (explain_) return explain(query);
  SqlPrinter printer(form_);
  database_.history().forget_notes();
  bool heard = false;
  try {
    heard = database_.ask(query, printer.reader());
  } catch (const std::exception&) {
    bar_.clear();
    printer.finish_failed();
    throw;
  }
  bar_.clear();
  return heard && printer.finish();
}

void SqlShell::read_file() {
  std::string text;
  for (std::string line; !over_ && std::getline(std::cin, line);) {
    if (trimmed(text).empty() && line.starts_with(".")) {
      if (!run(line)) return;
      continue;
    }
    text += line + '\n';
    if (!trace::Database::is_complete(text)) continue;
    if (!run(text)) return;
    text.clear();
  }
  if (!over_) run(text);
}

void SqlShell::read_terminal() {
  setlocale(LC_CTYPE, "");  // for libedit: lines are UTF-8
  LineEditor editor(history_path(), completions_of);
  fmt::print("{}: SQL over its history. .help lists commands, .tables tables; Ctrl-D ends.\n",
             database_.history().recording().name());
  std::string text;  // of the query that is not complete yet
  while (!over_) {
    std::fflush(stdout);
    const auto line = editor.read(text.empty() ? "sql> " : " ..> ");
    if (!line) {
      std::fputs("\n", stdout);
      return;
    }
    if (line->cancelled) {
      text.clear();
      continue;
    }
    if (!trimmed(line->text).empty()) editor.remember(line->text);
    const bool command = text.empty() && line->text.starts_with(".");
    text += (text.empty() ? "" : "\n") + line->text;
    if (!command && !trimmed(text).empty() && !trace::Database::is_complete(text)) continue;
    Interrupts::forget();
    try {
      if (!run(std::exchange(text, ""))) return;
    } catch (const trace::Interrupted&) {
      std::fflush(stdout);
      std::fputs("interrupted\n", stderr);
    } catch (const Error& e) {
      std::fflush(stdout);
      fmt::print(stderr, "{}\n", e.what());
    }
  }
}

void SqlShell::read_all() {
  isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) ? read_terminal() : read_file();
}

}  // namespace backstep::cli
