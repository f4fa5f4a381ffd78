// A database in memory, in which there is nothing but our tables and functions and what a query makes for
// itself in the temporary schema. A recording is a stranger's file, and a query may come from a page on the
// web: so it can neither read nor write files, whatever it says. SQLite's authorizer is asked about each
// thing that a statement would do; what is not among the things that questions need is refused.
#include "trace/database.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <set>

#include <fmt/format.h>

#include "base/nearest.h"
#include "base/text.h"
#include "trace/virtual_table.h"

namespace backstep::trace {
namespace {

constexpr int kStepsBetweenLooks = 10'000;  // of SQLite's machine
constexpr int kLongestText = 256 << 20;     // of a value, or a query

int may(void* connection, int action, const char* first, const char* second, const char* schema,
        const char*) {
  if (static_cast<Connection*>(connection)->declaring) return SQLITE_OK;
  const bool temporary = schema && std::strcmp(schema, "temp") == 0;
  switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT:
    case SQLITE_CREATE_TEMP_TABLE:
    case SQLITE_CREATE_TEMP_VIEW:
    case SQLITE_CREATE_TEMP_INDEX:
    case SQLITE_DROP_TEMP_TABLE:
    case SQLITE_DROP_TEMP_VIEW:
    case SQLITE_DROP_TEMP_INDEX:
      return SQLITE_OK;
    case SQLITE_INSERT:
    case SQLITE_UPDATE:
    case SQLITE_DELETE:
    case SQLITE_REINDEX:
      return temporary ? SQLITE_OK : SQLITE_DENY;
    case SQLITE_FUNCTION:
      return second && std::strcmp(second, "load_extension") == 0 ? SQLITE_DENY : SQLITE_OK;
    case SQLITE_PRAGMA: {
      // Those that tell of tables. Others set where files go.
      static constexpr const char* kHarmless[] = {"table_info", "table_xinfo", "table_list", "function_list",
                                                  "module_list"};
      return std::any_of(std::begin(kHarmless), std::end(kHarmless),
                         [&](const char* name) { return first && std::strcmp(first, name) == 0; })
                 ? SQLITE_OK
                 : SQLITE_DENY;
    }
    default:
      return SQLITE_DENY;
  }
}

struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

// The line that a place of the query is in, with a caret under it.
std::string with_caret(const std::string& query, size_t at) {
  const size_t begin = at == 0 ? 0 : query.rfind('\n', at - 1) + 1;  // npos + 1 is 0
  const size_t end = std::min(query.find('\n', at), query.size());
  constexpr size_t kWidest = 100;
  const size_t first = at - begin > kWidest / 2 ? at - kWidest / 2 : begin;
  std::string line = query.substr(first, std::min(end - first, kWidest));
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return fmt::format("\n    {}\n    {:>{}}", line, "^", at - first + 1);
}

std::string behind(const std::string& text, const char* words) {
  return text.starts_with(words) ? text.substr(std::strlen(words)) : "";
}

}  // namespace

std::vector<std::string> distinct_names(const std::vector<Heading>& headings) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (const Heading& h : headings) {
    std::string name = to_utf8(h.name);
    for (int n = 2; !taken.insert(name).second; n++) name = fmt::format("{}_{}", to_utf8(h.name), n);
    names.push_back(name);
  }
  return names;
}

// SQLite's messages are no sentences, but they are known to many; names that are not there may be misspelt.
std::string Database::explained(const std::string& message) const {
  if (message == "no query solution")
    return "each of these tables would have to be looked at before the other, to know what to look for; give "
           "one of them "
           "something fixed, such as function = 'main'";
  if (message.starts_with("not authorized"))
    return "a query can only ask, and make temporary tables and views: nothing outside of it is read or "
           "written";
  std::vector<std::string> names;
  if (std::string name = behind(message, "no such table: "); !name.empty()) {
    for (const Table& t : tables_) names.emplace_back(t.name);
    return fmt::format("there is no table '{}'{}", name, did_you_mean(name, names));
  }
  if (std::string name = behind(message, "no such column: "); !name.empty()) {
    const std::string last = name.substr(name.rfind('.') + 1);
    for (const Table& t : tables_)
      for (const Column& c : t.columns) names.emplace_back(c.name);
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return fmt::format("there is no column '{}'{}", name, did_you_mean(last, names));
  }
  return message;
}

Database::Database(History& history) : Database(history, trace::tables(), trace::functions()) {}

Database::Database(History& history, const Schema& schema)
    : Database(history, schema.tables, schema.functions) {}

