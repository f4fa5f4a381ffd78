// A file has what one request has found in one process, and is written whole: to record the same again
// replaces it. As with cuts, a stranger may have sent the folder, so whatever is read is checked.
#include "cluster/event_database.h"

#include <fnmatch.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "recording/whole_file.h"
#include "symbols/static_probes.h"
#include "timeline/moments.h"

namespace backstep::cluster {
namespace {

using EventJson = nlohmann::ordered_json;

constexpr uint64_t kMostFileBytes = 1ull << 30;
constexpr int kEventsFormat = 1;
constexpr const char* kOwnProvider = "backstep";

bool fits(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

EventJson rows_json(const std::vector<RecordedEvent>& rows) {
  EventJson all = EventJson::array();
  for (const RecordedEvent& r : rows)
    all.push_back({timeline::point_text(r.at.tick, r.at.pc), r.at.event, r.thread, r.value, r.source});
  return all;
}

RecordedEvent row_of(const ProcessOfRun& process, const EventJson& json) {
  const auto point = timeline::parse_point(json.at(0).get<std::string>());
  RecordedEvent row;
  if (point) row.at = {point->tick, json.at(1).get<uint64_t>(), point->pc};
  if (!point || row.at.tick < process.begin.tick || row.at.tick > process.end.tick ||
      row.at.event > process.end.event + 1)
    throw Error(fmt::format("{} was never at {}", process.name, json.at(0).dump()));
  row.thread = json.at(2).get<int>();
  row.value = json.at(3).get<std::string>();
  row.source = json.at(4).get<std::string>();
  return row;
}

EventsOf events_of(const History& history, const EventJson& json) {
  if (json.at("format").get<int>() > kEventsFormat)
    throw Error("it was written by a newer version of backstep");
  EventsOf events;
  const auto name = json.at("process").get<std::string>();
  events.process = history.find(name);
  if (events.process == kNone) throw Error("the run has no process " + name);
  events.kind = json.at("kind").get<std::string>();
  events.name = json.at("name").get<std::string>();
  events.values = json.at("values").get<std::vector<std::string>>();
  events.cut_off = json.at("cut_off").get<bool>();
  for (const EventJson& row : json.at("rows"))
    events.rows.push_back(row_of(history.processes[events.process], row));
  return events;
}

bool is_earlier(const RecordedEvent& a, const RecordedEvent& b) {
  return a.at < b.at;
}

// --- collecting ---

struct Sought {
  std::string kind, name;
  std::vector<std::string> specs;                  // one of them happens
  std::vector<std::vector<std::string>> operands;  // by spec: what its value is made of
  bool assigns = false;
};

// The marks and probes of a process's program that are meant, each name with all its places.
std::vector<Sought> sought_marks(session::Session& session, const EventRequest& request) {
  std::vector<Sought> all;
  for (const symbols::Module& module : session.program().modules())
    for (const symbols::StaticProbe& probe : symbols::static_probes(module)) {
      Sought s{kUserEvent, probe.name, {}, {}, false};
      const bool own = probe.provider == kOwnProvider;
      if (own && s.name.ends_with("__begin")) s.kind = kUserEventBegun, s.name.resize(s.name.size() - 7);
      if (own && s.name.ends_with("__end")) s.kind = kUserEventEnded, s.name.resize(s.name.size() - 5);
      if (!own) s.name = probe.provider + ":" + probe.name;
      if (request.kind != kUserEvent && request.kind != s.kind) continue;
      if (request.name.empty() ? !own : !fits(request.name, s.name)) continue;
      auto same = std::find_if(all.begin(), all.end(), [&](const Sought& other) {
        return other.kind == s.kind && other.name == s.name;
      });
      if (same == all.end()) same = all.insert(all.end(), s);
      same->specs.push_back(fmt::format("pc {:#x}", probe.address));
      same->operands.push_back(probe.arguments);
    }
  return all;
}

std::vector<Sought> sought(session::Session& session, const EventRequest& request) {
  const std::string& name = request.name;
  if (request.kind == kAssignment || request.kind == kPointerAssignment)
    return {{request.kind, name, {"write " + name}, {{"$old", "$new"}}, true}};
  if (request.kind == kLabel) return {{request.kind, name, {"pc " + name}, {{}}, false}};
  if (request.kind == kAnyEvent) return {{request.kind, name, {name}, {{}}, false}};
  return sought_marks(session, request);
}

// An assignment: what was and what is.
std::string value_text(bool assigns, const std::vector<std::string>& values) {
  std::string text;
  for (size_t i = 0; i < values.size(); i++)
    text += (i == 0 ? "" : i == 1 && assigns ? " -> " : ", ") + values[i];
  return text;
}

}  // namespace

std::string EventDatabase::file_of(const EventsOf& events) const {
  std::string key = history_.processes[events.process].name;
  for (const std::string& part : {events.kind, events.name}) key += '\0' + part;
  for (const std::string& value : events.values) key += '\0' + value;
  return fmt::format("{:016x}.json", XXH3_64bits(key.data(), key.size()));
}

std::vector<EventsOf> EventDatabase::load() const {
  std::vector<std::string> files;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, none))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<EventsOf> all;
  using Key = std::tuple<ProcessId, std::string, std::string, replayer::Position, std::string>;
  std::set<Key> known;
  for (const std::string& file : files) {
    try {
      const std::vector<uint8_t> bytes = recording::read_part(file, 0, kMostFileBytes);
      EventsOf events = events_of(history_, EventJson::parse(bytes.begin(), bytes.end()));
      std::erase_if(events.rows, [&](const RecordedEvent& r) {
        return !known.emplace(events.process, events.kind, events.name, r.at, r.value).second;
      });
      all.push_back(std::move(events));
    } catch (const nlohmann::json::exception& e) {
      throw Error(fmt::format("{} has no recorded events: {}; it can be removed", file, e.what()));
    } catch (const Error& e) {
      throw Error(fmt::format("the events in {} are not of this run: {}; it can be removed", file, e.what()));
    }
  }
  return all;
}

