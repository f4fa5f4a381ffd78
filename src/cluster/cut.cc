// Cuts are read as what strangers wrote: whoever sends one sends a file. So processes have to be the run's,
// positions within their logs, and nothing may be received before it is sent; whether a program counter was
// ever there only a replay can say, and does.
#include "cluster/cut.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/nearest.h"
#include "recording/whole_file.h"
#include "timeline/moments.h"

namespace backstep::cluster {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMostBytes = 64 << 20;
constexpr int kFormat = 1;
constexpr const char* kStates[] = {"unborn", "running", "ended"};
constexpr const char* kKinds[] = {"causal", "optimistic", "mark"};

template <typename Enum, size_t N>
Enum named(const char* const (&names)[N], const std::string& name, const char* what) {
  for (size_t i = 0; i < N; i++)
    if (name == names[i]) return static_cast<Enum>(i);
  throw Error(fmt::format("'{}' is no {}", name, what));
}

Json position_json(Json object, const replayer::Position& at) {
  object["at"] = timeline::point_text(at.tick, at.pc);
  object["event"] = at.event;
  return object;
}

Json cut_json(const History& history, const Cut& cut) {
  Json json{{"format", kFormat}, {"name", cut.name}, {"kind", cut_kind_name(cut.kind)}};
  Json& breakpoints = json["breakpoints"] = Json::array();
  for (const Breakpoint& b : cut.breakpoints)
    breakpoints.push_back(position_json(
        {{"process", history.processes[b.process].name}, {"spec", b.spec}, {"match", b.match}}, b.at));
  Json& processes = json["processes"] = Json::array();
  for (ProcessId p = 0; p < cut.places.size(); p++) {
    const Place& place = cut.places[p];
    processes.push_back(position_json(
        {{"process", history.processes[p].name}, {"state", place_state_name(place.state)}}, place.at));
    processes.back()["why"] = place.why;
    if (place.stopped) processes.back()["stopped"] = true;
    if (place.waits) processes.back()["waits"] = true;
  }
  return json;
}

ProcessId process_of(const History& history, const Json& json) {
  const auto name = json.at("process").get<std::string>();
  const ProcessId p = history.find(name);
  if (p == kNone) throw Error("the run has no process " + name);
  return p;
}

replayer::Position position_of(const Json& json) {
  const auto text = json.at("at").get<std::string>();
  const auto point = timeline::parse_point(text);
  if (!point) throw Error("'" + text + "' is no control point");
  return {point->tick, json.at("event").get<uint64_t>(), point->pc};
}

void check_place(const ProcessOfRun& process, const Place& place) {
  if (place.state != Place::Running) return;
  if (place.at.tick < process.begin.tick || place.at.event < process.begin.event ||
      place.at.tick > process.end.tick || place.at.event > process.end.event)
    throw Error(fmt::format("{} was never at {}, event {}", process.name,
                            timeline::point_text(place.at.tick, place.at.pc), place.at.event));
}

Cut cut_of(const History& history, const Json& json) {
  if (json.at("format").get<int>() > kFormat) throw Error("it was written by a newer version of backstep");
  Cut cut;
  cut.name = json.at("name").get<std::string>();
  cut.kind = named<Cut::Kind>(kKinds, json.at("kind").get<std::string>(), "kind of a cut");
  for (const Json& b : json.at("breakpoints"))
    cut.breakpoints.push_back({process_of(history, b), position_of(b), b.at("spec").get<std::string>(),
                               b.at("match").get<uint64_t>()});
  cut.places.resize(history.processes.size());
  std::vector<bool> known(cut.places.size(), false);
  for (const Json& p : json.at("processes")) {
    const ProcessId id = process_of(history, p);
    if (known[id]) throw Error(history.processes[id].name + " is in it twice");
    known[id] = true;
    Place& place = cut.places[id];
    place.state = named<Place::State>(kStates, p.at("state").get<std::string>(), "state of a process");
    place.at = position_of(p);
    place.why = p.at("why").get<std::string>();
    place.stopped = p.value("stopped", false);
    place.waits = p.value("waits", false);
    check_place(history.processes[id], place);
  }
  for (ProcessId p = 0; p < known.size(); p++)
    if (!known[p]) throw Error("it does not say where " + history.processes[p].name + " is");
  return cut;
}

}  // namespace

