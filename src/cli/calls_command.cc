// `backstep calls`: every call of a function.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "cli/asking.h"
#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/format.h"
#include "session/call_tree.h"
#include "session/stack_text.h"

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
  return put_line(line + "  from " + session::frame_text(call.caller));
}

bool print_tree(const session::CallNode& node, size_t depth) {
  return std::all_of(node.calls.begin(), node.calls.end(), [&](const auto& child) {
    return put_line(fmt::format("{:>12} {:>14}  {:{}}{}", format_count(child->count),
                                format_count(child->ticks), "", 2 * depth,
                                child->function.empty() ? "(without a name)" : child->function)) &&
           print_tree(*child, depth + 1);
  });
}

Json call_json(const Call& call) {
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
  object["caller"] = session::frame_json(call.caller);
  return object;
}

bool print_json(const Json& object) {
  return put_line(object.dump(-1, ' ', false, Json::error_handler_t::replace));
}

bool print_call(const session::CallWithTree& both, bool tree, bool json,
                const session::AskedProcess* process = nullptr) {
  if (!json)
    return print_text(both.call) &&
           (both.tree.calls.empty() || put_line(fmt::format("{:>12} {:>14}", "CALLS", "TICKS"))) &&
           print_tree(both.tree, 0);
  Json object = call_json(both.call);
  if (process) add_process(object, *process);
  if (tree) object["tree"] = both.tree.to_json();
  return print_json(object);
}

void print_limit(uint64_t limit) {
  put_line(fmt::format("(the first {}; --limit for more)", format_count(limit)));
}

int print_trees(session::Session& session, const session::TreeRequest& request, bool json) {
  ProgressBar bar("looking");
  const auto trees = session::call_trees(session, request, bar.watcher());
  bar.clear();
  for (const auto& both : trees)
    if (!print_call(both, true, json)) return 0;
  if (trees.size() == request.limit && !json) print_limit(request.limit);
  return 0;
}

// The name of each process stands above its calls.
int print_calls_of_each(session::Several& several, const Asking& asking, const session::TreeRequest& request,
                        bool tree) {
  ProgressBar bar("looking");
  uint64_t of = 0, shown = 0;
  auto end = [&] {
    if (!asking.json && tree && shown == request.limit) print_limit(request.limit);
  };
  several.calls(
      request, asking.stretch_of_each(), tree,
      [&](const session::AskedProcess& process, const session::CallWithTree& both) {
        bar.clear();
        if (process.number != of) {
          end();
          of = process.number, shown = 0;
          if (!asking.json && !put_line(process_title(process))) return false;
        }
        shown++;
        return print_call(both, tree, asking.json, &process);
      },
      bar.watcher());
  bar.clear();
  end();
  return 0;
}

}  // namespace

int calls_command(const Args& args) {
  Asking asking;
  std::vector<std::string> arguments;
  uint64_t limit = ~0ull;
  bool tree = false;
  session::TreeRequest request;
  CommandLine line(
      "calls", "[options] FUNCTION [DIR]",
      "Every call of a function in a recorded run: control point, thread, arguments, result, duration in\n"
      "ticks, and who called it. Calls that were left by longjmp or an exception, or had not returned by\n"
      "the end, are said not to have returned.\n"
      "With --tree, what each of them called, and what those called: how often, and in how many ticks.\n"
      "DIR: a name or path; the latest recording if left out.",
      "Examples:\n"
      "  backstep calls parse\n"
      "  backstep calls malloc --limit 20\n"
      "  backstep calls --tree main\n"
      "  backstep calls Cache::insert --from 50% --json server-3\n"
      "  backstep calls main -p all make-1                 # in all processes");
  asking.add_options(line);
  line.add_option("-n,--limit", limit, "at most N calls, the first ones (--tree: 100;\nof each process)")
      .type_name("N");
  line.add_flag("--tree", tree, "the calls below each call, with counts and ticks");
  line.add_option("--depth", request.depth, "of trees: at most so many below each other (100)")
      .type_name("N");
  line.add_flag("--system", request.system,
                "in trees: what functions of the system's libraries call among themselves, too");
  line.add_option("FUNCTION", arguments);
  if (auto status = line.parse_args(args)) return *status;
  if (arguments.empty())
    throw Error("calls of which function? For example: backstep calls malloc", kExitUsage);
  asking.take_dir(arguments, 1, 1);
  if (limit == 0) return 0;
  request.function = arguments[0];
  if (!tree || limit != ~0ull) request.limit = limit;
  if (auto several = asking.open_several()) return print_calls_of_each(*several, asking, request, tree);
  auto session = asking.open();
  if (tree) {
    request.stretch = asking.stretch(*session);
    return print_trees(*session, request, asking.json);
  }
  ProgressBar bar("looking");
  uint64_t shown = 0;
  session::calls(
      *session, arguments[0], asking.stretch(*session),
      [&](const Call& call) {
        bar.clear();
        return (asking.json ? print_json(call_json(call)) : print_text(call)) && ++shown < limit;
      },
      bar.watcher());
  return 0;
}

}  // namespace backstep::cli
