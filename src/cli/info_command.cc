// `backstep info`: what a recording is about, on one page. What is not known or not exact is said as plainly
// as the rest.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/error.h"
#include "base/printable.h"
#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/format.h"
#include "cli/options.h"
#include "cli/summary.h"
#include "recording/checkpoint_file.h"
#include "recording/process_facts.h"
#include "recording/side_files.h"
#include "recording/tree.h"

namespace backstep::cli {
namespace {

using recording::Library;
using recording::Manifest;
using recording::Recording;

using Tallies = std::vector<std::pair<std::string, Tally>>;

// Everything that is known, from manifest and log.
struct Info {
  Recording recording{""};
  std::optional<Manifest> manifest;
  std::string manifest_error;
  Summary log;
  uint64_t size = 0;                  // of the folder
  uint64_t checkpoints = 0;           // how many
  uint64_t recorded_checkpoints = 0;  // … of them made while recording
  uint64_t checkpoint_bytes = 0;
  uint64_t shared = 0;  // file contents in the shared store that it needs
  std::vector<std::string> notes;
  uint64_t process = 1;
  size_t processes = 1;                      // logs
  std::optional<recording::TreeFacts> tree;  // of more than one, if none was chosen

  std::optional<Manifest::End> end() const {
    auto end = manifest && manifest->end ? manifest->end : log.end;
    return end;
  }
};

Tallies most_frequent_first(const std::map<std::string, Tally>& tallies) {
  Tallies list(tallies.begin(), tallies.end());
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return a.second.count > b.second.count; });
  return list;
}

uint64_t shared_size(const Library& library, const Recording& r) {
  uint64_t bytes = 0;
  for (const auto& key : r.keys()) {
    struct stat st {};
    if (stat(library.store().path(key).c_str(), &st) == 0) bytes += recording::kept_bytes(key, st);
  }
  return bytes;
}

Info collect(const Library& library, const Recording& r, uint64_t process) {
  Info info;
  info.recording = r;
  if (!recording::is_without_events(r, process)) info.log = summarize(library, r, process);
  info.size = r.size();
  info.checkpoints = recording::CheckpointFolder::count(r);
  info.recorded_checkpoints = recording::CheckpointFolder::count_recorded(r);
  info.checkpoint_bytes = recording::CheckpointFolder::disk(r);
  info.shared = shared_size(library, r);
  info.process = process;
  info.processes = r.processes().size();
  if (recording::is_without_events(r, process)) {
    info.notes.emplace_back("the process was killed before its first event");
    return info;
  }
  try {
    info.manifest = Manifest::load(r.manifest_path(process));
  } catch (const Error& e) {
    info.manifest_error = e.what();
  }
  if (!info.manifest_error.empty()) info.notes.push_back(info.manifest_error);
  for (const std::string& damage : recording::damaged_side_files(r))
    if (!info.manifest_error.starts_with(damage.substr(0, damage.find(' ')) + " is damaged"))
      info.notes.push_back(damage);
  for (const auto& damage : info.log.damage)
    info.notes.push_back(damage + "; what is before can be replayed");
  if (!info.log.end && info.log.damage.empty())
    info.notes.emplace_back(
        "the log has no end: the recorder is still at work, or was killed; what is there can be "
        "replayed");
  if (info.log.inexact)
    info.notes.push_back(fmt::format("{} events were handled by the general fallback and may not be exact",
                                     format_count(info.log.inexact)));
  for (const auto& [text, times] : info.log.notes)
    info.notes.push_back(times == 1 ? text : fmt::format("{} ({} times)", text, format_count(times)));
  if (info.manifest)
    for (const auto& note : info.manifest->notes)
      if (!info.log.notes.contains(note)) info.notes.push_back(note);
  for (const auto& key : r.keys())
    if (library.contents_path(r, key).empty())
      info.notes.push_back(
          fmt::format("the contents of a mapped file ({}) are missing: it cannot be replayed", key));
  return info;
}

