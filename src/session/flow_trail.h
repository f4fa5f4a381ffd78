// The way that led to a moment: executed instructions and what came from outside between them, found again by
// replaying; and who wrote a byte last.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recording/contents.h"
#include "recording/log_reader.h"
#include "session/flow_effects.h"
#include "session/session.h"

namespace backstep::session {

// Bytes that one step has changed, and how.
struct Change {
  enum How : uint8_t {
    Instruction,  // `written`
    CallData,     // the kernel wrote them, in the system call `event`
    CallResult,   // rax behind a system call
    CallScratch,  // rcx and r11, which every system call overwrites
    Mapped,       // memory was mapped there: of a file (`event`), or new
    FromOutside,  // another process wrote them, or what the recorder does not know
    SignalFrame,  // what the kernel saves for a handler
    SignalStart,  // registers that a handler starts with
    HostOp,       // rdtsc, cpuid and the like: a value that the recording has
    Lost,         // a gap in the recording
  };
  How how = Instruction;
  Loc first;
  uint64_t count = 0;
  uint64_t event = 0;  // of the log, chain included
  uint64_t part = 0;   // CallData: where `first` is in what the call gave
  std::optional<Written> written = {};
  bool weak = false;  // perhaps; believed only if it is known that something has changed the bytes there
  bool covers(const Loc& loc) const {
    return loc.kind == first.kind && loc.where >= first.where && loc.where - first.where < count;
  }
};

struct LoggedEvent {
  std::vector<uint8_t> bytes;
  recording::Event event;
};

class Trail {
 public:
  explicit Trail(Session& session);

  struct Definition {
    enum Kind : uint8_t {
      Step,       // `step` wrote at least one of them
      Beginning,  // they are as they were at the start of the program
      Untold,     // `step` did, but how is not known
      TooFar,     // not within reach
      Stopped,    // somebody wants to stop
    } kind = Beginning;
    replayer::StepRecord step{};
    Position behind;
    std::vector<Change> changes;  // of the step
  };
  // The last step before `at` that wrote one of the bytes; registers are those of `thread`.
  Definition last_write(const std::vector<Loc>& wanted, const Position& at, int thread);

  std::shared_ptr<LoggedEvent> event(uint64_t number);
  Decoder& decoder() { return decoder_; }
  uint64_t replayed_steps() const { return replayed_; }
  uint64_t searches() const { return searches_; }
  // Instructions of a thread that are looked through for a register, at most; and behind how many the others
  // are searched for it instead, where that can be done.
  uint64_t reach = 40'000'000, few = 30'000;

 private:
  struct Segment {
    Position begin, end;
    std::vector<replayer::StepRecord> steps;
  };
  const Segment* segment_before(const Position& at, Tick ticks);
  Definition register_write(const std::vector<Loc>& wanted, const Position& at, int thread);
  Definition memory_write(const std::vector<Loc>& wanted, const Position& at);
  bool only_rights(const Position& from, const Position& to);
  std::optional<Position> mapped_before(const std::vector<Loc>& wanted, const Position& end);
  Definition search_memory(const std::vector<Loc>& wanted, const Position& at);
  std::optional<Position> last_turn_end(int thread, const Position& before) const;
  // Without stepping (flow_places.cc).
  struct Searched {
    bool able = false;   // false: it cannot be searched like that
    Position low = {};   // up to there nothing was found
    bool whole = false;  // … and there a window begins
    std::optional<Definition> found = {};
  };
  Searched search_register(const std::vector<Loc>& wanted, uint64_t registers, const Position& at,
                           int thread);
  Position undisturbed_from(const Position& low, const Position& end, int thread, uint64_t registers,
                            const std::vector<recording::AddressRange>& code);
  std::optional<timeline::Taps> writers(const recording::Contents& contents, uint64_t registers, int thread);
  std::optional<Definition> written_at(const timeline::Arrival& match, const Position& end,
                                       const std::vector<Loc>& wanted, int thread);
  int turn_at(Tick tick) const;
  Tick first_turn(int thread) const;
  std::vector<Change> changes_of(const Segment& segment, size_t index);
  void add_event_changes(const Segment& segment, size_t index, const recording::Event& e, uint64_t number,
                         std::vector<Change>& changes);
  bool may_matter(const replayer::StepRecord& step, const Position& behind, uint64_t registers, bool memory);
  Definition found(const Segment& segment, size_t index, std::vector<Change> changes) const;
  static Position behind(const Segment& s, size_t i) {
    return i + 1 < s.steps.size() ? s.steps[i + 1].at : s.end;
  }

  Session& session_;
  Decoder decoder_;
  std::vector<std::unique_ptr<Segment>> segments_;
  std::map<uint64_t, std::shared_ptr<LoggedEvent>> events_;
  uint64_t replayed_ = 0, searches_ = 0;
};

}  // namespace backstep::session