Database::Database(History& history, const std::vector<Table>& tables, const std::vector<Function>& functions)
    : history_(history),
      tables_(tables),
      functions_(functions),
      connection_(std::make_unique<Connection>(Connection{history, tables, {}, false, 0})) {
  if (sqlite3_open_v2(":memory:", &db_,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX,
                      nullptr) != SQLITE_OK)
    throw Error("cannot start SQLite: not enough memory");
  sqlite3_db_config(db_, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_DQS_DML, 0, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_DQS_DDL, 0, nullptr);
  sqlite3_limit(db_, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_limit(db_, SQLITE_LIMIT_LENGTH, kLongestText);
  sqlite3_limit(db_, SQLITE_LIMIT_SQL_LENGTH, kLongestText);
  // Sorting is done in memory, too: no file is made for it.
  sqlite3_exec(db_, "PRAGMA temp_store = MEMORY", nullptr, nullptr, nullptr);
  add_tables(db_, *connection_);
  add_functions(db_, *connection_, functions_);
  sqlite3_set_authorizer(db_, may, connection_.get());
  sqlite3_progress_handler(
      db_, kStepsBetweenLooks,
      [](void* h) {
        try {
          static_cast<History*>(h)->listen_now();
          return 0;
        } catch (const Interrupted&) {
          return 1;
        }
      },
      &history_);
}

Database::~Database() {
  sqlite3_close(db_);
}

// `begin`: of the statement in the text.
void Database::fail(const std::string& query, size_t begin) {
  if (sqlite3_errcode(db_) == SQLITE_INTERRUPT) throw Interrupted();
  const std::string message = sqlite3_errmsg(db_);
  std::string text = explained(message);
  const int offset = sqlite3_error_offset(db_);
  if (offset >= 0 && begin + static_cast<size_t>(offset) <= query.size())
    text += with_caret(query, begin + static_cast<size_t>(offset));
  throw Error(text, connection_->exit_code ? connection_->exit_code : kExitUsage);
}

bool Database::ask(const std::string& query, const Reader& reader) {
  connection_->exit_code = 0;
  size_t begin = 0;
  while (begin < query.size()) {
    connection_->plans.clear();
    sqlite3_stmt* raw = nullptr;
    const char* rest = nullptr;
    const int status =
        sqlite3_prepare_v2(db_, query.data() + begin, static_cast<int>(query.size() - begin), &raw, &rest);
    const Statement statement(raw);
    if (status != SQLITE_OK) fail(query, begin);
    const size_t at = begin;
    begin = static_cast<size_t>(rest - query.data());
    if (!raw) continue;  // a comment, or nothing
    const int columns = sqlite3_column_count(raw);
    std::vector<Heading> headings;
    for (int i = 0; i < columns; i++) {
      const char* type = sqlite3_column_decltype(raw, i);
      headings.push_back(
          {sqlite3_column_name(raw, i), type && std::strcmp(type, "ADDRESS INT") == 0, type ? type : ""});
    }
    if (columns && !reader.headings(headings)) return false;
    Row row(static_cast<size_t>(columns));
    int step;
    while ((step = sqlite3_step(raw)) == SQLITE_ROW) {
      for (int i = 0; i < columns; i++) row[static_cast<size_t>(i)] = value_of(sqlite3_column_value(raw, i));
      if (!reader.row(row)) return false;
    }
    if (step != SQLITE_DONE) fail(query, at);
  }
  return true;
}

std::vector<Step> Database::explain(const std::string& query) {
  connection_->exit_code = 0;
  connection_->plans.clear();
  const std::string text = "EXPLAIN QUERY PLAN " + query;
  sqlite3_stmt* raw = nullptr;
  const int status = sqlite3_prepare_v2(db_, text.c_str(), static_cast<int>(text.size()), &raw, nullptr);
  const Statement statement(raw);
  if (status != SQLITE_OK) fail(text, 0);
  std::vector<Step> steps;
  int step;
  while ((step = sqlite3_step(raw)) == SQLITE_ROW) {
    constexpr int kDetail = 3;
    const std::string detail(reinterpret_cast<const char*>(sqlite3_column_text(raw, kDetail)));
    constexpr const char* kOurs = " VIRTUAL TABLE INDEX ";
    const size_t at = detail.find(kOurs);
    if (at == std::string::npos) {
      steps.push_back({"", detail});
      continue;
    }
    const auto number = static_cast<size_t>(std::atol(detail.c_str() + at + std::strlen(kOurs)));
    if (number >= connection_->plans.size()) continue;
    const Question& question = connection_->plans[number].question;
    steps.push_back({question.table->name, question.table->explain(history_, question)});
  }
  if (step != SQLITE_DONE) fail(text, 0);
  return steps;
}

const Table* Database::find_table(std::string_view name) const {
  for (const Table& t : tables_)
    if (name == t.name) return &t;
  return nullptr;
}

bool Database::is_complete(const std::string& text) {
  return sqlite3_complete(text.c_str());
}

}  // namespace backstep::trace
