// What the logs know, of all processes, without replaying anything: events, system calls and signals, one row
// for each; processes and threads; and what lies beside the logs: checkpoints and bookmarks.
#include <signal.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/text.h"
#include "events/call_filter_values.h"
#include "events/event_text.h"
#include "guest/syscall_names.h"
#include "recording/checkpoint_file.h"
#include "recording/tree.h"
#include "timeline/moments.h"
#include "timeline/thread_names.h"
#include "trace/table.h"

namespace backstep::trace {
namespace {

using recording::Event;
using recording::EventKind;
using timeline::point_text;

constexpr size_t kShownOfStrings = 32;       // bytes of a string or buffer in a text, as 'dump' has it
constexpr double kEventsPerMicrosecond = 5;  // read, not looked at closely

constexpr Column kProcess{"process", "INT", kEqual, "its number, as in processes"};
constexpr Column kThread{"thread", "INT", kNothing, "its number: 1 is the first"};
constexpr Column kEvent{"event", "INT", kRange, "its number in the log of the process"};
constexpr Column kTick{"tick", "INT", kRange, "when"};
constexpr Column kPc{"pc", "ADDRESS INT", kNothing, "where; NULL: nowhere in particular"};
constexpr Column kAt{"at", "TEXT", kNothing, "the control point, @TICK:0xPC"};
constexpr Column kTime{"time", "TIME INT", kNothing,
                       "nanoseconds since 1970; between clocks that the recording has, a guess"};

// ---- Rows that are events ----

// The events of one process after the other, those of a question's ticks and numbers.
class EventRows : public Rows {
 public:
  EventRows(History& history, const Question& question)
      : history_(history),
        processes_(processes_of(history, question)),
        ticks_(question.range("tick")),
        numbers_(question.range("event")) {}

  bool next() override {
    for (;;) {
      if (!reader_ && !open_next()) return false;
      while (read_one()) {
        if (ticks_.holds(static_cast<int64_t>(event_.tick)) &&
            numbers_.holds(static_cast<int64_t>(event_.number)) && wanted())
          return true;
      }
      reader_.reset();
    }
  }

 protected:
  virtual bool wanted() { return true; }

  Value time() { return history_.clock(process_).at_tick(event_.tick).ns; }
  Value pc() const { return event_.pc ? number(event_.pc) : Value(); }
  Value at() const { return point_text(event_.tick, event_.pc); }

  History& history_;
  uint64_t process_ = 0;
  Event event_;

 private:
  bool open_next() {
    if (next_ == processes_.size()) return false;
    process_ = processes_[next_++];
    const auto& r = history_.recording();
    reader_ =
        std::make_unique<recording::LogReader>(r.log_path(process_), recording::first_thread(r, process_));
    return true;
  }
  bool read_one() {
    history_.listen();
    if (!reader_->next(event_)) {
      if (auto damage = reader_->damage()) history_.damaged(process_, *damage);
      return false;
    }
    // Both only grow.
    return !(ticks_.high && static_cast<int64_t>(event_.tick) > *ticks_.high) &&
           !(numbers_.high && static_cast<int64_t>(event_.number) > *numbers_.high);
  }

