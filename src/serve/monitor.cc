// What gdb has no command for. `backstep replay` makes gdb commands of the important ones (goto, checkpoint,
// restart); behind `monitor` they work with every front end.
#include "serve/monitor.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "events/query.h"
#include "guest/syscall_table.h"
#include "session/flow.h"
#include "session/log_text.h"
#include "session/query.h"
#include "timeline/moments.h"
#include "timeline/times.h"

namespace backstep::serve {

using timeline::Arrival;
using timeline::load_bookmarks;
using timeline::point_text;
using timeline::Position;
using timeline::time_text;

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHelp =
    "Where am I, and where to:\n"
    "  when                     the present: control point, event, share of the run\n"
    "  goto @TICK[:0xPC]        a control point (without PC, or just TICK: the start of the tick)\n"
    "  goto event N             the moment of event N of the log ('backstep dump' lists them)\n"
    "  goto start | end | N%    first and last moment; N percent of the run\n"
    "  goto output TEXT         where TEXT was written, from here on: to stdout or stderr, else anywhere\n"
    "  goto input TEXT          where TEXT was read, from here on: from a file, a pipe, a socket\n"
    "  goto 14:03:22.5, +1.5s   a time of the day, or from the start of the recording on (+200ms, +2m)\n"
    "  goto next KIND           the next signal, fork, exec, thread (start or end), turn, output, call "
    "[NAME],\n"
    "  goto previous KIND       quantum (all that is executed during one tick); or the one before\n"
    "  goto NAME                a bookmark\n"
    "  goto current|first|last forward|backward TYPE [COUNT] [where CONDITION]\n"
    "                           the COUNT-th func_enter, func_exit, block_entry, line, store, load, syscall\n"
    "                           or signal for which it holds: goto current backward store where addr=&x\n"
    "  last-write ADDRESS [LENGTH]   back to the last write to these bytes (8 if not given)\n"
    "  last-change ADDRESS [LENGTH]  … that changed them\n"
    "  why EXPRESSION           where the value came from: stores, computations, files, arguments\n"
    "Events of the run, as in 'backstep events':\n"
    "  event SPEC               the next match: 'call f if $arg0 > 3', 'file.c:12', 'write x then call g' …\n"
    "  reverse-event SPEC       the last one before here\n"
    "  count SPEC               how often it matches in the whole run\n"
    "  log [last N] SPEC \"TEXT {EXPRESSION}\"  a line for each match (the first 1000)\n"
    "Places to come back to:\n"
    "  checkpoint [NOTE]        keep this moment; 'restart N' returns to it at once\n"
    "  checkpoints              list them\n"
    "  restart N, delete N      return to one, drop one\n"
    "  bookmark NAME [NOTE]     keep this moment's name in the recording, for good\n"
    "  bookmarks                list them; 'delete NAME' drops one\n"
    "  stored                   what the recording has by itself, so that the next session is quick\n"
    "Processes of the recording:\n"
    "  process                  list them: number, pid, how it began, command; * is this one\n"
    "  process #N|PID [start|end]  change over to one (in gdb, use 'process' without 'monitor')\n"
    "Looking:\n"
    "  maps                     the program's memory map\n"
    "  checksum                 of all registers and writable memory: the same at the same moment, always\n"
    "After a 'monitor' command that moves, type 'maintenance flush register-cache' if you are not in a gdb\n"
    "that 'backstep replay' has started (there, use goto, checkpoint, restart without 'monitor').\n";

std::optional<uint64_t> number(const std::string& text) {
  if (text.empty() || !std::isdigit(static_cast<unsigned char>(text[0]))) return std::nullopt;
  char* end = nullptr;
  errno = 0;
  uint64_t value = std::strtoull(text.c_str(), &end, 0);
  if (*end || errno) return std::nullopt;
  return value;
}

// What follows the first `n` words.
std::string behind(const std::string& line, size_t n) {
  size_t at = 0;
  for (size_t i = 0; i <= n; i++) {
    at = line.find_first_not_of(" \t", at);
    if (at == std::string::npos) return "";
    if (i == n) break;
    at = line.find_first_of(" \t", at);
    if (at == std::string::npos) return "";
  }
  std::string rest = line.substr(at);
  while (!rest.empty() && std::isspace(static_cast<unsigned char>(rest.back()))) rest.pop_back();
  return rest;
}

std::optional<unsigned> number_of_call(const std::string& name) {
  constexpr unsigned kNumbers = 600;
  for (unsigned nr = 0; nr < kNumbers; nr++)
    if (const char* row = guest::syscall_row(nr).name; row && name == row) return nr;
  return std::nullopt;
}

}  // namespace

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string w; in >> w;) words.push_back(w);
  return words;
}

