#include "trace/history.h"

#include <poll.h>

#include <charconv>

#include <fmt/format.h>

#include "base/text.h"
#include "recording/tree.h"
#include "session/modules.h"

namespace backstep::trace {

Value captured(const nlohmann::ordered_json& json, const std::string& text) {
  if (json.is_null()) return {};
  if (json.is_boolean()) return static_cast<int64_t>(json.get<bool>());
  if (json.is_number_unsigned()) return number(json.get<uint64_t>());
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (!json.is_string()) return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  const auto string = json.get<std::string>();
  uint64_t pointer = 0;
  const char* end = string.data() + string.size();
  if (string.starts_with("0x") && text.starts_with("0x")) {
    const auto [rest, error] = std::from_chars(string.data() + 2, end, pointer, 16);
    // Of code, its name may follow.
    if (error == std::errc() && (rest == end || *rest == ' ')) return number(pointer);
  }
  return string;
}

struct History::Process {
  std::optional<timeline::LogIndex> log;
  std::optional<timeline::WallClock> clock;
  std::optional<symbols::Program> program;  // if there is no session
  std::unique_ptr<session::Session> session;
};

History::History(const ReplayOptions& options, const recording::Library& library,
                 const recording::Recording& recording, const timeline::Attention& ear,
                 session::Watcher watcher)
    : options_(options), library_(library), recording_(recording), ear_(ear), watcher_(std::move(watcher)) {}

History::~History() = default;

History::Process& History::of(uint64_t process) {
  std::unique_ptr<Process>& entry = of_[process];
  if (!entry) entry = std::make_unique<Process>();
  return *entry;
}

const std::vector<recording::ProcessFacts>& History::processes() {
  if (!processes_) processes_ = recording::process_facts(recording_);
  return *processes_;
}

const recording::ProcessFacts* History::facts(uint64_t process) {
  for (const auto& p : processes())
    if (p.info.number == process) return &p;
  return nullptr;
}

bool History::is_readable(uint64_t process) {
  const recording::ProcessFacts* p = facts(process);
  return p && !p->info.empty && !p->info.damaged;
}

const timeline::LogIndex& History::log(uint64_t process) {
  Process& p = of(process);
  if (p.session) return p.session->timeline().log();
  if (!p.log) p.log.emplace(recording_, process);
  return *p.log;
}

const timeline::WallClock& History::clock(uint64_t process) {
  Process& p = of(process);
  if (!p.clock) {
    std::optional<int64_t> end;
    const recording::ProcessFacts* f = facts(process);
    if (f && f->info.start_ns && f->duration_ns)
      end = static_cast<int64_t>(f->info.start_ns) + *f->duration_ns;
    p.clock.emplace(log(process), recording_.manifest(), end);
  }
  return *p.clock;
}

const events::CallReader& History::calls() {
  if (!calls_) calls_.emplace(recording_);
  return *calls_;
}

const session::Messages& History::messages() {
  if (!messages_) {
    session::Channels channels(recording_);
    messages_.emplace(channels);
  }
  return *messages_;
}

const symbols::Program& History::program(uint64_t process) {
  Process& p = of(process);
  if (p.session) return p.session->program();
  if (!p.program) p.program.emplace(session::modules_of(log(process), library_, recording_));
  return *p.program;
}

session::Session& History::session(uint64_t process) {
  Process& p = of(process);
  if (!p.session) {
    if (!facts(process))
      throw Error(fmt::format("there is no process #{} in the recording", process), kExitUsage);
    if (!is_readable(process))
      throw Error(
          fmt::format("nothing of process #{} can be replayed: it was killed before its first event, or "
                      "its log is damaged",
                      process));
    ReplayOptions options = options_;
    options.process = process;
    options.chosen = true;
    options.quiet = true;
    p.session = std::make_unique<session::Session>(options, library_, recording_, ear_);
    p.session->timeline().attention = ear_;
  }
  return *p.session;
}

void History::listen() {
  constexpr unsigned kEvery = 4096;
  if (until_listening_-- > 0) return;
  until_listening_ = kEvery;
  listen_now();
}

void History::listen_now() {
  pollfd p{ear_.fd, POLLIN, 0};
  if (ear_.fd >= 0 && poll(&p, 1, 0) > 0 && ear_.stop_wanted && ear_.stop_wanted()) throw Interrupted();
}

void History::check(session::Session& session) {
  if (session.timeline().attention.stop_asked) throw Interrupted();
}

void History::stop_listening() {
  for (auto& [number, p] : of_)
    if (p->session) p->session->timeline().attention.fd = -1;
}

void History::damaged(uint64_t process, const std::string& what) {
  if (damaged_.insert(process).second && watcher_.note)
    watcher_.note(fmt::format("process #{}: {}", process, what));
}

void History::note(const std::string& sentence) {
  if (noted_.insert(sentence).second && watcher_.note) watcher_.note(sentence);
}

session::Position History::moment(uint64_t process, const Value& at) {
  if (const auto* tick = std::get_if<int64_t>(&at)) {
    if (*tick < 0) throw Error(fmt::format("there is no tick {}", *tick), kExitUsage);
    return {static_cast<Tick>(*tick), 0, 0};
  }
  if (const auto* text = std::get_if<std::string>(&at)) return session(process).moment(*text);
  throw Error("a moment is a tick or a text: 48211, '@48211:0x401136', 'end', '50%'", kExitUsage);
}

session::Session& History::at(uint64_t process, const Value& moment_value) {
  session::Session& s = session(process);
  const session::Position wanted = moment(process, moment_value);
  const session::Position now = s.timeline().now();
  if (now.tick == wanted.tick && wanted.pc && now.pc == wanted.pc && !wanted.event) return s;
  s.timeline().attention.stop_asked = false;
  const timeline::Arrival arrival = s.timeline().go_to(wanted);
  check(s);
  if (arrival.why == timeline::Arrival::Missing)
    throw Error(fmt::format("process #{} was never at {}", process,
                            std::holds_alternative<std::string>(moment_value)
                                ? std::get<std::string>(moment_value)
                                : std::to_string(std::get<int64_t>(moment_value))),
                kExitUsage);
  return s;
}

std::shared_ptr<const std::vector<Row>> History::kept(const std::string& question) const {
  auto found = kept_.find(question);
  return found == kept_.end() ? nullptr : found->second;
}

bool History::is_asked_often(const std::string& question) {
  constexpr unsigned kOften = 4;
  return ++asked_[question] == kOften;
}

void History::keep(const std::string& question, std::vector<Row> rows) {
  if (rows_kept_ + rows.size() > kMostKept) {
    kept_.clear();
    rows_kept_ = 0;
  }
  rows_kept_ += rows.size();
  kept_[question] = std::make_shared<const std::vector<Row>>(std::move(rows));
}

}  // namespace backstep::trace