void print_tallies(const std::string& title, const std::map<std::string, Tally>& tallies, bool errors) {
  if (tallies.empty()) return;
  Table table(errors ? std::vector<std::string>{"  " + title, ">COUNT", ">ERRORS", ">BYTES", ">EACH"}
                     : std::vector<std::string>{"  " + title, ">COUNT", ">BYTES", ">EACH"});
  for (const auto& [name, t] : most_frequent_first(tallies)) {
    std::string each = fmt::format("{:.1f}", static_cast<double>(t.bytes) / static_cast<double>(t.count));
    if (errors)
      table.add({"  " + name, format_count(t.count), t.errors ? format_count(t.errors) : "",
                 format_count(t.bytes), each});
    else
      table.add({"  " + name, format_count(t.count), format_count(t.bytes), each});
  }
  fmt::print("\n{}", table.text());
}

void print_text(const Info& info) {
  auto line = [](const char* what, const std::string& text) {
    fmt::print("{:<11}{}\n", what, printable(text));
  };
  line("recording", info.recording.dir());
  if (info.manifest) {
    line("command", format_command(info.manifest->argv));
    line("program", info.manifest->exe);
    line("directory", info.manifest->cwd);
  }
  line("end", recording::end_text(info.end()));
  if (auto last = recording::final_end(info.recording, info.end()).end;
      last && last->kind != info.end()->kind)
    line("  then", recording::end_text(last));
  if (info.processes > 1)
    line("processes", fmt::format("{}this is number {} of {} logs ('backstep ps' lists them)",
                                  info.tree ? fmt::format("{}; ", info.tree->processes) : "", info.process,
                                  info.processes));
  if (info.tree) {
    std::string ends;
    for (const auto& [end, count] : info.tree->ends)
      ends += fmt::format("{}{} × {}", ends.empty() ? "" : ", ", count, end);
    line("  together",
         fmt::format("{} ticks, {} events, {} of processor time", format_count(info.tree->ticks),
                     format_count(info.tree->events), format_duration(info.tree->cpu_ns)));
    line("  ends", ends);
  }
  if (info.log.crash) {
    const auto& found = info.log.place;
    std::string place = found.place.text();
    line("  at", format_point(*info.log.crash));
    if (!place.empty()) line("  in", place);
    if (!found.file.empty())
      line("  of", fmt::format("{} + {:#x}", found.file, found.offset));
    else
      line("  of", "no mapped file");
  }
  if (info.manifest) {
    const Manifest& m = *info.manifest;
    line("started", format_time(m.start_ns));
    if (m.end) line("duration", format_duration(m.end->duration_ns));
  }
  line("ticks", format_count(info.end() ? info.end()->ticks : info.log.ticks));
  double each =
      info.log.events ? static_cast<double>(info.log.bytes) / static_cast<double>(info.log.events) : 0;
  line("events", fmt::format("{}, {:.1f} bytes each", format_count(info.log.events), each));
  line("size", fmt::format("{} (events {}), and {} of mapped files in the shared store",
                           format_size(info.size), format_size(info.log.bytes), format_size(info.shared)));
  if (info.checkpoints)
    line("  of that",
         fmt::format("{} for {} checkpoints{} ('backstep checkpoints' lists and removes them; at most {})",
                     format_size(info.checkpoint_bytes), info.checkpoints,
                     info.recorded_checkpoints
                         ? fmt::format(", {} made while recording", info.recorded_checkpoints)
                         : "",
                     format_size(recording::kMaxCheckpointBytes)));
  if (info.manifest && !info.manifest->checkpoints_note.empty())
    line("checkpoints", info.manifest->checkpoints_note);
  if (info.manifest) {
    const Manifest& m = *info.manifest;
    line("machine", fmt::format("{}, {}, {}", m.hostname, m.kernel, m.cpu.model));
    if (!m.cpu.level.empty()) line("cpu shown", m.cpu.level);
    if (m.chaos) line("chaos", fmt::format("seed {}", *m.chaos));
    line("recorded", fmt::format("by backstep {}, format version {}, user {}", m.backstep, m.version, m.uid));
  }
  print_tallies("EVENTS", info.log.kinds, false);
  print_tallies("SYSTEM CALLS", info.log.syscalls, true);
  print_tallies("INSTRUCTIONS", info.log.instructions, false);
  print_tallies("SIGNALS", info.log.signals, false);
  if (info.notes.empty()) {
    fmt::print("\nEverything was recorded exactly.\n");
  } else {
    fmt::print("\nUnknown or not exact:\n");
    for (const auto& note : info.notes) fmt::print("  - {}\n", printable(note));
  }
}

