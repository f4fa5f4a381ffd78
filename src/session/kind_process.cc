// Threads and processes begin, programs become others. The log says where.
#include "session/kind.h"

#include <fmt/format.h>

#include "events/reader.h"
#include "session/session.h"

namespace backstep::session {
namespace {

void read_nothing(events::Reader& r, events::Spec&) {
  if (!r.empty()) r.fail(fmt::format("nothing is expected here, but there is '{}'", r.rest()));
}

void thread_taps(Resolving& r, const events::Spec&) {
  r.at(r.log().thread_starts());
}

void fork_taps(Resolving& r, const events::Spec&) {
  r.of_log(timeline::Tap::Fork);
}

void exec_taps(Resolving& r, const events::Spec&) {
  if (r.log().ends_with_exec()) r.at(std::vector{r.log().last()});
}

}  // namespace

extern const KindOfEvent kThread{
    {"thread",
     read_nothing,
     {{"thread, fork, exec", "the call that starts a thread, makes a process, becomes another program"}}},
    thread_taps};
extern const KindOfEvent kFork{{"fork", read_nothing}, fork_taps};
extern const KindOfEvent kExec{{"exec", read_nothing}, exec_taps};

}  // namespace backstep::session
