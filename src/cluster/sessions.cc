// One session holds a replaying process and what is known of a program, some tens of megabytes; so of a run
// with many processes only the last few are kept.
#include "cluster/sessions.h"

#include <fmt/format.h>

#include "base/error.h"
#include "recording/tree.h"
#include "session/modules.h"
#include "session/present.h"
#include "timeline/moments.h"

namespace backstep::cluster {
namespace {

constexpr size_t kMostSessions = 16;

std::string file_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// A mere name, with or without a condition, is a function, as in gdb. Everything else is an event as
// everywhere.
std::string event_of(const std::string& spec) {
  const std::string first = spec.substr(0, spec.find(" if "));
  const bool is_name = first.find_first_of(" \t") == std::string::npos &&
                       (std::isalpha(static_cast<unsigned char>(first[0])) || first[0] == '_') &&
                       (first.find(':') == std::string::npos || first.find("::") != std::string::npos);
  return is_name ? "call " + spec : spec;
}

// … but for what `goto` in gdb takes, too.
bool is_moment(const std::string& spec) {
  if (spec.starts_with("event ") || spec.starts_with("event:")) return true;
  if (spec.find_first_of(" \t") != std::string::npos) return false;
  return spec == "start" || spec == "end" || spec.starts_with('@') || spec.starts_with('+') ||
         spec.ends_with('%');
}

}  // namespace

std::string SourcePlace::text() const {
  std::string text = function;
  if (line) text += fmt::format("{}{}:{}", text.empty() ? "" : " at ", file_name(file), line);
  if (!inner.empty()) text += (text.empty() ? "in " : ", in ") + inner;
  return text;
}

session::Session& Sessions::of(ProcessId process) {
  if (auto found = sessions_.find(process); found != sessions_.end()) return *found->second;
  const ProcessOfRun& p = history_.processes[process];
  const recording::Recording recording(history_.hosts[p.host].recording);
  if (recording::is_without_events(recording, p.log))
    throw Error(fmt::format("{} was killed before its first event: there is nothing to ask", p.name));
  ReplayOptions options = options_;
  options.recording = recording.dir();
  options.process = p.log;
  options.chosen = options.quiet = true;
  if (sessions_.size() >= kMostSessions) sessions_.clear();
  return *(sessions_[process] =
               std::make_unique<session::Session>(options, recording::Library::standard(), recording));
}

session::Session& Sessions::at(ProcessId process, const Place& place) {
  session::Session& s = of(process);
  // The number of the event says no more than tick and program counter, and a replay may have taken events
  // without a control point by then, or not.
  const auto arrival = s.timeline().go_to({place.at.tick, 0, place.at.pc});
  if (arrival.why == timeline::Arrival::Missing)
    throw Error(fmt::format("{} was never at {}", history_.processes[process].name,
                            timeline::point_text(place.at.tick, place.at.pc)));
  return s;
}

SourcePlace Sessions::source(ProcessId process, const Place& place) {
  SourcePlace source;
  if (place.state == Place::Unborn) return source;
  session::Session& s = at(process, place);
  bool complete = false;
  const auto stack = session::Present(s).stack(0, &complete);
  if (stack.empty()) return source;
  for (const session::StackFrame& frame : stack) {
    const symbols::Module* module = s.program().module_at(frame.pc);
    if (!frame.line || !module || session::is_of_the_system(module->name)) continue;
    source.function = frame.function, source.file = frame.file, source.line = frame.line;
    if (&frame != &stack.front()) source.inner = stack.front().function;
    return source;
  }
  source.function = stack.front().function;
  return source;
}

Breakpoint Sessions::find(ProcessId process, const std::string& spec, int64_t count,
                          const session::Watcher& watcher) {
  const std::string& name = history_.processes[process].name;
  const replayer::Position& begin = history_.processes[process].begin;
  session::Session& s = of(process);
  Breakpoint found{process, {}, spec, 0};
  if (is_moment(spec)) {
    s.timeline().go_to(s.moment(spec));
    found.at = s.timeline().now();
    found.match = 1;
    if (found.at.tick < begin.tick)
      throw Error(fmt::format("{} began at {}; what was before that is its parent's", name,
                              timeline::point_text(begin.tick, begin.pc)),
                  kExitUsage);
    return found;
  }
  session::LogRequest request;
  if (begin.tick) request.stretch.from = begin;
  request.spec = event_of(spec);
  if (count < 0) {
    const auto hits = s.log_last(request, static_cast<size_t>(-count), watcher);
    if (hits.size() < static_cast<size_t>(-count))
      throw Error(fmt::format("'{}' happens {} times in {}", spec, hits.size(), name));
    found.at = hits.front().position();
    found.match = 0;
    return found;
  }
  const session::Count counted = s.log(
      request,
      [&](const session::Hit& hit) {
        found.match++;
        found.at = hit.position();
        return found.match < static_cast<uint64_t>(count);
      },
      watcher);
  if (found.match < static_cast<uint64_t>(count)) {
    std::string failures =
        counted.failures ? fmt::format("; its condition could not be evaluated {} times", counted.failures)
                         : "";
    throw Error(found.match == 0 ? fmt::format("'{}' never happens in {}{}", spec, name, failures)
                                 : fmt::format("'{}' happens {} time{} in {}{}", spec, found.match,
                                               found.match == 1 ? "" : "s", name, failures));
  }
  return found;
}

}  // namespace backstep::cluster
