// `backstep replay`. As a front for gdb, everything behind the recording's name is gdb's, as users of rr are
// used to; with --autopilot or --serve there is no gdb, and options may stand anywhere.
#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "recording/library.h"
#include "recording/tree.h"
#include "replay/replay.h"
#include "serve/serve.h"

namespace backstep::cli {
namespace {

bool without_gdb(const Args& args) {
  auto end = std::find_if(args.begin(), args.end(), [](const auto& a) { return a == "--" || a == "--args"; });
  return std::any_of(args.begin(), end, [](const std::string& a) {
    return a == "--autopilot" || a == "-a" || a == "--serve" || a.starts_with("--serve=") || a == "--help" ||
           a == "-h";
  });
}

// What stands behind DIR is gdb's; an option of ours there was not meant for it. (-q and -h gdb has, too.)
void refuse_own_options(const CommandLine& line, const Args& behind) {
  for (const std::string& arg : behind) {
    if (arg == "--" || arg == "--args") return;
    if (arg == "-q" || arg == "--quiet" || !arg.starts_with('-') || line.leading_options({arg}) == 0)
      continue;
    throw Error(fmt::format("{} goes in front of the recording's name: what is behind that is gdb's", arg),
                kExitUsage);
  }
}

probe::CompanionCode companion_code(const std::vector<std::string>& snippets, const Args& sources,
                                    const Args& flags, bool keep) {
  probe::CompanionCode code;
  code.keep = keep;
  for (const std::string& text : snippets) {
    const size_t blank = text.find(' ');
    if (blank == std::string::npos)
      throw Error(
          fmt::format("what is to run at '{}'? Place and code: --probe-at 'parse.c:42 puts(s->name);'", text),
          kExitUsage);
    code.snippets.push_back(probe::snippet(text.substr(0, blank), text.substr(blank + 1)));
  }
  for (const std::string& path : sources) {
    if (!probe::is_source_file(path))
      throw Error(fmt::format("'{}' is no C or C++ source; --probe wants one with debug regions", path),
                  kExitUsage);
    code.sources.push_back({path, flags});
  }
  return code;
}

}  // namespace

int replay_command(const Args& args) {
  ReplayOptions options;
  std::string check, dir, process, debug_state = "follow";
  std::vector<std::string> sources, snippets, flags;
  CommandLine line(
      "replay", "[options] [DIR] [GDB-ARG...]",
      "Replays a recording: the same instructions, the same memory, the same output, as often\n"
      "as you like. DIR is a name that 'backstep ls' shows, or a path; without it the latest\n"
      "recording is replayed. Nothing outside is touched: no file, no network, no clock.\n\n"
      "Without --autopilot and --serve, gdb is started: at the signal that the program died of, else\n"
      "at its first instruction. It runs forwards and backwards (reverse-continue,\n"
      "reverse-step …). Arguments behind DIR are gdb's own.\n\n"
      "Replay checks itself against the recording at every event. Exit status: gdb's, else 0 if\n"
      "the replay was exact, 3 if it diverged or the recording is damaged (a report says where).",
      "Examples:\n"
      "  backstep replay                      gdb on the latest recording\n"
      "  backstep replay --at end sort-2      … on another one, at its end\n"
      "  backstep replay --last-change total  … at the last change of a variable\n"
      "  backstep replay --probe parse.c      … with the debug regions in parse.c\n"
      "  backstep replay --serve 1234         for another debugger, or an IDE\n"
      "  backstep replay --autopilot          the latest recording, all of its processes\n"
      "  backstep replay --autopilot sort-2   another one, by name\n"
      "  backstep replay --autopilot >out     what the program wrote to its standard output");
  line.add_flag("-a,--autopilot", options.autopilot,
                "no debugger: replay all processes to their ends, on all\n"
                "processors, with their output on stdout and stderr in the\n"
                "recorded order");
  line.add_option("-p,--process", process,
                  "replay this process of the recorded tree, not the first\n"
                  "(--autopilot: not all): a pid, or #N as in 'backstep ps'")
      .type_name("PID|#N");
  line.add_option("--serve", options.serve,
                  "only a gdb server: at this port (of this machine alone, if no host\n"
                  "is said), or at this unix socket (a path with a slash)")
      .type_name("[HOST:]PORT|PATH");
  line.add_option("--at", options.at,
                  "in gdb: begin at this moment: start, end, N%, @TICK:0xPC, a\n"
                  "bookmark … (as for its goto). Left out: at the signal that\n"
                  "the program died of, else at the start")
      .type_name("MOMENT");
  line.add_option("--last-write", options.last_write,
                  "in gdb: go to the end, and from there back to the last write to a\n"
                  "variable or other expression")
      .type_name("EXPR");
  line.add_option("--last-change", options.last_change, "likewise, to the last one that changed it")
      .type_name("EXPR");
  line.add_option("--probe", sources,
                  "in gdb: run the debug regions in this source of the program (see 'backstep probe')\n"
                  "as execution passes forward over them, from the start; several may follow each other")
      .type_name("SOURCE")
      .one_value_each();
  line.add_option("--probe-at", snippets,
                  "likewise, statements of C++ at a place: --probe-at 'parse.c:42 puts(s->name);',\n"
                  "or in a file: --probe-at 'parse.c:42 @names.cc'")
      .type_name("'PLACE CODE'")
      .one_value_each();
  line.add_option("--probe-flags", flags,
                  "a flag for the compiler of these sources; left out: as in\n"
                  "compile_commands.json, if there is one")
      .type_name("FLAG")
      .one_value_each();
  line.add_option("--debug-state", debug_state,
                  "when one moves back, variables of debug code go back with the time (follow), or\n"
                  "stay what they are (keep)")
      .type_name("follow|keep")
      .among({"follow", "keep"});
  line.add_option("--check", check, "also verify memory checksums and mapped files")
      .type_name("deep")
      .among({"deep"});
  const Option every = line.add_option("--checkpoints", options.checkpoints,
                                       "make checkpoints in the recording every so many seconds of\n"
                                       "replay (0.5; with --autopilot: none); 0: make and use none")
                           .type_name("SECONDS")
                           .between(0.0, 1e6);
  line.add_flag("-q,--quiet", options.quiet, "no progress and no closing line");
  line.add_flag("--json", options.json, "closing report as JSON, on stderr");
  line.add_option("DIR", dir);
  line.add_engine_options(options.engine);

  Args own = args, further;
  if (!without_gdb(args)) {
    size_t n = line.leading_options(args);
    // --probe a.c b.c DIR
    const bool probes = std::find(args.begin(), args.begin() + static_cast<ptrdiff_t>(n), "--probe") !=
                        args.begin() + static_cast<ptrdiff_t>(n);
    for (; probes && n < args.size() && probe::is_source_file(args[n]); n++) further.push_back(args[n]);
    const size_t options_end = n - further.size();
    if (n < args.size() && args[n] != "--" && !args[n].starts_with('-')) n++;  // DIR
    own.resize(n);
    own.erase(own.begin() + static_cast<ptrdiff_t>(options_end),
              own.begin() + static_cast<ptrdiff_t>(options_end + further.size()));
    if (n < args.size() && args[n] == "--")
      n++;
    else
      refuse_own_options(line, Args(args.begin() + static_cast<ptrdiff_t>(n), args.end()));
    options.gdb_args.assign(args.begin() + static_cast<ptrdiff_t>(n), args.end());
  }
  if (auto status = line.parse_args(own)) return *status;
  if (options.autopilot && (!sources.empty() || !snippets.empty()))
    throw Error("--probe is for a debugger; 'backstep probe' runs debug code over the whole run", kExitUsage);
  if (options.autopilot && !options.serve.empty())
    throw Error("--autopilot and --serve exclude each other", kExitUsage);
  options.check_deep = check == "deep";
  options.store_on_autopilot = options.autopilot && every.given() && options.checkpoints > 0;
  options.progress = !options.quiet && isatty(STDERR_FILENO);
  const auto recording = recording::Library::standard().resolve(dir);
  options.recording = recording.dir();
  options.chosen = !process.empty();
  if (options.chosen) options.process = recording::find_process(recording, process);
  if (options.autopilot) return replay(options);
  sources.insert(sources.end(), further.begin(), further.end());
  const probe::CompanionCode code = companion_code(snippets, sources, flags, debug_state == "keep");
  return options.serve.empty() ? serve::start_gdb(options, code) : serve::serve(options, code);
}

}  // namespace backstep::cli