  std::vector<uint64_t> processes_;
  size_t next_ = 0;
  Question::Range ticks_, numbers_;
  std::unique_ptr<recording::LogReader> reader_;
};

Cost cost_of_log(History& history, const Question& question) {
  double events = 0;
  const auto processes = processes_of(history, question);
  for (const auto& p : history.processes())
    if (std::find(processes.begin(), processes.end(), p.info.number) != processes.end())
      events += static_cast<double>(p.events);
  // Which process it is may not be known yet.
  if (question.find("process", Op::Equal) && processes.size() > 1)
    events /= static_cast<double>(processes.size());
  double rows = events;
  for (const char* column : {"tick", "event"})
    for (bool above : {false, true})
      if (question.is_bounded(column, above)) rows /= 10;
  for (const char* column : {"name", "kind", "signal"})
    if (question.table->column(column) && question.find(column, Op::Equal)) rows /= 10;
  return {10 + events / kEventsPerMicrosecond + rows, rows};
}

std::string explain_log(History& history, const Question& question) {
  const auto processes = processes_of(history, question);
  uint64_t events = 0;
  for (uint64_t p : processes) events += history.facts(p)->events;
  return fmt::format("read from the log{} of {} process{}, {} events; nothing is replayed",
                     processes.size() == 1 ? "" : "s", processes.size(), processes.size() == 1 ? "" : "es",
                     events);
}

// What is not in the constraint need not be decoded.
class Names {
 public:
  Names(const Question& question, const char* column) {
    if (auto texts = equal_texts(question, column)) names_ = std::move(*texts), any_ = false;
  }
  bool holds(const std::string& name) const {
    return any_ || std::find(names_.begin(), names_.end(), name) != names_.end();
  }

 private:
  std::vector<std::string> names_;
  bool any_ = true;
};

class LogEvents : public EventRows {
 public:
  LogEvents(History& history, const Question& question)
      : EventRows(history, question), kinds_(question, "kind"), names_(question, "name") {}

  bool wanted() override {
    return kinds_.holds(events::kind_name(event_.kind)) && names_.holds(events::event_name(event_));
  }

  Value value(size_t column) override {
    switch (column) {
      case 0:
        return number(process_);
      case 1:
        return number(event_.number);
      case 2:
        return std::string(events::kind_name(event_.kind));
      case 3:
        return events::event_name(event_);
      case 4:
        return number(event_.tick);
      case 5:
        return pc();
      case 6:
        return at();
      case 7:
        return static_cast<int64_t>(event_.thread);
      case 8:
        return time();
      case 9:
        return event_.order ? number(event_.order.number()) : Value();
      case 10:
        return number(event_.size);
      default:
        return events::event_text(event_, kShownOfStrings);
    }
  }

 private:
  Names kinds_, names_;
};

class Syscalls : public EventRows {
 public:
  Syscalls(History& history, const Question& question)
      : EventRows(history, question), names_(question, "name"), reader_(history.calls()) {}

  bool wanted() override {
    const auto nr = reader_.number(process_, event_);
    if (!nr || !names_.holds(guest::syscall_name(*nr))) return false;
    call_ = reader_.call(process_, event_);
    return true;
  }

  Value value(size_t column) override {
    constexpr size_t kArg0 = 18;
    switch (column) {
      case 0:
        return number(process_);
      case 1:
        return number(call_.pid);
      case 2:
        return static_cast<int64_t>(call_.thread);
      case 3:
        return number(call_.event);
      case 4:
        return number(call_.tick);
      case 5:
        return call_.pc ? number(call_.pc) : Value();
      case 6:
        return point_text(call_.tick, call_.pc);
      case 7:
        return time();
      case 8:
        return guest::syscall_name(call_.view.nr);
      case 9: {
        const guest::PrintedCall parts = events::print_call(call_, kShownOfStrings);
        std::string text;
        for (const auto& a : parts.arguments) text += (text.empty() ? "" : ", ") + a.text;
        return text;
      }
      case 10:
        return first_number(events::Fact::Fd);
      case 11: {
        const auto texts = events::texts_of({events::Variable::OfCall, events::Fact::Path, 0, {}}, call_);
        return texts.empty() ? Value() : Value(texts[0].bytes);
      }
      case 12:
        return call_.returns ? Value(call_.ret()) : Value();
      case 13:
        return call_.failed() ? Value(error_name(call_.error())) : Value();
      case 14:
        return call_.failed() ? Value(static_cast<int64_t>(call_.error())) : Value();
      case 15:
        return events::moves_bytes(call_.view.nr) ? number(events::bytes_moved(call_)) : Value();
      case 16:
        return events::moves_bytes(call_.view.nr) ? data() : Value();
      case 17:
        return events::print_call(call_, kShownOfStrings).line();
      default: {
        const auto argument = static_cast<int>(column - kArg0);
        if (argument >= guest::syscall_row(call_.view.nr).argc || !call_.knows(argument)) return {};
        return number(call_.view.args[argument]);
      }
    }
  }

