// Puts into words where bytes came from when that was no instruction.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "session/flow.h"
#include "session/flow_channels.h"
#include "session/flow_trail.h"

namespace backstep::session {

class Origins {
 public:
  Origins(Session& session, Trail& trail, Channels& channels)
      : session_(session), trail_(trail), channels_(channels) {}

  FlowPlace place(const replayer::StepRecord& step);
  // `loc` is the first byte, `count` how many follow it.
  void tell_change(FlowOrigin& origin, const Change& change, const replayer::StepRecord& step, const Loc& loc,
                   uint64_t count);
  void tell_beginning(FlowOrigin& origin, const Loc& loc, uint64_t count, int thread);
  // "total+4 (inventory)", of memory that a file of the program names; empty: none.
  std::string data_name(Address address) const;

  // Behind tell_change of bytes of a pipe: who gave them.
  std::optional<Channels::Writer> writer;

 private:
  void tell_call_data(FlowOrigin& origin, const Change& change, const Loc& loc, uint64_t count);
  void tell_stream(FlowOrigin& origin, const recording::Event& e, const OpenFile& file, uint64_t byte,
                   uint64_t number);
  bool tell_image(FlowOrigin& origin, Address address, uint64_t count);
  bool tell_start_stack(FlowOrigin& origin, Address address, uint64_t count);

  Session& session_;
  Trail& trail_;
  Channels& channels_;
};

// A number, as small ones and pointers look best.
std::string flow_number(const std::vector<uint8_t>& bytes);

}  // namespace backstep::session
