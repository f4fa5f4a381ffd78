// The session knows events and stacks. It is in the middle of a replay when it is asked, so it must not move:
// an event whose place would have to be found by looking at the run (data events that name variables, output,
// what is made of several events) cannot be had this way.
#include "probe/answers.h"

#include <algorithm>
#include <cstring>

#include "events/spec.h"
#include "session/kind.h"
#include "session/resolve.h"
#include "session/stack_text.h"
#include "symbols/unwind.h"

namespace backstep::probe {
namespace {

using replayer::DebugAnswer;
using replayer::DebugQuestion;

DebugAnswer event_answer(session::Session& session, const std::string& text) {
  DebugAnswer answer;
  const events::Event event = session::parse_event(text);
  if (event.op != events::Event::Op::One) {
    answer.failure = "it is made of several events; callbacks can be asked for of one at a time";
    return answer;
  }
  const session::KindOfEvent& kind = session::kind_of(event.spec);
  if (kind.memory) answer.failure = "memory is watched by on_read and on_write, which take an address";
  if (kind.by_search)
    answer.failure = "output cannot be looked for while the run goes on; use 'syscall write'";
  if (!answer.failure.empty()) return answer;
  for (session::ResolvedTap& r : session::resolve(session, text, false).taps)
    answer.taps.list.push_back(std::move(r.tap));
  return answer;
}

DebugAnswer stack_answer(const session::Session& session, std::span<const uint8_t> bytes) {
  DebugAnswer answer;
  symbols::UnwindRegisters registers;
  if (bytes.size() < sizeof registers.gpr) {
    answer.failure = "the registers are missing";
    return answer;
  }
  std::memcpy(registers.gpr, bytes.data(), sizeof registers.gpr);
  const uint64_t sp = registers.gpr[symbols::UnwindRegisters::kRsp];
  bool complete = false;
  for (const session::StackFrame& f :
       session.frames(registers, sp, bytes.subspan(sizeof registers.gpr), &complete)) {
    answer.pcs.push_back(f.pc);
    answer.text += session::frame_text(f) + "\n";
  }
  if (!complete) answer.text += "(the rest of the stack is not known)\n";
  return answer;
}

}  // namespace

replayer::DebugAnswers answers(session::Session& session) {
  return [&session](const DebugQuestion& question) {
    return question.kind == DebugQuestion::Stack ? stack_answer(session, question.stack)
                                                 : event_answer(session, question.event);
  };
}

}  // namespace backstep::probe