 private:
  Value first_number(events::Fact fact) const {
    const auto numbers = events::numbers_of({events::Variable::OfCall, fact, 0, {}}, call_);
    return numbers.empty() ? Value() : Value(static_cast<int64_t>(numbers[0]));
  }
  // What the log has of it: all that was read, the beginning of what was written.
  Value data() const {
    std::string bytes;
    for (const auto& piece : call_.view.pieces)
      if (piece.kind != guest::PieceKind::Sum)
        bytes.append(reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size());
    bytes.resize(std::min<size_t>(bytes.size(), events::bytes_moved(call_)));
    return bytes;
  }
  static std::string error_name(int error) {
    const char* name = guest::name_of(guest::Names::Errno, static_cast<uint64_t>(error));
    return name ? name : std::to_string(error);
  }

  Names names_;
  const events::CallReader& reader_;
  events::Call call_;
};

class Signals : public EventRows {
 public:
  Signals(History& history, const Question& question)
      : EventRows(history, question), names_(question, "signal") {}

  bool wanted() override {
    const bool fatal = is_fatal();
    if (event_.kind != EventKind::Signal && !fatal) return false;
    signo_ = fatal ? static_cast<int>(event_.result) : event_.signo;
    info_ = {};
    if (!fatal) std::memcpy(&info_, event_.body.data(), std::min(event_.body.size(), sizeof info_));
    return names_.holds(name());
  }

  Value value(size_t column) override {
    const bool fault = signo_ == SIGSEGV || signo_ == SIGBUS || signo_ == SIGILL || signo_ == SIGFPE;
    // What the kernel makes by itself has a code above 0; what processes send has a sender.
    const bool sent = !is_fatal() && info_.si_code <= 0;
    switch (column) {
      case 0:
        return number(process_);
      case 1:
        return static_cast<int64_t>(event_.thread);
      case 2:
        return number(event_.number);
      case 3:
        return number(event_.tick);
      case 4:
        return pc();
      case 5:
        return at();
      case 6:
        return time();
      case 7:
        return name();
      case 8:
        return static_cast<int64_t>(signo_);
      case 9:
        return static_cast<int64_t>(is_fatal());
      case 10:
        return is_fatal() ? Value() : Value(static_cast<int64_t>(info_.si_code));
      case 11:
        return fault && !is_fatal() && !sent ? number(reinterpret_cast<uintptr_t>(info_.si_addr)) : Value();
      case 12:
        return sent ? Value(static_cast<int64_t>(info_.si_pid)) : Value();
      default:
        return events::event_text(event_, kShownOfStrings);
    }
  }

 private:
  bool is_fatal() const { return event_.kind == EventKind::End && event_.end == recording::EndKind::Signal; }
  std::string name() const {
    const char* text = sigabbrev_np(signo_);
    return text ? fmt::format("SIG{}", text) : fmt::format("signal {}", signo_);
  }

