// Signals, in front of their delivery. The log says where that is.
#include "session/kind.h"

#include <csignal>

#include <fmt/format.h>

#include "base/nearest.h"
#include "events/reader.h"

namespace backstep::session {
namespace {

void read_signal(events::Reader& r, events::Spec& s) {
  s.name = r.rest();
}

void signal_taps(Resolving& r, const events::Spec& spec) {
  int wanted = 0;
  if (!spec.name.empty()) {
    for (int signo = 1; signo < NSIG; signo++)
      if (const char* name = sigabbrev_np(signo);
          name && (spec.name == name || spec.name == std::string("SIG") + name))
        wanted = signo;
    if (!wanted) {
      const std::string asked = spec.name.starts_with("SIG") ? spec.name : "SIG" + spec.name;
      Nearest nearest(asked, 3);
      for (int signo = 1; signo < NSIG; signo++)
        if (const char* name = sigabbrev_np(signo)) nearest.offer(std::string("SIG") + name);
      throw Error(fmt::format("there is no signal '{}'{}", spec.name, did_you_mean(nearest.names())),
                  kExitUsage);
    }
  }
  ResolvedTap& tap = r.of_log(timeline::Tap::Signal);
  if (wanted) tap.tap.numbers = {static_cast<uint64_t>(wanted)};
}

}  // namespace

extern const KindOfEvent kSignal{
    {"signal", read_signal, {{"signal [NAME]", "in front of the delivery of a signal"}}}, signal_taps};

}  // namespace backstep::session