Monitor::Monitor(session::Session& session, recording::Recording recording)
    : session_(session), recording_(std::move(recording)) {}

std::string Monitor::where() const {
  const Position& now = timeline_.now();
  const double share = timeline_.log().last().tick ? 100.0 * static_cast<double>(now.tick) /
                                                         static_cast<double>(timeline_.log().last().tick)
                                                   : 0;
  const uint64_t own = timeline_.log().own();
  const bool in_own =
      own == 0 || now.event > own;  // in front of the fork's event, the parent has yet to make it
  return fmt::format("{}, event {}{}, {:.1f} % of the run", point_text(now.tick, now.pc),
                     in_own ? now.event - own : now.event, in_own ? "" : " of the parent",
                     std::min(share, 100.0));
}

Monitor::Answer Monitor::arrived(const Arrival& arrival) {
  Answer a;
  a.moved = arrival;
  switch (arrival.why) {
    case Arrival::Missing:
      if (const Tick gap = timeline_.log().gap_up_to(timeline_.now().tick))
        a.text = fmt::format(
            "that is in a gap of the recording, {} ticks long ('backstep info' says why); now behind it, at "
            "{}\n",
            gap, where());
      else
        a.text = "there is no such moment in the recording; now at " + where() + "\n";
      break;
    case Arrival::Interrupted:
      a.text = "interrupted on the way, at " + where() + "\n";
      break;
    default:
      a.text = "now at " + where() + "\n";
      break;
  }
  return a;
}

// A crash is told as one.
Arrival Monitor::at_end() {
  const Arrival arrival = timeline_.go_to_end();
  if (arrival.why != Arrival::There || !timeline_.log().end_signal()) return arrival;
  return timeline_.end_arrival();  // so `continue` does not tell of the signal again
}

Monitor::Answer Monitor::go_to(const std::vector<std::string>& words, const std::string& rest) {
  if (words.empty()) return {"goto where? See 'monitor help'.\n", {}};
  const std::string& first = words[0];
  if (first == "output") {
    std::string text = behind(rest, 1);
    if (text.empty()) return {"goto output TEXT: which text?\n", {}};
    return go_to_output(text);
  }
  if (first == "input") {
    const std::string text = behind(rest, 1);
    if (text.empty()) return {"goto input TEXT: which text?\n", {}};
    if (auto moment = timeline_.find_input(text, timeline_.now().event + 1))
      return arrived(timeline_.go_to(moment->position()));
    return {"no input with this text from here on\n", {}};
  }
  if ((first == "next" || first == "previous") && words.size() > 1)
    return go_to_kind(first == "next", {words.begin() + 1, words.end()});
  if (events::is_query(rest)) return go_to_query(rest);
  return go_to_moment(timeline::parse_moment(rest, recording_), first);
}

