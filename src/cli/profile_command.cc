// `backstep profile`: where the ticks of a recorded run went.
#include <cmath>
#include <fstream>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/asking.h"
#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/flame_graph.h"
#include "cli/format.h"
#include "session/profile.h"

namespace backstep::cli {
namespace {

using session::Profile;
using session::ProfileRow;

double share(uint64_t n, uint64_t all) {
  return all ? 100.0 * static_cast<double>(n) / static_cast<double>(all) : 0;
}

// What is counted: ticks, or instructions.
const char* unit_of(const session::ProfileRequest& request) {
  return request.instructions ? "INSTRUCTIONS" : "TICKS";
}

bool print_folded(const Profile& profile) {
  for (const auto& [stack, n] : profile.stacks) {
    std::string line;
    for (const std::string& name : stack) line += (line.empty() ? "" : ";") + name;
    if (!put_line(fmt::format("{} {}", line, n * profile.period))) return false;
  }
  return true;
}

void print_table(const Profile& profile, const std::string& unit, size_t most) {
  Table table({">SELF", ">TOTAL", ">" + unit, "FUNCTION"});
  for (const ProfileRow& row : session::rows_of(profile)) {
    if (most-- == 0) break;
    table.add({fmt::format("{:.2f}%", share(row.self, profile.samples)),
               fmt::format("{:.2f}%", share(row.total, profile.samples)),
               format_count(row.self * profile.period), row.name});
  }
  fmt::print("{}", table.text());
}

// What of the samples each process has.
void print_profile_shares(const session::ProfileOfEach& profile, const std::string& unit) {
  Table table({">SHARE", ">" + unit, "PROCESS"});
  for (const auto& [process, samples] : profile.samples)
    if (samples)
      table.add({fmt::format("{:.2f}%", share(samples, profile.all.samples)),
                 format_count(samples * profile.all.period), process_title(process)});
  fmt::print("{}\n", table.text());
}

void print_json(const Profile& profile, const std::optional<session::ProfileOfEach>& of_each) {
  Json functions = Json::array();
  for (const ProfileRow& row : session::rows_of(profile))
    functions.push_back(
        {{"name", row.name}, {"self", row.self * profile.period}, {"total", row.total * profile.period}});
  Json object{{"period", profile.period},
              {"samples", profile.samples},
              {"incomplete_stacks", profile.cut},
              {"functions", functions}};
  if (of_each) {
    Json& processes = object["processes"] = Json::array();
    for (const auto& [process, samples] : of_each->samples) {
      Json& json = processes.emplace_back(Json::object());
      add_process(json, process);
      json["program"] = process.program;
      json["samples"] = samples;
    }
  }
  put_line(object.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// How the shares of functions changed from one recording to another.
void print_difference(const Profile& now, const Profile& before, size_t most, bool json) {
  struct Change {
    std::string name;
    double before = 0, now = 0;
  };
  std::map<std::string, Change> changes;
  for (const ProfileRow& row : session::rows_of(before))
    changes[row.name].before = share(row.self, before.samples);
  for (const ProfileRow& row : session::rows_of(now)) changes[row.name].now = share(row.self, now.samples);
  std::vector<Change> list;
  for (auto& [name, change] : changes) {
    change.name = name;
    list.push_back(change);
  }
  std::sort(list.begin(), list.end(), [](const Change& a, const Change& b) {
    return std::abs(a.now - a.before) > std::abs(b.now - b.before);
  });
  if (list.size() > most) list.resize(most);
  if (json) {
    Json array = Json::array();
    for (const Change& c : list) array.push_back({{"name", c.name}, {"before", c.before}, {"now", c.now}});
    put_line(array.dump(-1, ' ', false, Json::error_handler_t::replace));
    return;
  }
  Table table({">CHANGE", ">BEFORE", ">NOW", "FUNCTION"});
  for (const Change& c : list)
    table.add({fmt::format("{:+.2f}%", c.now - c.before), fmt::format("{:.2f}%", c.before),
               fmt::format("{:.2f}%", c.now), c.name});
  fmt::print("{}", table.text());
}

}  // namespace

int profile_command(const Args& args) {
  Asking asking;
  session::ProfileRequest request;
  std::string svg, period, other;
  std::vector<std::string> arguments;
  uint64_t most = 30;
  bool folded = false;
  CommandLine line(
      "profile", "[options] [DIR]",
      "Where the ticks of a recorded run went: the stack of calls at every so many ticks. A tick is a call,\n"
      "a return, an indirect jump or a branch backwards, so the same recording has the same profile, "
      "always,\n"
      "whatever machine looks at it. With --instructions: how many instructions each function executed, "
      "exactly.\n"
      "DIR: a name or path; the latest recording if left out.",
      "Examples:\n"
      "  backstep profile\n"
      "  backstep profile --svg flames.svg --period 10000\n"
      "  backstep profile --from 90% --lines\n"
      "  backstep profile --instructions --lines        # which lines the processor was busy with\n"
      "  backstep profile --diff fast-1 slow-1\n"
      "  backstep profile -p all --svg flames.svg make-1   # of all processes, each under its program");
  asking.add_options(line);
  line.add_option("--period", period, "ticks between two samples (100000)").type_name("N");
  line.add_flag("--instructions", request.instructions,
                "count all instructions instead, for each function by itself");
  line.add_flag("--lines", request.lines, "by source line instead of by function");
  line.add_option("-n,--limit", most, "at most N rows (30)").type_name("N");
  line.add_option("--svg", svg, "write a flame graph to this file").type_name("FILE");
  line.add_flag("--folded", folded, "one line per stack, for other tools");
  line.add_option("--diff", other, "compare with this recording: how the shares have changed since")
      .type_name("DIR");
  line.add_option("DIR", asking.dir);
  if (auto status = line.parse_args(args)) return *status;
  if (request.instructions && !period.empty())
    throw Error("--instructions counts all of them: there is no --period", kExitUsage);
  const double ticks = period.empty() ? 100'000 : std::atof(period.c_str());
  if (!(ticks >= 1 && ticks < 1e18))
    throw Error("--period is a number of ticks, such as 100000 or 1e6", kExitUsage);
  request.period = static_cast<Tick>(ticks);

  std::optional<session::ProfileOfEach> of_each;  // if it is of several processes
  auto measure = [&](const std::string& dir) {
    Asking a = asking;
    a.dir = dir;
    ProgressBar bar("profiling");
    if (auto several = a.open_several()) {
      of_each = several->profile(request, a.stretch_of_each(), bar.watcher());
      return of_each->all;
    }
    auto session = a.open();
    request.stretch = a.stretch(*session);
    return session::profile(*session, request, bar.watcher());
  };
  const Profile profile = measure(asking.dir);
  if (!profile.samples && !request.instructions)
    throw Error(fmt::format("the run is shorter than one period of {} ticks: choose a smaller --period",
                            format_count(request.period)));
  if (!svg.empty()) {
    std::ofstream file(svg);
    const std::string samples = format_count(profile.samples);
    const std::string what = request.instructions ? samples + " instructions"
                                                  : fmt::format("{} samples, one every {} ticks", samples,
                                                                format_count(profile.period));
    file << flame_graph(profile, what);
    if (!file.flush()) throw Error(fmt::format("cannot write {}", svg));
    fmt::print(stderr, "backstep: {} {} in {}\n", samples, request.instructions ? "instructions" : "samples",
               svg);
  }
  if (!other.empty()) {
    print_difference(profile, measure(other), most, asking.json);
  } else if (folded) {
    print_folded(profile);
  } else if (asking.json) {
    print_json(profile, of_each);
  } else if (svg.empty()) {
    if (of_each) print_profile_shares(*of_each, unit_of(request));
    print_table(profile, unit_of(request), most);
  }
  if (profile.cut && !asking.json)
    fmt::print(stderr,
               "backstep: {} of {} stacks could not be followed to their end (code without call frame "
               "information)\n",
               format_count(profile.cut), format_count(profile.samples));
  return 0;
}

}  // namespace backstep::cli
