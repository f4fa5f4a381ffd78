// `backstep calls`: every call of a function.
#include <fmt/format.h>

#include "base/error.h"
#include "cli/asking.h"
#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/format.h"
#include "session/calls.h"

namespace backstep::cli {
namespace {

using session::Call;

std::string arguments_of(const Call& call) {
  std::string text;
  for (const auto& [name, value] : call.args) {
    if (!text.empty()) text += ", ";
    text += name.empty() ? value : name + "=" + value;
  }
  if (!call.args_known) text += text.empty() ? "…" : ", …";
  return text;
}

std::string caller_of(const Call& call) {
  std::string text =
      call.caller.function.empty() ? fmt::format("{:#x}", call.caller.pc) : call.caller.function;
  if (call.caller.line)
    text +=
        fmt::format(" ({}:{})", call.caller.file.substr(call.caller.file.rfind('/') + 1), call.caller.line);
  return text;
}

bool print_text(const Call& call) {
  std::string line = fmt::format("{:<26}  {}  {}({})", format_point(call.at), call.thread, call.function,
                                 arguments_of(call));
  switch (call.end) {
    case Call::End::Returned:
      if (!call.result.empty()) line += " = " + call.result;
      break;
    case Call::End::Jumped:
      line += " = (of the function that it jumped to)";
      break;
    case Call::End::Unknown:
      line += " did not return";
      break;
  }
  if (call.left) line += fmt::format("  {} ticks", format_count(call.left->tick - call.at.tick));
  return put_line(line + "  from " + caller_of(call));
}

bool print_json(const Call& call) {
  Json args = Json::array();
  for (size_t i = 0; i < call.args.size(); i++) {
    Json argument = Json::object();
    if (!call.args[i].first.empty()) argument["name"] = call.args[i].first;
    argument["value"] = call.args_json[i];
    argument["text"] = call.args[i].second;
    args.push_back(argument);
  }
  Json object{{"at", format_point(call.at)},
              {"tick", call.at.tick},
              {"thread", call.thread},
              {"function", call.function},
              {"args", args}};
  object["ret"] = call.end == Call::End::Returned && !call.result.empty() ? call.result_json : Json(nullptr);
  object["end"] = call.end == Call::End::Returned ? "returned"
                  : call.end == Call::End::Jumped ? "jumped"
                                                  : "unknown";
  if (call.left) {
    object["left"] = format_point(*call.left);
    object["ticks"] = call.left->tick - call.at.tick;
  }
  Json caller{{"pc", call.caller.pc}};
  if (!call.caller.function.empty()) caller["function"] = call.caller.function;
  if (call.caller.line) caller["file"] = call.caller.file, caller["line"] = call.caller.line;
  object["caller"] = caller;
  return put_line(object.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

int calls_command(const Args& args) {
  Asking asking;
  std::vector<std::string> arguments;
  uint64_t limit = ~0ull;
  CommandLine line(
      "calls", "[options] FUNCTION [DIR]",
      "Every call of a function in a recorded run: control point, thread, arguments, result, duration in\n"
      "ticks, and who called it. Calls that were left by longjmp or an exception, or had not returned by\n"
      "the end, are said not to have returned.\n"
      "DIR: a name or path; the latest recording if left out.",
      "Examples:\n"
      "  backstep calls parse\n"
      "  backstep calls malloc --limit 20\n"
      "  backstep calls Cache::insert --from 50% --json server-3");
  asking.add_options(line);
  line.add_option("-n,--limit", limit, "at most N calls, the first ones").type_name("N");
  line.add_option("FUNCTION", arguments);
  if (auto status = line.parse_args(args)) return *status;
  if (arguments.empty())
    throw Error("calls of which function? For example: backstep calls malloc", kExitUsage);
  asking.take_dir(arguments, 1);
  if (arguments.size() > 1)
    throw Error(fmt::format("there is no recording '{}'; 'backstep ls' lists them", arguments[1]),
                kExitUsage);
  auto session = asking.open();
  ProgressBar bar("looking");
  uint64_t shown = 0;
  if (limit == 0) return 0;
  session::calls(
      *session, arguments[0], asking.stretch(*session),
      [&](const Call& call) {
        bar.clear();
        return (asking.json ? print_json(call) : print_text(call)) && ++shown < limit;
      },
      bar.watcher());
  return 0;
}

}  // namespace backstep::cli
