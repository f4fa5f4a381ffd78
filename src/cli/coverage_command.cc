// `backstep coverage`: which lines and functions recorded runs executed.
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/asking.h"
#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/format.h"
#include "session/coverage.h"

namespace backstep::cli {
namespace {

using session::Coverage;

std::string share_text(size_t n, size_t all) {
  return all ? fmt::format("{:.1f}%", 100.0 * static_cast<double>(n) / static_cast<double>(all)) : "";
}

// 3-5, 9, 12-14
std::string ranges(const std::vector<int>& lines, size_t width) {
  std::string text;
  for (size_t i = 0; i < lines.size();) {
    size_t end = i;
    while (end + 1 < lines.size() && lines[end + 1] <= lines[end] + 1) end++;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", lines[i]);
    if (end > i) text += fmt::format("-{}", lines[end]);
    i = end + 1;
  }
  return shorten(text, width);
}

void write_lcov(const Coverage& coverage, const std::string& path) {
  std::ofstream file(path);
  for (const auto& [name, f] : coverage.files) {
    file << "TN:\nSF:" << name << '\n';
    for (const auto& [key, function] : f.functions)
      file << fmt::format("FN:{},{}\n", function.line, function.name);
    for (const auto& [key, function] : f.functions)
      file << fmt::format("FNDA:{},{}\n", function.executed ? 1 : 0, function.name);
    file << fmt::format("FNF:{}\nFNH:{}\n", f.functions.size(), f.executed_functions());
    for (const auto& [line, yes] : f.lines) file << fmt::format("DA:{},{}\n", line, yes ? 1 : 0);
    file << fmt::format("LF:{}\nLH:{}\nend_of_record\n", f.lines.size(), f.executed_lines());
  }
  if (!file.flush()) throw Error(fmt::format("cannot write {}: {}", path, errno_text(errno)));
}

Json to_json(const Coverage& coverage) {
  Json files = Json::array();
  for (const auto& [name, f] : coverage.files) {
    Json executed = Json::array(), missed = Json::array(), functions = Json::array();
    for (const auto& [line, yes] : f.lines) (yes ? executed : missed).push_back(line);
    for (const auto& [key, function] : f.functions)
      functions.push_back(
          {{"name", function.name}, {"line", function.line}, {"executed", function.executed}});
    files.push_back({{"file", name}, {"executed", executed}, {"missed", missed}, {"functions", functions}});
  }
  return files;
}

void print_files(const Coverage& coverage, bool difference) {
  Table table(difference ? std::vector<std::string>{">LINES", "FILE", "WHICH"}
                         : std::vector<std::string>{">LINES", ">OF", ">", "FILE", "NOT EXECUTED"});
  size_t done = 0, all = 0;
  for (const auto& [name, f] : coverage.files) {
    if (f.lines.empty() || (!difference && f.executed_lines() == 0)) continue;
    std::vector<int> listed;
    for (const auto& [line, yes] : f.lines)
      if (yes == difference) listed.push_back(line);
    const size_t n = f.executed_lines();
    done += n, all += f.lines.size();
    constexpr size_t kWidth = 60;
    if (difference) {
      table.add({format_count(n), name, ranges(listed, kWidth)});
    } else {
      table.add({format_count(n), format_count(f.lines.size()), share_text(n, f.lines.size()), name,
                 ranges(listed, kWidth)});
    }
  }
  fmt::print("{}", table.text());
  if (difference) {
    fmt::print("{} lines\n", format_count(done));
  } else {
    fmt::print("{} of {} lines ({}) in files of which something was executed\n", format_count(done),
               format_count(all), share_text(done, all));
  }
}

void print_functions(const Coverage& coverage) {
  for (const auto& [name, f] : coverage.files)
    for (const auto& [key, function] : f.functions)
      if (!put_line(fmt::format("{}  {}  {}:{}", function.executed ? "executed" : "-       ", function.name,
                                name, function.line)))
        return;
}

}  // namespace

int coverage_command(const Args& args) {
  Asking asking;
  std::vector<std::string> dirs, minus;
  std::string lcov;
  bool functions = false, system = false;
  CommandLine line(
      "coverage", "[options] [DIR...]",
      "Which lines and functions recorded runs executed, without building the program anew: of several\n"
      "recordings, what any of them did. Needs debug information (-g).\n"
      "DIR: names or paths; the latest recording if left out.",
      "Examples:\n"
      "  backstep coverage\n"
      "  backstep coverage --lcov run.info test-1 test-2\n"
      "  backstep coverage failing-1 --minus passing-1     # what only the failing run did\n"
      "  backstep coverage --functions --from 90%\n"
      "  backstep coverage -p all tests-1                  # what any of its processes did");
  asking.add_options(line);
  line.add_option("--minus", minus, "without what this recording executed; can be repeated")
      .type_name("DIR")
      .one_value_each();
  line.add_flag("--system", system, "libraries of the system as well");
  line.add_flag("--functions", functions, "functions instead of lines");
  line.add_option("--lcov", lcov, "write it to this file, for genhtml and other tools").type_name("FILE");
  line.add_option("DIR", dirs);
  if (auto status = line.parse_args(args)) return *status;

  auto look = [&](const std::string& dir) {
    Asking a = asking;
    a.dir = dir;
    ProgressBar bar("looking");
    if (auto several = a.open_several()) return several->coverage(a.stretch_of_each(), system, bar.watcher());
    auto session = a.open();
    return session::coverage(*session, a.stretch(*session), system, bar.watcher());
  };
  if (dirs.empty()) dirs.emplace_back();
  Coverage all = look(dirs[0]);
  for (size_t i = 1; i < dirs.size(); i++) all.add(look(dirs[i]));
  for (const std::string& dir : minus) all.subtract(look(dir));
  if (all.files.empty() && minus.empty())
    throw Error("the program has no debug information: compile it with -g to see which lines were executed");
  if (!lcov.empty()) write_lcov(all, lcov);
  if (asking.json) {
    put_line(to_json(all).dump(-1, ' ', false, Json::error_handler_t::replace));
  } else if (functions) {
    print_functions(all);
  } else if (lcov.empty()) {
    print_files(all, !minus.empty());
  }
  return 0;
}

}  // namespace backstep::cli
