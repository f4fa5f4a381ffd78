// What the commands of `backstep cluster` have in common: the run that they ask, and how a cut is shown.
#include <fmt/format.h>

#include <map>

#include "base/error.h"
#include "base/nearest.h"
#include "cli/asking.h"
#include "cli/cluster_commands.h"
#include "cli/format.h"
#include "cluster/delayed.h"
#include "timeline/moments.h"

namespace backstep::cli {
namespace {

using cluster::Cut;
using cluster::Place;

std::string at_text(const Place& place) {
  return timeline::point_text(place.at.tick, place.at.pc);
}

std::string state_text(const Place& place) {
  if (place.stopped) return "stopped";
  if (place.waits && place.state == Place::Running) return "waits";
  return place_state_name(place.state);
}

std::string kind_text(const Cut& cut) {
  switch (cut.kind) {
    case Cut::Causal:
      return "all that happened before, and no more";
    case Cut::Optimistic:
      return "everybody as far as possible";
    default:
      return "a mark";
  }
}

}  // namespace

OpenRun::OpenRun(const std::string& run, const ReplayOptions& options)
    : history(cluster::read_history(run)),
      causality(history),
      cuts(causality),
      breaking(causality),
      sessions(history, options) {}

cluster::ProcessId OpenRun::process(const std::string& name) const {
  const cluster::ProcessId p = history.find(name);
  if (p != cluster::kNone) return p;
  std::vector<std::string> names;
  for (const auto& process : history.processes) names.push_back(process.name);
  throw Error(fmt::format("the run has no process '{}'{}", name, did_you_mean(name, names)), kExitUsage);
}

Cut OpenRun::cut(const std::string& name) {
  if (name == "start") return breaking.start();
  if (name == "alive") return breaking.alive();
  if (name == "end" || (name.empty() && !cuts.has(cluster::kPresentCut))) return breaking.end();
  return cuts.load(name.empty() ? cluster::kPresentCut : name);
}

void show_cut(OpenRun& run, const Cut& cut, bool json, bool source) {
  std::map<cluster::ProcessId, cluster::Delay> delays;
  for (const cluster::Delay& d : cluster::delayed(run.causality, cut)) delays.emplace(d.process, d);
  Json object{{"name", cut.name}, {"kind", cut_kind_name(cut.kind)}};
  Json& processes = object["processes"] = Json::array();
  Table table({"process", "state", "at", "where", "why"});
  ProgressBar bar("looking");
  for (cluster::ProcessId p = 0; p < cut.places.size(); p++) {
    const Place& place = cut.places[p];
    const std::string& name = run.history.processes[p].name;
    Json entry{
        {"process", name}, {"state", state_text(place)}, {"at", at_text(place)}, {"event", place.at.event}};
    std::string where;
    if (source && place.state != Place::Unborn) {
      bar.show(static_cast<double>(p) / static_cast<double>(cut.places.size()));
      const cluster::SourcePlace at = run.sessions.source(p, place);
      where = at.text();
      if (!at.function.empty()) entry["function"] = at.function;
      if (at.line) entry["file"] = at.file, entry["line"] = at.line;
      if (!at.inner.empty()) entry["inner"] = at.inner;
    }
    entry["why"] = place.why;
    std::string why = place.why;
    if (const auto delay = delays.find(p); delay != delays.end()) {
      entry["delayed"] = delay->second.there;
      why += fmt::format(" (the replay holds it: {} of {} is there)", delay->second.there,
                         run.history.processes[delay->second.giver].name);
    }
    processes.push_back(entry);
    table.add({name, state_text(place), place.state == Place::Unborn ? "" : at_text(place), where, why});
  }
  bar.clear();
  if (json) {
    put_line(object.dump(-1, ' ', false, Json::error_handler_t::replace));
    return;
  }
  fmt::print("cut {} ({}: {})\n{}", cut.name.empty() ? "without a name" : cut.name, cut_kind_name(cut.kind),
             kind_text(cut), table.text());
}

}  // namespace backstep::cli
