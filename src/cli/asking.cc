#include "cli/asking.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/format.h"
#include "recording/tree.h"

namespace backstep::cli {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void Asking::add_options(CommandLine& line) {
  line.add_option("-p,--process", process,
                  "of this process: a pid, or #N as in 'backstep ps'\n"
                  "(the first one); of several: 2,5, or all")
      .type_name("PID|#N|all");
  line.add_option("--from", from, "from this moment on: a tick, @TICK:0xPC, N%, start").type_name("MOMENT");
  line.add_option("--to", to, "up to this one, which does not count; or end").type_name("MOMENT");
  line.add_flag("--json", json, "JSON");
  line.add_engine_options(replay.engine);
}

void Asking::take_dir(std::vector<std::string>& arguments, size_t least, size_t most) {
  if (arguments.size() <= least) return;
  const std::string& last = arguments.back();
  try {
    recording::Library::standard().resolve(last);
    dir = last;
    arguments.pop_back();
  } catch (const Error& e) {
    if (last.find('/') != std::string::npos) throw;
    if (arguments.size() > most) throw Error(e.what(), kExitUsage);
  }
  if (arguments.size() > most)
    throw Error(fmt::format("what is '{}' for? Words with spaces need quotes", arguments[most]), kExitUsage);
}

std::unique_ptr<session::Several> Asking::open_several() {
  if (process.empty()) return nullptr;
  const auto library = recording::Library::standard();
  const auto recording = library.resolve(dir);
  auto numbers = session::find_several(recording, process);
  if (!numbers) return nullptr;
  replay.recording = recording.dir();
  replay.quiet = true;
  return std::make_unique<session::Several>(replay, library, recording, *numbers);
}

std::unique_ptr<session::Session> Asking::open() {
  const auto library = recording::Library::standard();
  const auto recording = library.resolve(dir);
  replay.recording = recording.dir();
  replay.quiet = true;
  if (!process.empty()) {
    replay.process = recording::find_process(recording, process);
    replay.chosen = true;
  }
  if (recording::is_without_events(recording, replay.process))
    throw Error(fmt::format("process #{} was killed before its first event: there is nothing to ask",
                            replay.process));
  return std::make_unique<session::Session>(replay, library, recording);
}

session::Stretch Asking::stretch(const session::Session& session) const {
  session::Stretch s;
  if (!from.empty() && from != "start") s.from = session.moment(from);
  if (!to.empty() && to != "end") s.to = session.moment(to);
  if (s.from && s.to && *s.to < *s.from)
    throw Error(fmt::format("--to {} is before --from {}", to, from), kExitUsage);
  return s;
}

std::string process_title(const session::AskedProcess& process) {
  return fmt::format("#{} {}, pid {}", process.number, process.program, process.pid);
}

void add_process(Json& object, const session::AskedProcess& process) {
  object["process"] = process.number;
  object["pid"] = process.pid;
}

void tell_failures(const session::Count& count, bool named) {
  if (count.failures)
    fmt::print(stderr,
               "backstep: the condition{} could not be evaluated {} times (memory or a thread-local variable "
               "that is not there, or a "
               "division by zero): no matches there\n",
               named ? fmt::format(" of '{}'", count.spec) : "", format_count(count.failures));
}

ProgressBar::ProgressBar(const char* what) : what_(what), terminal_(isatty(STDERR_FILENO)), start_(now()) {}

ProgressBar::~ProgressBar() {
  clear();
}

void ProgressBar::show(double done) {
  constexpr double kPatience = 0.5, kEvery = 0.1;
  const double t = now();
  if (!terminal_ || t - start_ < kPatience || t - last_ < kEvery) return;
  last_ = t;
  shown_ = true;
  constexpr int kWidth = 30;
  const int full = static_cast<int>(done * kWidth);
  fmt::print(stderr, "\r{} [{}{}] {:3.0f}%\x1b[K", what_, std::string(static_cast<size_t>(full), '#'),
             std::string(static_cast<size_t>(kWidth - full), ' '), 100 * done);
  fflush(stderr);
}

void ProgressBar::clear() {
  if (shown_) fmt::print(stderr, "\r\x1b[K");
  shown_ = false;
}

session::Watcher ProgressBar::watcher() {
  session::Watcher w;
  w.progress = [this](double done) { show(done); };
  w.note = [this](const std::string& sentence) {
    clear();
    fmt::print(stderr, "backstep: {}\n", sentence);
  };
  return w;
}

bool put_line(const std::string& line) {
  return std::fwrite(line.data(), 1, line.size(), stdout) == line.size() && std::fputc('\n', stdout) != EOF;
}

}  // namespace backstep::cli
