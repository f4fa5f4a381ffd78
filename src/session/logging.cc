// An event may be many places, and a variable may live elsewhere at each of them: expressions are compiled
// for every tap by itself. One that makes no sense at some of the places has no value there; one that makes
// sense nowhere is a mistake.
#include "session/logging.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "events/matcher.h"
#include "session/gated.h"
#include "session/hits.h"
#include "session/stack_text.h"

namespace backstep::session {

using replayer::TapRecord;

timeline::Swept sweep_for(timeline::Timeline& timeline, const Resolved& resolved,
                          const timeline::Sweep& sweep) {
  if (resolved.event.op == events::Event::Op::One) return timeline.sweep(sweep);
  std::vector<size_t> spec;
  for (const ResolvedTap& r : resolved.taps) spec.push_back(r.spec);
  return sweep_gated(timeline, sweep, resolved.event, spec);
}

void tell_notes(const Watcher& watcher, const std::vector<std::string>& notes) {
  for (const std::string& n : notes)
    if (watcher.note) watcher.note(n);
}

// The stack of calls as a value. It is no expression: nobody can compare it.
static bool is_stack(const std::string& text) {
  const size_t from = text.find_first_not_of(' ');
  return from != std::string::npos && text.substr(from, text.find_last_not_of(' ') + 1 - from) == "$stack";
}

// One that has no value needs no code: a constant takes its place.
static replayer::CapturedExpression nothing() {
  return {{replayer::kConst8, 0, replayer::kEnd}, replayer::Capture::Scalar, 8};
}

Logging::Logging(Session& session, const LogRequest& request, const Watcher& watcher)
    : session_(session),
      stack_(request.stack),
      resolved_(resolve(session, request.spec,
                        std::any_of(request.values.begin(), request.values.end(), names_variables))) {
  tell_notes(watcher, resolved_.notes);
  for (const std::string& text : request.values) stacks_.push_back(is_stack(text));
  std::map<std::string, size_t> fails;
  std::exception_ptr failed;
  for (ResolvedTap& r : resolved_.taps) {
    std::vector<symbols::Compiled> compiled;
    for (const std::string& text : request.values) {
      if (is_stack(text)) {
        compiled.emplace_back().optimized_out = true;
        r.tap.values.push_back(nothing());
        r.tap.stack = true;
        continue;
      }
      try {
        compiled.push_back(session.compiler().compile(text, r.pc, r.offers));
      } catch (const symbols::ExpressionError&) {
        if (!failed) failed = std::current_exception();
        symbols::Compiled& none = compiled.emplace_back();
        none.text = text;
        none.optimized_out = true;
        fails[text]++;
      }
      auto& code = compiled.back();
      r.tap.values.push_back(code.code);
      if (code.optimized_out) r.tap.values.back() = nothing();
    }
    r.tap.action = timeline::Tap::Log;
    r.tap.stack |= request.stack;
    compiled_.push_back(std::move(compiled));
  }
  for (auto& [text, n] : fails)
    if (n == resolved_.taps.size()) std::rethrow_exception(failed);
}

timeline::Sweep Logging::sweep(const std::function<bool(const Hit&)>& hit) const {
  timeline::Sweep s;
  for (const ResolvedTap& r : resolved_.taps) s.taps.list.push_back(r.tap);
  s.record = [this, hit, matcher = std::make_shared<events::Matcher>(resolved_.event)](
                 const TapRecord& record, const uint8_t* values) {
    if (!matcher->feed(resolved_.taps[record.tap].spec, position_of(record))) return true;
    return hit(hit_of(record.tap, record, values));
  };
  return s;
}

Hit Logging::hit_of(size_t tap, const TapRecord& record, const uint8_t* bytes) const {
  Hit h;
  h.at = {record.tick, record.pc};
  h.event = record.event;
  h.thread = record.thread;
  CapturedValues values(bytes);
  for (const symbols::Compiled& c : compiled_[tap])
    values.read(c, &h.values.emplace_back(), &h.json.emplace_back());
  const bool wanted = std::find(stacks_.begin(), stacks_.end(), true) != stacks_.end();
  if (stack_ || wanted) {
    symbols::UnwindRegisters registers;
    const auto gpr = values.next();
    std::memcpy(registers.gpr, gpr.data(), std::min(gpr.size(), sizeof registers.gpr));
    h.stack = session_.frames(registers, registers.gpr[symbols::UnwindRegisters::kRsp], values.next(),
                              &h.stack_complete);
    // Inlined functions that begin where the event is, but are not what it is about.
    for (unsigned n = resolved_.taps[tap].offers.outer; n > 0 && !h.stack.empty() && h.stack[0].inlined; n--)
      h.stack.erase(h.stack.begin());
  }
  for (size_t i = 0; i < stacks_.size(); i++)
    if (stacks_[i]) h.values[i] = stack_line(h.stack, h.stack_complete), h.json[i] = frames_json(h.stack);
  if (!stack_) h.stack.clear(), h.stack_complete = true;
  return h;
}

}  // namespace backstep::session
