// `backstep checkpoints`: what a debugging session has left in a recording so that the next one is quick.
// They can be looked at, made ahead of time, and removed: nothing but time is lost with them.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/format.h"
#include "cli/options.h"
#include "recording/checkpoint_file.h"
#include "recording/tree.h"
#include "timeline/log_index.h"
#include "timeline/timeline.h"

namespace backstep::cli {
namespace {

using recording::CheckpointFolder;
using recording::Recording;

constexpr auto kRecord = static_cast<uint64_t>(recording::Maker::Record);

// Compares all checkpoints of a process with a replay that uses none of them. Numbers of the bad ones.
std::set<uint64_t> compare_with_replay(const recording::Library& library, const Recording& r,
                                       uint64_t process,
                                       const std::vector<CheckpointFolder::Entry>& entries) {
  ReplayOptions options;
  options.recording = r.dir();
  options.process = process;
  timeline::Timeline restoring(options, library, r);
  options.checkpoints = 0;
  timeline::Timeline replaying(options, library, r);
  std::set<uint64_t> bad;
  for (const auto& c : entries) {
    replaying.go_to({c.header.tick, c.header.event, c.header.pc});
    if (restoring.stored_checksum(c.number) != replaying.present().checksum()) bad.insert(c.number);
  }
  return bad;
}

struct Listing {
  Table table{{">PROCESS", ">NUMBER", "AT", ">SIZE", ">PAGES", "MADE BY", "STATE"}};
  Json all = Json::array();
  bool good = true;
};

Listing collect(const recording::Library& library, const Recording& r, bool verify) {
  Listing found;
  for (uint64_t process : CheckpointFolder::processes(r)) {
    std::vector<std::string> notes;
    CheckpointFolder folder(r, process);
    const auto all = folder.list(&notes);
    // A recorder that was killed may have made some behind the last event of its log: no replay comes there.
    const replayer::Position last = timeline::LogIndex(r, process).last().position();
    auto behind = [&](const CheckpointFolder::Entry& c) {
      return replayer::Position{c.header.tick, c.header.event, c.header.pc} > last;
    };
    std::vector<CheckpointFolder::Entry> entries;
    std::copy_if(all.begin(), all.end(), std::back_inserter(entries),
                 [&](const auto& c) { return !behind(c); });
    std::set<uint64_t> bad;
    if (verify) bad = compare_with_replay(library, r, process, entries);
    for (const auto& c : all) {
      const bool good = !bad.count(c.number), recorded = c.header.maker == kRecord;
      found.good = found.good && good;
      found.table.add({std::to_string(process), std::to_string(c.number),
                       format_point({c.header.tick, c.header.pc}), format_size(c.size),
                       fmt::format("{} of {}", c.header.stored_pages, c.header.pages),
                       recorded ? "record" : "replay",
                       behind(c) ? "behind the end of the log, not used"
                       : good    ? "good"
                                 : "NOT GOOD"});
      found.all.push_back({{"process", process},
                           {"number", c.number},
                           {"at", point_json({c.header.tick, c.header.pc})},
                           {"event", c.header.event},
                           {"size", c.size},
                           {"pages", c.header.pages},
                           {"stored_pages", c.header.stored_pages},
                           {"made_by", recorded ? "record" : "replay"},
                           {"used", !behind(c)},
                           {"good", good}});
    }
    for (const std::string& note : notes) {
      found.good = false;
      found.table.add({std::to_string(process), "", "", "", "", "", note});
      found.all.push_back({{"process", process}, {"good", false}, {"note", to_utf8(note)}});
    }
  }
  return found;
}

}  // namespace

int checkpoints_command(const Args& args) {
  bool json = false, make = false, remove = false, verify = false;
  std::string dir, process;
  ReplayOptions options;
  CommandLine line(
      "checkpoints", "[--make | --remove | --verify] [--json] [DIR]",
      "Lists the checkpoints in a recording: states of the program from which a debugger can start, so\n"
      "that any moment of a long run is near. 'backstep replay' makes and uses them by itself, and\n"
      "'backstep record --checkpoints' makes them while recording; they take 512 MB at most. PAGES: how many "
      "are in this file, of those that the checkpoint needs.\n"
      "DIR: a name or path; the latest recording if left out.",
      "Examples:\n"
      "  backstep checkpoints\n"
      "  backstep checkpoints --make server-1    replays it now, so that debugging starts prepared\n"
      "  backstep checkpoints --remove server-1");
  line.add_flag("--make", make, "replay the recording to its end, and make them on the way");
  line.add_option("--every", options.checkpoints,
                  "with --make: so many seconds of replay between two of them (0.5)")
      .type_name("SECONDS")
      .between(0.001, 1e6);
  line.add_flag("--remove", remove, "remove them all");
  line.add_flag("--verify", verify,
                "compare them with a replay that uses none; exit status 3 if one is\n"
                "not good");
  line.add_flag("--json", json, "as JSON");
  line.add_option("-p,--process", process, "with --make: for this process (a pid, or #N as in 'backstep ps')")
      .type_name("PID|#N");
  line.add_option("DIR", dir);
  line.add_engine_options(options.engine);
  if (auto status = line.parse_args(args)) return *status;
  if (make + remove + verify > 1) throw Error("--make, --remove and --verify exclude each other", kExitUsage);
  const recording::Library library = recording::Library::standard();
  const Recording r = library.resolve(dir);
  if (remove) {
    const uint64_t bytes = CheckpointFolder::remove(r);
    if (!json) fmt::print("{} freed\n", format_size(bytes));
    return 0;
  }
  if (make) {
    options.recording = r.dir();
    if (!process.empty()) options.process = recording::find_process(r, process);
    options.wait_for_checkpoints = true;
    timeline::Timeline timeline(options, library, r);
    timeline.go_to_end();
    timeline.finish_storing();
  }
  const Listing found = collect(library, r, verify);
  if (json) {
    fmt::print("{}\n", found.all.dump(2));
  } else if (found.all.empty()) {
    fmt::print(
        "{} has no checkpoints; a debugging session makes them, or 'backstep checkpoints --make', or "
        "'backstep record --checkpoints'\n",
        r.name());
  } else {
    fmt::print("{}", found.table.text());
  }
  return verify && !found.good ? kExitDivergence : 0;
}

}  // namespace backstep::cli
