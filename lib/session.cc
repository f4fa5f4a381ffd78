// What a session answers, made into the types of <backstep/session.h>. What a newer program says in addition
// is left out, and what an answer may lack has the value that its type says.
#include <backstep/session.h>

#include <charconv>
#include <concepts>

#include "dialogue.h"

namespace backstep {
namespace {

constexpr int kProtocol = 1;

template <class T>
concept Sequence = requires(T t) {
  t.emplace_back();
}
&&!std::same_as<T, std::string>;

// Takes the members of an answer by their names.
class Reader {
 public:
  explicit Reader(const Data& data) : data_(data) {}

  template <class T>
  Reader& operator()(const char* name, T& field) {
    if (const Data* found = data_.find(name); found && found->kind() != Data::Kind::Nothing)
      set(*found, field);
    return *this;
  }

 private:
  static void set(const Data& from, bool& to) { to = from.truth(); }
  static void set(const Data& from, int& to) { to = static_cast<int>(from.number()); }
  static void set(const Data& from, std::uint64_t& to) { to = from.address(); }
  static void set(const Data& from, std::optional<std::uint64_t>& to) { to = from.address(); }
  static void set(const Data& from, std::string& to) { to = from.text(); }
  static void set(const Data& from, Data& to) { to = from; }
  static void set(const Data& from, std::map<std::string, std::string>& to) {
    for (const auto& [name, value] : from.structure()) to[name] = value.text();
  }
  static void set(const Data& from, std::optional<Verdict::Violation>& to) { set(from, to.emplace()); }
  template <Sequence T>
  static void set(const Data& from, T& to) {
    for (const Data& item : from.list()) set(item, to.emplace_back());
  }
  template <class T>
  static void set(const Data& from, T& to) {
    take(Reader(from), to);
  }

