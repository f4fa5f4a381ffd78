// SQLite asks a virtual table twice. First, while it makes its plan, which of the constraints in the query it
// can use, and what a walk would cost then (xBestIndex): constraints come with their values if those stand in
// the query, but those that compare with another table are only known to exist. Each offer is kept as a Plan
// under a number. Then, when the query runs, it asks for rows by one of these plans, with all values
// (xFilter), in a join once for each row of the tables before.
//
// Constraints are hints: SQLite looks at each row again. So a table may answer with more than was asked for.
#include "trace/virtual_table.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace backstep::trace {
namespace {

constexpr double kNever = 1e18;  // microseconds

struct Registered {
  const Table* table;
  Connection* connection;
};
struct Walked : sqlite3_vtab {
  const Table* table;
  Connection* connection;
};
struct Cursor : sqlite3_vtab_cursor {
  std::unique_ptr<Rows> rows;
  bool there = false;
  int64_t number = 0;
};

int fail(sqlite3_vtab* table) {
  sqlite3_free(table->zErrMsg);
  table->zErrMsg = nullptr;
  try {
    throw;
  } catch (const Interrupted&) {
    return SQLITE_INTERRUPT;
  } catch (const Error& e) {
    static_cast<Walked*>(table)->connection->exit_code = e.exit_code;
    table->zErrMsg = sqlite3_mprintf("%s", e.what());
    return SQLITE_ERROR;
  } catch (const std::exception& e) {
    table->zErrMsg = sqlite3_mprintf("%s", e.what());
    return SQLITE_ERROR;
  }
}

int connect(sqlite3* db, void* aux, int, const char* const*, sqlite3_vtab** out, char**) {
  const auto* module = static_cast<Registered*>(aux);
  std::string text;
  for (const Column& c : module->table->columns)
    text += fmt::format("{}\"{}\" {}", text.empty() ? "" : ", ", c.name, c.type);
  module->connection->declaring = true;
  const int status = sqlite3_declare_vtab(db, fmt::format("CREATE TABLE t({})", text).c_str());
  module->connection->declaring = false;
  if (status != SQLITE_OK) return status;
  auto* walked = new Walked{};
  walked->table = module->table;
  walked->connection = module->connection;
  *out = walked;
  return SQLITE_OK;
}

int disconnect(sqlite3_vtab* table) {
  delete static_cast<Walked*>(table);
  return SQLITE_OK;
}

std::optional<Op> op_of(unsigned char op) {
  switch (op) {
    case SQLITE_INDEX_CONSTRAINT_EQ:
      return Op::Equal;
    case SQLITE_INDEX_CONSTRAINT_GT:
      return Op::Greater;
    case SQLITE_INDEX_CONSTRAINT_GE:
      return Op::GreaterEqual;
    case SQLITE_INDEX_CONSTRAINT_LT:
      return Op::Less;
    case SQLITE_INDEX_CONSTRAINT_LE:
      return Op::LessEqual;
    case SQLITE_INDEX_CONSTRAINT_LIKE:
      return Op::Like;
    case SQLITE_INDEX_CONSTRAINT_GLOB:
      return Op::Glob;
    default:
      return std::nullopt;
  }
}

bool can_use(const Column& column, Op op) {
  switch (op) {
    case Op::Equal:
      return column.uses & (kEqual | kRange);
    case Op::Like:
    case Op::Glob:
      return column.uses & kPattern;
    default:
      return column.uses & kRange;
  }
}

// Do rows come in the order that the query wants, or can they come in the opposite one? Columns that have one
// value only make no difference.
bool is_ordered(const sqlite3_index_info& info, const Table& table, const std::vector<size_t>& constant,
                bool newest_first) {
  auto is_constant = [&](size_t column) {
    return std::find(constant.begin(), constant.end(), column) != constant.end();
  };
  std::vector<std::string> wanted;
  for (int i = 0; i < info.nOrderBy; i++) {
    const auto& term = info.aOrderBy[i];
    if (term.iColumn >= 0 && is_constant(static_cast<size_t>(term.iColumn))) continue;
    if (term.iColumn < 0 || (term.desc != 0) != newest_first) return false;
    wanted.emplace_back(table.columns[static_cast<size_t>(term.iColumn)].name);
  }
  if (newest_first)
    return table.has_newest_first && wanted.size() == 1 && wanted[0] == table.orders.front().front();
  return std::any_of(table.orders.begin(), table.orders.end(), [&](const auto& order) {
    std::vector<std::string> has;
    for (const char* name : order)
      if (!is_constant(*table.column(name))) has.emplace_back(name);
    return wanted.size() <= has.size() && std::equal(wanted.begin(), wanted.end(), has.begin());
  });
}

int offer(const Walked& walked, sqlite3_index_info* info) {
  const Table& table = *walked.table;
  History& history = walked.connection->history;
  Plan plan;
  plan.question.table = &table;
  plan.question.used = info->colUsed;
  std::vector<size_t> constant;
  Question wished = plan.question;  // with what another order of the join would know
  bool lists = false;
  int arguments = 0;
  for (int i = 0; i < info->nConstraint; i++) {
    const auto& c = info->aConstraint[i];
    if (c.iColumn < 0) continue;
    const auto column = static_cast<size_t>(c.iColumn);
    const auto op = op_of(c.op);
    const bool of_process = table.columns[column].name == std::string_view("process");
    if (of_process && op != Op::Equal) plan.question.all_processes = true;
    if (!op || !can_use(table.columns[column], *op)) continue;
    Constraint constraint;
    constraint.column = column;
    constraint.op = *op;
    wished.constraints.push_back(constraint);
    if (!c.usable) {
      // Which process is meant must not be left open, as that would be the query's own one.
      if (of_process && table.of_one_process) return SQLITE_CONSTRAINT;
      continue;
    }
    constraint.list = *op == Op::Equal && sqlite3_vtab_in(info, i, -1);
    if (constraint.list) sqlite3_vtab_in(info, i, 1);
    lists |= constraint.list;
    sqlite3_value* value = nullptr;
    constraint.known =
        !constraint.list && sqlite3_vtab_rhs_value(info, i, &value) == SQLITE_OK && value != nullptr;
    if (constraint.known) constraint.values = {value_of(value)};
    if (*op == Op::Equal && !constraint.list) constant.push_back(column);
    plan.question.constraints.push_back(std::move(constraint));
    info->aConstraintUsage[i].argvIndex = ++arguments;
  }
  const bool can_answer = table.can_answer(plan.question);
  if (!can_answer && table.can_answer(wished)) return SQLITE_CONSTRAINT;
  const auto process = table.column("process");
  const bool one = history.processes().size() == 1 || (table.of_one_process && !plan.question.all_processes);
  if (process && one && !plan.question.has("process")) constant.push_back(*process);
  // Of a list, what is found for one value comes before what is found for the next.
  const bool several = table.of_one_process && process && !one && !plan.question.find("process", Op::Equal);
  const bool sortable = info->nOrderBy > 0 && !(lists && table.of_one_process) && !several;
  plan.question.newest_first = sortable && is_ordered(*info, table, constant, true);
  plan.ordered = plan.question.newest_first || (sortable && is_ordered(*info, table, constant, false));
  info->orderByConsumed = plan.ordered;
  const Cost cost = can_answer ? table.cost(history, plan.question) : Cost{kNever, kNever};
  info->estimatedCost = cost.time;
  info->estimatedRows = static_cast<sqlite3_int64>(std::max(cost.rows, 1.0));
  info->idxNum = static_cast<int>(walked.connection->plans.size());
  walked.connection->plans.push_back(std::move(plan));
  return SQLITE_OK;
}

int best_index(sqlite3_vtab* table, sqlite3_index_info* info) {
  try {
    return offer(*static_cast<Walked*>(table), info);
  } catch (...) {
    return fail(table);
  }
}

int open_cursor(sqlite3_vtab*, sqlite3_vtab_cursor** out) {
  *out = new Cursor{};
  return SQLITE_OK;
}

int close_cursor(sqlite3_vtab_cursor* cursor) {
  delete static_cast<Cursor*>(cursor);
  return SQLITE_OK;
}

int filter(sqlite3_vtab_cursor* base, int number, const char*, int count, sqlite3_value** values) {
  auto* cursor = static_cast<Cursor*>(base);
  const auto* walked = static_cast<Walked*>(base->pVtab);
  try {
    cursor->rows.reset();  // before another one of the same session begins
    Question question = walked->connection->plans.at(static_cast<size_t>(number)).question;
    for (int i = 0; i < count; i++) {
      Constraint& c = question.constraints.at(static_cast<size_t>(i));
      c.known = true;
      c.values.clear();
      if (!c.list) {
        c.values.push_back(value_of(values[i]));
        continue;
      }
      sqlite3_value* item = nullptr;
      for (int status = sqlite3_vtab_in_first(values[i], &item); status == SQLITE_OK && item;
           status = sqlite3_vtab_in_next(values[i], &item))
        c.values.push_back(value_of(item));
    }
    const Table& table = *walked->table;
    if (!table.can_answer(question))
      throw Error(
          fmt::format("{} are found by replaying, which needs to know what to look for: say what {} is",
                      table.name, table.needs_text()),
          kExitUsage);
    cursor->rows = table.open(walked->connection->history, question);
    cursor->number = 0;
    cursor->there = cursor->rows->next();
    return SQLITE_OK;
  } catch (...) {
    cursor->there = false;
    return fail(base->pVtab);
  }
}

int next(sqlite3_vtab_cursor* base) {
  auto* cursor = static_cast<Cursor*>(base);
  try {
    cursor->number++;
    cursor->there = cursor->rows->next();
    return SQLITE_OK;
  } catch (...) {
    cursor->there = false;
    return fail(base->pVtab);
  }
}

int at_end(sqlite3_vtab_cursor* cursor) {
  return !static_cast<Cursor*>(cursor)->there;
}

int column(sqlite3_vtab_cursor* base, sqlite3_context* context, int place) {
  try {
    set_result(context, static_cast<Cursor*>(base)->rows->value(static_cast<size_t>(place)));
    return SQLITE_OK;
  } catch (...) {
    return fail(base->pVtab);
  }
}

int row_id(sqlite3_vtab_cursor* cursor, sqlite3_int64* id) {
  *id = static_cast<Cursor*>(cursor)->number;
  return SQLITE_OK;
}

// Without xCreate it is there by its name alone, and cannot be created under another one.
const sqlite3_module kModule = [] {
  sqlite3_module m{};
  m.iVersion = 0;
  m.xConnect = connect;
  m.xBestIndex = best_index;
  m.xDisconnect = disconnect;
  m.xDestroy = disconnect;
  m.xOpen = open_cursor;
  m.xClose = close_cursor;
  m.xFilter = filter;
  m.xNext = next;
  m.xEof = at_end;
  m.xColumn = column;
  m.xRowid = row_id;
  return m;
}();

}  // namespace

