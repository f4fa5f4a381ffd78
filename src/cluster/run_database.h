// A distributed run as SQL tables: hosts, processes, channels, messages and what else its history knows, and
// all tables of a single recording, in which processes have their names in the run ("A/server").
#pragma once
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "cluster/cut.h"
#include "trace/database.h"

namespace backstep::cluster {

class RunDatabase {
 public:
  // What is given must outlive it.
  RunDatabase(const Causality& causality, const CutFolder& cuts, const ReplayOptions& options,
              const timeline::Attention& ear, const session::Watcher& watcher);

  trace::Database& database() { return *database_; }
  bool has_damage() const;

 private:
  trace::History& host(HostId id);

  void add_recordings_tables();
  void add_functions();

  const Causality& causality_;
  ReplayOptions options_;
  const timeline::Attention& ear_;
  session::Watcher watcher_;
  std::vector<std::unique_ptr<trace::History>> hosts_;
  std::list<std::string> texts_;  // that the schema points to
  trace::Schema schema_;
  std::unique_ptr<trace::Database> database_;

  friend class RecordingsTable;
};

// Tables of what the history, the graph and the cuts know (run_tables.cc).
void add_run_tables(std::vector<trace::Table>& tables, const Causality& causality, const CutFolder& cuts);

}  // namespace backstep::cluster
