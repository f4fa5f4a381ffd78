// `backstep sql`: questions about the recorded history, in SQL.
#include <csignal>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/sql_export.h"
#include "cli/sql_shell.h"
#include "recording/tree.h"

namespace backstep::cli {
namespace {

struct SqlWords {
  std::string dir;
  std::optional<std::string> query;
};

bool is_recording(const std::string& word) {
  try {
    recording::Library::standard().resolve(word);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// DIR and QUERY may both be left out. A name has no blanks; a query always has some, and a dot command begins
// with a dot. `tables`: names of tables may stand in the place of a query.
SqlWords words_of(const std::vector<std::string>& words, bool tables) {
  auto is_query = [&](const std::string& w) {
    return (tables && (w.find(',') != std::string::npos || trace::find_table(w))) ||
           w.find_first_of(" \t\n;") != std::string::npos ||
           (w.starts_with(".") && w.find('/') == std::string::npos && w != "." && w != "..");
  };
  if (words.size() > 2)
    throw Error(
        "one recording and one query at a time; the query is one word for the shell: put it into quotes",
        kExitUsage);
  if (words.empty()) return {};
  if (words.size() == 2) {
    if (!is_recording(words[0]) && is_recording(words[1])) return {words[1], words[0]};
    return {words[0], words[1]};
  }
  if (!is_recording(words[0]) && is_query(words[0])) return {"", words[0]};
  return {words[0], std::nullopt};
}

}  // namespace

int sql_command(const Args& args) {
  std::vector<std::string> words;
  std::string process;
  bool json = false, csv = false, explain = false;
  ReplayOptions options;
  CommandLine line(
      "sql", "[options] [DIR] [QUERY]",
      "The recorded history as tables, asked in SQL: processes, threads, events, system calls, signals,\n"
      "output, messages, checkpoints and bookmarks from the logs; modules, functions and lines from the\n"
      "debug information; calls, stores, loads, variables, executed lines and blocks, the heap and locks\n"
      "by replaying what the query needs. With --export they go to PostgreSQL or into CSV files.\n"
      "Without QUERY: a shell at a terminal, else queries are read from stdin. '.tables' and '.schema'\n"
      "list tables and columns.\n"
      "DIR: a name or path; the latest recording if left out.",
      "Examples:\n"
      "  backstep sql 'SELECT name, count(*) FROM syscalls WHERE error IS NOT NULL GROUP BY name'\n"
      "  backstep sql server-3 \"SELECT * FROM calls WHERE function = 'parse' AND ret < 0 LIMIT 1\"\n"
      "  backstep sql \"SELECT at, oldval, newval, line FROM stores WHERE name = 'total'\"\n"
      "  backstep sql --explain \"SELECT * FROM executed WHERE file = 'parse.c' AND line = 42\"\n"
      "  backstep sql --export run-tables\n"
      "  backstep sql --export postgresql://localhost/runs --schema run1 syscalls,signals\n"
      "  backstep sql .schema");
  line.add_option("-p,--process", process,
                  "the process that is replayed, where a query names none: a pid,\n"
                  "or #N as in 'backstep ps' (the first one)")
      .type_name("PID|#N");
  line.add_flag("--json", json, "one JSON object per row");
  line.add_flag("--csv", csv, "comma-separated values, with a heading");
  line.add_flag("--explain", explain, "only say what would be read and replayed");
  SqlExport to;
  to.add_options(line);
  line.add_engine_options(options.engine);
  line.add_option("DIR", words);
  if (auto status = line.parse_args(args)) return *status;
  if (json && csv) throw Error("--json and --csv exclude each other", kExitUsage);
  to.check();
  if (to.wanted() && (csv || explain))
    throw Error("--export excludes --csv and --explain; a file whose name ends in .csv is CSV", kExitUsage);
  const SqlWords what = words_of(words, to.wanted());

  const auto library = recording::Library::standard();
  const auto recording = library.resolve(what.dir);
  options.recording = recording.dir();
  options.quiet = true;
  if (!process.empty()) options.process = recording::find_process(recording, process);
  bool interrupted = false, damaged = false;
  {
    Interrupts interrupts;
    ProgressBar bar("looking");
    trace::History history(options, library, recording, interrupts.ear(), bar.watcher());
    trace::Database database(history);
    SqlShell shell(database, bar, json ? SqlForm::Json : csv ? SqlForm::Csv : SqlForm::Table, explain);
    try {
      if (to.wanted())
        to.run(database, bar, what.query.value_or(""), json);
      else
        what.query ? void(shell.run(*what.query)) : shell.read_all();
    } catch (const trace::Interrupted&) {
      interrupted = true;
    }
    damaged = history.has_damage();
  }
  if (interrupted) {
    // As if nobody had been listening: shells look at how their children end.
    std::fflush(stdout);
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  return damaged ? kExitDivergence : 0;
}

}  // namespace backstep::cli
