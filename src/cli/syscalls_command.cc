// `backstep syscalls`: what strace would have shown, asked of the logs alone. It streams: nothing is
// replayed, and the first line of a long recording comes at once. (`--last` reads twice: first it counts.)
#include <signal.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/colours.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/options.h"
#include "events/call_filter.h"
#include "events/recorded_call.h"
#include "recording/tree.h"
#include "session/syscalls.h"

namespace backstep::cli {
namespace {

using events::CallFilter;
using recording::Event;
using recording::Recording;
using session::SyscallTotals;

constexpr uint64_t kAll = session::kAllCalls;
constexpr size_t kTextStrings = 32;

struct SyscallsOptions {
  std::vector<std::string> words;  // FILTER and DIR
  std::string process, from, to;
  uint64_t limit = kAll, last = kAll;
  uint64_t strings = kAll;
  bool failed = false;
  bool summary = false;
  bool json = false;

  size_t shown() const { return strings != kAll ? strings : json ? session::kJsonStrings : kTextStrings; }
};

// ---- How they look ----

// One line for people. Columns are wide enough for what the manifests announce, and grow if that is not
// enough.
class Lines {
 public:
  Lines(const Recording& recording, std::optional<uint64_t> process, size_t strings)
      : strings_(strings), paint_(shows_colours(stdout)), who_(has_several(recording, process)) {
    Tick last = 0;
    for (const auto& info : recording::list_processes(recording))
      if (info.end) last = std::max(last, info.end->ticks);
    constexpr size_t kRest = 12;  // @, :0x and eight digits
    point_width_ = std::to_string(last).size() + kRest;
  }

  void print(const events::Call& call) {
    const std::string point = format_point({call.tick, call.pc});
    point_width_ = std::max(point_width_, point.size());
    std::string line = paint_(Colour::Dim, fmt::format("{:<{}}", point, point_width_)) + "  ";
    if (who_) {
      const std::string who = fmt::format("{}.{}", call.process, call.thread);
      who_width_ = std::max(who_width_, who.size());
      line += paint_(Colour::Dim, fmt::format("{:<{}}", who, who_width_)) + "  ";
    }
    const guest::PrintedCall parts = events::print_call(call, strings_);
    line += paint_(Colour::Bold, parts.name) + "(";
    for (size_t i = 0; i < parts.arguments.size(); i++) line += (i ? ", " : "") + parts.arguments[i].text;
    line += ") = " + paint_(call.failed() ? Colour::Red : Colour::Plain, parts.result);
    if (call.inexact) line += " (inexact)";
    if (call.denied) line += " (by a filter of the program's own)";
    fmt::print("{}\n", line);
  }

 private:
  // Several processes or threads? The latter show up in the log by turns; whoever starts threads does so
  // early, and a huge log is not read for it to its end.
  static bool has_several(const Recording& recording, std::optional<uint64_t> process) {
    if (!process && recording.processes().size() > 1) return true;
    const uint64_t number = process.value_or(1);
    if (recording::is_without_events(recording, number)) return false;
    recording::LogReader log(recording.log_path(number));
    Event event;
    constexpr int kEnough = 200'000;
    for (int i = 0; i < kEnough && log.next(event); i++)
      if (event.kind == recording::EventKind::Turn) return true;
    return false;
  }

