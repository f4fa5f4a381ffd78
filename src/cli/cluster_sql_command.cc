// `backstep cluster sql` and `backstep cluster events`: a run as tables.
#include <csignal>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/cluster_commands.h"
#include "cli/sql_shell.h"
#include "cluster/run_database.h"

namespace backstep::cli {
namespace {

// Runs a query (none: a shell, or what stdin has) against a run; the exit status.
int ask_run(const std::string& name, const ReplayOptions& options, const std::optional<std::string>& query,
            SqlForm form, bool explain) {
  OpenRun run(name, options);
  bool interrupted = false, damaged = false;
  {
    Interrupts interrupts;
    ProgressBar bar("looking");
    cluster::RunDatabase database(run.causality, run.cuts, options, interrupts.ear(), bar.watcher());
    SqlShell shell(database.database(), bar, form, explain);
    try {
      query ? void(shell.run(*query)) : shell.read_all();
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

std::string sql_text(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

}  // namespace

int cluster_sql_command(const Args& args) {
  std::vector<std::string> words;
  bool json = false, csv = false, explain = false;
  ReplayOptions options;
  CommandLine line(
      "cluster sql", "[options] RUN [QUERY]",
      "A distributed run as tables, asked in SQL: hosts, processes, channels, messages, orders (what else\n"
      "comes after what), events, unmatched bytes, findings and cuts; and all tables of 'backstep sql',\n"
      "in which a process is its name in the run. Those that are found by replaying (calls, stores, …) need\n"
      "to be told a process. happened_before(process, event, process, event) knows the causal order.\n"
      "Without QUERY: a shell at a terminal, else queries are read from stdin; '.tables' and '.schema'\n"
      "list tables and columns.",
      "Examples:\n"
      "  backstep cluster sql run 'SELECT sender, receiver, sum(bytes) FROM messages GROUP BY 1, 2'\n"
      "  backstep cluster sql run \"SELECT process, name, count(*) FROM syscalls GROUP BY 1, 2\"\n"
      "  backstep cluster sql run \"SELECT * FROM calls WHERE process = 'A/server' AND function = "
      "'handle'\"");
  line.add_flag("--json", json, "one JSON object per row");
  line.add_flag("--csv", csv, "comma-separated values, with a heading");
  line.add_flag("--explain", explain, "only say what would be read and replayed");
  line.add_engine_options(options.engine);
  line.add_option("RUN", words);
  if (auto status = line.parse_args(args)) return *status;
  if (json && csv) throw Error("--json and --csv exclude each other", kExitUsage);
  if (words.empty() || words.size() > 2)
    throw Error("one run and one query at a time; the query is one word for the shell: put it into quotes",
                kExitUsage);
  return ask_run(words[0], options, words.size() > 1 ? std::optional(words[1]) : std::nullopt,
                 json  ? SqlForm::Json
                 : csv ? SqlForm::Csv
                       : SqlForm::Table,
                 explain);
}

int cluster_events_command(const Args& args) {
  std::vector<std::string> words;
  bool json = false, csv = false;
  std::string channel;
  ReplayOptions options;
  CommandLine line(
      "cluster events", "[options] RUN [PROCESS|*] [KIND]",
      "What the processes of a run did to each other, in logical time: message-transmission,\n"
      "message-reception, process-begins, process-done, process-aborted, fork, exec, wait, signal, connect,\n"
      "accept, listen, close, channel-creation, channel-destruction, …; what came to a process that way is\n"
      "called wait-seen, signal-seen and so on. In PROCESS and KIND, * stands for any letters.",
      "Examples:\n"
      "  backstep cluster events run\n"
      "  backstep cluster events run 'A/*' message-reception\n"
      "  backstep cluster events run '*' process-aborted --json");
  line.add_option("--channel", channel, "only of this channel; * stands for any letters").type_name("NAME");
  line.add_flag("--json", json, "one JSON object per row");
  line.add_flag("--csv", csv, "comma-separated values, with a heading");
  line.add_option("RUN", words);
  if (auto status = line.parse_args(args)) return *status;
  if (json && csv) throw Error("--json and --csv exclude each other", kExitUsage);
  if (words.empty() || words.size() > 3)
    throw Error("of which run? And of which process, which kind?", kExitUsage);
  std::string query = "SELECT time, process, kind, call, peer, channel, bytes, at, what FROM events WHERE 1";
  if (words.size() > 1) query += " AND process GLOB " + sql_text(words[1]);
  if (words.size() > 2) query += " AND kind GLOB " + sql_text(words[2]);
  if (!channel.empty()) query += " AND channel GLOB " + sql_text(channel);
  return ask_run(words[0], options, query, json ? SqlForm::Json : csv ? SqlForm::Csv : SqlForm::Table, false);
}

}  // namespace backstep::cli
