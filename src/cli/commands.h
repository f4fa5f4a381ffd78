// The commands of `backstep`. Each one parses its own arguments (those behind its name), does its work and
// returns the exit status; what goes wrong is thrown as Error and printed by main.
#pragma once
#include <string>
#include <vector>

namespace backstep::cli {

using Args = std::vector<std::string>;

int record_command(const Args& args);
int replay_command(const Args& args);
int ls_command(const Args& args);
int info_command(const Args& args);
int dump_command(const Args& args);
int ps_command(const Args& args);
int syscalls_command(const Args& args);
int rm_command(const Args& args);
int pack_command(const Args& args);
int checkpoints_command(const Args& args);
int trace_command(const Args& args);
int sql_command(const Args& args);
int query_command(const Args& args);
int assert_command(const Args& args);
int why_command(const Args& args);
int diff_command(const Args& args);
int count_command(const Args& args);
int log_command(const Args& args);
int events_command(const Args& args);
int calls_command(const Args& args);
int allocs_command(const Args& args);
int races_command(const Args& args);
int session_command(const Args& args);
int coverage_command(const Args& args);
int cluster_command(const Args& args);
int probe_command(const Args& args);
int profile_command(const Args& args);

struct Command {
  const char* name;
  const char* summary;
  int (*run)(const Args& args);
};

}  // namespace backstep::cli