  size_t strings_;
  Paint paint_;
  bool who_;
  size_t point_width_ = 0, who_width_ = 3;
};

// ---- Totals ----

void print_table(const SyscallTotals& totals) {
  auto or_blank = [](uint64_t n) { return n ? format_count(n) : std::string(); };
  Table table({">CALLS", ">ERRORS", ">BYTES", "CALL", "ERRORS BY NAME"});
  uint64_t calls = 0, errors = 0, bytes = 0;
  for (const SyscallTotals::Row* row : totals.rows()) {
    std::string names;
    for (const auto& [name, count] : row->by_error())
      names += fmt::format("{}{} {}", names.empty() ? "" : ", ", name, format_count(count));
    const std::string moved = events::moves_bytes(row->nr) ? format_count(row->bytes) : "";
    table.add({format_count(row->calls), or_blank(row->failed()), moved, row->name(), names});
    calls += row->calls, errors += row->failed(), bytes += row->bytes;
  }
  table.add({format_count(calls), or_blank(errors), or_blank(bytes), "total", ""});
  fmt::print("{}", table.text());
}

// ---- The command ----

// FILTER and DIR are told apart by what exists: the last word is DIR if it names a recording.
struct Positional {
  std::string filter;
  Recording recording;
};
Positional positional(std::vector<std::string> words) {
  const recording::Library library = recording::Library::standard();
  std::optional<Recording> recording;
  std::string not_one;  // why the last word is no recording
  if (!words.empty()) {
    try {
      recording = library.resolve(words.back());
      words.pop_back();
    } catch (const Error& e) {
      not_one = e.what();
    }
  }
  std::string filter;
  for (const std::string& word : words) filter += (filter.empty() ? "" : " ") + word;
  try {
    CallFilter check(filter);
  } catch (const events::FilterError& e) {
    // Was the last word meant as a recording that is not there?
    const bool like_a_path = !not_one.empty() && words.back().find_first_of("/-.") != std::string::npos &&
                             words.back().find(' ') == std::string::npos;
    const bool like_a_name =
        !not_one.empty() && words.size() > 1 && words.back().find(' ') == std::string::npos;
    if (like_a_path || like_a_name) throw Error(fmt::format("{}\n{}", e.what(), not_one), kExitUsage);
    throw;
  }
  return {filter, recording ? *recording : library.resolve("")};
}

int answer(const Recording& recording, const session::SyscallsRequest& request,
           const SyscallsOptions& options) {
  const session::Syscalls syscalls(recording, request);
  SyscallTotals totals;
  std::optional<Lines> lines;
  if (!options.json && !options.summary)
    lines.emplace(recording,
                  request.processes.empty() ? std::nullopt : std::optional(request.processes.front()),
                  options.shown());
  const auto damaged = syscalls.each([&](const events::Call& call) {
    if (options.summary)
      totals.add(call);
    else if (options.json)
      fmt::print("{}\n", session::syscall_json(call, options.shown()).dump());
    else
      lines->print(call);
    return true;
  });
  for (const auto& log : damaged) {
    fflush(stdout);
    fmt::print(stderr, "backstep: process #{}: {}\n", log.process, log.text);
  }
  if (options.summary && options.json) fmt::print("{}\n", totals.to_json().dump(2));
  if (options.summary && !options.json) print_table(totals);
  return damaged.empty() ? 0 : kExitDivergence;
}

}  // namespace

int syscalls_command(const Args& args) {
  SyscallsOptions options;
  CommandLine line(
      "syscalls", "[options] [FILTER] [DIR]",
      "Lists the system calls of a recording, as strace would have: control point, process.thread (if there\n"
      "are several), the call and its result. Nothing is replayed.\n"
      "\n"
      "FILTER says which calls: NAME[,NAME...] [if CONDITION], or: if CONDITION.\n"
      "  NAME        a system call; * and ? as in the shell; ! in front: all but these; or a class:\n"
      "              %file (takes a path), %desc (file descriptors), %net, %process, %memory, %signal\n"
      "  CONDITION   a C expression over ret (-1: it failed), errno, path, fd, name, nr, tick, event, "
      "thread,\n"
      "              pid, process, the arguments by name (count, flags, mode, ...) and arg0 to arg5.\n"
      "              Constants have their names: ENOENT, O_CREAT, SIGTERM. Texts stand in quotes:\n"
      "              == is the same text, ~ contains it (or matches, if it has * or ?); !=, !~\n"
      "MOMENT: 48211 or @48211 (a tick), @48211:0x401136 (a control point), 'event 106', 42%, 14:03:22.5,\n"
      "+1.5s (from the start on), start, end, or a bookmark; of the process of -p, else of the first one.\n"
      "DIR: a name or path; the latest recording if left out.",
      "Examples:\n"
      "  backstep syscalls | less\n"
      "  backstep syscalls --summary\n"
      "  backstep syscalls 'write if ret < 0'\n"
      "  backstep syscalls 'openat if path ~ \"conf\"' sort-1\n"
      "  backstep syscalls '%file if errno == ENOENT && path !~ \"*.so*\"'\n"
      "  backstep syscalls 'openat if flags & O_CREAT && (mode & 022)'\n"
      "  backstep syscalls 'if fd == 3' --last 10        # what became of descriptor 3\n"
      "  backstep syscalls execve make-1                 # which programs were started\n"
      "  backstep syscalls --from +1.5s --to +2s --json | jq .name");
  line.add_option("-p,--process", options.process,
                  "one process: a pid, or #N as in 'backstep ps' (all of them,\n"
                  "in their order)")
      .type_name("PID|#N");
  line.add_option("--from", options.from, "from this moment on").type_name("MOMENT");
  line.add_option("--to", options.to, "up to this moment, without it").type_name("MOMENT");
  line.add_flag("--failed", options.failed, "only calls that failed, as 'if ret < 0'");
  line.add_option("-n,--limit", options.limit, "the first N only").type_name("N");
  line.add_option("--last", options.last, "the last N only").type_name("N");
  line.add_option("-s,--strings", options.strings,
                  "bytes shown of strings and buffers (32; 4096 with --json)")
      .type_name("N");
  line.add_flag("--summary", options.summary, "totals: calls, errors and bytes of each system call");
  line.add_flag("--json", options.json, "one JSON object per line; with --summary an array");
  line.add_option("WORD", options.words);
  if (auto status = line.parse_args(args)) return *status;

  if (options.limit != kAll && options.last != kAll)
    throw Error("--limit is about the first calls and --last about the last ones: give one of them",
                kExitUsage);

  // `| head` ends it, whatever our parent thinks of SIGPIPE.
  signal(SIGPIPE, SIG_DFL);
  const auto [filter, recording] = positional(options.words);
  session::SyscallsRequest request{filter,     options.failed, {},          options.from,
                                   options.to, options.limit,  options.last};
  if (!options.process.empty()) request.processes = {recording::find_process(recording, options.process)};
  return answer(recording, request, options);
}

}  // namespace backstep::cli
