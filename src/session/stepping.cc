#include "session/stepping.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/error.h"
#include "session/modules.h"
#include "symbols/unwind_rules.h"

namespace backstep::session {
namespace {

using timeline::Arrival;
using timeline::Taps;

constexpr size_t kFramesAround = 64;     // around the one that a step begins in
constexpr size_t kMostEntered = 50'000;  // of functions that a step may go into

// By DWARF's numbers.
constexpr const char* kFrameRegisters[] = {"$rax", "$rdx", "$rcx", "$rbx", "$rsi", "$rdi", "$rbp", "$rsp",
                                           "$r8",  "$r9",  "$r10", "$r11", "$r12", "$r13", "$r14", "$r15"};

Arrival as_step(Arrival arrival) {
  if (arrival.why == Arrival::Break || arrival.why == Arrival::There) arrival.why = Arrival::Stepped;
  return arrival;
}

}  // namespace

std::optional<Step> step_named(const std::string& name) {
  static const std::map<std::string, Step> names = {{"instruction", Step::Instruction},
                                                    {"line", Step::Line},
                                                    {"over", Step::Over},
                                                    {"out", Step::Out},
                                                    {"quantum", Step::Quantum}};
  const auto found = names.find(name);
  return found == names.end() ? std::nullopt : std::optional(found->second);
}

std::vector<Stepper::Frame> Stepper::frames(int tid, size_t most) {
  std::vector<Frame> list;
  for (const symbols::Frame& f : Present(session_).unwind(tid, most).frames) {
    Frame& frame = list.emplace_back();
    const Address inside = f.call_site ? f.pc - 1 : f.pc;
    frame.pc = f.pc, frame.cfa = f.cfa;
    frame.function = session_.program().function_at(inside);
    frame.lines = session_.program().frames_at(inside);
  }
  return list;
}

bool Stepper::is_system(const Frame& frame) const {
  const symbols::Module* module = session_.program().module_at(frame.pc);
  return !module || is_of_the_system(module->name);
}

// The stack from the function on whose lines a step is about.
std::vector<Stepper::Frame> Stepper::frames_with_lines(int tid) {
  std::vector<Frame> stack = frames(tid, kFramesAround);
  const auto known = [&](const Frame& f) { return f.known() && !(only_own_ && is_system(f)); };
  const auto first = std::find_if(stack.begin(), stack.end(), known);
  if (first == stack.end())
    throw Error(fmt::format("no source lines are known at {:#x}: step by instructions, or out of it",
                            stack.empty() ? 0 : stack[0].pc),
                kExitUsage);
  return {first, stack.end()};
}

// Do lines of this function count for a step that begins in the first one of the stack?
bool Stepper::counts(const Frame& frame, const std::vector<Frame>& stack) const {
  return frame.known() && (!is_system(frame) || is_system(stack.front()));
}

std::string Stepper::entered(const Frame& frame) {
  return fmt::format("$rsp == {:#x}", frame.cfa - 8);
}

Stepper::Frame Stepper::here(int tid) {
  auto list = frames(tid, 1);
  return list.empty() ? Frame{} : list.front();
}

// That the frame at `pc` is the one whose address this is; empty: that cannot be said there.
std::string Stepper::condition(Address pc, uint64_t cfa) {
  const symbols::FrameRow* row = session_.program().frame_rules().at(session_.program(), pc);
  if (!row || !row->cfa_expression.empty() || row->cfa_register < 0 ||
      static_cast<size_t>(row->cfa_register) >= std::size(kFrameRegisters))
    return "";
  return fmt::format("{} == {:#x}", kFrameRegisters[row->cfa_register],
                     cfa - static_cast<uint64_t>(row->cfa_offset));
}

// One tap for a place, however many frames are meant there.
void Stepper::stop_in_frame(Address pc, const std::string& condition, Taps& taps) {
  if (condition.empty()) return;
  auto code = session_.compiler().compile_condition(condition, pc);
  for (timeline::Tap& tap : taps.list)
    if (tap.start == pc && !tap.conditions.empty()) {
      tap.conditions.push_back(std::move(code));
      return;
    }
  taps.stop_at(pc, {std::move(code)});
}

// Where lines begin in a function: of neighbouring code of one line only the first instruction, and none of
// what enters the function. `of_the_present`: the step begins there, so functions that are inlined further in
// are stepped over and, forwards, so is the rest of the line.
void Stepper::stop_at_lines(const Frame& frame, bool of_the_present, bool back, Taps& taps) {
  const auto table = session_.program().line_table(*frame.function);
  std::string file;
  int line = 0;
  bool begun = false;  // a tap is at this run of rows
  for (size_t i = 0; i < table.size(); i++) {
    const auto& row = table[i];
    if (i + 1 < table.size() && table[i + 1].start == row.start) continue;  // the last one has the code
    if (row.line != line || row.file != file) file = row.file, line = row.line, begun = false;
    if (begun || !row.statement) continue;
    if (row.start >= frame.function->entry && row.start < frame.function->body) continue;
    const auto lines = session_.program().frames_at(row.start);
    if (lines.size() > frame.lines.size()) continue;
    begun = true;
    const bool same = of_the_present && lines.size() == frame.lines.size() &&
                      row.line == frame.lines.front().line && row.file == frame.lines.front().file;
    if (same && !back) continue;
    stop_in_frame(row.start, condition(row.start, frame.cfa), taps);
  }
}

// The lines of a stack's functions. Of the system's functions only if the step begins in one.
Taps Stepper::around(const std::vector<Frame>& stack, int tid, bool back) {
  Taps taps;
  taps.thread = tid;
  for (size_t i = 0; i < stack.size(); i++) {
    const Frame& f = stack[i];
    if (!counts(f, stack)) continue;
    // Back in the caller, in the middle of a line.
    if (i == 1 && !back && stack[0].cfa)
      stop_in_frame(f.pc, fmt::format("$rsp == {:#x}", stack[0].cfa), taps);
    stop_at_lines(f, i == 0, back, taps);
  }
  return taps;
}

const std::vector<Address>& Stepper::entries() {
  if (entries_) return *entries_;
  entries_.emplace();
  for (const symbols::Module& module : session_.program().modules()) {
    if (is_of_the_system(module.name)) continue;
    for (const symbols::Function& f : session_.program().all_functions(module))
      if (!f.inlined && !f.file.empty() && entries_->size() < kMostEntered) entries_->push_back(f.entry);
  }
  std::sort(entries_->begin(), entries_->end());
  entries_->erase(std::unique(entries_->begin(), entries_->end()), entries_->end());
  return *entries_;
}

Arrival Stepper::over(int tid, bool back) {
  const auto stack = frames_with_lines(tid);
  if (!back) return as_step(session_.timeline().forward(around(stack, tid, false)));
  Arrival arrival = to_line_start(tid, stack[0]);
  if (arrival.why != Arrival::None) return arrival;
  // It is the first line of its function, so the one of the call comes before it.
  for (size_t i = 1; i < stack.size(); i++) {
    if (!counts(stack[i], stack)) continue;
    arrival = to_line_start(tid, stack[i]);
    if (arrival.why != Arrival::None) return arrival;
  }
  return out_back(tid, stack[0]);
}

// To the last beginning of a line of this call of a function; None: there is none before the present.
Arrival Stepper::to_line_start(int tid, const Frame& frame) {
  timeline::Timeline& timeline = session_.timeline();
  Taps taps = around({frame}, tid, true);
  const size_t lines = taps.list.size();
  stop_in_frame(frame.function->entry, entered(frame), taps);
  const bool is_line = taps.list.size() == lines;  // the entry is one, too
  Position before = timeline.now();
  // The present may be the entry itself, unless there is a loop that comes to it again.
  if (frame.pc == frame.function->entry && is_first(tid, frame)) return {.why = Arrival::None};
  const Arrival found = timeline.last_before(taps, before, timeline.first());
  if (found.why != Arrival::Break) return found;
  if (!is_line && found.at.pc == frame.function->entry) return {.why = Arrival::None};
  return as_step(timeline.go_to(found.at));
}

// Whether the call of a frame's function begins at the present, which is the function's first instruction.
bool Stepper::is_first(int tid, const Frame& frame) {
  timeline::Timeline& timeline = session_.timeline();
  const Position now = timeline.now();
  const Arrival before = timeline.step_back(tid);
  const bool same = before.why == Arrival::Stepped && here(tid).is_same(frame);
  timeline.go_to(now);
  return !same;
}

Arrival Stepper::into(int tid) {
  const auto stack = frames_with_lines(tid);
  Taps taps = around(stack, tid, false);
  const size_t lines = taps.list.size();
  for (const Address entry : entries()) taps.stop_at(entry);
  timeline::Timeline& timeline = session_.timeline();
  const Arrival arrival = timeline.forward(taps);
  if (arrival.why != Arrival::Break) return arrival;
  const Frame there = here(tid);
  const bool line = std::any_of(taps.list.begin(), taps.list.begin() + static_cast<ptrdiff_t>(lines),
                                [&](const timeline::Tap& t) { return t.start == there.pc; });
  // Behind the instructions that enter the function.
  if (line || !there.known() || there.pc != there.function->entry || there.function->body == there.pc)
    return as_step(arrival);
  Taps body;
  body.thread = tid;
  stop_in_frame(there.function->body, condition(there.function->body, there.cfa), body);
  return body.list.empty() ? as_step(arrival) : as_step(timeline.forward(body));
}

// What was executed last before the present may be a line of a function that this one has called, or that was
// called before it.
Arrival Stepper::into_back(int tid) {
  timeline::Timeline& timeline = session_.timeline();
  const auto stack = frames_with_lines(tid);
  const Position from = timeline.now();
  const Arrival line = to_line_start(tid, stack[0]);
  if (line.why != Arrival::None && line.why != Arrival::Stepped) return line;
  const bool found = line.why == Arrival::Stepped;
  const Position lowest = found ? timeline.now() : timeline.first();
  // Behind the last entry of any function no other one is entered: a line between there and the present is
  // one of a function that is on the stack then. If there is none, it is the entry of the function at hand.
  Taps taps;
  taps.thread = tid;
  for (const Address entry : entries()) taps.stop_at(entry);
  for (Position before = from; !taps.empty();) {
    const Arrival entry = timeline.last_before(taps, before, lowest);
    if (entry.why == Arrival::Interrupted) return entry;
    if (entry.why != Arrival::Break || entry.at < lowest) break;
    timeline.go_to(entry.at);
    const Arrival last =
        timeline.last_before(around(frames(tid, kFramesAround), tid, true), before, entry.at);
    if (last.why == Arrival::Interrupted) return last;
    if (last.why == Arrival::Break && !(last.at < entry.at)) return as_step(timeline.go_to(last.at));
    before = entry.at;
  }
  if (found) return as_step(timeline.go_to(lowest));
  timeline.go_to(from);
  return over(tid, true);
}

Arrival Stepper::out(int tid, bool back) {
  const auto stack = only_own_ ? frames_with_lines(tid) : frames(tid, kFramesAround);
  if (back) return out_back(tid, stack.empty() ? Frame{} : stack[0]);
  if (stack.size() < 2 || !stack[0].cfa)
    throw Error("nothing is known to have called this function", kExitUsage);
  Taps taps;
  // It may be left by an exception or longjmp, too.
  taps = around({stack.begin() + 1, stack.end()}, tid, true);
  stop_in_frame(stack[1].pc, fmt::format("$rsp == {:#x}", stack[0].cfa), taps);
  return as_step(session_.timeline().forward(taps));
}

// To the call of the function.
Arrival Stepper::out_back(int tid, const Frame& frame) {
  timeline::Timeline& timeline = session_.timeline();
  if (!frame.function || !frame.cfa)
    throw Error(fmt::format("it is not known which function is at {:#x}", frame.pc), kExitUsage);
  Taps taps;
  taps.thread = tid;
  stop_in_frame(frame.function->entry, entered(frame), taps);
  while (true) {
    if (timeline.now().pc != frame.function->entry) {
      const Arrival entry = timeline.last_before(taps, timeline.now(), timeline.first());
      if (entry.why == Arrival::Interrupted) return entry;
      if (entry.why != Arrival::Break) throw Error("where this function was called is not known", kExitUsage);
      timeline.go_to(entry.at);
    }
    const Arrival arrival = timeline.step_back(tid);
    if (arrival.why != Arrival::Stepped || !here(tid).is_same(frame)) return arrival;
  }
}

Arrival Stepper::quantum(bool back) {
  timeline::Timeline& timeline = session_.timeline();
  const Tick now = timeline.now().tick;
  if (back ? now == timeline.first().tick : now >= timeline.log().last().tick) {
    Arrival arrival = back ? timeline.go_to_birth() : timeline.go_to_end();
    arrival.why = back ? Arrival::Begin : Arrival::End;
    return arrival;
  }
  return as_step(timeline.go_to({back ? now - 1 : now + 1, 0, 0}));
}

Arrival Stepper::step(Step step, bool back, int tid) {
  timeline::Timeline& timeline = session_.timeline();
  if (!tid) tid = timeline.present().state().tid;
  switch (step) {
    case Step::Line:
      return back ? into_back(tid) : into(tid);
    case Step::Over:
      return over(tid, back);
    case Step::Out:
      return out(tid, back);
    case Step::Quantum:
      return quantum(back);
    case Step::Instruction:
      break;
  }
  return back ? timeline.step_back(tid) : timeline.step(tid, 0, 0, {});
}

}  // namespace backstep::session
