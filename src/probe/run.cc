// One sweep: each place is a tap with the action Run. Debug code keeps its state from one call to the next,
// so the stretch is one window, replayed by one process; stateless code runs in windows like any other
// question.
#include "probe/run.h"

#include "probe/answers.h"

namespace backstep::probe {
namespace {

timeline::Tap tap_of(const Place& place) {
  timeline::Tap tap;
  tap.action = timeline::Tap::Run;
  tap.start = place.pc;
  tap.function = place.function;
  tap.vector = place.needs_vector;
  return tap;
}

}  // namespace

timeline::Taps places_of(const Module& module) {
  timeline::Taps taps;
  for (const Place& place : module.places) taps.list.push_back(tap_of(place));
  return taps;
}

RunResult run(session::Session& session, const Module& module, const RunRequest& request,
              const std::function<bool(const Note&)>& tell, const session::Watcher& watcher) {
  timeline::Sweep sweep;
  sweep.from = request.stretch.from, sweep.to = request.stretch.to;
  sweep.taps = places_of(module);
  sweep.debug_module = module.elf_path;
  sweep.stateless = request.parallel;
  sweep.debug_answers = answers(session);
  sweep.progress = watcher.progress;
  NoteReader reader(session, module);
  sweep.record = [&](const replayer::TapRecord& record, const uint8_t* bytes) {
    return tell(reader.read(record, bytes));
  };
  const timeline::Swept swept = session.timeline().sweep(sweep);
  RunResult result;
  result.complete = swept.complete;
  for (const replayer::TapCount& c : swept.counts) result.calls.push_back(c.matches);
  return result;
}

std::vector<std::pair<const Region*, uint64_t>> calls_of_regions(const Module& module,
                                                                 const RunResult& result) {
  std::vector<std::pair<const Region*, uint64_t>> all;
  for (const Region& region : module.regions) all.emplace_back(&region, 0);
  for (size_t i = 0; i < module.places.size() && i < result.calls.size(); i++)
    if (module.places[i].region < all.size()) all[module.places[i].region].second += result.calls[i];
  return all;
}

}  // namespace backstep::probe
