// `backstep dump`: the log, one event per line. It streams: the first line of a huge log comes at once, and
// `| head` costs nothing.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/event_text.h"
#include "cli/format.h"
#include "cli/options.h"
#include "recording/library.h"
#include "recording/tree.h"

namespace backstep::cli {
namespace {

using recording::Event;

struct Options {
  std::string dir;
  uint64_t limit = std::numeric_limits<uint64_t>::max();
  uint64_t from = 0;
  std::vector<std::string> kinds;  // kinds or names; empty: all
  size_t strings = 32;
  uint64_t process = 1;
  bool pc = false;
  bool json = false;

  bool wants(const Event& event) const {
    if (event.number < from) return false;
    if (kinds.empty()) return true;
    std::string kind = kind_name(event.kind), name = event_name(event);
    return std::any_of(kinds.begin(), kinds.end(), [&](const auto& k) { return k == kind || k == name; });
  }
};

void print_event(const Event& event, const Options& options) {
  if (options.json) {
    fmt::print("{}\n", event_json(event, options.strings).dump());
    return;
  }
  std::string place = options.pc ? format_point({event.tick, event.pc}) : fmt::format("@{}", event.tick);
  fmt::print("{:>8}  {:<{}}  {}.{}  {}  [{} B]\n", event.number, place, options.pc ? 26 : 12, options.process,
             event.thread, event_text(event, options.strings), event.size);
}

}  // namespace

int dump_command(const Args& args) {
  Options options;
  std::string process;
  CommandLine line(
      "dump", "[options] [DIR]",
      "Prints the log of a recording, one event per line: number, tick, process.thread, what happened\n"
      "(system calls with decoded arguments, as strace does) and its size in the log.\n"
      "DIR: a name or path; the latest recording if left out.",
      "Examples:\n"
      "  backstep dump | less\n"
      "  backstep dump -k openat -k read sort-1\n"
      "  backstep dump --from 1000 -n 20 --pc\n"
      "  backstep dump --json | jq 'select(.result < 0)'");
  line.add_option("-n,--limit", options.limit, "at most N events")->type_name("N");
  line.add_option("--from", options.from, "start at the event with this number")->type_name("EVENT");
  line.add_option("-k,--kind", options.kinds,
                  "only this kind (syscall, instr, signal, map, memory, start,\n"
                  "checksum, note, end, turn) or this system call; can be repeated")
      ->type_name("KIND")
      ->allow_extra_args(false);
  line.add_option("-s,--strings", options.strings, "bytes shown of strings and buffers (32)")->type_name("N");
  line.add_option("-p,--process", process, "the log of this process: a pid, or #N as in 'backstep ps'")
      ->type_name("PID|#N");
  line.add_flag("--pc", options.pc, "show whole control points, @TICK:0xPC");
  line.add_flag("--json", options.json, "one JSON object per line");
  line.add_option("DIR", options.dir);
  if (auto status = line.parse_args(args)) return *status;

  auto r = recording::Library::standard().resolve(options.dir);
  if (!process.empty()) options.process = recording::find_process(r, process);
  recording::LogReader log(r.log_path(options.process), recording::first_thread(r, options.process));
  Event event;
  for (uint64_t shown = 0; shown < options.limit && log.next(event);) {
    if (!options.wants(event)) continue;
    print_event(event, options);
    shown++;
  }
  if (auto damage = log.damage()) throw Error(*damage, kExitDivergence);
  return 0;
}

}  // namespace backstep::cli