  const Data& data_;
};

void take(Reader answer, Frame& f) {
  answer("pc", f.pc)("function", f.function)("file", f.file)("line", f.line)("inlined", f.inlined);
}

void take(Reader answer, Moment& m) {
  answer("at", m.at)("tick", m.tick)("pc", m.pc)("event", m.event)("thread", m.thread)("tid", m.tid)(
      "function", m.function)("file", m.file)("line", m.line)("why", m.why)("signal", m.signal);
}

void take(Reader answer, Hit& h) {
  answer("at", h.at)("tick", h.tick)("pc", h.pc)("thread", h.thread)("values", h.values)("texts", h.texts)(
      "stack", h.stack)("stack_complete", h.stack_complete)("process", h.process)("pid", h.pid)(
      "function", h.function)("file", h.file)("line", h.line)("event_id", h.event_id);
}

void take(Reader answer, Verdict::Violation& v) {
  answer("at", v.at)("tick", v.tick)("pc", v.pc)("thread", v.thread)("function", v.function)("file", v.file)(
      "line", v.line)("words", v.words)("values", v.values)("process", v.process)("pid", v.pid);
}

void take(Reader answer, Verdict& v) {
  answer("assertion", v.assertion)("line", v.line)("holds", v.holds)("checks", v.checks)(
      "violations", v.violations)("failures", v.failures)("first", v.first);
}

void take(Reader answer, Argument& a) {
  answer("name", a.name)("value", a.value)("text", a.text);
}

void take(Reader answer, CallNode& n) {
  answer("function", n.function)("count", n.count)("ticks", n.ticks)("calls", n.calls);
}

void take(Reader answer, Call& c) {
  answer("at", c.at)("tick", c.tick)("thread", c.thread)("function", c.function)("args", c.args)(
      "ret", c.ret)("end", c.end)("caller", c.caller)("left", c.left)("ticks", c.ticks)("tree", c.tree)(
      "process", c.process)("pid", c.pid);
}

void take(Reader answer, Syscall& c) {
  answer("at", c.at)("tick", c.tick)("event", c.event)("process", c.process)("pid", c.pid)(
      "thread", c.thread)("name", c.name)("nr", c.nr)("args", c.args)("raw", c.raw)("ret", c.ret)(
      "errno", c.number)("text", c.text)("inexact", c.inexact)("denied", c.denied)("error", c.error);
}

void take(Reader answer, SyscallTotal& t) {
  answer("name", t.name)("nr", t.nr)("calls", t.calls)("errors", t.errors)("bytes", t.bytes)("by_error",
                                                                                             t.by_error);
}

void take(Reader answer, Value& v) {
  answer("expression", v.expression)("text", v.text)("value", v.value)("type", v.type)("why", v.why);
}

void take(Reader answer, Event& e) {
  answer("event_id", e.event_id)("spec", e.spec)("installed", e.installed)("spent", e.spent)(
      "matches", e.matches)("times", e.times);
}

void take(Reader answer, Thread& t) {
  answer("thread", t.thread)("tid", t.tid)("has_turn", t.has_turn)("in_call", t.in_call)("pc", t.pc);
}

void take(Reader answer, Info& i) {
  answer("recording", i.recording)("process", i.process)("pid", i.pid)("ticks", i.ticks)("events", i.events)(
      "end", i.end)("last", i.last);
}

void take(Reader answer, Process& p) {
  answer("process", p.process)("pid", p.pid)("born", p.born)("parent", p.parent)("command", p.command);
}

void take(Reader answer, Profile::Stack& s) {
  answer("stack", s.stack)("ticks", s.ticks)("instructions", s.instructions);
}

void take(Reader answer, Share& s) {
  answer("process", s.process)("pid", s.pid)("program", s.program)("count", s.count)("samples", s.samples);
}

void take(Reader answer, Bookmark& b) {
  answer("name", b.name)("at", b.at)("process", b.process)("note", b.note);
}

void take(Reader answer, Checkpoint& c) {
  answer("checkpoint", c.checkpoint)("at", c.at)("tick", c.tick)("note", c.note);
}

void take(Reader answer, Profile& p) {
  answer("period", p.period)("samples", p.samples)("stacks", p.stacks)("processes", p.processes);
}

void take(Reader answer, Coverage& c) {
  answer("file", c.file)("executed", c.executed)("missed", c.missed);
}

void take(Reader answer, Allocs::Totals& t) {
  answer("blocks", t.blocks)("bytes", t.bytes);
}

void take(Reader answer, Allocs::Peak& p) {
  answer("bytes", p.bytes)("at", p.at);
}

void take(Reader answer, Allocs::Deed& d) {
  answer("at", d.at)("thread", d.thread)("function", d.function)("stack", d.stack);
}

void take(Reader answer, Allocs::Leak& l) {
  answer("reach", l.reach)("blocks", l.blocks)("bytes", l.bytes)("address", l.address)("size", l.size)(
      "allocated", l.allocated);
}

void take(Reader answer, Allocs::Block& b) {
  answer("address", b.address)("size", b.size)("allocated", b.allocated)("freed", b.freed);
}

void take(Reader answer, Allocs::Error& e) {
  answer("kind", e.kind)("at", e.at)("thread", e.thread)("address", e.address)("size", e.size)(
      "access", e.access)("count", e.count)("stack", e.stack)("block", e.block);
}

void take(Reader answer, Allocs& a) {
  answer("allocated", a.allocated)("freed", a.freed)("lost", a.lost)("indirect", a.indirect)(
      "reachable", a.reachable)("peak", a.peak)("leaks", a.leaks)("errors", a.errors);
}

void take(Reader answer, Race::Side& s) {
  answer("at", s.at)("thread", s.thread)("access", s.access)("size", s.size)("stack", s.stack);
}

void take(Reader answer, Race& r) {
  answer("address", r.address)("variable", r.variable)("count", r.count)("first", r.first)("second",
                                                                                           r.second);
}

void take(Reader answer, Table& t) {
  answer("columns", t.columns)("rows", t.rows)("complete", t.complete);
}

template <class T>
T read(const Data& data) {
  T t;
  take(Reader(data), t);
  return t;
}

template <class T>
std::vector<T> read_list(const Data& data) {
  std::vector<T> list;
  for (const Data& item : data.list()) list.push_back(read<T>(item));
  return list;
}

Data texts(const std::vector<std::string>& list) {
  return Data::List(list.begin(), list.end());
}

template <>
DebugNote read<DebugNote>(const Data& data) {
  static constexpr std::pair<const char*, DebugNote::Kind> kKinds[] = {
      {"output", DebugNote::Output},      {"errors", DebugNote::Errors}, {"log", DebugNote::Log},
      {"mark", DebugNote::Mark},          {"stop", DebugNote::Stop},     {"failure", DebugNote::Failure},
      {"complaint", DebugNote::Complaint}};
  DebugNote note;
  note.at = data["at"].text();
  note.tick = static_cast<std::uint64_t>(data["tick"].number());
  note.pc = static_cast<std::uint64_t>(data["pc"].number());
  note.thread = static_cast<int>(data["thread"].number());
  for (const auto& [name, kind] : kKinds)
    if (const Data* said = data.find(name)) {
      note.kind = kind;
      if (kind == DebugNote::Log)
        note.value = *said;
      else
        note.text = said->text();
    }
  if (const Data* code = data.find("code")) note.code = code->text();
  if (const Data* file = data.find("file")) note.file = file->text();
  if (const Data* line = data.find("line")) note.line = static_cast<int>(line->number());
  return note;
}

Data::Structure code_of(const DebugCode& code) {
  Data::List at;
  for (const auto& [place, text] : code.at) at.push_back(Data::Structure{{"place", place}, {"code", text}});
  return {{"at", std::move(at)}, {"sources", texts(code.sources)}, {"flags", texts(code.flags)}};
}

// Parameters, of which those that say nothing are left out.
class Params {
 public:
  Params(Data::Structure params = {}) : params_(std::move(params)) {}

