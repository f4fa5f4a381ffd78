// What is to be exported is said as tables or as a query. Tables that have to be told what to look for are
// not there as a whole, so of them there are only queries.
#include "cli/sql_export.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/nearest.h"
#include "cli/format.h"

namespace backstep::cli {
namespace {

std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> names;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    names.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

const trace::Table& whole_table(const trace::Database& database, const std::string& name) {
  const trace::Table* table = database.find_table(name);
  if (!table) {
    std::vector<std::string> all;
    for (const auto& t : database.tables()) all.emplace_back(t.name);
    throw Error(fmt::format("there is no table '{}'{}", name, did_you_mean(name, all)), kExitUsage);
  }
  if (!table->needs.empty())
    throw Error(
        fmt::format("{} needs to know what to look for, so it cannot be exported as a whole; export a query: "
                    "\"SELECT * FROM {} WHERE {} = …\"",
                    name, name, table->needs.front().front()),
        kExitUsage);
  return *table;
}

trace::ExportWish wish_of(const trace::Database& database, const std::string& what, const std::string& name) {
  trace::ExportWish wish;
  if (what.empty()) {
    wish.tables = trace::whole_tables(database);
  } else if (SqlExport::names_tables(what)) {
    for (const std::string& table : names_in(what)) wish.tables.push_back(&whole_table(database, table));
  } else {
    wish.query = what;
    wish.name = name.empty() ? "query" : name;
  }
  return wish;
}

}  // namespace

void SqlExport::add_options(CommandLine& line) {
  line.add_option("--export", target,
                  "write tables (their names with commas between them; all, if\n"
                  "nothing is said) or a query's answer to PostgreSQL, to a CSV\n"
                  "file, or to a folder, one file for each table")
      .type_name("TARGET");
  line.add_option("--table", name, "what a query's answer is called there (query)").type_name("NAME");
  line.add_option("--schema", schema, "of PostgreSQL: where tables are put; made if it is not there")
      .type_name("NAME");
  line.add_flag("--replace", replace, "tables and files that exist already");
}

void SqlExport::check() const {
  if (!wanted() && (replace || !schema.empty() || !name.empty()))
    throw Error("--table, --schema and --replace are for --export", kExitUsage);
  if (!schema.empty() && !trace::is_postgres_address(target))
    throw Error("--schema is for PostgreSQL", kExitUsage);
  if (name.find('/') != std::string::npos) throw Error("--table: a name has no '/'", kExitUsage);
}

bool SqlExport::names_tables(const std::string& text) {
  return text.find_first_of(" \t\n;()") == std::string::npos;
}

void SqlExport::run(trace::Database& database, ProgressBar& bar, const std::string& what, bool json) const {
  const trace::ExportWish wish = wish_of(database, what, name);
  std::vector<std::string> names;
  for (const trace::Table* t : wish.tables) names.emplace_back(t->name);
  if (!wish.query.empty()) names.push_back(wish.name);
  trace::History& history = database.history();
  const auto to = trace::is_postgres_address(target)
                      ? trace::export_to_postgres(target, schema, replace, [&] { history.listen_now(); })
                      : trace::export_to_csv(target, names, replace);
  const auto exported = trace::run_export(database, *to, wish, [&](double done) { bar.show(done); });
  bar.clear();
  if (to->changed_texts())
    fmt::print(
        stderr,
        "backstep: {} texts are not valid UTF-8 or have a byte 0: what of them is not is replaced by U+FFFD "
        "(CAST(text AS BLOB) in a query exports bytes)\n",
        format_count(to->changed_texts()));
  if (json) {
    Json all = Json::array();
    for (const auto& e : exported) all.push_back({{"table", e.table}, {"rows", e.rows}});
    put_line(all.dump(2));
    return;
  }
  Table table{{"TABLE", ">ROWS"}};
  for (const auto& e : exported) table.add({e.table, format_count(e.rows)});
  fmt::print("{}", table.text());
}

}  // namespace backstep::cli