void EventDatabase::save(const EventsOf& events) const {
  const EventJson json{{"format", kEventsFormat},       {"process", history_.processes[events.process].name},
                       {"kind", events.kind},           {"name", events.name},
                       {"values", events.values},       {"cut_off", events.cut_off},
                       {"rows", rows_json(events.rows)}};
  const std::string text = json.dump(-1, ' ', false, EventJson::error_handler_t::replace) + "\n";
  recording::write_whole(folder_, file_of(events),
                         {std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size())});
}

std::vector<ProcessId> EventDatabase::meant(const EventRequest& request) const {
  std::vector<ProcessId> meant;
  const ProcessId named = history_.find(request.who);
  for (ProcessId p = 0; p < history_.processes.size(); p++)
    if (p == named || (named == kNone && fits(request.who, history_.processes[p].name))) meant.push_back(p);
  return meant;
}

uint64_t EventDatabase::forget(const EventRequest& request) const {
  uint64_t gone = 0;
  const std::vector<ProcessId> processes = meant(request);
  for (EventsOf& events : load()) {
    const bool user = request.kind == kUserEvent && events.kind.starts_with(kUserEvent);
    if (std::find(processes.begin(), processes.end(), events.process) == processes.end() ||
        (!user && request.kind != events.kind) || (!request.name.empty() && !fits(request.name, events.name)))
      continue;
    const size_t before = events.rows.size();
    std::erase_if(events.rows,
                  [&](const RecordedEvent& r) { return !request.thread || r.thread == *request.thread; });
    gone += before - events.rows.size();
    events.rows.empty() ? void(unlink((folder_ + "/" + file_of(events)).c_str())) : save(events);
  }
  return gone;
}

std::vector<EventsOf> collect_events(const History& history, Sessions& sessions, ProcessId process,
                                     const EventRequest& request, const CollectOptions& options,
                                     const session::Watcher& watcher, std::string* missing) {
  session::Session& session = sessions.of(process);
  const replayer::Position& begin = history.processes[process].begin;
  session::Stretch stretch;
  if (begin.tick) stretch.from = begin;
  std::vector<Sought> all = sought(session, request);
  if (all.empty()) *missing = "its program has no such mark";
  std::vector<std::string> specs;
  for (const Sought& s : all) specs.insert(specs.end(), s.specs.begin(), s.specs.end());
  // One replay says which of them happen at all.
  const auto counts =
      specs.empty() ? std::vector<session::Count>{} : session.count(specs, stretch, watcher, true);
  std::vector<EventsOf> found;
  size_t n = 0;
  for (const Sought& s : all) {
    EventsOf& events = found.emplace_back();
    events.process = process, events.kind = s.kind, events.name = s.name, events.values = options.values;
    for (size_t i = 0; i < s.specs.size(); i++, n++) {
      if (!counts[n].unknown.empty()) *missing = counts[n].unknown;
      if (!counts[n].matches) continue;
      session::LogRequest log;
      log.spec = s.specs[i];
      log.values = s.operands[i];
      log.values.insert(log.values.end(), options.values.begin(), options.values.end());
      log.stretch = stretch;
      session.log(
          log,
          [&](const session::Hit& hit) {
            if (request.thread && hit.thread != *request.thread) return true;
            if (events.rows.size() >= options.most) return !(events.cut_off = true);
            const symbols::Place place = session.program().place(hit.at.pc);
            events.rows.push_back(
                {hit.position(), hit.thread, value_text(s.assigns, hit.values),
                 place.line ? fmt::format("{}:{}", place.file.substr(place.file.rfind('/') + 1), place.line)
                            : ""});
            return true;
          },
          watcher);
    }
    std::stable_sort(events.rows.begin(), events.rows.end(), is_earlier);
  }
  std::erase_if(found, [](const EventsOf& e) { return e.rows.empty(); });
  return found;
}

}  // namespace backstep::cluster