  Names names_;
  int signo_ = 0;
  siginfo_t info_{};
};

template <class T>
std::unique_ptr<Rows> open_rows(History& history, const Question& question) {
  return std::make_unique<T>(history, question);
}

// ---- Short tables, made in one go ----

std::string command_of(const std::vector<std::string>& argv) {
  std::string text;
  for (const std::string& a : argv) text += (text.empty() ? "" : " ") + a;
  return text;
}

std::unique_ptr<Rows> open_processes(History& history, const Question&) {
  std::vector<Row> rows;
  for (const auto& p : history.processes()) {
    const auto time = [](const std::optional<int64_t>& ns) { return ns ? Value(*ns) : Value(); };
    const auto& end = p.info.end;
    rows.push_back({number(p.info.number), p.info.empty ? Value() : number(p.info.pid),
                    std::string(recording::birth_name(p.info)),
                    p.info.parent ? number(p.info.parent) : Value(), command_of(p.info.argv),
                    p.info.start_ns ? number(p.info.start_ns) : Value(), time(p.duration_ns), time(p.cpu_ns),
                    number(p.ticks), number(p.events), p.end_text(),
                    end && end->kind == recording::EndKind::Exit ? Value(end->status) : Value(),
                    end && end->kind == recording::EndKind::Signal ? Value(end->status) : Value()});
  }
  return std::make_unique<ReadyRows>(std::move(rows));
}

// The threads of one process: who had the turn, from when to when. A process that was forked begins with the
// thread that called fork, under the name that it had there; names are given out in the order in which
// threads are made.
class ThreadsOf {
 public:
  ThreadsOf(History& history, uint64_t process) : log_(history.log(process)), process_(process) {
    const auto* facts = history.facts(process);
    const std::string command = facts->info.argv.empty() ? "" : facts->info.argv[0];
    const timeline::ThreadNames names(log_, command.substr(command.rfind('/') + 1));
    std::set<uint64_t> starts;
    for (const auto& m : log_.thread_starts()) starts.insert(m.event);
    int current = 1, last = 1;
    bool begun = false;
    auto begin_own = [&] {
      if (std::exchange(begun, true)) return;
      begin(current, log_.pid(), log_.own() ? "fork" : "start",
            log_.birth().value_or(session::Position{}).tick);
    };
    log_.each(0, [&](const timeline::Moment& m, std::span<const uint8_t> bytes) {
      if (m.event >= log_.own()) begin_own();
      const bool start = starts.count(m.event) > 0;
      if (m.kind != EventKind::Turn && !start) return true;
      Event e;
      Tick tick = 0;
      recording::decode_event(bytes, tick, e);
      if (start) {
        if (begun) begin(last + 1, static_cast<int>(e.result), "thread", m.tick);
        last++;
        return true;
      }
      if (begun) {
        pass(current, m.tick);
        const auto reason = static_cast<recording::TurnReason>(e.nr);
        if (reason == recording::TurnReason::Ended) threads_[current].ended = m.tick;
        if (reason == recording::TurnReason::Vforked && !threads_.count(e.next_thread))
          begin(e.next_thread, 0, "vfork", m.tick);
        since_ = m.tick;
      }
      current = e.next_thread;
      last = std::max(last, current);
      return true;
    });
    begin_own();
    pass(current, log_.last().tick);
    for (auto& [number_of, t] : threads_)
      t.name = t.born == std::string_view("vfork") ? "" : names.at(number_of, log_.events());
  }

  void add_to(std::vector<Row>& rows) const {
    for (const auto& [number_of, t] : threads_)
      rows.push_back({number(process_), static_cast<int64_t>(number_of),
                      t.tid ? Value(static_cast<int64_t>(t.tid)) : Value(), known_text(t.name),
                      std::string(t.born), number(t.began), t.ended ? number(*t.ended) : Value(),
                      number(t.turns), number(t.ticks)});
  }

 private:
  struct Thread {
    int tid = 0;
    std::string name;
    const char* born = "thread";
    Tick began = 0;
    std::optional<Tick> ended;
    uint64_t turns = 0;
    Tick ticks = 0;
  };
  void begin(int number_of, int tid, const char* born, Tick tick) {
    Thread& t = threads_[number_of];
    t.tid = tid, t.born = born, t.began = tick;
    if (threads_.size() == 1) since_ = tick;
  }
  void pass(int thread, Tick now) {
    Thread& t = threads_[thread];
    t.turns++;
    t.ticks += now - std::min(now, since_);
  }

