// `backstep assert`: what should always, or never, be so in a recorded run, and whether it is.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <sstream>

#include <sys/stat.h>

#include "base/error.h"
#include "cli/asking.h"
#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/format.h"
#include "session/assertions.h"
#include "session/kind.h"

namespace backstep::cli {
namespace {

std::string assert_help() {
  std::string text =
      "Looks whether what is asserted of a recorded run holds in it: one assertion on each line, or behind\n"
      "each ';'; what stands behind a # is a remark. FILE has them; what is no file is the text itself, and\n"
      "'-' is standard input. All are looked after in one replay, on all processors.\n\n";
  for (const auto& row : events::assertion_grammar())
    text += fmt::format("  {:<36} {}\n", row.form, row.meaning);
  return text +
         "\nE, A, B are events ('backstep events'), P is an expression over the program's variables.\n"
         "Of what does not hold the first moment is told, and how often it did not hold.\n"
         "DIR: a name or path; the latest recording if left out.\n"
         "Exit status: 0 if all of them hold, 1 if one does not, 2 if one cannot be understood.";
}

// What an argument has: of a file, its contents.
std::string assertions_in(const std::string& argument) {
  if (argument == "-") {
    std::stringstream all;
    all << std::cin.rdbuf();
    return all.str();
  }
  struct stat facts {};
  if (stat(argument.c_str(), &facts) != 0 || S_ISDIR(facts.st_mode)) return argument;
  std::ifstream file(argument);
  std::stringstream all;
  if (file) all << file.rdbuf();
  if (!file) throw Error(fmt::format("cannot read '{}'", argument), kExitUsage);
  return all.str();
}

Json verdict_json(const session::Verdict& v, const session::AskedProcess* process) {
  Json object{{"assertion", v.assertion},
              {"line", v.line},
              {"holds", v.holds()},
              {"checks", v.checks},
              {"violations", v.violations}};
  if (v.failures) object["failures"] = v.failures;
  if (!v.unknown.empty()) object["unknown"] = v.unknown;
  if (!v.first) return object;
  const session::Violation& first = *v.first;
  Json at{
      {"at", format_point(first.at)}, {"tick", first.at.tick}, {"pc", first.at.pc}, {"thread", first.thread}};
  if (!first.place.function.empty()) at["function"] = first.place.function;
  if (first.place.line) at["file"] = first.place.file, at["line"] = first.place.line;
  if (process) add_process(at, *process);
  at["words"] = first.words;
  at["values"] = first.values;
  object["first"] = at;
  return object;
}

void print_verdict(const session::Verdict& v, const session::AskedProcess* process) {
  if (v.failures)
    fmt::print(stderr,
               "backstep: a condition in '{}' could not be evaluated {} times (memory or a thread-local "
               "variable that is not there, or a "
               "division by zero): no matches there\n",
               v.assertion, format_count(v.failures));
  if (v.holds()) {
    put_line(fmt::format("holds     {}  ({})", v.assertion,
                         v.checks ? fmt::format("{} times", format_count(v.checks)) : "nothing to check"));
    return;
  }
  put_line(fmt::format("violated  {}  ({} of {} times)", v.assertion, format_count(v.violations),
                       format_count(v.checks)));
  const session::Violation& first = *v.first;
  std::string place = first.place.function.empty() ? fmt::format("{:#x}", first.at.pc) : first.place.function;
  if (first.place.line)
    place +=
        fmt::format(" at {}:{}", first.place.file.substr(first.place.file.rfind('/') + 1), first.place.line);
  put_line(fmt::format("  {:<26}  {}  {}", format_point(first.at), first.thread, place));
  if (process) put_line("  in " + process_title(*process));
  put_line("  " + first.words);
}

}  // namespace

int assert_command(const Args& args) {
  Asking asking;
  std::vector<std::string> arguments;
  CommandLine line(
      "assert", "[options] FILE|TEXT [DIR]", assert_help(),
      "Examples:\n"
      "  backstep assert 'never call abort'\n"
      "  backstep assert 'always count >= 0 && count <= 16 at queue.c:40' server-3\n"
      "  backstep assert 'only the holder of lock table_lock writes entries'\n"
      "  backstep assert 'call begin is followed by call commit within 1e6 ticks; at most 3 of call retry'\n"
      "  backstep record -o run ./test && backstep assert invariants.txt run --json");
  asking.add_options(line);
  line.add_option("FILE", arguments);
  if (auto status = line.parse_args(args)) return *status;
  if (arguments.empty())
    throw Error("what is asserted? For example: backstep assert 'never call abort'", kExitUsage);
  asking.take_dir(arguments, 1, 1);
  const auto assertions = events::parse_assertions(assertions_in(arguments[0]), session::event_forms());
  if (assertions.empty()) throw Error(fmt::format("there is no assertion in '{}'", arguments[0]), kExitUsage);

  ProgressBar bar("checking");
  std::vector<session::VerdictOfEach> verdicts;
  if (auto several = asking.open_several()) {
    verdicts = several->check(assertions, asking.stretch_of_each(), bar.watcher());
  } else {
    auto session = asking.open();
    for (auto& v : session::check(*session, assertions, asking.stretch(*session), bar.watcher()).list)
      verdicts.push_back({std::move(v), std::nullopt});
  }
  bar.clear();
  bool all = true;
  Json list = Json::array();
  for (const auto& v : verdicts) {
    const auto* process = v.process ? &*v.process : nullptr;
    all &= v.sum.holds();
    if (asking.json) {
      list.push_back(verdict_json(v.sum, process));
    } else {
      print_verdict(v.sum, process);
    }
  }
  if (asking.json) put_line(list.dump(-1, ' ', false, Json::error_handler_t::replace));
  return all ? 0 : kExitFailure;
}

}  // namespace backstep::cli