Monitor::Answer Monitor::go_to_moment(const timeline::MomentName& moment, const std::string& name) {
  using timeline::MomentName;
  const timeline::LogIndex& log = timeline_.log();
  const timeline::Moment& last = log.last();
  switch (moment.kind) {
    case MomentName::Start:
      return arrived(timeline_.go_to_start());
    case MomentName::End:
      return arrived(at_end());
    case MomentName::Event: {
      const uint64_t count = log.events() - log.own();
      if (moment.event >= count) return {fmt::format("the log has events 0 to {}\n", count - 1), {}};
      auto at = log.at(log.own() + moment.event);
      return arrived(at ? timeline_.go_to(at->position()) : timeline_.go_to_start());
    }
    case MomentName::Time:
      return go_to_time(moment.ns);
    case MomentName::Percent: {
      if (moment.percent >= 100) return arrived(at_end());
      auto tick = static_cast<Tick>(static_cast<double>(last.tick) * moment.percent / 100);
      return arrived(timeline_.go_to({tick, 0, 0}));
    }
    case MomentName::Point:
      break;
  }
  if (moment.process && *moment.process != log.process())
    return {fmt::format("bookmark {} is in process #{}: change over with 'process #{}' first\n", name,
                        *moment.process, *moment.process),
            {}};
  if (moment.point.tick > last.tick)
    return {fmt::format("the recording ends at {}\n", point_text(last.tick, last.pc)), {}};
  return arrived(timeline_.go_to({moment.point.tick, 0, moment.point.pc}));
}

Monitor::Answer Monitor::go_to_query(const std::string& query) {
  session::QueryRequest request{query, timeline_.now(), {}, false};
  std::string notes;
  session::Watcher watcher;
  watcher.note = [&](const std::string& sentence) { notes += sentence + "\n"; };
  const session::QueryAnswer answer = session::query(session_, request, watcher);
  const std::string text = notes + answer_text(answer, request) + "\n";
  if (!answer.hit) return {text, {}};
  Answer a = arrived(timeline_.go_to({answer.hit->at.tick, answer.hit->event, answer.hit->at.pc}));
  a.text = notes + a.text;
  return a;
}

Monitor::Answer Monitor::go_to_output(const std::string& text) {
  auto moment = timeline_.find_output(text, timeline_.now().event + 1);
  if (moment) return arrived(timeline_.go_to(moment->position()));
  return {timeline_.attention.stop_asked ? "interrupted\n" : "no output with this text from here on\n", {}};
}

const timeline::WallClock& Monitor::clock() {
  if (!clock_) clock_.emplace(timeline_.log(), recording_.manifest());
  return *clock_;
}

std::string Monitor::when() {
  const timeline::WallClock::Estimate e = clock().at_tick(timeline_.now().tick);
  return fmt::format("{}, about {} (+{:.3f} s)", where(), time_text(e.ns),
                     static_cast<double>(e.ns - clock().start_ns()) / 1e9);
}

Monitor::Answer Monitor::go_to_time(int64_t ns) {
  if (ns < clock().first_ns()) return arrived(timeline_.go_to_start());
  if (ns > clock().last_ns())
    return {fmt::format("the last time that this recording knows is {}\n", time_text(clock().last_ns())), {}};
  const timeline::WallClock::Estimate e = clock().at_time(ns);
  Answer a = arrived(timeline_.go_to({e.tick, 0, 0}));
  if (e.before.ns != e.after.ns)
    a.text += fmt::format("the program looked at no clock between {} ({}) and {} ({}): this is a guess\n",
                          point_text(e.before.tick), time_text(e.before.ns), point_text(e.after.tick),
                          time_text(e.after.ns));
  return a;
}

Monitor::Answer Monitor::go_to_quantum(bool forward) {
  const Position now = timeline_.now();
  if (forward) {
    if (now.tick + 1 > timeline_.log().last().tick) return {"this is the last quantum\n", {}};
    return arrived(timeline_.go_to({now.tick + 1, 0, 0}));
  }
  Arrival arrival = timeline_.go_to({now.tick, 0, 0});
  if (timeline_.now() == now && now.tick > 0) arrival = timeline_.go_to({now.tick - 1, 0, 0});
  return arrived(arrival);
}

