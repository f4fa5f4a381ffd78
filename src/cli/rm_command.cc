// `backstep rm`: removes recordings, and then the stored file contents that only they needed.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <iostream>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/options.h"
#include "recording/library.h"
#include "recording/tree.h"

namespace backstep::cli {
namespace {

using recording::Library;
using recording::Recording;

bool confirmed(const std::string& question) {
  fmt::print(stderr, "{} [y/N] ", question);
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

// "90s", "12h", "7d", "2w" in nanoseconds.
uint64_t age(const std::string& text) {
  static const std::map<std::string, double> kUnits = {{"s", 1},    {"m", 60},     {"min", 60},
                                                       {"h", 3600}, {"d", 86'400}, {"w", 7 * 86'400}};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto unit = kUnits.find(std::string(end, text.data() + text.size()));
  if (error != std::errc() || unit == kUnits.end() || !(number >= 0 && number < 1e6))
    throw Error(
        fmt::format("--older {}: an age is a number with s, m, h, d or w behind it, such as 7d", text),
        kExitUsage);
  return static_cast<uint64_t>(number * unit->second * 1e9);
}

// Which of all recordings are meant; what is not said does not matter.
struct Selection {
  std::string older;
  std::optional<uint64_t> keep;
  bool passed = false;

  bool any() const { return !older.empty() || keep || passed; }

  std::vector<Recording> of(std::vector<Recording> all) const {
    // The newest are last.
    if (keep) all.erase(all.end() - static_cast<ptrdiff_t>(std::min<uint64_t>(all.size(), *keep)), all.end());
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    const uint64_t ns =
        static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
    const uint64_t since = older.empty() ? ~0ull : ns - std::min(ns, age(older));
    std::erase_if(all, [&](const Recording& r) { return !is_meant(r, since); });
    return all;
  }

 private:
  // Of one whose manifest is damaged nothing is known.
  bool is_meant(const Recording& r, uint64_t since) const {
    try {
      const recording::Manifest m = r.manifest();
      if (!older.empty() && static_cast<uint64_t>(m.start_ns) >= since) return false;
      if (!passed) return true;
      const auto end = recording::final_end(r, m.end).end;
      return end && end->kind == recording::EndKind::Exit && end->status == 0;
    } catch (const Error&) {
      return !passed && older.empty();
    }
  }
};

}  // namespace

int rm_command(const Args& args) {
  bool force = false, all = false;
  uint64_t keep = ~0ull;
  Selection selection;
  Args names;
  CommandLine line(
      "rm", "[-f] DIR... | --all | [--older AGE] [--keep N] [--passed]",
      "Removes recordings, by name or path, and then the stored contents of mapped files that no\n"
      "other recording needs (those used within the last minute stay until the next time).\n"
      "--older, --keep and --passed choose among all that 'backstep ls' lists; of several, each has to "
      "hold.\n"
      "A recording that is still being made is not removed, unless its name is given with -f.",
      "Examples:\n"
      "  backstep rm sort-1 sort-2\n"
      "  backstep rm latest\n"
      "  backstep rm --older 7d       those of programs that were started more than a week ago\n"
      "  backstep rm --keep 20        all but the newest 20\n"
      "  backstep rm --passed         those of programs that ended with exit status 0\n"
      "  backstep rm --all            asks first on a terminal; -f does not");
  line.add_flag("-f,--force", force, "do not ask, and do not complain about recordings that are not there");
  line.add_flag("--all", all, "all that 'backstep ls' lists");
  line.add_option("--older", selection.older, "those that were begun longer ago than this").type_name("AGE");
  line.add_option("--keep", keep, "all but the newest N").type_name("N");
  line.add_flag("--passed", selection.passed, "those whose program ended with exit status 0");
  line.add_option("DIR", names);
  if (auto status = line.parse_args(args)) return *status;
  if (keep != ~0ull) selection.keep = keep;
  if ((all ? 1 : 0) + (names.empty() ? 0 : 1) + (selection.any() ? 1 : 0) != 1)
    throw Error("rm needs names of recordings, or --all, or some of --older, --keep and --passed",
                kExitUsage);

  Library library = Library::standard();
  std::vector<Recording> doomed;
  int status = 0;
  if (names.empty()) {
    doomed = selection.of(library.list());
    std::erase_if(doomed, [](const Recording& r) { return r.is_being_made(); });
  }
  auto complain = [&](const std::string& sentence, int code) {
    fmt::print(stderr, "backstep: {}\n", sentence);
    status = code;
  };
  for (const auto& name : names) {
    try {
      Recording r = library.resolve(name);
      if (r.is_being_made() && !force)
        complain(fmt::format("{} is still being made: end its program first, or remove it with -f", name),
                 kExitFailure);
      else
        doomed.push_back(std::move(r));
    } catch (const Error& e) {
      if (!force) complain(e.what(), e.exit_code);
    }
  }
  uint64_t size = 0;
  for (const Recording& r : doomed) size += r.size();
  if (all && !force && !doomed.empty()) {
    if (!isatty(STDIN_FILENO)) throw Error("rm --all needs -f when nobody can be asked", kExitUsage);
    if (!confirmed(fmt::format("remove {} recordings ({})?", doomed.size(), format_size(size))))
      return kExitFailure;
  }
  for (const Recording& r : doomed) library.remove(r);
  library.collect_garbage();
  if (selection.any())
    fmt::print("removed {} recording{} ({})\n", doomed.size(), doomed.size() == 1 ? "" : "s",
               format_size(size));
  return status;
}

}  // namespace backstep::cli
