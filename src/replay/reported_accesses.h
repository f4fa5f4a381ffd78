// Loads and stores of the guest, one by one: what translated code reports (engine/report.h), what the
// replayer sees when it executes instructions alone, and what it writes for the kernel.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/report.h"
#include "guest/accesses.h"
#include "guest/process.h"
#include "replay/tap_set.h"
#include "replay/traced_stores.h"
#include "replay/until.h"

namespace backstep::replayer {

class ReportedAccesses {
 public:
  ReportedAccesses(guest::Process& process, TapSet& taps) : process_(process), taps_(taps) {}
  ReportedAccesses(const ReportedAccesses&) = delete;
  ReportedAccesses& operator=(const ReportedAccesses&) = delete;

  // With the taps that there are now.
  void begin();
  bool wanted() const { return wanted_; }

  // The guest is about to run.
  void begin_run(uint64_t event, int thread);
  // The instruction at rip is about to be executed alone; it was, or it has met a fault.
  void begin_alone(const Position& at, int thread);
  void end_alone(bool done);
  // … by the host, which has written already what it writes (begin_writing).
  void end_host_op(Address pc);
  // The replayer is about to write at that moment: for the kernel, or for the instruction there.
  void begin_writing(const Position& at, int thread, bool by_kernel);
  void end_writing();

  // Hands what there is to the tap's log.
  void take();
  // The window is over.
  void finish();
  // So much was logged in this run that somebody should look at it. Once.
  bool are_many();

 private:
  struct NearOfBlock;

  void make_room();
  void begin_record(int thread);
  const uint64_t* take_blocks(const uint64_t* at, const uint64_t* end);
  bool is_wanted(Address address, uint64_t size) const;
  const NearOfBlock& look_at_block(uint32_t unit);
  bool may_touch(uint32_t unit, const uint64_t* record);
  void log(Tick tick, uint64_t event, Address pc, int thread, const AccessRecord& access);

  guest::Process& process_;
  TapSet& taps_;
  std::optional<TracedStores> trace_;  // it is all for the trace of the window
  bool wanted_ = false, stores_ = false, loads_ = false;
  int only_ = 0;
  Tick from_ = 0, to_ = ~0ull;
  std::vector<Tap::Range> data_, code_;
  Address low_ = 0;  // what begins at low_ or less than reach_ behind it may be wanted
  uint64_t reach_ = ~0ull;
  // What is known of blocks before their records are looked at: sites whose addresses are made of the same
  // word of the record are near each other. (By the engine's units; all of it is of this generation.)
  struct Near {
    uint64_t add = 0, below = 0;  // one of them may be wanted if the word plus `add` is less than `below`
    uint16_t at = 0;
  };
  struct NearOfBlock {
    Near first;
    uint32_t more = 0;  // further ones, in near_ …
    uint16_t count = 0;
    bool known = false, always = false;
  };
  std::vector<Near> near_;
  std::vector<NearOfBlock> near_of_;
  uint32_t generation_ = 0;
  uint64_t looked_at_ = 0;  // size of the log when somebody looked last
  // The guest runs a thread that nobody asks about: what it reports since `run_at_`, where its ReportContext
  // stands, is thrown away unseen.
  bool unwanted_run_ = false;
  Address run_at_ = 0;
  uint64_t run_event_ = 0;
  int run_thread_ = 0;
  // While the buffer is read.
  uint64_t event_ = 0;
  int thread_ = 0;
  // The instruction that is executed alone.
  Position alone_at_;
  int alone_thread_ = 0;
  uint64_t count_ = 0;  // rcx in front of it
  guest::Instruction alone_;
  // What was where it reads and writes: first bytes, or all if it goes backwards, when nobody knows yet how
  // far.
  std::vector<std::vector<uint8_t>> before_;
};

}  // namespace backstep::replayer
