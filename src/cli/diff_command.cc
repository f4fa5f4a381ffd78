// `backstep diff`: where two recordings of the same program part.
#include <fmt/format.h>

#include "base/error.h"
#include "cli/asking.h"
#include "cli/commands.h"
#include "session/parting.h"

namespace backstep::cli {

int diff_command(const Args& args) {
  Asking first, second;
  std::vector<std::string> arguments;
  bool exact = false;
  constexpr int kTrouble = 2;
  CommandLine line("diff", "[options] A B",
                   "Where two recordings of the same program part: the last instruction that both executed, "
                   "what each did\n"
                   "then, the values that decided, and the first input before that which was not the same.\n"
                   "A, B: names or paths of recordings.\n"
                   "Exit status: 0 both take the same way, 1 they part, 2 trouble.",
                   "Examples:\n"
                   "  backstep diff server-3 server-4\n"
                   "  backstep diff --json good bad\n"
                   "  backstep diff -p '#2' make-1 make-2");
  line.add_option("-p,--process", first.process, "of this process, in both: #N as in 'backstep ps'")
      .type_name("#N");
  line.add_flag("--exact", exact,
                "every tick is compared, also of a long run (then otherwise\none in so many)");
  line.add_flag("--json", first.json, "JSON");
  line.add_engine_options(first.replay.engine);
  line.add_option("A", arguments);
  try {
    if (auto status = line.parse_args(args)) return *status;
    if (arguments.size() != 2) throw Error("two recordings are compared: backstep diff A B");
    second.process = first.process;
    second.replay.engine = first.replay.engine;
    first.dir = arguments[0], second.dir = arguments[1];
    auto a = first.open(), b = second.open();
    ProgressBar bar("comparing");
    const session::Parting parting = session::find_parting(*a, *b, exact, bar.watcher());
    bar.clear();
    if (first.json) {
      put_line(session::parting_json(parting).dump(-1, ' ', false, Json::error_handler_t::replace));
    } else {
      for (const std::string& text : session::parting_text(parting))
        if (!put_line(text)) break;
    }
    return parting.parted ? 1 : 0;
  } catch (const Error& e) {
    throw Error(e.what(), kTrouble);
  }
}

}  // namespace backstep::cli
