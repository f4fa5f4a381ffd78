// One tap of the kind Accesses, and its records as they come (replay/reported_accesses.cc makes them).
#include "session/accesses.h"

#include <cstring>

#include "session/hits.h"

namespace backstep::session {

void accesses(Session& session, const AccessRequest& request, const std::function<bool(const Access&)>& take,
              const Watcher& watcher) {
  using timeline::Tap;
  Tap tap;
  tap.kind = Tap::Accesses;
  tap.action = Tap::Log;
  tap.length = (request.stores ? Tap::kStores : 0) | (request.loads ? Tap::kLoads : 0);
  if (!tap.length) return;
  tap.start = static_cast<Address>(request.thread);
  for (const auto& r : request.data) tap.data.push_back({r.start, r.end});
  for (const auto& r : request.code) tap.code.push_back({r.start, r.end});
  timeline::Sweep sweep;
  sweep.taps.list.push_back(tap);
  sweep.from = request.stretch.from, sweep.to = request.stretch.to;
  sweep.progress = watcher.progress;
  sweep.record = [&](const replayer::TapRecord& record, const uint8_t* values) {
    replayer::AccessRecord a{};
    const auto bytes = CapturedValues(values).next();
    std::memcpy(&a, bytes.data(), std::min(bytes.size(), sizeof a));
    return take({record.tick, record.event, record.pc, record.thread, a.address, a.size, a.store, a.by_kernel,
                 a.old_value, a.new_value});
  };
  session.timeline().sweep(sweep);
}

}  // namespace backstep::session
