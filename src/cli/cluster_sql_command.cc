// `backstep cluster sql`: a run as tables.
#include <csignal>
#include <cstdio>
#include <functional>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/cluster_commands.h"
#include "cli/interrupts.h"
#include "cli/sql_export.h"
#include "cli/sql_shell.h"
#include "cluster/run_database.h"

namespace backstep::cli {

namespace {

using UseTables = std::function<void(trace::Database&, ProgressBar&)>;

// Opens a run as tables, and asks; the exit status.
int with_tables(const std::string& name, const ReplayOptions& options, const UseTables& ask) {
  OpenRun run(name, options);
  bool interrupted = false, damaged = false;
  {
    Interrupts interrupts;
    ProgressBar bar("looking");
    cluster::RunDatabase database(run.causality, run.cuts, options, interrupts.ear(), bar.watcher());
    try {
      ask(database.database(), bar);
    } catch (const trace::Interrupted&) {
      interrupted = true;
    }
    damaged = database.has_damage();
  }
  if (interrupted) {
    // As if nobody had been listening: shells look at how their children end.
    std::fflush(stdout);
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  return damaged ? kExitDivergence : 0;
}

}  // namespace

int ask_run(const std::string& name, const ReplayOptions& options, const std::optional<std::string>& query,
            SqlForm form, bool explain) {
  return with_tables(name, options, [&](trace::Database& database, ProgressBar& bar) {
    SqlShell shell(database, bar, form, explain);
    query ? void(shell.run(*query)) : shell.read_all();
  });
}

int cluster_sql_command(const Args& args) {
  std::vector<std::string> words;
  bool json = false, csv = false, explain = false;
  ReplayOptions options;
  CommandLine line(
      "cluster sql", "[options] RUN [QUERY|TABLE,TABLE…]",
      "A distributed run as tables, asked in SQL: hosts, processes, channels, messages, orders (what else\n"
      "comes after what), events, unmatched bytes, findings and cuts; and all tables of 'backstep sql',\n"
      "in which a process is its name in the run. Those that are found by replaying (calls, stores, …) need\n"
      "to be told a process. happened_before(process, event, process, event) knows the causal order.\n"
      "Without QUERY: a shell at a terminal, else queries are read from stdin; '.tables' and '.schema'\n"
      "list tables and columns.\n"
      "--export writes tables, or what QUERY answers, to PostgreSQL or CSV.",
      "Examples:\n"
      "  backstep cluster sql run 'SELECT sender, receiver, sum(bytes) FROM messages GROUP BY 1, 2'\n"
      "  backstep cluster sql run \"SELECT process, name, count(*) FROM syscalls GROUP BY 1, 2\"\n"
      "  backstep cluster sql run \"SELECT * FROM calls WHERE process = 'A/server' AND function = "
      "'handle'\"\n"
      "  backstep cluster sql run --export postgresql://localhost/runs --schema run1 messages,events");
  line.add_flag("--json", json, "one JSON object per row");
  line.add_flag("--csv", csv, "comma-separated values, with a heading");
  line.add_flag("--explain", explain, "only say what would be read and replayed");
  SqlExport to;
  to.add_options(line);
  line.add_engine_options(options.engine);
  line.add_option("RUN", words);
  if (auto status = line.parse_args(args)) return *status;
  if (json && csv) throw Error("--json and --csv exclude each other", kExitUsage);
  to.check();
  if (to.wanted() && (csv || explain))
    throw Error("--export excludes --csv and --explain; a file whose name ends in .csv is CSV", kExitUsage);
  if (words.empty() || words.size() > 2)
    throw Error("one run and one query at a time; the query is one word for the shell: put it into quotes",
                kExitUsage);
  if (to.wanted())
    return with_tables(words[0], options, [&](trace::Database& database, ProgressBar& bar) {
      to.run(database, bar, words.size() > 1 ? words[1] : "", json);
    });
  return ask_run(words[0], options, words.size() > 1 ? std::optional(words[1]) : std::nullopt,
                 json  ? SqlForm::Json
                 : csv ? SqlForm::Csv
                       : SqlForm::Table,
                 explain);
}

}  // namespace backstep::cli
