// What can be seen of the recorded process at the session's current time.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "session/session.h"

namespace backstep::session {

struct ThreadFacts {
  int tid = 0;
  int name = 0;  // virtual name: 1 is the first
  bool has_turn = false;
  bool in_call = false;  // waits in a system call
  Address pc = 0;
};

struct ValueFacts {
  std::string expression, text;
  nlohmann::ordered_json json;
  std::string type;  // empty: not known
  std::string why;   // it has no value: a sentence
};

class Present {
 public:
  explicit Present(Session& session) : session_(session) {}

  std::vector<ThreadFacts> threads();
  // tid 0: the thread that has the turn.
  timeline::Registers registers(int tid);
  std::vector<uint8_t> memory(Address address, uint64_t size);
  std::vector<StackFrame> stack(int tid, bool* complete);
  // In the `frame`-th real frame (inlined functions are not counted).
  ValueFacts value(const std::string& expression, int tid, size_t frame);
  std::vector<ValueFacts> locals(int tid, size_t frame);
  symbols::Stack unwind(int tid, size_t most, std::vector<symbols::FrameRegisters>* registers = nullptr);

 private:
  struct FrameState {
    Address pc = 0;  // where expressions are looked up
    timeline::Registers registers;
    uint32_t known = ~0u;  // which of them are, by DWARF's numbers; outer frames have what callees saved
  };
  int tid_or_turn(int tid);
  FrameState frame_state(int tid, size_t frame);
  size_t inlined_at(Address pc) const;
  symbols::Compiled compile(const std::string& expression, Address pc);
  ValueFacts evaluate(const std::string& expression, const FrameState& state);

  Session& session_;
};

}  // namespace backstep::session
