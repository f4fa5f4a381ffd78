// What session/accesses.h says of a recording, as text, for a test that compares it with the reference. Test
// code only.
//
//   accesses [-p PROCESS] [--from TICK] [--to TICK] [--stores] [--loads] [--data START:END]... [--code
//   START:END]...
//            [--thread N] [--memory] [--small] [--short] [--count] DIR
//
// One line for each: TICK EVENT PC THREAD r|w|k ADDRESS:SIZE OLD NEW (k: by the kernel), then `end`. --count:
// only how many. --memory, --small, --short: ticks are counted in memory, the code cache is small, so are
// blocks.
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "session/accesses.h"

using namespace backstep;

int main(int argc, char** argv) {
  try {
    session::AccessRequest request;
    request.stores = false;
    std::string dir;
    ReplayOptions replay;
    bool count = false;
    for (int i = 1; i < argc; i++) {
      const std::string arg = argv[i];
      auto value = [&] { return std::string(i + 1 < argc ? argv[++i] : ""); };
      auto number = [&] { return std::strtoull(value().c_str(), nullptr, 0); };
      auto range = [&] {
        const std::string text = value();
        return recording::AddressRange{std::strtoull(text.c_str(), nullptr, 0),
                                       std::strtoull(text.c_str() + text.find(':') + 1, nullptr, 0)};
      };
      if (arg == "-p") {
        replay.process = number();
      } else if (arg == "--from") {
        request.stretch.from = session::Position{number(), 0, 0};
      } else if (arg == "--to") {
        request.stretch.to = session::Position{number(), 0, 0};
      } else if (arg == "--stores") {
        request.stores = true;
      } else if (arg == "--loads") {
        request.loads = true;
      } else if (arg == "--data") {
        request.data.push_back(range());
      } else if (arg == "--code") {
        request.code.push_back(range());
      } else if (arg == "--thread") {
        request.thread = static_cast<int>(number());
      } else if (arg == "--memory") {
        replay.engine.counter = EngineOptions::Counter::Memory;
      } else if (arg == "--small") {
        replay.engine.cache_size = 64 << 10;
      } else if (arg == "--short") {
        replay.engine.max_block = 2;
      } else if (arg == "--count") {
        count = true;
      } else {
        dir = arg;
      }
    }
    const auto library = recording::Library::standard();
    const auto recording = library.resolve(dir);
    replay.recording = recording.dir();
    session::Session session(replay, library, recording);
    uint64_t n = 0;
    auto take = [&](const session::Access& a) {
      n++;
      if (!count)
        fmt::print("{} {} {} {} {} {}:{} {} {}\n", a.tick, a.event, a.pc, a.thread,
                   a.by_kernel ? 'k'
                   : a.store   ? 'w'
                               : 'r',
                   a.address, a.size, a.old_value, a.new_value);
      return true;
    };
    session::accesses(session, request, take, {});
    count ? fmt::print("{}\n", n) : fmt::print("end\n");
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "accesses: {}\n", e.what());
    return 2;
  }
}
