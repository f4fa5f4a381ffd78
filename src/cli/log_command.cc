// `backstep log`: a log line put into a run that is already over.
#include <fmt/format.h>

#include "base/error.h"
#include "cli/asking.h"
#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/format.h"
#include "cli/stacks.h"
#include "session/log_text.h"

namespace backstep::cli {
namespace {

struct Printer {
  const session::LogText& text;
  const std::vector<std::string>& values;
  bool json = false, stack = false;

  mutable uint64_t of = 0;  // the process whose lines these are; 0: there is one only

  // … of one of several processes, whose name stands above its lines.
  bool print(const session::AskedProcess& process, const session::Hit& hit) const {
    if (!json && process.number != of && !put_line(process_title(process))) return false;
    of = process.number;
    return print(hit, &process);
  }
  bool print(const session::Hit& hit, const session::AskedProcess* process = nullptr) const {
    const std::string line = text.fill(hit.values);
    const std::string at = format_point(hit.at);
    if (!json) {
      if (!put_line(fmt::format("{:<26}  {}  {}", at, hit.thread, line))) return false;
      return print_frames(hit.stack, hit.stack_complete);
    }
    Json object{{"at", at}, {"tick", hit.at.tick}, {"pc", hit.at.pc}, {"thread", hit.thread}, {"text", line}};
    if (process) add_process(object, *process);
    Json named = Json::object();
    for (size_t i = 0; i < values.size(); i++) named[values[i]] = hit.json[i];
    object["values"] = named;
    if (stack) {
      object["stack"] = session::frames_json(hit.stack);
      object["stack_complete"] = hit.stack_complete;
    }
    return put_line(object.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
};

}  // namespace

int log_command(const Args& args) {
  Asking asking;
  std::vector<std::string> arguments;
  uint64_t limit = ~0ull;
  uint64_t last = ~0ull;
  bool stack = false;
  CommandLine line(
      "log", "[options] SPEC ['TEXT {EXPRESSION}…'] [DIR]",
      "Puts a log line into a run that is over: one line for each time that the event matches, with the\n"
      "control point, the thread, and the text, in which expressions in braces are replaced by their\n"
      "values there. SPEC: 'backstep events' has the grammar.\n"
      "DIR: a name or path; the latest recording if left out.",
      "Examples:\n"
      "  backstep log 'parse.c:42' 'n={n} name={s->name}'\n"
      "  backstep log 'call malloc if $arg0 > 1000000' '{$arg0} bytes' --stack\n"
      "  backstep log 'write total' '{$old} -> {$new}' --last 10\n"
      "  backstep log 'return parse if $retval < 0' '{$retval}' --json parser-2\n"
      "  backstep log 'syscall execve' -p all make-1       # in all processes");
  asking.add_options(line);
  line.add_option("-n,--limit", limit, "at most N lines, the first ones (of each process)").type_name("N");
  line.add_option("--last", last, "the last N lines (of each process)").type_name("N");
  line.add_flag("--stack", stack, "with the stack of calls at each match");
  line.add_option("SPEC", arguments);
  if (auto status = line.parse_args(args)) return *status;
  if (arguments.empty())
    throw Error("what is to be logged? For example: backstep log 'parse.c:42' 'n={n}'", kExitUsage);
  asking.take_dir(arguments, 1, 2);
  if (last != ~0ull && limit != ~0ull)
    throw Error("--limit wants the first lines, --last the last ones: not both", kExitUsage);

  const session::LogText text(arguments.size() > 1 ? arguments[1] : "");
  session::LogRequest request{arguments[0], text.values(), stack, {}};
  const Printer printer{text, text.values(), asking.json, stack};
  ProgressBar bar("looking");
  if (limit == 0 || last == 0) return 0;
  if (last == ~0ull) last = 0;
  if (auto several = asking.open_several()) {
    const auto count = several->log(
        request, asking.stretch_of_each(), limit, last,
        [&](const session::AskedProcess& process, const session::Hit& h) {
          bar.clear();
          return printer.print(process, h);
        },
        bar.watcher());
    bar.clear();
    tell_failures(count, false);
    return 0;
  }
  auto session = asking.open();
  request.stretch = asking.stretch(*session);
  if (last) {
    const auto hits = session->log_last(request, last, bar.watcher());
    bar.clear();
    for (const auto& h : hits)
      if (!printer.print(h)) break;
    return 0;
  }
  uint64_t shown = 0;
  const auto count = session->log(
      request,
      [&](const session::Hit& h) {
        bar.clear();
        return printer.print(h) && ++shown < limit;
      },
      bar.watcher());
  bar.clear();
  tell_failures(count, false);
  return 0;
}

}  // namespace backstep::cli