Monitor::Answer Monitor::go_to_kind(bool forward, const std::vector<std::string>& words) {
  using recording::EventKind;
  using timeline::Moment;
  const timeline::LogIndex& log = timeline_.log();
  const std::string& kind = words[0];
  if (kind == "quantum") return go_to_quantum(forward);
  std::set<uint64_t> events;  // of rare kinds
  std::function<bool(const Moment&)> is;
  if (kind == "signal") {
    is = [](const Moment& m) { return m.kind == EventKind::Signal; };
  } else if (kind == "turn") {
    is = [](const Moment& m) { return m.kind == EventKind::Turn; };
  } else if (kind == "exec") {
    is = [&](const Moment& m) { return m.kind == EventKind::End && log.ends_with_exec(); };
  } else if (kind == "output") {
    is = [](const Moment& m) {
      return m.kind == EventKind::Syscall && m.made &&
             (m.flags & (recording::kToStdout | recording::kToStderr));
    };
  } else if (kind == "fork") {
    for (const auto& f : log.forks()) events.insert(f.moment.event);
    is = [&](const Moment& m) { return events.count(m.event) > 0; };
  } else if (kind == "thread") {
    for (const Moment& m : log.thread_starts()) events.insert(m.event);
    is = [&](const Moment& m) {
      return events.count(m.event) ||
             (m.kind == EventKind::Turn && m.nr == static_cast<uint16_t>(recording::TurnReason::Ended));
    };
  } else if (kind == "call") {
    std::optional<unsigned> nr;
    if (words.size() > 1 && !(nr = number_of_call(words[1])))
      return {fmt::format("there is no system call '{}'\n", words[1]), {}};
    is = [nr, &log](const Moment& m) { return log.may_be_call(m, nr); };
  } else {
    return {"goto next KIND: signal, fork, exec, thread, turn, output, call [NAME] or quantum\n", {}};
  }
  const Position now = timeline_.now();
  auto moment =
      forward
          ? log.next_moment(now.event, [&](const Moment& m) { return is(m) && m.is_behind(now); })
          : log.previous_moment(now.event + 1, [&](const Moment& m) { return is(m) && m.is_before(now); });
  if (!moment) return {fmt::format("there is no {} {} here\n", kind, forward ? "behind" : "before"), {}};
  return arrived(timeline_.go_to(moment->position()));
}

Monitor::Answer Monitor::last_write(const std::vector<std::string>& words) {
  const bool write = words[0] == "last-write";
  auto address = words.size() > 1 ? number(words[1]) : std::nullopt;
  auto length = words.size() > 2 ? number(words[2]) : std::optional<uint64_t>(8);
  if (!address || !length || *length == 0 || *length > 65536)
    return {fmt::format("{} ADDRESS [LENGTH]: both are numbers (0x… or decimal)\n", words[0]), {}};
  auto bytes = [&] {
    std::string text;
    for (uint8_t b : timeline_.present().read(*address, std::min<uint64_t>(*length, 16)))
      text += fmt::format("{:02x} ", b);
    return text.empty() ? "(not mapped)" : text;
  };
  const std::string after = bytes();
  timeline::Taps taps;
  taps.list.push_back(
      {write ? timeline::Tap::Store : timeline::Tap::Write, timeline::Tap::Stop, *address, *length});
  Arrival arrival = timeline_.backward(taps);
  const Arrival::Why why = arrival.why;
  if (why == Arrival::Watch) arrival.why = Arrival::There;  // the user's watchpoints are others
  Answer a = arrived(arrival);
  if (why == Arrival::Begin) {
    a.text = fmt::format("these bytes have not {} since the start of the recording; now there\n",
                         write ? "been written to" : "changed");
  } else if (why == Arrival::Watch) {
    auto state = timeline_.present().state();
    const Position& now = timeline_.now();
    const bool call = timeline_.present().read(now.pc, 2) == std::vector<uint8_t>{0x0f, 0x05};
    const uint64_t nr = call ? timeline_.present().registers(state.tid).gpr[RAX] : 0;
    const char* name = call ? guest::syscall_row(nr).name : nullptr;
    a.text = fmt::format(
        "last {} of {:#x}: thread {} at {}, in front of the {} that made it\n"
        "  before: {}\n  after:  {}\n",
        write ? "write" : "change", *address, state.tid, point_text(now.tick, now.pc),
        call ? fmt::format("system call ({})", name ? name : std::to_string(nr)) : "instruction", bytes(),
        after);
  }
  return a;
}

