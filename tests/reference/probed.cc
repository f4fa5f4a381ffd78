// Runs a debug module, made by hand, over a recording: for tests of how debug code runs, without those who
// make modules of sources. Test code only.
//
//   probed [-p PROCESS] [--from TICK] [--to TICK] [--parallel] [--memory] [--small] DIR MODULE
//   PC=FUNCTION[:v]...
//
// What the debug code prints goes to stdout; the rest to stderr, a line each: `failure FILE:LINE it …`, `mark
// …`, `stop …`, `json …`, with the control point in front; at the end `calls N…`, one number for each place.
// :v: the function is told the vector registers.
#include <cstdio>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "engine/layout.h"
#include "probe/run.h"

using namespace backstep;

namespace {

struct Options {
  probe::Module module;
  probe::RunRequest request;
  std::string dir;
  ReplayOptions replay;
};

Options parse(int argc, char** argv) {
  Options o;
  o.replay.check_deep = true;
  for (int i = 1; i < argc; i++) {
    const std::string arg = argv[i];
    auto number = [&] { return std::strtoull(i + 1 < argc ? argv[++i] : "0", nullptr, 0); };
    if (arg == "-p") {
      o.replay.process = number();
    } else if (arg == "--from") {
      o.request.stretch.from = session::Position{number(), 0, 0};
    } else if (arg == "--to") {
      o.request.stretch.to = session::Position{number(), 0, 0};
    } else if (arg == "--parallel") {
      o.request.parallel = true;
    } else if (arg == "--memory") {
      o.replay.engine.counter = EngineOptions::Counter::Memory;
    } else if (arg == "--small") {
      o.replay.engine.cache_size = 256 << 10;
    } else if (o.dir.empty()) {
      o.dir = arg;
    } else if (o.module.elf_path.empty()) {
      o.module.elf_path = arg;
    } else {
      const size_t equals = arg.find('=');
      o.module.places.push_back({std::strtoull(arg.c_str(), nullptr, 0),
                                 std::strtoull(arg.c_str() + equals + 1, nullptr, 0), 0,
                                 arg.ends_with(":v")});
    }
  }
  o.module.regions.push_back({"module.cc", 1, ""});
  o.module.base = layout::kProbe, o.module.size = layout::kProbeSize;
  return o;
}

bool print_note(const probe::Note& note) {
  if (note.kind == replayer::DebugNote::Output) {
    std::fwrite(note.text.data(), 1, note.text.size(), stdout);
    return true;
  }
  static constexpr const char* kNames[] = {"output", "errors", "failure",  "stop",
                                           "mark",   "json",   "complaint"};
  fmt::print(stderr, "@{}:{:#x} {} ", note.at.tick, note.at.pc, kNames[static_cast<int>(note.kind)]);
  if (note.kind == replayer::DebugNote::Failure || note.kind == replayer::DebugNote::Complaint)
    fmt::print(stderr, "{}:{} it ", note.file.substr(note.file.rfind('/') + 1), note.line);
  fmt::print(stderr, "{}\n", note.text);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Options o = parse(argc, argv);
    const auto library = recording::Library::standard();
    const auto recording = library.resolve(o.dir);
    o.replay.recording = recording.dir();
    session::Session session(o.replay, library, recording);
    const probe::RunResult result = probe::run(session, o.module, o.request, print_note, {});
    fmt::print(stderr, "calls");
    for (uint64_t n : result.calls) fmt::print(stderr, " {}", n);
    fmt::print(stderr, "\n");
    return result.complete ? 0 : 1;
  } catch (const Error& e) {
    fmt::print(stderr, "probed: {}\n", e.what());
    return e.exit_code;
  } catch (const std::exception& e) {
    fmt::print(stderr, "probed: {}\n", e.what());
    return 2;
  }
}
