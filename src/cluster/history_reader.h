// Makes a history of the logs of all hosts.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "cluster/history.h"
#include "cluster/process_scan.h"
#include "cluster/run_folder.h"
#include "session/messages.h"

namespace backstep::cluster {

class HistoryReader {
 public:
  explicit HistoryReader(const RunFolder& run);
  History take() { return std::move(h_); }
  const std::vector<ProcessScan>& scans() const { return scans_; }

 private:
  void read_hosts();
  void read_processes(HostId host);
  void read_channels();
  void add_link(const session::Link& link);
  void add_alone(const session::Side& side);
  void add_messages();
  void find_family_edges();
  void find_channel_edges();
  void find_signal_edges();
  void find_last_signals();
  void find_wait_edges();
  void find_oddities();

  using Port = std::tuple<std::string, uint64_t, bool, uint16_t>;  // boot, network, datagrams, number

  ProcessId id(uint32_t host, uint64_t log) const;
  Point given(const session::CallPlace& call) const;  // where it was made
  Point got(const session::CallPlace& call) const;    // where it returned
  Point point(ProcessId process, Tick tick, uint64_t event, const session::CallPlace& call) const;
  ChannelEnd end_of(const session::Side& side) const;
  ChannelKind kind_of(const session::Side& side) const;
  std::string owner(const session::Side& side) const;
  void find_chosen_ports();
  Port port_of(const session::Side& side) const;
  std::string place_of(const session::Side& side) const;  // ":80", ":/run/x.sock"
  void found(Finding::Weight weight, const char* kind, HostId host, ProcessId process, std::string text);

  const RunFolder& run_;
  History h_;
  std::vector<std::unique_ptr<session::Channels>> channels_;  // by host; null: cannot be read
  std::vector<session::Channels*> read_;                      // those that can, …
  std::vector<HostId> read_hosts_;                            // … and whose they are
  std::vector<std::vector<recording::ProcessInfo>> infos_;    // by host
  std::map<std::pair<HostId, uint64_t>, ProcessId> ids_;
  std::vector<ProcessScan> scans_;
  std::unique_ptr<session::Messages> messages_;
  std::map<const session::Side*, ChannelId> channel_of_;
  std::set<Port> chosen_ports_;  // by the kernel
};

}  // namespace backstep::cluster
