// One process of the recording as a debugger sees it: its timeline, and what is known about its program.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "recording/library.h"
#include "serve/gdb_registers.h"
#include "serve/loaded_libraries.h"
#include "serve/monitor.h"
#include "session/session.h"
#include "timeline/thread_names.h"
#include "timeline/timeline.h"

namespace backstep::serve {

class Debuggee {
 public:
  // `log`: its number. `ear`: for the way to where a forked process begins. Throws Error.
  Debuggee(const ReplayOptions& options, const recording::Library& library,
           const recording::Recording& recording, uint64_t log, const timeline::Attention& ear);

  session::Session session;
  timeline::Timeline& timeline = session.timeline();
  const recording::Manifest manifest;  // of its program; a forked child runs its ancestor's
  const RegisterLayout layout;
  Monitor monitor;
  int pid = 1;
  uint64_t used = 0;  // when it was asked for last

  uint64_t log() const { return timeline.log().process(); }
  // Of the present; read once, until forget().
  const timeline::WorkerState& state();
  const timeline::Registers& registers_of(int tid);
  void set_registers(int tid, const timeline::Registers& registers);  // in a diversion
  void forget();
  void pretend(int tid, const timeline::Registers& registers) { registers_[tid] = registers; }  // until then
  ReadGuest memory();

  const std::vector<uint8_t>& auxv() const { return auxv_; }
  std::string thread_name(int thread);
  std::vector<uint8_t> siginfo;  // of the signal that the last movement stopped for
  int signal_thread = 0;         // who gets it; 0: there was none
  // The thread that was sent elsewhere last (its pc written) in the present diversion, and not back yet.
  std::optional<int> sent_thread() const;

 private:
  std::vector<uint8_t> auxv_;
  std::optional<timeline::ThreadNames> thread_names_;  // looked for once
  std::optional<timeline::WorkerState> state_;
  std::map<int, timeline::Registers> registers_;
  std::vector<int> sent_;
  uint64_t sent_in_ = 0;  // which diversion
};

}  // namespace backstep::serve
