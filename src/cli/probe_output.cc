// The debug code's standard output and errors go to ours, which the replayed program does not use here. A
// call that was ended, because it did what debug code cannot do, is told with the line of the user's own
// code; one that fails in the same way a million times is told some times, and counted.
#include "cli/probe_output.h"

#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/format.h"
#include "timeline/moments.h"

namespace backstep::cli {
namespace {

using replayer::DebugNote;

constexpr uint64_t kToldInFull = 5;  // of failures that are the same

}  // namespace

// Above the first line of one of several processes.
bool ProbeOutput::tell_title() {
  if (!options_.process || options_.json || std::exchange(titled_, true)) return true;
  return put_line(process_title(*options_.process)) && fflush(stdout) == 0;
}

bool ProbeOutput::tell_json(const probe::Note& note) const {
  Json json = note.to_json();
  if (options_.process) add_process(json, *options_.process);
  return put_line(json.dump(-1, ' ', false, Json::error_handler_t::replace));
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
  const uint64_t met = ++told_[note.place()];
  if (met > kToldInFull) return;
  fmt::print(stderr, "backstep: {}{}\n", note.sentence(),
             met == kToldInFull ? "; further ones are only counted" : "");
}

void ProbeOutput::mark(const probe::Note& note) const {
  try {
    timeline::add_bookmark(recording_, note.text, session_.timeline().log().process(),
                           {note.at.tick, note.at.pc}, "by debug code");
  } catch (const Error& e) {
    fmt::print(stderr, "backstep: {}: {}\n", note.place(), e.what());
  }
}

bool ProbeOutput::tell(const probe::Note& note) {
  bar_.clear();
  if (note.kind == DebugNote::Mark) mark(note);
  const bool wrong = note.kind == DebugNote::Failure || note.kind == DebugNote::Complaint;
  if (wrong) failures_ += options_.json;
  if (options_.json) return tell_json(note);
  if (!tell_title()) return false;
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
      fmt::print(stderr, "backstep: {}\n", note.sentence());
      return true;  // what it has to say at its end still comes
    case DebugNote::Mark:
      return true;
  }
  return true;
}

void ProbeOutput::sum_up() const {
  for (const auto& [what, met] : told_)
    if (met > kToldInFull) fmt::print(stderr, "backstep: {}: stopped {} times in all\n", what, met);
}

}  // namespace backstep::cli
