// `backstep ls`: one line per recording, the newest last, from their manifests alone; no log is opened.
#include <signal.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/format.h"
#include "cli/options.h"
#include "recording/library.h"
#include "recording/tree.h"

namespace backstep::cli {
namespace {

using recording::EndKind;
using recording::Library;
using recording::Manifest;
using recording::Recording;

// What one types to mean this recording.
std::string shown_name(const Library& library, const Recording& r) {
  return r.dir() == library.dir() + "/" + r.name() ? r.name() : r.dir();
}

std::string short_end(const std::optional<Manifest::End>& end) {
  if (!end) return "-";
  switch (end->kind) {
    case EndKind::Exit:
      return std::to_string(end->status);
    case EndKind::Signal: {
      const char* name = sigabbrev_np(static_cast<int>(end->status));
      return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", end->status);
    }
    case EndKind::Exec:
      return "exec";
    case EndKind::Stopped:
      return "stopped";
  }
  return "?";
}

void print_table(const Library& library) {
  Table table({"NAME", "WHEN", ">DURATION", ">TICKS", ">EVENTS", ">SIZE", "EXIT", "COMMAND"});
  auto recordings = library.list();
  uint64_t size = 0;
  for (const Recording& r : recordings) {
    size += r.size();
    try {
      Manifest m = r.manifest();
      table.add({shown_name(library, r), format_time(m.start_ns),
                 m.end ? format_duration(m.end->duration_ns) : "-", m.end ? format_count(m.end->ticks) : "-",
                 m.end ? format_count(m.end->events) : "-", format_size(r.size()),
                 short_end(recording::final_end(r, m.end).end), shorten(format_command(m.argv), 60)});
    } catch (const Error&) {
      table.add(
          {shown_name(library, r), "-", "-", "-", "-", format_size(r.size()), "-", "(damaged manifest)"});
    }
  }
  if (recordings.empty())
    fmt::print("no recordings in {}\n", library.dir());
  else
    fmt::print("{}\n{} recording{}, {}, and {} of mapped files in the store\n", table.text(),
               recordings.size(), recordings.size() == 1 ? "" : "s", format_size(size),
               format_size(recording::size_with_folders(library.store().dir())));
}

void print_json(const Library& library) {
  Json all = Json::array();
  for (const Recording& r : library.list()) {
    Json j = {{"name", to_utf8(shown_name(library, r))}, {"dir", to_utf8(r.dir())}, {"size", r.size()}};
    try {
      add_manifest(r.manifest(), j);
    } catch (const Error& e) {
      j["error"] = e.what();
    }
    all.push_back(j);
  }
  fmt::print("{}\n", all.dump(2));
}

}  // namespace

int ls_command(const Args& args) {
  bool json = false;
  CommandLine line(
      "ls", "[--json]",
      "Lists the recordings, the newest last: name, start, duration, ticks, events, size of its\n"
      "folder, exit status or signal, and command. '-': not known, because the recorder is still\n"
      "at work or was killed. Recordings made elsewhere with 'record -o' are listed by path.",
      "Examples:\n"
      "  backstep ls\n"
      "  backstep ls --json | jq '.[] | select(.end.kind == \"signal\") | .name'");
  line.add_flag("--json", json, "as JSON");
  if (auto status = line.parse_args(args)) return *status;
  Library library = Library::standard();
  json ? print_json(library) : print_table(library);
  return 0;
}

}  // namespace backstep::cli