Json tallies_json(const std::map<std::string, Tally>& tallies) {
  Json j = Json::object();
  for (const auto& [name, t] : most_frequent_first(tallies))
    j[to_utf8(name)] = {{"count", t.count}, {"errors", t.errors}, {"bytes", t.bytes}};
  return j;
}

void print_json(const Info& info) {
  Json j = {
      {"name", to_utf8(info.recording.name())}, {"dir", to_utf8(info.recording.dir())}, {"size", info.size}};
  j["shared_size"] = info.shared;
  j["checkpoints"] = {{"count", info.checkpoints},
                      {"recorded", info.recorded_checkpoints},
                      {"bytes", info.checkpoint_bytes},
                      {"at_most", recording::kMaxCheckpointBytes}};
  if (info.manifest && !info.manifest->checkpoints_note.empty())
    j["checkpoints"]["note"] = to_utf8(info.manifest->checkpoints_note);
  j["process"] = info.process;
  j["processes"] = info.processes;
  if (info.tree) {
    Json ends = Json::object();
    for (const auto& [end, count] : info.tree->ends) ends[end] = count;
    j["tree"] = {{"logs", info.tree->logs},     {"processes", info.tree->processes},
                 {"ticks", info.tree->ticks},   {"events", info.tree->events},
                 {"cpu_ns", info.tree->cpu_ns}, {"ends", ends}};
  } else {
    j["tree"] = nullptr;
  }
  Manifest m = info.manifest.value_or(Manifest{});
  m.end = info.end();
  add_manifest(m, j);
  if (info.log.crash) {
    const auto& found = info.log.place;
    Json crash = point_json(*info.log.crash);
    crash["function"] = found.place.function.empty() ? Json() : Json(to_utf8(found.place.function));
    crash["file"] = found.place.line ? Json(to_utf8(found.place.file)) : Json();
    crash["line"] = found.place.line ? Json(found.place.line) : Json();
    crash["mapped_file"] = found.file.empty() ? Json() : Json(to_utf8(found.file));
    crash["offset"] = found.offset;
    j["end"]["crash"] = crash;
  }
  j["log"] = {{"events", info.log.events},
              {"bytes", info.log.bytes},
              {"ticks", info.log.ticks},
              {"complete", info.log.end.has_value()},
              {"inexact", info.log.inexact},
              {"kinds", tallies_json(info.log.kinds)},
              {"syscalls", tallies_json(info.log.syscalls)},
              {"instructions", tallies_json(info.log.instructions)},
              {"signals", tallies_json(info.log.signals)}};
  Json damage = Json::array(), notes = Json::array();
  for (const auto& text : info.log.damage) damage.push_back(to_utf8(text));
  for (const auto& text : info.notes) notes.push_back(to_utf8(text));
  j["log"]["damage"] = damage;
  j["notes"] = notes;
  fmt::print("{}\n", j.dump(2));
}

}  // namespace

int info_command(const Args& args) {
  bool json = false;
  std::string dir;
  std::string process;
  CommandLine line(
      "info", "[--json] [-p PID] [DIR]",
      "Says what a recording holds: command, how the program ended (for a crash the control point, and\n"
      "function and line if known), duration, ticks, events by kind and by system call with their\n"
      "bytes in the log, size, machine, and what was unknown or not recorded exactly; if there are\n"
      "several processes, what they come to together.\n"
      "DIR: a name or path; the latest recording if left out.",
      "Examples:\n"
      "  backstep info\n"
      "  backstep info --json sort-1 | jq .end.crash");
  line.add_flag("--json", json, "as JSON");
  line.add_option("-p,--process", process, "about this process: a pid, or #N as in 'backstep ps'")
      .type_name("PID");
  line.add_option("DIR", dir);
  if (auto status = line.parse_args(args)) return *status;
  Library library = Library::standard();
  const Recording r = library.resolve(dir);
  Info info = collect(library, r, process.empty() ? 1 : recording::find_process(r, process));
  if (process.empty() && info.processes > 1) info.tree = tree_facts(process_facts(r));
  json ? print_json(info) : print_text(info);
  return 0;
}

}  // namespace backstep::cli
