// Puts into words where bytes came from when that was no instruction.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "session/channels.h"
#include "session/flow.h"
#include "session/flow_trail.h"
#include "session/messages.h"
#include "session/shared_places.h"

namespace backstep::session {

// What the logs of all processes say. Each part is made when it is first needed.
class Recorded {
 public:
  explicit Recorded(const recording::Recording& recording) : recording_(recording) {}
  Channels& channels() {
    if (!channels_) channels_ = std::make_unique<Channels>(recording_);
    return *channels_;
  }
  const Messages& messages() {
    if (!messages_) messages_ = std::make_unique<Messages>(channels());
    return *messages_;
  }
  // An event of a process and its ancestors, as replays number them: whose log has it, and under which
  // number.
  struct OwnEvent {
    uint64_t process = 0, event = 0;
  };
  std::optional<OwnEvent> owner(uint64_t process, uint64_t event);
  SharedPlaces& shared() {
    if (!shared_) shared_ = std::make_unique<SharedPlaces>(recording_);
    return *shared_;
  }

 private:
  recording::Recording recording_;
  std::unique_ptr<Channels> channels_;
  std::unique_ptr<Messages> messages_;
  std::unique_ptr<SharedPlaces> shared_;
  std::map<uint64_t, uint64_t> first_own_;  // events of a process's own log, by process
};

class Origins {
 public:
  Origins(Session& session, Trail& trail, Recorded& recorded)
      : session_(session), trail_(trail), recorded_(recorded) {}

  FlowPlace place(const replayer::StepRecord& step);
  // `loc` is the first byte, `count` how many follow it.
  void tell_change(FlowOrigin& origin, const Change& change, const replayer::StepRecord& step, const Loc& loc,
                   uint64_t count);
  void tell_beginning(FlowOrigin& origin, const Loc& loc, uint64_t count, int thread);
  // "total+4 (inventory)", of memory that a file of the program names; empty: none.
  std::string data_name(Address address) const;

  // Behind tell_change of bytes that came from a recorded process: what was written, in pieces.
  struct Piece {
    const Transfer* write = nullptr;
    uint64_t byte = 0, count = 0;  // of what it wrote
  };
  std::vector<Piece> pieces;

 private:
  void tell_call_data(FlowOrigin& origin, const Change& change, const Loc& loc, uint64_t count);
  void tell_stream(FlowOrigin& origin, const OpenFile& file, uint64_t byte, uint64_t count,
                   const Recorded::OwnEvent& read);
  bool tell_image(FlowOrigin& origin, Address address, uint64_t count);
  bool tell_start_stack(FlowOrigin& origin, Address address, uint64_t count);

  Session& session_;
  Trail& trail_;
  Recorded& recorded_;
};

// A number, as small ones and pointers look best.
std::string flow_number(const std::vector<uint8_t>& bytes);

}  // namespace backstep::session
