// The commands of `backstep cluster`, one file per group, and what they have in common.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/sql_shell.h"
#include "cluster/breaking.h"
#include "cluster/sessions.h"

namespace backstep::cli {

// The run itself (cluster_record_command.cc, cluster_gather_command.cc, cluster_check_command.cc).
int cluster_record_command(const Args& args);
int cluster_gather_command(const Args& args);
int cluster_check_command(const Args& args);
int cluster_ls_command(const Args& args);
int cluster_info_command(const Args& args);
// Cuts (cluster_break_command.cc, cluster_cuts_command.cc).
int cluster_break_command(const Args& args);
int cluster_step_command(const Args& args);
int cluster_cuts_command(const Args& args);
int cluster_goto_command(const Args& args);
int cluster_mark_command(const Args& args);
int cluster_gdb_command(const Args& args);
// Views.
int cluster_svg_command(const Args& args);
int cluster_blocked_command(const Args& args);
int cluster_suspended_command(const Args& args);
int cluster_delayed_command(const Args& args);
int cluster_path_command(const Args& args);
int cluster_events_command(const Args& args);
int cluster_sql_command(const Args& args);

// A run with its graph, its cuts and sessions with its processes.
class OpenRun {
 public:
  // Throws Error.
  OpenRun(const std::string& run, const ReplayOptions& options);

  const cluster::History history;
  const cluster::Causality causality;
  cluster::CutFolder cuts;
  cluster::Breaking breaking;
  cluster::Sessions sessions;

  // A process by its name. Throws Error, which says what is near.
  cluster::ProcessId process(const std::string& name) const;
  // A cut by its name, "start", "end", "alive", "present" or a file; empty: the present one or, where none
  // was ever gone to, the end.
  cluster::Cut cut(const std::string& name);
};

// Runs a query (none: a shell, or what stdin has) against a run; the exit status.
int ask_run(const std::string& name, const ReplayOptions& options, const std::optional<std::string>& query,
            SqlForm form, bool explain);

// A cut for people, or as JSON. `source`: with the line that each process is at, which has to be replayed
// for.
void show_cut(OpenRun& run, const cluster::Cut& cut, bool json, bool source);

}  // namespace backstep::cli
