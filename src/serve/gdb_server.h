// A gdb server for one recording: the remote protocol on one side, the timeline on the other.
#pragma once
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "recording/library.h"
#include "serve/gdb_registers.h"
#include "serve/loaded_libraries.h"
#include "serve/monitor.h"
#include "serve/packets.h"
#include "serve/recorded_files.h"
#include "timeline/thread_names.h"
#include "timeline/timeline.h"

namespace backstep::serve {

class GdbServer {
 public:
  GdbServer(timeline::Timeline& timeline, const recording::Library& library,
            const recording::Recording& recording);

  // Until the other side detaches, kills or goes. The place in time stays for the next one.
  enum class Left { Detached, Killed, Gone };
  Left serve(Fd socket);

 private:
  using Arrival = timeline::Arrival;

  // Answers of one packet; nullopt: the session ends.
  std::optional<std::string> answer(const std::string& packet);
  std::string query(std::string_view packet);
  std::string transfer(std::string_view packet);   // qXfer
  std::string set_point(std::string_view packet);  // Z, z
  std::string resume(std::string_view packet);     // vCont
  std::string move(const std::function<Arrival()>& movement, bool backward = false);
  Arrival with_old_value(const Arrival& arrival, bool backward);
  std::string run_diverted(std::optional<int> step_tid);
  std::string stop_reply(const Arrival& arrival);
  std::string stop_reply(std::string_view head);
  std::string registers(std::string_view packet);  // g G p P
  std::string memory(std::string_view packet);     // m M X
  std::string rcmd(std::string_view hex);
  std::string watch_condition(const std::string& line);
  void tell(const std::string& text);  // on gdb's console; only while it waits for a stop
  void tell_diverted();
  std::string thread_local_variable(std::string_view packet);  // qGetTLSAddr
  std::string region_info(std::string_view packet);            // qMemoryRegionInfo
  std::optional<std::string> proc_file(const std::string& path);
  std::optional<std::string> proc_link(const std::string& path);
  ReadGuest guest_memory();
  std::string thread_name(int thread);

  std::string thread_id(int tid) const;
  std::optional<int> parse_thread(std::string_view text) const;  // -1 all, 0 any
  bool is_child(std::string_view thread) const;                  // of another process than ours
  int general_thread();
  const timeline::WorkerState& state();  // of the present
  const timeline::Registers& registers_of(int tid);
  void forget();  // what was read from the present
  timeline::Stops stops() const;
  bool pc_changed();
  bool was_interrupted();

  timeline::Timeline& timeline_;
  recording::Manifest manifest_;
  RecordedFiles files_;
  RegisterLayout layout_;
  Monitor monitor_;
  PacketStream* stream_ = nullptr;
  std::vector<uint8_t> auxv_;
  std::optional<std::optional<LinkMapLayout>> link_map_layout_;  // looked for once
  std::optional<timeline::ThreadNames> thread_names_;            // likewise
  int pid_ = 1;

  bool multiprocess_ = false, swbreak_ = false, hwbreak_ = false;
  int general_ = 0, continue_ = 0;
  bool about_child_ = false;  // the general process is a forked child that gdb is about to detach from
  std::optional<timeline::WorkerState> state_;
  std::map<int, timeline::Registers> registers_;
  std::map<std::pair<char, Address>, std::vector<std::vector<uint8_t>>> breaks_;  // by type; with conditions
  std::map<std::tuple<char, Address, uint64_t>, replayer::Watchpoint> watches_;
  std::map<std::pair<Address, uint64_t>, std::vector<std::vector<uint8_t>>> watch_conditions_;
  std::optional<timeline::Position> shown_;  // of a watchpoint's hit there, gdb has seen the other side
  timeline::Wanted wanted_;
  std::string last_stop_ = "T05";
  std::vector<uint8_t> siginfo_;
  bool told_diverted_ = false;
  std::optional<std::chrono::steady_clock::time_point> interrupted_;  // a Ctrl-C that came while nothing ran
  std::optional<Arrival> gone_to_;  // where `monitor goto --next` has gone; the next resume tells gdb
};

}  // namespace backstep::serve