void add_tables(sqlite3* db, Connection& connection) {
  for (const Table& table : connection.tables)
    sqlite3_create_module_v2(db, table.name, &kModule, new Registered{&table, &connection},
                             [](void* module) { delete static_cast<Registered*>(module); });
}

Value value_of(sqlite3_value* value) {
  switch (sqlite3_value_type(value)) {
    case SQLITE_INTEGER:
      return static_cast<int64_t>(sqlite3_value_int64(value));
    case SQLITE_FLOAT:
      return sqlite3_value_double(value);
    case SQLITE_TEXT: {
      const auto* text = reinterpret_cast<const char*>(sqlite3_value_text(value));
      return std::string(text, static_cast<size_t>(sqlite3_value_bytes(value)));
    }
    case SQLITE_BLOB: {
      const auto* bytes = static_cast<const char*>(sqlite3_value_blob(value));
      return Blob{std::string(bytes ? bytes : "", static_cast<size_t>(sqlite3_value_bytes(value)))};
    }
    default:
      return {};
  }
}

void set_result(sqlite3_context* context, const Value& value) {
  struct Set {
    sqlite3_context* context;
    void operator()(std::monostate) const { sqlite3_result_null(context); }
    void operator()(int64_t n) const { sqlite3_result_int64(context, n); }
    void operator()(double x) const { sqlite3_result_double(context, x); }
    void operator()(const std::string& s) const {
      sqlite3_result_text64(context, s.data(), s.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
    }
    void operator()(const Blob& b) const {
      sqlite3_result_blob64(context, b.bytes.data(), b.bytes.size(), SQLITE_TRANSIENT);
    }
  };
  std::visit(Set{context}, value);
}

void set_failure(sqlite3_context* context, Connection& connection) {
  try {
    throw;
  } catch (const Interrupted&) {
    sqlite3_result_error_code(context, SQLITE_INTERRUPT);
  } catch (const Error& e) {
    connection.exit_code = e.exit_code;
    sqlite3_result_error(context, e.what(), -1);
  } catch (const std::exception& e) {
    sqlite3_result_error(context, e.what(), -1);
  }
}

}  // namespace backstep::trace