  Params&& add(const char* name, Data value) && {
    params_.push_back({name, std::move(value)});
    return std::move(*this);
  }
  Params&& add(const char* name, const std::optional<std::uint64_t>& number) && {
    return number ? std::move(*this).add(name, Data(*number)) : std::move(*this);
  }
  Params&& thread(int tid) && { return tid ? std::move(*this).add("tid", Data(tid)) : std::move(*this); }
  Params&& processes(const Processes& processes) && {
    if (processes.is_all()) return std::move(*this).add("processes", Data("all"));
    if (processes.numbers().empty()) return std::move(*this);
    return std::move(*this).add("processes",
                                Data::List(processes.numbers().begin(), processes.numbers().end()));
  }
  // Any options that have a stretch of the run, of some processes.
  Params&& stretch(const auto& options) && {
    return std::move(*this).processes(options.processes).edges(options);
  }
  Params&& edges(const auto& options) && {
    if (!options.start.empty()) params_.push_back({"from", options.start});
    if (!options.end.empty()) params_.push_back({"to", options.end});
    return std::move(*this);
  }
  operator const Data::Structure&() const { return params_; }

 private:
  Data::Structure params_;
};

}  // namespace

Error::Error(const std::string& sentence, int code) : std::runtime_error(sentence), code_(code) {}
Error::~Error() = default;
Cancelled::Cancelled(const std::string& sentence) : Error(sentence, kCode) {}
Cancelled::~Cancelled() = default;

Version library_version() {
  return kHeaderVersion;
}

template <class T>
Stream<T>::Stream(std::shared_ptr<Request> request) : request_(std::move(request)) {}

template <class T>
std::optional<T> Stream<T>::next() {
  const auto data = request_ ? request_->next() : std::nullopt;
  if (!data) return std::nullopt;
  return read<T>(*data);
}

template class Stream<Hit>;
template class Stream<Call>;
template class Stream<Syscall>;
template class Stream<DebugNote>;

Session::Session(std::shared_ptr<Dialogue> dialogue) : dialogue_(std::move(dialogue)) {}
Session::Session(Session&&) noexcept = default;

Session& Session::operator=(Session&& other) noexcept {
  std::swap(dialogue_, other.dialogue_);
  other.close();
  return *this;
}

Session::~Session() {
  close();
}

void Session::close() {
  if (dialogue_) dialogue_->close();
}

Dialogue& Session::dialogue() const {
  if (!dialogue_) throw Error("this session has been moved to another variable");
  return *dialogue_;
}

Session Session::open(const std::string& recording, const OpenOptions& options) {
  std::vector<std::string> args{"session"};
  if (!options.process.empty()) args.insert(args.end(), {"-p", options.process});
  if (!recording.empty()) args.insert(args.end(), {"--", recording});
  Session session(std::make_shared<Dialogue>(options.program, args));
  const Data about = session.ask("version");
  session.dialogue_->version = about["version"].text();
  if (about["protocol"] != kProtocol)
    throw Error("backstep " + session.version() + " speaks another protocol than libbackstep " +
                BACKSTEP_VERSION_STRING + ": install the two together");
  return session;
}

std::string Session::version() const {
  return dialogue().version;
}

void Session::on_progress(std::function<void(double)> callback) {
  dialogue().on_progress = std::move(callback);
}

void Session::on_note(std::function<void(const std::string&)> callback) {
  dialogue().on_note = std::move(callback);
}

void Session::cancel() {
  dialogue().cancel();
}

Data Session::ask(const std::string& method, const Data::Structure& params) {
  return dialogue().ask(method, params);
}

std::vector<std::string> Session::methods() {
  std::vector<std::string> names;
  for (const Data& name : ask("methods").list()) names.push_back(name.text());
  return names;
}

Info Session::info() {
  return read<Info>(ask("info"));
}

std::vector<Process> Session::processes() {
  return read_list<Process>(ask("processes"));
}

Info Session::use_process(int process) {
  return read<Info>(ask("process", {{"process", process}}));
}

std::uint64_t Session::count(const std::string& spec, const Stretch& stretch) {
  return counts({spec}, stretch).at(0);
}

std::vector<std::uint64_t> Session::counts(const std::vector<std::string>& specs, const Stretch& stretch) {
  std::vector<std::uint64_t> counts;
  for (const Data& count : ask("count", Params({{"specs", texts(specs)}}).stretch(stretch)).list())
    counts.push_back(count["count"].address());
  return counts;
}

std::vector<Share> Session::count_by_process(const std::string& spec, const Stretch& stretch) {
  Stretch asked = stretch;
  if (asked.processes.numbers().empty()) asked.processes = Processes::all();
  const Data counts = ask("count", Params({{"specs", texts({spec})}}).stretch(asked));
  return read_list<Share>(counts[0]["processes"]);
}

Stream<Hit> Session::log(const std::string& spec, const std::vector<std::string>& values,
                         const LogOptions& options) {
  return Stream<Hit>(
      dialogue().begin("log",
                       Params({{"spec", spec}, {"values", texts(values)}, {"stack", options.stack}})
                           .add("limit", options.limit)
                           .add("last", options.last)
                           .stretch(options),
                       "hit"));
}

std::vector<Verdict> Session::check(const std::string& assertions, const Stretch& stretch) {
  return read_list<Verdict>(ask("assert", Params({{"assertions", assertions}}).stretch(stretch)));
}

Stream<Call> Session::calls(const std::string& function, const CallsOptions& options) {
  return Stream<Call>(
      dialogue().begin("calls",
                       Params({{"function", function}, {"tree", options.tree}, {"system", options.system}})
                           .add("limit", options.limit)
                           .add("depth", options.depth)
                           .stretch(options),
                       "call"));
}

Stream<Syscall> Session::syscalls(const std::string& filter, const SyscallsOptions& options) {
  return Stream<Syscall>(dialogue().begin("syscalls",
                                          Params({{"filter", filter}, {"failed", options.failed}})
                                              .add("limit", options.limit)
                                              .add("last", options.last)
                                              .add("strings", options.strings)
                                              .stretch(options),
                                          "syscall"));
}

std::vector<SyscallTotal> Session::syscall_totals(const std::string& filter, const Stretch& stretch) {
  return read_list<SyscallTotal>(
      ask("syscalls", Params({{"filter", filter}, {"summary", true}}).stretch(stretch))["totals"]);
}

Profile Session::profile(const ProfileOptions& options) {
  return read<Profile>(ask(
      "profile",
      Params({{"period", options.period}, {"lines", options.lines}, {"instructions", options.instructions}})
          .stretch(options)));
}

std::vector<Coverage> Session::coverage(const CoverageOptions& options) {
  return read_list<Coverage>(ask("coverage", Params({{"system", options.system}}).stretch(options)));
}

Data Session::why(const std::string& expression, const std::string& at, std::uint64_t depth) {
  return ask("why", {{"expression", expression}, {"at", at}, {"depth", depth}});
}

Data Session::diff(const std::string& other, bool exact) {
  return ask("diff", {{"other", other}, {"exact", exact}});
}

Allocs Session::allocs(const AllocsOptions& options) {
  Data::Structure params{{"leaks", options.leaks},
                         {"errors", options.errors},
                         {"frees", options.frees},
                         {"uninitialised", options.uninitialised}};
  if (!options.end.empty()) params.push_back({"to", options.end});
  return read<Allocs>(ask("allocs", params));
}

Stream<DebugNote> Session::probe(const DebugCode& code, const Stretch& stretch) {
  return Stream<DebugNote>(dialogue().begin(
      "probe", Params(code_of(code)).add("parallel", Data(code.parallel)).edges(stretch), "debug"));
}

void Session::on_debug(std::function<void(const DebugNote&)> callback) {
  if (!callback) {
    dialogue().on_debug = nullptr;
    return;
  }
  dialogue().on_debug = [callback = std::move(callback)](const Data& data) {
    callback(read<DebugNote>(data));
  };
}

std::size_t Session::debug(const DebugCode& code) {
  return ask("debug", Params(code_of(code)).add("keep", Data(code.keep)))["places"].list().size();
}

std::vector<Race> Session::races(const Stretch& stretch) {
  return read_list<Race>(ask("races", Params().edges(stretch)));
}

Table Session::sql(const std::string& query, std::optional<std::uint64_t> limit) {
  return read<Table>(ask("sql", Params({{"query", query}}).add("limit", limit)));
}

Moment Session::now() {
  return read<Moment>(ask("now"));
}

Moment Session::go_to(const std::string& moment) {
  return read<Moment>(ask("goto", {{"to", moment}}));
}

Moment Session::forward(const std::vector<std::string>& events) {
  return read<Moment>(ask("forward", {{"events", texts(events)}}));
}

Moment Session::backward(const std::vector<std::string>& events) {
  return read<Moment>(ask("backward", {{"events", texts(events)}}));
}

std::optional<Hit> Session::query(const std::string& query, const std::vector<std::string>& values,
                                  const QueryOptions& options) {
  const Data answer =
      ask("query",
          {{"query", query}, {"values", texts(values)}, {"stack", options.stack}, {"move", options.move}});
  if (!answer["found"].truth()) return std::nullopt;
  return read<Hit>(answer["hit"]);
}

Moment Session::step(std::uint64_t count, bool back, int tid) {
  return read<Moment>(ask("step", Params({{"count", count}, {"back", back}}).thread(tid)));
}

Moment Session::step(const std::string& by, std::uint64_t count, bool back, int tid) {
  return read<Moment>(ask("step", Params({{"by", by}, {"count", count}, {"back", back}}).thread(tid)));
}

int Session::create_event(const std::string& spec, const EventOptions& options) {
  const char* action = options.count ? "count" : options.log ? "log" : "stop";
  const Data answer = ask("create_event", {{"spec", spec},
                                           {"action", action},
                                           {"times", options.times},
                                           {"values", texts(options.values)},
                                           {"stack", options.stack},
                                           {"install", options.install}});
  const int id = static_cast<int>(answer["event_id"].number());
  events_[id] = options;
  return id;
}

void Session::install(int event_id) {
  ask("install", {{"event_id", event_id}});
}

void Session::uninstall(int event_id) {
  ask("uninstall", {{"event_id", event_id}});
}

void Session::destroy(int event_id) {
  ask("destroy", {{"event_id", event_id}});
  events_.erase(event_id);
}

std::vector<Event> Session::events() {
  return read_list<Event>(ask("events"));
}

Moment Session::run(bool back) {
  for (;;) {
    const auto request = dialogue().begin("run", {{"back", back}}, "hit");
    while (const auto logged = request->next()) {
      const Hit hit = read<Hit>(*logged);
      if (auto event = events_.find(hit.event_id); event != events_.end() && event->second.log)
        event->second.log(hit);
    }
    const Data answer = request->result();
    const std::vector<Hit> matches = read_list<Hit>(answer["matches"]);
    bool stops = matches.empty();
    for (const Hit& hit : matches) {
      auto event = events_.find(hit.event_id);
      if (event == events_.end()) continue;  // an action has destroyed it just now
      const auto action = event->second.action;
      stops |= !action || action(hit);
    }
    if (stops) return read<Moment>(answer);
  }
}

Bookmark Session::bookmark(const std::string& name, const std::string& note) {
  return read<Bookmark>(ask("bookmark", {{"name", name}, {"note", note}}));
}

std::vector<Bookmark> Session::bookmarks() {
  return read_list<Bookmark>(ask("bookmarks"));
}

void Session::remove_bookmark(const std::string& name) {
  ask("remove_bookmark", {{"name", name}});
}

Checkpoint Session::checkpoint(const std::string& note) {
  return read<Checkpoint>(ask("checkpoint", {{"note", note}}));
}

std::vector<Checkpoint> Session::checkpoints() {
  return read_list<Checkpoint>(ask("checkpoints"));
}

Moment Session::restart(int checkpoint) {
  return read<Moment>(ask("restart", {{"checkpoint", checkpoint}}));
}

void Session::remove_checkpoint(int checkpoint) {
  ask("remove_checkpoint", {{"checkpoint", checkpoint}});
}

std::vector<Frame> Session::stack(int tid) {
  return read_list<Frame>(ask("stack", Params().thread(tid))["frames"]);
}

Data Session::value(const std::string& expression, std::size_t frame, int tid) {
  Value value = explain(expression, frame, tid);
  return value.why.empty() ? std::move(value.value) : Data();
}

Value Session::explain(const std::string& expression, std::size_t frame, int tid) {
  return read<Value>(ask("value", Params({{"expression", expression}, {"frame", frame}}).thread(tid)));
}

std::vector<Value> Session::locals(std::size_t frame, int tid) {
  return read_list<Value>(ask("locals", Params({{"frame", frame}}).thread(tid)));
}

std::vector<Thread> Session::threads() {
  return read_list<Thread>(ask("threads"));
}

std::map<std::string, std::uint64_t> Session::registers(int tid) {
  std::map<std::string, std::uint64_t> registers;
  for (const auto& [name, value] : ask("registers", Params().thread(tid)).structure())
    registers[name] = value.address();
  return registers;
}

std::vector<std::uint8_t> Session::memory(std::uint64_t address, std::uint64_t size) {
  const Data answer = ask("memory", {{"address", address}, {"size", size}});
  const std::string& hex = answer["bytes"].text();
  std::vector<std::uint8_t> bytes(hex.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); i++) std::from_chars(&hex[2 * i], &hex[2 * i] + 2, bytes[i], 16);
  return bytes;
}

}  // namespace backstep
