// The taps that a replayer has installed: compiled for both worlds, with what they have counted and logged.
#pragma once
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "guest/process.h"
#include "replay/agent_expression.h"
#include "replay/taps.h"
#include "replay/taps_hot.h"

namespace backstep::replayer {

class TapSet {
 public:
  explicit TapSet(guest::Process& process) : process_(process) {}
  ~TapSet() { clear(); }
  TapSet(const TapSet&) = delete;
  TapSet& operator=(const TapSet&) = delete;

  // Takes the place of all that there were; counts begin at 0. Throws Error if there are too many.
  void set(Taps taps);
  const Taps& taps() const { return taps_; }
  bool empty() const { return taps_.empty() && added_.empty(); }

  // Others beside those, until there is another set. Not while one of them is being met. `now`: its moments
  // before that have passed, and what is there, too, unless it is `fresh`. Throws Error if there are too
  // many. Their numbers go on behind those of the set; that of one that was removed is used again.
  size_t add(Tap tap, const Position& now, bool fresh);
  void remove(size_t index);
  // One of them, or of the set, is not met any more; at any time.
  void retire(size_t index);
  const Tap& spec(size_t index) const {
    const size_t set = taps_.list.size();
    return index < set ? taps_.list[index] : added_[index - set];
  }
  size_t count() const { return taps_.list.size() + added_.size(); }

  // What is logged goes to the end of this file.
  void log_to(Fd file);
  // Writes down what is still in memory; the size of the file then.
  uint64_t flush_log();
  std::vector<TapCount> counts() const;

  // The guest stands in front of the instruction at rip, and none of this has been done in translated code:
  // does all that is to be done there. True: somebody wants to stop.
  // `which`: debug code has been called here already, or is all that is to be met.
  enum Which : uint8_t { All, NoDebug, OnlyDebug };
  bool meet(const Surroundings& around, uint64_t event, Which which = All);
  // Would somebody want to stop?
  bool stops_at(Address pc, const Surroundings& around) const;
  // Is something asked or counted there, in translated code, whenever it is passed?
  bool met_by_itself(Address pc) const;

  // Calls the function of a tap with the action Run, in the present; it was met at `at`.
  std::function<void(const HotTap& tap, const Surroundings& around, const Position& at)> run;
  // A record of one of these (DebugNote).
  void log_note(size_t tap, const Position& at, int thread,
                std::initializer_list<std::span<const uint8_t>> values);

  // A tap that is not met by code: does its action if its condition holds. True: it wants to stop.
  bool meet_one(size_t index, const Surroundings& around, uint64_t event, Tick tick, Address pc);
  bool holds(size_t index, const Surroundings& around) const;

  // Moments that taps wait for, in the order of time.
  struct Due {
    Position at;
    uint64_t event = 0;
    size_t tap = 0;
    bool after = false;
    uint64_t number = 0;
  };
  // Those that are still to come.
  std::span<const Due> due() const { return std::span(due_).subspan(next_due_); }
  // Those of this tick and before, and not of the next: takes out what `done` says. (Which of a tick's places
  // are met, and in which order, is not known beforehand.)
  void take_due(Tick tick, const std::function<bool(const Due&)>& done);

  // The tap that wants to know which code is executed; none: nobody.
  std::optional<size_t> cover() const { return cover_; }
  // Logs that: ranges of code that was, and instructions of which it is not known.
  void log_cover(const std::vector<engine::DataRange>& ranges, const std::vector<Address>& maybe);
  bool wants_straight_code() const { return cover_ && taps_.list[*cover_].length == 1; }
  void log_straight_code(const std::vector<uint8_t>& packed, uint64_t gone);

  // The tap that wants a table of contents; none: nobody.
  std::optional<size_t> contents() const { return contents_; }
  void log_contents(const std::vector<uint8_t>& packed);  // empty: it is not known
  bool words() const { return words_; }                   // a tap wants to know what is written to

  // Loads and stores are asked for, by this tap.
  const Tap* accesses() const { return accesses_ ? &taps_.list[*accesses_] : nullptr; }
  void log_access(Tick tick, uint64_t event, Address pc, int thread, const AccessRecord& access);
  uint64_t logged() const { return written_; }  // bytes of it, without what is still in memory

  // The trace of the window is asked for, by this tap.
  const Tap* trace() const { return trace_ ? &taps_.list[*trace_] : nullptr; }
  void log_trace(uint64_t count, const std::vector<uint8_t>& links, const std::vector<uint8_t>& stores);

  // Multiples of periods, from this tick on.
  void begin_periods(Tick tick);
  // The first one that has not been met; ~0: there is none.
  Tick next_period() const { return periods_.empty() ? ~0ull : periods_.begin()->first; }
  // Those up to this tick are not to be met.
  void pass_periods(Tick tick);
  // The guest stands at the first position of a tick.
  bool meet_periods(const Surroundings& around, uint64_t event);

 private:
  void clear();
  void compile(size_t index);
  bool install_code();
  void add_due(size_t index, const std::optional<Position>& now, bool fresh);
  bool add_to_place(size_t index);
  void remove_from_place(size_t index);
  // What happens at one place in the code.
  struct Place {
    HotPlace hot{};
    std::vector<HotTap*> taps;  // in the order of the list
  };
  engine::Filter filter(const Place& place);
  void aim_at_period(size_t index, Tick tick);
  void act(HotTap& tap, const Surroundings& around, uint64_t event, Tick tick, Address pc);
  void log(const HotTap& tap, const Surroundings& around, uint64_t event, Tick tick, Address pc);
  void make_room(uint64_t bytes);
  void log_blobs(TapRecord record, std::initializer_list<std::span<const uint8_t>> blobs);

  guest::Process& process_;
  Taps taps_;
  std::deque<Tap> added_;
  std::vector<size_t> free_;  // numbers of those that were removed
  std::deque<HotTap> hot_;    // one for each of the list, then of what was added; they stay where they are
  std::deque<std::vector<HotCode>> conditions_;
  std::deque<std::vector<HotValue>> values_;
  std::deque<std::vector<uint8_t>> filters_;
  std::unordered_map<Address, Place> places_;
  std::vector<Address> counters_;  // places where passes are only counted
  uint64_t trapped_ = 0;           // how often the guest had to be stopped for nothing
  bool inlined_ = false;
  std::set<std::pair<Tick, size_t>> periods_;  // of each tap with one the next multiple
  std::vector<Due> due_;
  size_t next_due_ = 0;
  std::optional<size_t> cover_, contents_, accesses_, trace_;
  bool words_ = false;
  std::vector<uint8_t> room_;
  Fd file_;
  uint64_t written_ = 0;
};

// Conditions as a debugger has them (unknown holds) or as events do (it does not).
bool any_holds(const Tap& tap, const Surroundings& around, bool* failed = nullptr);

}  // namespace backstep::replayer
