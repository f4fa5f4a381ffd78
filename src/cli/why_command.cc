// `backstep why`: where a value came from.
#include <fmt/format.h>

#include "base/error.h"
#include "cli/asking.h"
#include "cli/commands.h"
#include "session/flow.h"

namespace backstep::cli {

int why_command(const Args& args) {
  Asking asking;
  std::vector<std::string> arguments;
  std::string at;
  session::FlowRequest request;
  uint64_t frame = ~0ull, tid = 0;
  bool dot = false;
  CommandLine line(
      "why", "[options] EXPRESSION [DIR]",
      "Where a value came from: the last store to it, what that was computed from, and so on, back to\n"
      "constants, to arguments, and to bytes that were read from files, pipes or the network. Copies are\n"
      "passed through, byte by byte: registers, memcpy, the stack, arguments and results.\n"
      "EXPRESSION: a variable, memory (*p, s->name, a[3]), a register ($rax), or ADDRESS:SIZE.\n"
      "Data is followed, not control: neither branches nor, without --addresses, indexes and pointers.\n"
      "DIR: a name or path; the latest recording if left out.",
      "Examples:\n"
      "  backstep why total                       # at the end of the run, or the crash\n"
      "  backstep why 'i->next' --at @10298:0x1140134a\n"
      "  backstep why '$rdi' --at 12060 --depth 3\n"
      "  backstep why 0x29fffefff470:16 --json server-3\n"
      "  backstep why sum --dot | dot -Tsvg > sum.svg");
  line.add_option("--at", at, "at this moment: a tick, @TICK:0xPC, N%, event:N (the end)")
      .type_name("MOMENT");
  line.add_option("-p,--process", asking.process, "of this process: a pid, or #N as in 'backstep ps'")
      .type_name("PID|#N");
  line.add_option("--thread", tid, "of this thread, by its tid (the one that runs then)").type_name("TID");
  line.add_option("--frame", frame, "in the N-th caller (the innermost frame where it has a meaning)")
      .type_name("N");
  line.add_option("--depth", request.depth, "computations below each other (10)").type_name("N");
  line.add_option("--width", request.width, "inputs of each that are followed (8)").type_name("N");
  line.add_option("--limit", request.most, "origins in all (60)").type_name("N");
  line.add_flag("--copies", request.copies, "in JSON, each copy by itself, also those of one line");
  line.add_flag("--addresses", request.addresses, "what addresses were computed from, too");
  line.add_flag("--json", asking.json, "JSON");
  line.add_flag("--dot", dot, "a graph for Graphviz");
  line.add_engine_options(asking.replay.engine);
  line.add_option("EXPRESSION", arguments);
  if (auto status = line.parse_args(args)) return *status;
  if (arguments.empty()) throw Error("why what? For example: backstep why total", kExitUsage);
  asking.take_dir(arguments, 1, 1);
  request.expression = arguments[0];
  request.tid = static_cast<int>(tid);
  if (frame != ~0ull) request.frame = frame;
  auto session = asking.open();
  if (!at.empty()) request.at = session->moment(at);
  ProgressBar bar("following");
  const session::FlowAnswer answer = session::why(*session, request, bar.watcher());
  bar.clear();
  if (asking.json) {
    put_line(session::flow_json(answer).dump(-1, ' ', false, Json::error_handler_t::replace));
  } else if (dot) {
    put_line(session::flow_dot(answer));
  } else {
    for (const std::string& text : session::flow_text(answer))
      if (!put_line(text)) break;
  }
  return 0;
}

}  // namespace backstep::cli
