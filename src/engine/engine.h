// The engine: runs guest code from the cache until something happens that its client must deal with.
// It knows instructions and contexts; it knows nothing of Linux, logs or debuggers.
#pragma once
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "engine/cache.h"
#include "engine/context.h"
#include "engine/entry.h"
#include "engine/hooks.h"
#include "engine/options.h"
#include "engine/translations.h"
#include "isa/decode.h"

namespace backstep::engine {

struct Stop {
  enum Kind {
    Syscall,   // rip is behind the instruction; hooks.syscall_hot declined
    HostOp,    // `insn` at rip is the host's to answer
    TickStop,  // tick == limit (or beyond, when it was set too late); rip is the next instruction
    Fault,     // the guest's instruction at rip raised `fault`; registers are as before it
    BadFetch,  // nothing executable at rip
    Signal,   // hooks.signal_hot asked for it. fault.exact: at an instruction boundary; else only the tick is
              // exact
    Break,    // a breakpoint is at rip; its instruction has not been executed
    Watched,  // the instruction at rip, not executed yet, may write to watched bytes
  } kind;
  isa::Insn insn;
  FaultInfo fault{};
};

class Engine {
 public:
  // Sets up the fixed mappings, the signal stack and the fault handlers of this process. Once per process.
  // `fetch` answers what may be executed around an address (nullopt: nothing).
  Engine(const EngineOptions& options, std::function<std::optional<FetchRange>(Address)> fetch);

  Stop run();
  // One instruction, in checked mode with limit = tick + 1 (so that an indirect branch stops too). nullopt:
  // done, rip is at the next one.
  std::optional<Stop> step();

  // run() begins with the instruction at rip, whatever is asked or counted in front of it.
  void pass_break();
  // Has the code at rip translated, if there is any and nothing else is to happen there first.
  void translate_here();

  // The guest is in a repeated string instruction that has met a fault and may have done a part of its work,
  // which no (tick, pc) tells: nothing from outside may happen here. (run() goes on to its end before it
  // obeys a request to stop.)
  bool is_half_done() const;

  // The guest's mapping of [start, end) changes: forget code translated from there, stop watching it.
  void forget(Address start, Address end);
  // The kernel is about to write to [start, end) for the guest: watched pages there become writable.
  void prepare_write(Address start, Address end);

  // Switches tick checking (Context::limit) on or off; rebuilds the cache.
  void set_check(bool check);

  // Switches store checks (Cache::data_ranges) on or off; rebuilds the cache.
  void set_watch(bool watch);

  // Empties the cache; what is in it later is what was executed since. Kept translations are not taken in any
  // more, until start_anew(false).
  void start_anew(bool anew);

  // From now on it is known which code is executed: in blocks, each of which was run from its start up to its
  // end or to where the guest has stopped since.
  void set_cover(bool cover);
  std::vector<DataRange> covered() const;
  std::vector<Address> entered() const;  // where control came from elsewhere

  // From now on each byte that is written to is marked in the shadow of the guest's memory, which is empty at
  // the beginning; what translated code cannot mark is the client's (Stop::Watched, mark_written). False:
  // there is no room for it.
  bool set_shadow(bool shadow);

  // From now on translated code reports its loads and stores (report.h); `full` is called when there is no
  // more room, and takes them out. What translated code cannot report is the client's (Stop::Watched,
  // report_access). There must be no breakpoints meanwhile.
  struct Reports {
    bool stores = false, loads = false;
    std::vector<DataRange> code;  // that reports; empty: all
    std::function<void()> full;
  };
  void set_report(Reports reports);  // neither stores nor loads: not any more

  // From now on there is debug code in layout::kProbe, which may be executed while Cache::in_probe is set.
  // Its stores stay within its own memory: what may go elsewhere, or cannot be checked, is the client's
  // (Stop::Watched). Where control would leave it is told as BadFetch. It has no AVX-512 (a fault, SIGILL).
  void admit_probe(std::vector<DataRange> code);
  void dismiss_probe();  // it is gone

  // The guest has used AVX-512 before it came here: ticks are counted in memory from now on.
  void count_in_memory();

  // There will be breakpoints: every instruction keeps code of its own. Before the guest runs.
  void keep_breaks();

  // Translations are kept in `folder` from now on; `start` tells programs apart (translations.h). Before the
  // guest runs.
  void keep_translations(const std::string& folder, uint64_t start);
  // Before the process ends or becomes another program.
  void save_translations() { translations_.save(); }

  // What the translator did in this process, as a line for people.
  std::string statistics() const;

 private:
  void load_translations();
  void change_mode(bool& mode, bool value);
  uint32_t address_of_rip(std::optional<Stop>& stop);
  Reason enter(uint32_t address);
  std::optional<Stop> after_exit(Reason reason);
  std::optional<Stop> after_fault();
  std::optional<Stop> after_check(const Check& check);

  std::optional<FetchRange> fetch_probe(Address pc) const;

  std::function<std::optional<FetchRange>(Address)> fetch_;
  std::vector<DataRange> probe_code_;
  Translations translations_;
  bool anew_ = false;                     // they are not taken in
  std::optional<uint64_t> looked_after_;  // how often the cache had been emptied when they were looked for
  std::optional<std::pair<Tick, Address>> half_done_;
  Reports reports_;
  bool once_more_ = false;            // after_fault(): the instruction has not been executed
  std::optional<Address> transient_;  // run one instruction here outside of the books (it writes to its page)
};

// Installs the engine's handler for a signal. The mask blocks everything while it runs.
void install_handler(int signo, uint64_t extra_flags = 0);

// Features of this CPU and kernel that matter to us.
struct Machine {
  uint64_t xcr0 = 0;
  bool fsgsbase = false;
  bool bmi2 = false;            // and AVX state: its instructions are VEX-encoded
  bool vector_counter = false;  // AVX-512F+DQ+VL
  uint32_t hi16_offset = 0;     // of ZMM16-31 in the XSAVE area; Intel and AMD differ
};
const Machine& this_machine();

}  // namespace backstep::engine
