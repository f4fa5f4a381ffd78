// `backstep syscalls`: what strace would have shown, asked of the logs alone. It streams: nothing is
// replayed, and the first line of a long recording comes at once. (`--last` reads twice: first it counts.)
#include <signal.h>

#include <algorithm>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/colours.h"
#include "cli/commands.h"
#include "cli/era.h"
#include "cli/facts.h"
#include "cli/format.h"
#include "cli/options.h"
#include "events/call_filter.h"
#include "events/call_filter_values.h"
#include "events/recorded_call.h"
#include "guest/syscall_names.h"
#include "recording/ordered_log.h"
#include "recording/tree.h"

namespace backstep::cli {
namespace {

using events::CallFilter;
using guest::Arg;
using recording::Event;
using recording::Recording;

constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();
constexpr size_t kTextStrings = 32, kJsonStrings = 4096;

struct SyscallsOptions {
  std::vector<std::string> words;  // FILTER and DIR
  std::string process, from, to;
  uint64_t limit = kAll, last = kAll;
  uint64_t strings = kAll;
  bool failed = false;
  bool summary = false;
  bool json = false;

  size_t shown() const { return strings != kAll ? strings : json ? kJsonStrings : kTextStrings; }
};

// ---- Which calls ----

struct Question {
  Recording recording;
  std::optional<uint64_t> process;  // none: all
  CallFilter filter;
  Era era;
  events::CallReader reader;
  bool failed = false;

  std::optional<events::Call> ask(uint64_t number, const Event& event, Era::Side side) const {
    if (side != Era::Side::Within) return {};
    const auto nr = reader.number(number, event);
    if (!nr || !filter.selects(*nr)) return {};
    events::Call call = reader.call(number, event);
    if ((failed && !call.failed()) || !filter.matches(call)) return {};
    return call;
  }

  // Every call that is meant, in order, while `f` says true. Returns the exit status.
  int each(const std::function<bool(const events::Call&)>& f) const {
    Era passed = era;
    return process ? each_of_one(passed, f) : each_of_all(passed, f);
  }

  int each_of_one(Era& passed, const std::function<bool(const events::Call&)>& f) const {
    if (recording::is_without_events(recording, *process)) return 0;
    recording::LogReader log(recording.log_path(*process), recording::first_thread(recording, *process));
    Event event;
    while (!passed.is_over() && log.next(event))
      if (auto call = ask(*process, event, passed.side(*process, event)); call && !f(*call)) return 0;
    if (auto damage = log.damage()) return tell_damage(*process, *damage);
    return 0;
  }

  int each_of_all(Era& passed, const std::function<bool(const events::Call&)>& f) const {
    recording::OrderedLogs logs(recording, true);
    while (const recording::OrderedLog* log = passed.is_over() ? nullptr : logs.next()) {
      const Era::Side side = passed.side(log->number(), log->event());
      if (side == Era::Side::Behind) logs.drop(log->number());
      if (auto call = ask(log->number(), log->event(), side); call && !f(*call)) return 0;
    }
    int status = 0;
    for (const auto& damage : logs.damage()) status = tell_damage(damage.number, damage.text);
    return status;
  }