Monitor::Answer Monitor::bookmark(const std::vector<std::string>& words, const std::string& rest) {
  if (words.size() < 2) return {"bookmark NAME [NOTE]: which name?\n", {}};
  const std::string& name = words[1];
  const Position& now = timeline_.now();
  timeline::add_bookmark(recording_, name, timeline_.log().process(), {now.tick, now.pc}, behind(rest, 1));
  return {fmt::format("bookmark {} is {}\n", name, point_text(now.tick, now.pc)), {}};
}

Monitor::Answer Monitor::bookmarks() const {
  std::string text;
  const Json marks = load_bookmarks(recording_);
  const uint64_t here = timeline_.log().process();
  for (auto& [name, mark] : marks.items()) {
    const uint64_t process = mark.value("process", here);
    text += fmt::format("{}  {}{}  {}\n", name, process == here ? "" : fmt::format("#{} ", process),
                        mark.value("at", "?"), mark.value("note", ""));
  }
  return {text.empty() ? "there are no bookmarks\n" : text, {}};
}

Monitor::Answer Monitor::event(const std::string& spec, bool forward) {
  if (spec.empty())
    return {fmt::format("{} SPEC: for example 'call f if $arg0 > 3'; 'backstep events' has the grammar\n",
                        forward ? "event" : "reverse-event"),
            {}};
  Arrival arrival = session_.go_to_match({spec}, forward);
  const bool none = arrival.why == Arrival::End || arrival.why == Arrival::Begin;
  if (arrival.why != Arrival::Interrupted) arrival = {};
  Answer answer = arrived(arrival);
  if (none)
    answer.text = fmt::format("there is no match {} here; ", forward ? "behind" : "before") + answer.text;
  return answer;
}

Monitor::Answer Monitor::count(const std::string& spec) {
  if (spec.empty()) return {"count SPEC: for example 'call malloc'\n", {}};
  std::string text;
  session::Watcher watcher;
  watcher.note = [&](const std::string& sentence) { text += sentence + "\n"; };
  timeline_.attention.stop_asked = false;
  for (const session::Count& c : session_.count({spec}, {}, watcher))
    text += fmt::format("{} times\n", c.matches);
  return {timeline_.attention.stop_asked ? "interrupted\n" : text, {}};
}

// log [last N] SPEC "TEXT"
Monitor::Answer Monitor::log(const std::string& rest) {
  constexpr size_t kMost = 1000;
  std::string spec = rest, format;
  size_t last = 0;
  const std::vector<std::string> words = words_of(rest);
  if (words.size() > 2 && words[0] == "last" && number(words[1])) {
    last = std::min<uint64_t>(*number(words[1]), kMost);
    spec = behind(rest, 2);
  }
  if (spec.size() > 1 && spec.back() == '"') {
    const size_t open = spec.rfind('"', spec.size() - 2);
    if (open != std::string::npos && open > 0) {
      format = spec.substr(open + 1, spec.size() - open - 2);
      spec.resize(open);
    }
  }
  if (spec.empty())
    return {"log [last N] SPEC \"TEXT {EXPRESSION}\": for example log call f \"{$arg0}\"\n", {}};
  const session::LogText text(format);
  const session::LogRequest request{spec, text.values(), false, {}};
  std::string lines;
  session::Watcher watcher;
  watcher.note = [&](const std::string& sentence) { lines += sentence + "\n"; };
  size_t shown = 0;
  auto show = [&](const session::Hit& h) {
    lines += fmt::format("{:<26}  {}  {}\n", point_text(h.at.tick, h.at.pc), h.thread, text.fill(h.values));
    return ++shown < kMost;
  };
  timeline_.attention.stop_asked = false;
  if (last) {
    for (const session::Hit& h : session_.log_last(request, last, watcher)) show(h);
  } else {
    session_.log(request, show, watcher);
  }
  if (shown == kMost) lines += fmt::format("… (the first {}; 'backstep log' has them all)\n", kMost);
  return {shown ? lines : lines + "there is no match\n", {}};
}

