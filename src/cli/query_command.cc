// `backstep query`: the n-th time that something happens, forwards or backwards from a moment.
#include <fmt/format.h>

#include "base/error.h"
#include "cli/asking.h"
#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/format.h"
#include "cli/stacks.h"
#include "events/query.h"
#include "session/query.h"

namespace backstep::cli {
namespace {

std::string query_help() {
  std::string text =
      "Finds the moment at which something happens: the COUNT-th time, from a given moment on, forwards or\n"
      "backwards. It is told as a control point, with the thread, the function and the line; 'goto' in gdb\n"
      "goes there, and takes the same queries.\n\n"
      "  goto FROM DIRECTION TYPE [COUNT] [where CONDITION]\n\n"
      "FROM: first and last are the ends of the run, current is --at (if that is left out: the start for\n"
      "forward, the end for backward). DIRECTION: forward or backward. A match at the current moment itself\n"
      "does not count. TYPE and CONDITION:\n\n";
  for (const auto& row : events::query_grammar()) text += fmt::format("  {:<29} {}\n", row.form, row.meaning);
  return text +
         "\nDIR: a name or path; the latest recording if left out. Exit status 1: there is no such moment.";
}

Json query_json(const session::QueryAnswer& answer, const session::QueryRequest& request) {
  Json object{{"found", answer.hit.has_value()}, {"matches", answer.matches}};
  if (answer.failures) object["failures"] = answer.failures;
  if (!answer.hit) return object;
  const session::Hit& hit = *answer.hit;
  object["at"] = format_point(hit.at);
  object["tick"] = hit.at.tick, object["pc"] = hit.at.pc, object["thread"] = hit.thread;
  if (!answer.place.function.empty()) object["function"] = answer.place.function;
  if (answer.place.line) object["file"] = answer.place.file, object["line"] = answer.place.line;
  Json values = Json::object();
  for (size_t i = 0; i < request.values.size(); i++) values[request.values[i]] = hit.json[i];
  object["values"] = values;
  if (request.stack)
    object["stack"] = session::frames_json(hit.stack), object["stack_complete"] = hit.stack_complete;
  return object;
}

void tell_unknown(const session::QueryAnswer& answer) {
  if (answer.failures)
    fmt::print(
        stderr,
        "backstep: the condition could not be evaluated {} times (memory that is not there, a division "
        "by zero, or a stack whose outer end is not known): no matches there\n",
        format_count(answer.failures));
}

}  // namespace

int query_command(const Args& args) {
  Asking asking;
  std::vector<std::string> arguments;
  session::QueryRequest request;
  std::string at;
  CommandLine line(
      "query", "[options] 'goto FROM DIRECTION TYPE [COUNT] [where CONDITION]' [DIR]", query_help(),
      "Examples:\n"
      "  backstep query 'goto last backward store where addr=&total'\n"
      "  backstep query 'goto current backward block_entry 2 where stack=<*,a,b> and src=<foo.c:7>'\n"
      "  backstep query 'goto first forward func_enter 3 where func=<parse> and arg0 > 10' --stack\n"
      "  backstep query 'goto current forward func_exit where func=<read_*> and retval < 0' --at 50%\n"
      "  backstep query 'goto last backward syscall where name=<write> and arg0 = 2' --json server-3\n"
      "  backstep query 'goto last backward line where src=<parse.c> and n > 100' --print n");
  line.add_option("-p,--process", asking.process,
                  "of this process: a pid, or #N as in 'backstep ps'\n(the first one)")
      .type_name("PID|#N");
  line.add_option("--at", at, "what 'current' is: a tick, @TICK:0xPC, N%, a bookmark").type_name("MOMENT");
  line.add_option("--print", request.values, "with the value of this there; may be given several times")
      .one_value_each()
      .type_name("EXPR");
  line.add_flag("--stack", request.stack, "with the stack of calls");
  line.add_flag("--json", asking.json, "JSON");
  line.add_engine_options(asking.replay.engine);
  line.add_option("QUERY", arguments);
  if (auto status = line.parse_args(args)) return *status;
  if (arguments.empty())
    throw Error(
        "what is to be found? For example: backstep query 'goto last backward store where addr=&total'",
        kExitUsage);
  asking.take_dir(arguments, 1, 1);
  request.query = arguments[0];
  const events::Query query = events::parse_query(request.query);
  if (!at.empty() && query.from != events::Query::From::Current)
    throw Error("--at says what 'current' is, and the query begins elsewhere", kExitUsage);

  auto session = asking.open();
  if (!at.empty()) {
    session->timeline().go_to(session->moment(at));
    request.current = session->timeline().now();
  }
  ProgressBar bar("looking");
  const auto answer = session::query(*session, request, bar.watcher());
  bar.clear();
  if (asking.json) {
    put_line(query_json(answer, request).dump(-1, ' ', false, Json::error_handler_t::replace));
    return answer.hit ? 0 : kExitFailure;
  }
  tell_unknown(answer);
  if (!answer.hit) {
    fmt::print(stderr, "backstep: {}\n", answer_text(answer, request));
    return kExitFailure;
  }
  put_line(answer_text(answer, request));
  if (request.stack) print_frames(answer.hit->stack, answer.hit->stack_complete);
  return 0;
}

}  // namespace backstep::cli