  static int tell_damage(uint64_t number, const std::string& text) {
    fflush(stdout);
    fmt::print(stderr, "backstep: process #{}: {}\n", number, text);
    return kExitDivergence;
  }
};

// ---- How they look ----

std::string error_name(int error) {
  const char* name = guest::name_of(guest::Names::Errno, static_cast<uint64_t>(error));
  return name ? name : std::to_string(error);
}

// One line for people. Columns are wide enough for what the manifests announce, and grow if that is not
// enough.
class Lines {
 public:
  Lines(const Question& question, size_t strings)
      : strings_(strings), paint_(shows_colours(stdout)), who_(has_several(question)) {
    Tick last = 0;
    for (const auto& info : recording::list_processes(question.recording))
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
  static bool has_several(const Question& question) {
    if (!question.process && question.recording.processes().size() > 1) return true;
    const uint64_t number = question.process.value_or(1);
    if (recording::is_without_events(question.recording, number)) return false;
    recording::LogReader log(question.recording.log_path(number));
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

// An argument as a program wants it: numbers as numbers, texts as they are, all else as it is printed.
Json argument_json(const events::Call& call, const guest::PrintedCall::Argument& argument, size_t strings) {
  if (!call.knows(argument.index)) return nullptr;
  const events::Variable variable{events::Variable::ByPlace, {}, argument.index, {}};
  const Arg kind = argument.spec.kind;
  switch (kind) {
    case Arg::Int:
    case Arg::Uint:
    case Arg::Long:
    case Arg::Size:
    case Arg::Fd:
    case Arg::Pid: {
      const events::Number n = events::numbers_of(variable, call).at(0);
      return n < 0 ? Json(static_cast<int64_t>(n)) : Json(static_cast<uint64_t>(n));
    }
    case Arg::Argv: {
      Json list = Json::array();
      for (const auto& piece : call.view.pieces)
        if (piece.arg == argument.index && piece.kind == guest::PieceKind::Text)
          list.push_back(to_utf8({reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size()}));
      return list.empty() ? Json(to_utf8(argument.text)) : list;
    }
    default:
      break;
  }
  const bool shaped =
      argument.spec.shape != guest::Shape::None && argument.spec.shape != guest::Shape::CString;
  const bool text = kind == Arg::Path || kind == Arg::Str ||
                    (!shaped && (kind == Arg::In || kind == Arg::Out || kind == Arg::InOut ||
                                 kind == Arg::IovIn || kind == Arg::IovOut));
  if (text) {
    const auto texts = events::texts_of(variable, call);
    if (!texts.empty())
      return to_utf8(kind == Arg::Path ? texts[0].bytes : texts[0].bytes.substr(0, strings));
  }
  return to_utf8(argument.text);
}

void print_json(const events::Call& call, size_t strings) {
  const guest::PrintedCall parts = events::print_call(call, strings);
  Json j = {{"at", format_point({call.tick, call.pc})},
            {"tick", call.tick},
            {"event", call.event},
            {"process", call.process},
            {"pid", call.pid},
            {"thread", call.thread},
            {"name", parts.name},
            {"nr", call.view.nr}};
  j["args"] = Json::object();
  j["raw"] = Json::array();
  for (const auto& argument : parts.arguments) {
    std::string name = argument.spec.name ? argument.spec.name : fmt::format("arg{}", argument.index);
    if (j["args"].contains(name)) name += fmt::format("_{}", argument.index);
    j["args"][name] = argument_json(call, argument, strings);
    j["raw"].push_back(call.knows(argument.index) ? Json(call.view.args[argument.index]) : Json(nullptr));
  }
  j["ret"] = call.returns ? Json(call.ret()) : Json(nullptr);
  j["error"] = call.failed() ? Json(error_name(call.error())) : Json(nullptr);
  if (call.failed()) j["errno"] = call.error();
  if (call.inexact) j["inexact"] = true;
  if (call.denied) j["denied"] = true;
  j["text"] = to_utf8(parts.line());
  fmt::print("{}\n", j.dump());
}

// ---- Totals ----

class Totals {
 public:
  void add(const events::Call& call) {
    Row& row = rows_[call.view.nr];
    row.nr = call.view.nr;
    row.calls++;
    row.bytes += events::bytes_moved(call);
    if (call.failed()) row.errors[call.error()]++;
  }

  void print(bool json) const {
    std::vector<const Row*> sorted;
    for (const auto& [nr, row] : rows_) sorted.push_back(&row);
    std::sort(sorted.begin(), sorted.end(), [](const Row* a, const Row* b) {
      return a->calls != b->calls ? a->calls > b->calls : a->name() < b->name();
    });
    json ? print_json(sorted) : print_table(sorted);
  }

 private:
  struct Row {
    uint16_t nr = 0;
    uint64_t calls = 0, bytes = 0;
    std::map<int, uint64_t> errors;
    std::string name() const { return guest::syscall_name(nr); }
    uint64_t failed() const {
      uint64_t sum = 0;
      for (auto [error, count] : errors) sum += count;
      return sum;
    }
    // The most frequent error first.
    std::vector<std::pair<std::string, uint64_t>> by_error() const {
      std::vector<std::pair<std::string, uint64_t>> list;
      for (auto [error, count] : errors) list.emplace_back(error_name(error), count);
      std::stable_sort(list.begin(), list.end(), [](auto& a, auto& b) { return a.second > b.second; });
      return list;
    }
  };

  static void print_json(const std::vector<const Row*>& rows) {
    Json all = Json::array();
    for (const Row* row : rows) {
      Json errors = Json::object();
      for (const auto& [name, count] : row->by_error()) errors[name] = count;
      all.push_back({{"name", row->name()},
                     {"nr", row->nr},
                     {"calls", row->calls},
                     {"errors", row->failed()},
                     {"bytes", row->bytes},
                     {"by_error", errors}});
    }
    fmt::print("{}\n", all.dump(2));
  }

  static void print_table(const std::vector<const Row*>& rows) {
    auto or_blank = [](uint64_t n) { return n ? format_count(n) : std::string(); };
    Table table({">CALLS", ">ERRORS", ">BYTES", "CALL", "ERRORS BY NAME"});
    uint64_t calls = 0, errors = 0, bytes = 0;
    for (const Row* row : rows) {
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

  std::map<uint16_t, Row> rows_;
};

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

int answer(const Question& question, const SyscallsOptions& options) {
  Totals totals;
  uint64_t skip = 0, most = options.limit;
  if (options.last != kAll) {
    uint64_t matches = 0;
    question.each([&](const events::Call&) { return ++matches; });
    skip = matches > options.last ? matches - options.last : 0;
    most = matches - skip;
  }
  std::optional<Lines> lines;
  if (!options.json && !options.summary) lines.emplace(question, options.shown());
  uint64_t count = 0;
  int status = 0;
  if (most > 0)
    status = question.each([&](const events::Call& call) {
      if (skip > 0) return skip--, true;
      if (options.summary)
        totals.add(call);
      else if (options.json)
        print_json(call, options.shown());
      else
        lines->print(call);
      return ++count < most;
    });
  if (options.summary) totals.print(options.json);
  return status;
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
  std::optional<uint64_t> process;
  if (!options.process.empty()) process = recording::find_process(recording, options.process);
  const Question question{recording,
                          process,
                          CallFilter(filter),
                          Era(recording, process.value_or(1), options.from, options.to),
                          events::CallReader(recording),
                          options.failed};
  return answer(question, options);
}

}  // namespace backstep::cli
