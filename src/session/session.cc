#include "session/session.h"

#include <algorithm>
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "events/matcher.h"
#include "session/hits.h"
#include "session/logging.h"
#include "session/modules.h"
#include "session/resolve.h"
#include "session/stack_text.h"
#include "timeline/moments.h"
#include "timeline/wall_clock.h"

namespace backstep::session {
namespace {

using replayer::TapRecord;
using timeline::Sweep;
using timeline::Swept;
using timeline::Tap;

constexpr Tick kFirstHits = 10'000;  // whoever reads a log may want only its beginning

}  // namespace

nlohmann::ordered_json frame_json(const StackFrame& f) {
  nlohmann::ordered_json frame{{"pc", f.pc}};
  if (!f.function.empty()) frame["function"] = f.function;
  if (!f.module.empty()) frame["module"] = f.module;
  if (f.line) frame["file"] = f.file, frame["line"] = f.line;
  if (f.inlined) frame["inlined"] = true;
  return frame;
}

nlohmann::ordered_json frames_json(const std::vector<StackFrame>& stack) {
  auto frames = nlohmann::ordered_json::array();
  for (const StackFrame& f : stack) frames.push_back(frame_json(f));
  return frames;
}

Session::Session(const ReplayOptions& options, const recording::Library& library,
                 const recording::Recording& recording, const timeline::Attention& ear)
    : library_(library), recording_(recording), timeline_(options, library, recording, ear) {}

const symbols::Program& Session::program() const {
  if (!program_) program_.emplace(modules_of(timeline_.log(), library_, recording_));
  return *program_;
}

symbols::Compiler& Session::compiler() {
  if (!compiler_) compiler_.emplace(program());
  return *compiler_;
}

// All matches of an event that is made of several. They depend on nothing but the recording, so they are
// looked for once; null: somebody wanted to stop.
const std::vector<Position>* Session::matches_of(const std::string& spec) {
  auto known = composed_.find(spec);
  if (known != composed_.end()) return &known->second;
  std::vector<Position> all;
  log({spec, {}, false, {}},
      [&](const Hit& h) {
        all.push_back(h.position());
        return true;
      },
      {});
  if (timeline_.attention.stop_asked) return nullptr;
  return &composed_.emplace(spec, std::move(all)).first->second;
}

// A simple event stops the replay by itself. What is made of several may have begun anywhere before the
// present: the nearest of its matches is a moment that stops.
timeline::Arrival Session::go_to_match(const std::vector<std::string>& specs, bool forward) {
  using timeline::Arrival;
  const Position now = timeline_.now();
  timeline::Taps taps;
  std::optional<Position> nearest;
  for (const std::string& spec : specs) {
    const Resolved resolved = resolve(*this, spec, false);
    if (resolved.event.op == events::Event::Op::One) {
      for (const ResolvedTap& r : resolved.taps) taps.list.push_back(r.tap);
      continue;
    }
    const std::vector<Position>* all = matches_of(spec);
    if (!all) return {.why = Arrival::Interrupted};
    auto earlier = [this](const Position& a, const Position& b) { return timeline_.log().is_before(a, b); };
    auto behind = std::upper_bound(all->begin(), all->end(), now, earlier);
    if (forward && behind != all->end()) nearest = std::min(nearest.value_or(*behind), *behind);
    auto before = std::lower_bound(all->begin(), all->end(), now, earlier);
    if (!forward && before != all->begin())
      nearest = std::max(nearest.value_or(*std::prev(before)), *std::prev(before));
  }
  Arrival arrival;
  if (taps.empty() && nearest) {
    arrival = timeline_.go_to(*nearest);
    if (arrival.why == Arrival::There) arrival.why = Arrival::Break;
    return arrival;
  }
  if (nearest) {
    timeline::Tap& tap = taps.list.emplace_back();
    tap.kind = timeline::Tap::Moment;
    tap.moments = {{*nearest, 0}};
  }
  timeline_.leave_here(forward);
  arrival = forward ? timeline_.forward(taps) : timeline_.backward(taps);
  const bool died = arrival.why == Arrival::Signal && timeline_.at_end();
  if (arrival.why <= Arrival::Fork && !died) arrival.why = Arrival::Break;
  return arrival;
}

Position Session::moment(const std::string& text) const {
  using timeline::MomentName;
  const timeline::LogIndex& log = timeline_.log();
  const MomentName name = timeline::parse_moment(text, recording_);
  switch (name.kind) {
    case MomentName::Start:
      return log.birth().value_or(Position{});
    case MomentName::End:
      return log.last().position();
    case MomentName::Event: {
      const uint64_t count = log.events() - log.own();
      if (name.event >= count) throw Error(fmt::format("the log has events 0 to {}", count - 1), kExitUsage);
      const auto at = log.at(log.own() + name.event);
      return at ? at->position() : Position{};
    }
    case MomentName::Percent:
      return {static_cast<Tick>(static_cast<double>(log.last().tick) * name.percent / 100), 0, 0};
    case MomentName::Time:
      return {timeline::WallClock(log, recording_.manifest()).at_time(name.ns).tick, 0, 0};
    case MomentName::Point:
      break;
  }
  if (name.process && *name.process != log.process())
    throw Error(fmt::format("bookmark {} is in process #{}: ask that one, with -p '#{}'", text, *name.process,
                            *name.process),
                kExitUsage);
  return {name.point.tick, 0, name.point.pc};
}

std::vector<Count> Session::count(const std::vector<std::string>& specs, const Stretch& stretch,
                                  const Watcher& watcher, bool lenient) {
  struct Asked {
    Resolved resolved;
    size_t first = 0;  // of its taps
    std::optional<events::Matcher> matcher;
  };
  std::vector<Asked> asked;
  std::vector<Count> counts;
  Sweep sweep;
  std::vector<size_t> owner;  // by tap
  for (const std::string& spec : specs) {
    Asked& a = asked.emplace_back();
    counts.push_back({spec, 0, 0, ""});
    try {
      a.resolved = resolve(*this, spec, false);
    } catch (const Error& e) {
      if (!lenient || e.exit_code != kExitUsage) throw;
      counts.back().unknown = e.what();
      continue;
    }
    tell_notes(watcher, a.resolved.notes);
    a.first = sweep.taps.list.size();
    const bool simple = a.resolved.event.op == events::Event::Op::One;
    if (!simple) a.matcher.emplace(a.resolved.event);
    for (ResolvedTap& r : a.resolved.taps) {
      r.tap.action = simple ? Tap::Count : Tap::Log;
      sweep.taps.list.push_back(r.tap);
      owner.push_back(asked.size() - 1);
    }
  }
  sweep.from = stretch.from, sweep.to = stretch.to;
  sweep.progress = watcher.progress;
  sweep.record = [&](const TapRecord& record, const uint8_t*) {
    Asked& a = asked[owner[record.tap]];
    const size_t spec = a.resolved.taps[record.tap - a.first].spec;
    if (a.matcher->feed(spec, position_of(record))) counts[owner[record.tap]].matches++;
    return true;
  };
  const Swept swept =
      asked.size() == 1 ? sweep_for(timeline_, asked[0].resolved, sweep) : timeline_.sweep(sweep);
  for (size_t i = 0; i < owner.size(); i++) {
    if (!asked[owner[i]].matcher) counts[owner[i]].matches += swept.counts[i].matches;
    counts[owner[i]].failures += swept.counts[i].failures;
  }
  return counts;
}

Count Session::log(const LogRequest& request, const std::function<bool(const Hit&)>& hit,
                   const Watcher& watcher) {
  Logging logging(*this, request, watcher);
  Count count{request.spec, 0, 0, ""};
  Sweep sweep = logging.sweep([&](const Hit& h) {
    count.matches++;
    return hit(h);
  });
  sweep.from = request.stretch.from, sweep.to = request.stretch.to;
  sweep.progress = watcher.progress;
  sweep.hurry = kFirstHits;
  for (const auto& c : sweep_for(timeline_, logging.resolved(), sweep).counts) count.failures += c.failures;
  return count;
}

void Session::backwards(const Stretch& stretch, const std::function<bool(const Stretch&)>& part) const {
  const Position first = stretch.from.value_or(timeline_.log().birth().value_or(Position{}));
  std::optional<Position> to = stretch.to;
  std::vector<Position> cuts = timeline_.cuts();
  const Position end = to.value_or(Position{~0ull, ~0ull, ~0ull});
  std::erase_if(cuts, [&](const Position& p) { return p <= first || p >= end; });
  for (size_t step = 2;; step *= 2) {
    const bool all = cuts.size() < step;
    const auto from = all ? stretch.from : std::optional(cuts[cuts.size() - step]);
    if (part({from, to}) || all) return;
    to = from;
    cuts.resize(cuts.size() - step);
  }
}

std::vector<StackFrame> Session::frames(const symbols::UnwindRegisters& registers, Address stack,
                                        std::span<const uint8_t> bytes, bool* complete) const {
  const symbols::Stack found = unwound(*this, registers, stack, bytes);
  *complete = found.complete;
  return named(found);
}

std::vector<StackFrame> Session::named(const symbols::Stack& stack) const {
  std::vector<StackFrame> frames;
  for (const symbols::Frame& f : stack.frames) {
    auto inlined = program().frames_at(f.call_site ? f.pc - 1 : f.pc);
    // What nobody has called may return to the first instruction of a function: makecontext does that, and
    // the kernel for signal handlers.
    if (inlined.empty() && f.call_site) inlined = program().frames_at(f.pc);
    if (inlined.empty()) {
      const symbols::Module* module = program().module_at(f.pc);
      frames.push_back({f.pc, "", "", 0, false, module ? module->name : ""});
    }
    for (size_t i = 0; i < inlined.size(); i++)
      frames.push_back({f.pc, inlined[i].function, inlined[i].file, inlined[i].line, i + 1 < inlined.size()});
  }
  return frames;
}

}  // namespace backstep::session