namespace {

// [--frame=N] [--thread=TID] EXPRESSION
std::string why_answer(session::Session& session, std::string rest) {
  session::FlowRequest request;
  auto option = [&](const std::string& name) -> std::optional<uint64_t> {
    if (!rest.starts_with(name)) return std::nullopt;
    const size_t end = std::min(rest.find(' '), rest.size());
    const auto value = number(rest.substr(name.size(), end - name.size()));
    rest = behind(rest, 1);
    return value;
  };
  if (auto n = option("--frame=")) request.frame = *n;
  if (auto n = option("--thread=")) request.tid = static_cast<int>(*n);
  if (rest.empty()) return "why EXPRESSION: a variable, *p, s->name, $rax, ADDRESS:SIZE\n";
  if (session.timeline().diverted())
    return "what was changed has no history: go to a moment of the run first\n";
  request.expression = rest;
  request.at = session.timeline().now();
  std::string text;
  for (const std::string& l : session::flow_text(session::why(session, request, {}))) text += l + "\n";
  return text;
}

}  // namespace

Monitor::Answer Monitor::run(const std::string& line) {
  const std::vector<std::string> words = words_of(line);
  if (words.empty() || words[0] == "help") return {kHelp, {}};
  const std::string& command = words[0];
  const std::string rest = behind(line, 1);
  try {
    if (command == "when") return {when() + "\n", {}};
    if ((command == "step" || command == "reverse-step") && words.size() == 2 && words[1] == "quantum")
      return go_to_quantum(command == "step");
    if (command == "goto") return go_to({words.begin() + 1, words.end()}, rest);
    if (command == "last" || command == "last-write" || command == "last-change") return last_write(words);
    if (command == "event" || command == "reverse-event") return event(rest, command == "event");
    if (command == "count") return count(rest);
    if (command == "log") return log(rest);
    if (command == "why") return {why_answer(session_, rest), {}};
    if (command == "checkpoint") {
      int id = timeline_.add_checkpoint(rest);
      return {fmt::format("checkpoint {} at {}\n", id, where()), {}};
    }
    if (command == "checkpoints") {
      std::string text;
      for (const auto& c : timeline_.checkpoints())
        text +=
            fmt::format("{}  {}  event {}  {}\n", c.id, point_text(c.at.tick, c.at.pc), c.at.event, c.note);
      if (text.empty()) text = "there are no checkpoints of yours\n";
      return {text + fmt::format("({} automatic ones)\n", timeline_.automatic_checkpoints()), {}};
    }
    if (command == "stored") {
      const auto& stored = timeline_.stored();
      return {fmt::format(
                  "{} checkpoints in the recording, {} bytes; in this session {} made, {} used; {} replays "
                  "came too far and were made again; the last movement replayed {} windows and passed "
                  "over {}\n",
                  stored.list().size(), stored.bytes(), stored.made(), stored.used(), timeline_.overshot(),
                  timeline_.searched().replayed, timeline_.searched().quiet),
              {}};
    }
    if (command == "restart" && words.size() == 2) {
      auto id = number(words[1]);
      if (auto arrival = timeline_.restart(id ? static_cast<int>(*id) : 0)) return arrived(*arrival);
      return {fmt::format("there is no checkpoint {}\n", words[1]), {}};
    }
    if (command == "delete" && words.size() == 2) {
      auto id = number(words[1]);
      if (id)
        return {timeline_.remove_checkpoint(static_cast<int>(*id))
                    ? fmt::format("checkpoint {} deleted\n", *id)
                    : "there is no such checkpoint\n",
                {}};
      if (!timeline::remove_bookmark(recording_, words[1])) return {"there is no such bookmark\n", {}};
      return {"bookmark deleted\n", {}};
    }
    if (command == "bookmark") return bookmark(words, rest);
    if (command == "bookmarks") return bookmarks();
    if (command == "maps") return {timeline_.present().maps(), {}};
    if (command == "checksum") return {fmt::format("{:08x}\n", timeline_.present().checksum()), {}};
  } catch (const Error& e) {
    return {std::string(e.what()) + "\n", {}};
  }
  return {fmt::format("'{}' is not a command of backstep's; 'monitor help' lists them\n", line), {}};
}

}  // namespace backstep::serve
