// The debug code's standard output and errors go to ours, which the replayed program does not use here. A
// call that was ended, because it did what debug code cannot do, is told with the line of the user's own
// code; one that fails in the same way a million times is told some times, and counted.
#include "cli/probe_output.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/format.h"
#include "timeline/moments.h"

namespace backstep::cli {
namespace {

using replayer::DebugNote;

constexpr uint64_t kToldInFull = 5;  // of failures that are the same

// (The compiler takes a snippet's name for that of a file in the working folder.)
std::string place_of(const probe::Note& note) {
  const size_t snippet = note.file.find("--at ");
  const std::string file = snippet == std::string::npos ? note.file : note.file.substr(snippet);
  const bool ours = file.ends_with("<backstep>");  // what is around the user's code
  if (note.line && !ours) return fmt::format("{}:{}", file, note.line);
  return note.region ? note.region->file : "debug code";
}

Json parsed(const std::string& text) {
  Json value = Json::parse(text, nullptr, false);
  return value.is_discarded() ? Json(to_utf8(text)) : value;
}

}  // namespace

bool ProbeOutput::tell_json(const probe::Note& note) const {
  static constexpr const char* kNames[] = {"output", "errors", "failure", "stop", "mark", "log", "complaint"};
  const auto kind = static_cast<size_t>(note.kind);
  if (kind >= std::size(kNames)) return true;
  Json j{{"at", format_point({note.at.tick, note.at.pc})},
         {"tick", note.at.tick},
         {"pc", note.at.pc},
         {"thread", note.thread}};
  if (note.region) j["code"] = fmt::format("{}:{}", note.region->file, note.region->line);
  j[kNames[kind]] = note.kind == DebugNote::Json ? parsed(note.text) : Json(to_utf8(note.text));
  if (note.line) j["file"] = to_utf8(note.file), j["line"] = note.line;
  return put_line(j.dump(-1, ' ', false, Json::error_handler_t::replace));
}

bool ProbeOutput::tell_text(const probe::Note& note, FILE* to, bool& at_begin) const {
  std::string_view rest = note.text;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end == std::string_view::npos ? end : end + 1);
    if (options_.tag && at_begin)
      fmt::print(to, "{:<26}  {}  ", format_point({note.at.tick, note.at.pc}), note.thread);
    if (fwrite(line.data(), 1, line.size(), to) != line.size()) return false;
    at_begin = line.ends_with('\n');
    rest.remove_prefix(line.size());
  }
  return fflush(to) == 0;
}

void ProbeOutput::tell_failure(const probe::Note& note) {
  failures_++;
  const uint64_t met = ++told_[place_of(note)];
  if (met > kToldInFull) return;
  fmt::print(stderr, "backstep: {}: it {} (at {}, thread {}){}\n", place_of(note), note.text,
             format_point({note.at.tick, note.at.pc}), note.thread,
             met == kToldInFull ? "; further ones are only counted" : "");
}

void ProbeOutput::mark(const probe::Note& note) const {
  try {
    timeline::add_bookmark(recording_, note.text, session_.timeline().log().process(),
                           {note.at.tick, note.at.pc}, "by debug code");
  } catch (const Error& e) {
    fmt::print(stderr, "backstep: {}: {}\n", place_of(note), e.what());
  }
}

bool ProbeOutput::tell(const probe::Note& note) {
  bar_.clear();
  if (note.kind == DebugNote::Mark) mark(note);
  const bool wrong = note.kind == DebugNote::Failure || note.kind == DebugNote::Complaint;
  if (wrong) failures_ += options_.json;
  if (options_.json) return tell_json(note);
  switch (note.kind) {
    case DebugNote::Output:
      return tell_text(note, stdout, out_at_begin_);
    case DebugNote::Errors:
      return tell_text(note, stderr, errors_at_begin_);
    case DebugNote::Json:
      return put_line(note.text);
    case DebugNote::Failure:
    case DebugNote::Complaint:
      tell_failure(note);
      return true;
    case DebugNote::Stop:
      fmt::print(stderr, "backstep: stopped at {}: {}\n", format_point({note.at.tick, note.at.pc}),
                 note.text);
      return true;  // what it has to say at its end still comes
    case DebugNote::Mark:
      return true;
  }
  return true;
}

void ProbeOutput::sum_up(const probe::Module& module, const probe::RunResult& result) const {
  for (const auto& [what, met] : told_)
    if (met > kToldInFull) fmt::print(stderr, "backstep: {}: stopped {} times in all\n", what, met);
  if (!result.complete) return;
  for (size_t region = 0; region < module.regions.size(); region++) {
    uint64_t calls = 0;
    for (size_t i = 0; i < module.places.size() && i < result.calls.size(); i++)
      if (module.places[i].region == region) calls += result.calls[i];
    if (calls == 0)
      fmt::print(stderr, "backstep: {}: the run does not come here\n",
                 module.regions[region].file.starts_with("--at ")
                     ? module.regions[region].file
                     : fmt::format("{}:{}", module.regions[region].file, module.regions[region].line));
  }
}

}  // namespace backstep::cli