  const timeline::LogIndex& log_;
  uint64_t process_;
  std::map<int, Thread> threads_;
  Tick since_ = 0;
};

std::unique_ptr<Rows> open_threads(History& history, const Question& question) {
  std::vector<Row> rows;
  for (uint64_t p : processes_of(history, question)) ThreadsOf(history, p).add_to(rows);
  return std::make_unique<ReadyRows>(std::move(rows));
}

std::unique_ptr<Rows> open_checkpoints(History& history, const Question&) {
  using recording::CheckpointFolder;
  const auto& r = history.recording();
  std::vector<Row> rows;
  for (uint64_t process : CheckpointFolder::processes(r))
    for (const auto& c : CheckpointFolder(r, process).list(nullptr)) {
      const bool recorded = c.header.maker == static_cast<uint64_t>(recording::Maker::Record);
      rows.push_back({number(process), number(c.number), number(c.header.tick), number(c.header.pc),
                      point_text(c.header.tick, c.header.pc), number(c.header.event), number(c.size),
                      number(c.header.pages), number(c.header.stored_pages),
                      std::string(recorded ? "record" : "replay")});
    }
  return std::make_unique<ReadyRows>(std::move(rows));
}

std::unique_ptr<Rows> open_bookmarks(History& history, const Question&) {
  std::vector<Row> rows;
  const nlohmann::ordered_json marks = timeline::load_bookmarks(history.recording());
  for (const auto& [name, mark] : marks.items()) {
    const auto at = mark["at"].get<std::string>();
    const auto point = timeline::parse_point(at);
    rows.push_back({name, number(mark.value("process", uint64_t{1})), point ? number(point->tick) : Value(),
                    at, mark.contains("note") ? Value(mark["note"].get<std::string>()) : Value()});
  }
  return std::make_unique<ReadyRows>(std::move(rows));
}

Cost cost_of_few(History& history, const Question&) {
  return {100, static_cast<double>(history.processes().size())};
}

std::string explain_few(History&, const Question&) {
  return "read from the recording's folder; nothing is replayed";
}

}  // namespace

void add_log_tables(std::vector<Table>& tables) {
  tables.push_back({"processes",
                    "the programs that were recorded, one for each log",
                    {kProcess,
                     {"pid", "INT", kNothing, "what the kernel called it"},
                     {"born", "TEXT", kNothing, "start, fork, exec or spawn"},
                     {"parent", "INT", kNothing, "the process that made it, or that it was before an execve"},
                     {"command", "TEXT", kNothing, "its arguments, with blanks between them"},
                     {"start", "TIME INT", kNothing, "when it began: nanoseconds since 1970"},
                     {"duration", "INT", kNothing, "nanoseconds"},
                     {"cpu", "INT", kNothing, "processor time with the recorder's work, nanoseconds"},
                     {"ticks", "INT", kNothing, "how far its time went"},
                     {"events", "INT", kNothing, "how many its log has"},
                     {"end", "TEXT", kNothing, "exit 0, SIGSEGV, exec 5, …"},
                     {"status", "INT", kNothing, "with which it exited"},
                     {"signo", "INT", kNothing, "the signal that it died of"}},
                    {{"process"}},
                    {},
                    false,
                    cost_of_few,
                    open_processes,
                    explain_few});
  tables.push_back({"threads",
                    "the threads of all processes",
                    {kProcess,
                     kThread,
                     {"tid", "INT", kNothing, "what the kernel called it"},
                     {"name", "TEXT", kNothing, "as it called itself last"},
                     {"born", "TEXT", kNothing, "start, fork, thread, or vfork: the child, until its execve"},
                     {"began", "INT", kNothing, "tick"},
                     {"ended", "INT", kNothing, "tick; NULL: with the process"},
                     {"turns", "INT", kNothing, "how often it had the turn"},
                     {"ticks", "INT", kNothing, "for how long, all together"}},
                    {{"process", "thread"}},
                    {},
                    false,
                    cost_of_log,
                    open_threads,
                    explain_log});
  tables.push_back(
      {"events",
       "everything in the logs, as 'backstep dump' shows it",
       {kProcess,
        kEvent,
        {"kind", "TEXT", kEqual, "syscall, instr, signal, map, memory, turn, note, end, …"},
        {"name", "TEXT", kEqual, "of the system call, instruction or signal; else the kind"},
        kTick,
        kPc,
        kAt,
        kThread,
        kTime,
        {"order_number", "INT", kNothing, "its place among the events of all processes, if it has one"},
        {"size", "INT", kNothing, "bytes in the log"},
        {"text", "TEXT", kNothing, "what happened"}},
       {{"process", "event"}, {"process", "tick"}},
       {},
       false,
       cost_of_log,
       open_rows<LogEvents>,
       explain_log});
  tables.push_back(
      {"syscalls",
       "system calls with their arguments and results, as 'backstep syscalls' shows them",
       {kProcess,
        {"pid", "INT", kNothing, "what the kernel called the process"},
        kThread,
        kEvent,
        kTick,
        kPc,
        kAt,
        kTime,
        {"name", "TEXT", kEqual, "openat, read, …"},
        {"args", "TEXT", kNothing, "decoded"},
        {"fd", "INT", kNothing, "the first argument that is a descriptor"},
        {"path", "TEXT", kNothing, "the first argument that is a path"},
        {"ret", "INT", kNothing, "as C programs see it: -1 if it failed; NULL: it does not return"},
        {"error", "TEXT", kNothing, "ENOENT, …; NULL: it did not fail"},
        {"errno", "INT", kNothing, "its number"},
        {"bytes", "INT", kNothing, "that a call like read or write has moved"},
        {"data", "TEXT", kNothing, "these bytes; of what was written, the beginning that the log has"},
        {"text", "TEXT", kNothing, "the line that strace would print"},
        {"arg0", "INT", kNothing, "the first argument as a number, and so on"},
        {"arg1", "INT", kNothing, ""},
        {"arg2", "INT", kNothing, ""},
        {"arg3", "INT", kNothing, ""},
        {"arg4", "INT", kNothing, ""},
        {"arg5", "INT", kNothing, ""}},
       {{"process", "event"}, {"process", "tick"}},
       {},
       false,
       cost_of_log,
       open_rows<Syscalls>,
       explain_log});
  tables.push_back({"signals",
                    "signals where they were delivered to a handler, and those that ended a process",
                    {kProcess,
                     kThread,
                     kEvent,
                     kTick,
                     kPc,
                     kAt,
                     kTime,
                     {"signal", "TEXT", kEqual, "SIGSEGV, …"},
                     {"signo", "INT", kNothing, "its number"},
                     {"fatal", "INT", kNothing, "1: the process died of it, there was no handler"},
                     {"code", "INT", kNothing, "si_code"},
                     {"addr", "ADDRESS INT", kNothing, "of a fault: si_addr"},
                     {"sender", "INT", kNothing, "pid of the process that sent it"},
                     {"text", "TEXT", kNothing, "as 'backstep dump' shows it"}},
                    {{"process", "event"}, {"process", "tick"}},
                    {},
                    false,
                    cost_of_log,
                    open_rows<Signals>,
                    explain_log});
  tables.push_back({"checkpoints",
                    "states from which a replay can begin, as 'backstep checkpoints' lists them",
                    {kProcess,
                     {"number", "INT", kNothing, "of its file"},
                     {"tick", "INT", kNothing, "when"},
                     {"pc", "ADDRESS INT", kNothing, "where"},
                     kAt,
                     {"event", "INT", kNothing, "the next one then"},
                     {"size", "INT", kNothing, "bytes of its file"},
                     {"pages", "INT", kNothing, "that it needs"},
                     {"stored_pages", "INT", kNothing, "of these, in this file"},
                     {"made_by", "TEXT", kNothing, "record or replay"}},
                    {{"process", "tick"}},
                    {},
                    false,
                    cost_of_few,
                    open_checkpoints,
                    explain_few});
  tables.push_back({"bookmarks",
                    "moments that somebody has given a name in gdb",
                    {{"name", "TEXT", kNothing, "under which one can go there"},
                     kProcess,
                     {"tick", "INT", kNothing, "when"},
                     kAt,
                     {"note", "TEXT", kNothing, "what was said about it"}},
                    {},
                    {},
                    false,
                    cost_of_few,
                    open_bookmarks,
                    explain_few});
}

}  // namespace backstep::trace