const char* place_state_name(Place::State state) {
  return kStates[state];
}

const char* cut_kind_name(Cut::Kind kind) {
  return kKinds[kind];
}

Counts counts_of(const Causality& causality, const Cut& cut) {
  Counts counts;
  for (ProcessId p = 0; p < cut.places.size(); p++) {
    const Place& place = cut.places[p];
    counts.push_back(place.state == Place::Unborn  ? 0
                     : place.state == Place::Ended ? causality.length(p)
                                                   : causality.count_at(p, place.at));
  }
  return counts;
}

std::string inconsistency(const Causality& causality, const Cut& cut) {
  const auto edge = causality.graph().violation(counts_of(causality, cut));
  if (!edge) return "";
  return fmt::format("{} has happened in it, which needs {} ({}), and that has not", causality.text(edge->to),
                     causality.text(edge->from), causality.text(causality.link(*edge)));
}

// --- the folder ---

CutFolder::CutFolder(const Causality& causality)
    : causality_(causality), folder_(causality.history().run + "/cuts") {}

void CutFolder::check_name(const std::string& name) {
  const bool good =
      !name.empty() && name.size() <= 100 && std::isalnum(static_cast<unsigned char>(name[0])) &&
      std::all_of(name.begin(), name.end(),
                  [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_' || c == '.'; });
  if (!good)
    throw Error(fmt::format("'{}' cannot be a cut's name, which has letters, digits, '-', '_' and '.'", name),
                kExitUsage);
  if (name == kPresentCut || name == "start" || name == "end" || name == "alive")
    throw Error(fmt::format("'{}' is a cut that is always there; choose another name", name), kExitUsage);
}

std::vector<std::string> CutFolder::names() const {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, none))
    if (entry.path().extension() == ".json" && entry.path().stem() != kPresentCut)
      names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

bool CutFolder::has(const std::string& name) const {
  return access(path(name).c_str(), F_OK) == 0;
}

Cut CutFolder::load(const std::string& name) const {
  const bool is_path = name.find('/') != std::string::npos;
  const std::string file = is_path ? name : path(name);
  if (access(file.c_str(), F_OK) != 0) {
    if (is_path) throw Error(fmt::format("there is no file {}", file), kExitUsage);
    throw Error(fmt::format("the run has no cut '{}'{}; 'backstep cluster cuts' lists them", name,
                            did_you_mean(name, names())),
                kExitUsage);
  }
  try {
    const std::vector<uint8_t> bytes = recording::read_part(file, 0, kMostBytes);
    Cut cut = cut_of(causality_.history(), Json::parse(bytes.begin(), bytes.end()));
    if (const std::string wrong = inconsistency(causality_, cut); !wrong.empty())
      throw Error("it is not consistent: " + wrong);
    return cut;
  } catch (const nlohmann::json::exception& e) {
    throw Error(fmt::format("{} is no cut: {}", file, e.what()));
  } catch (const Error& e) {
    throw Error(fmt::format("the cut in {} is not one of this run: {}", file, e.what()));
  }
}

void CutFolder::save(const Cut& cut) const {
  const std::string text =
      cut_json(causality_.history(), cut).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  recording::write_whole(folder_, cut.name + ".json",
                         {std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size())});
}

bool CutFolder::remove(const std::string& name) const {
  return unlink(path(name).c_str()) == 0;
}

std::string CutFolder::free_name(const std::string& begin) const {
  for (unsigned n = 1;; n++)
    if (const std::string name = fmt::format("{}-{}", begin, n); !has(name)) return name;
}

}  // namespace backstep::cluster
