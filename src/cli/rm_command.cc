// `backstep rm`: removes recordings, and then the stored file contents that only they needed.
#include <unistd.h>

#include <iostream>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/options.h"
#include "recording/library.h"

namespace backstep::cli {
namespace {

bool confirmed(const std::string& question) {
  fmt::print(stderr, "{} [y/N] ", question);
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

}  // namespace

int rm_command(const Args& args) {
  using recording::Library;
  using recording::Recording;
  bool force = false, all = false;
  Args names;
  CommandLine line(
      "rm", "[-f] DIR... | --all",
      "Removes recordings, by name or path, and then the stored contents of mapped files that no\n"
      "other recording needs (those used within the last minute stay until the next time).",
      "Examples:\n"
      "  backstep rm sort-1 sort-2\n"
      "  backstep rm latest\n"
      "  backstep rm --all            asks first on a terminal; -f does not");
  line.add_flag("-f,--force", force, "do not ask, and do not complain about recordings that are not there");
  line.add_flag("--all", all, "all that 'backstep ls' lists");
  line.add_option("DIR", names);
  if (auto status = line.parse_args(args)) return *status;
  if (all != names.empty()) throw Error("rm needs either names of recordings or --all", kExitUsage);

  Library library = Library::standard();
  std::vector<Recording> doomed;
  int status = 0;
  if (all) doomed = library.list();
  for (const auto& name : names) {
    try {
      doomed.push_back(library.resolve(name));
    } catch (const Error& e) {
      if (force) continue;
      fmt::print(stderr, "backstep: {}\n", e.what());
      status = e.exit_code;
    }
  }
  if (all && !force && !doomed.empty()) {
    uint64_t size = 0;
    for (const Recording& r : doomed) size += r.size();
    if (!isatty(STDIN_FILENO)) throw Error("rm --all needs -f when nobody can be asked", kExitUsage);
    if (!confirmed(fmt::format("remove {} recordings ({})?", doomed.size(), format_size(size))))
      return kExitFailure;
  }
  for (const Recording& r : doomed) library.remove(r);
  library.collect_garbage();
  return status;
}

}  // namespace backstep::cli
