// The methods are a table: name, and a function from parameters to a result. While one takes its time the
// client is listened to: it may cancel it. What comes meanwhile and is no cancellation is answered
// afterwards.
#include "serve/rpc.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <functional>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/version.h"
#include "engine/layout.h"
#include "probe/companion.h"
#include "probe/run.h"
#include "recording/tree.h"
#include "serve/rpc_json.h"
#include "serve/rpc_lines.h"
#include "session/assertions.h"
#include "session/call_tree.h"
#include "session/coverage.h"
#include "session/event_set.h"
#include "session/flow.h"
#include "session/heap_report.h"
#include "session/kind.h"
#include "session/parting.h"
#include "session/present.h"
#include "session/profile.h"
#include "session/query.h"
#include "session/races.h"
#include "session/resolve.h"
#include "session/session.h"
#include "session/several.h"
#include "session/stepping.h"
#include "session/syscalls.h"
#include "timeline/moments.h"
#include "trace/database.h"

namespace backstep::serve {
namespace {

using session::Session;
using timeline::Arrival;

class Rpc {
 public:
  Rpc(const ReplayOptions& options, const recording::Library& library, const recording::Recording& recording,
      int in, int out)
      : options_(options), library_(library), recording_(recording), lines_(in, out) {
    ear_.fd = lines_.in();
    ear_.stop_wanted = [this] { return stop_wanted(); };
  }

  void serve() {
    while (!over_) {
      std::string line;
      bool too_long = false;
      if (!later_.empty()) {
        line = later_.front();
        later_.pop_front();
      } else if (auto next = lines_.next(&too_long)) {
        line = *next;
      } else {
        return;
      }
      if (too_long) {
        fail(nullptr, {kInvalidRequest,
                       fmt::format("a message of more than {} MB is refused", Lines::kLongest >> 20)});
        continue;
      }
      handle(line);
    }
  }

 private:
  using Method = Json (Rpc::*)(const Params&);
  struct Row {
    Method method;
    std::vector<std::string> parameters;  // that it has
  };
  static const std::map<std::string, Row>& methods();

  void put(const Json& json) {
    if (!lines_.put(dump(json))) over_ = true;
  }
  void fail(const Json& id, const RpcError& error) {
    put({{"jsonrpc", "2.0"}, {"id", id}, {"error", {{"code", error.code}, {"message", error.sentence}}}});
  }
  void notify(const char* method, Json params) {
    params["id"] = id_;
    put({{"jsonrpc", "2.0"}, {"method", method}, {"params", std::move(params)}});
  }

  static bool is_id(const Json& id) { return id.is_string() || id.is_number_integer(); }

  void handle(const std::string& line) {
    const Json message = Json::parse(line, nullptr, false);
    if (message.is_discarded()) return fail(nullptr, {kParseError, "this is not JSON"});
    if (!message.is_object() || !message.contains("method") || !message["method"].is_string())
      return fail(nullptr, {kInvalidRequest, "a request is an object with a method and an id"});
    const bool answer = message.contains("id");
    if (answer && !is_id(message["id"]))
      return fail(nullptr, {kInvalidRequest, "an id is a number or a string"});
    id_ = answer ? message["id"] : Json(nullptr);
    const Json id = id_;
    cancelled_ = false;
    const std::string name = message["method"];
    try {
      auto method = methods().find(name);
      if (method == methods().end())
        throw RpcError{kNoSuchMethod, fmt::format("there is no method '{}'; 'methods' lists them", name)};
      const Json none;
      const Params params(message.contains("params") ? message["params"] : none);
      params.only(name, method->second.parameters);
      const Json result = (this->*method->second.method)(params);
      if (cancelled_) throw RpcError{kCancelled, "cancelled"};
      if (answer) put({{"jsonrpc", "2.0"}, {"id", id}, {"result", result}});
    } catch (const RpcError& e) {
      if (answer) fail(id, e);
    } catch (const Error& e) {
      if (answer) fail(id, {kFailed, e.what()});
    } catch (const std::exception& e) {
      if (answer) fail(id, {kFailed, fmt::format("internal error: {}", e.what())});
    }
  }

  // The client has said something while we work.
  bool stop_wanted() {
    while (auto line = lines_.waiting()) {
      const Json message = Json::parse(*line, nullptr, false);
      const bool cancel = message.is_object() && message.value("method", Json()) == "cancel";
      if (!cancel) {
        later_.push_back(*line);
        continue;
      }
      const Json params = message.value("params", Json::object());
      if (params.is_object() && params.value("id", Json()) == id_) cancelled_ = true;
      if (message.contains("id") && is_id(message["id"]))
        put({{"jsonrpc", "2.0"}, {"id", message["id"]}, {"result", cancelled_}});
    }
    // A client that says no more may still want to hear.
    if (lines_.ended()) {
      ear_.fd = -1;
      if (session_) session_->timeline().attention.fd = -1;
      if (several_) several_->attention.fd = -1;
      if (history_) history_->stop_listening();
    }
    if (lines_.unheard()) over_ = true;
    cancelled_ |= over_;
    return cancelled_;
  }

  Session& session() {
    if (!session_) {
      session_ = std::make_unique<Session>(options_, library_, recording_);
      session_->timeline().attention = ear_;
    }
    return *session_;
  }
  // Queries have sessions of their own: functions that look at a moment go there.
  trace::Database& database() {
    if (!database_) {
      history_ = std::make_unique<trace::History>(options_, library_, recording_, ear_, watcher());
      database_ = std::make_unique<trace::Database>(*history_);
    }
    return *database_;
  }
  session::Present present() { return session::Present(session()); }

  session::Watcher watcher() {
    session::Watcher w;
    w.progress = [this](double done) {
      const auto now = std::chrono::steady_clock::now();
      if (now - told_ < std::chrono::milliseconds(200)) return;
      told_ = now;
      notify("progress", {{"done", done}});
    };
    w.note = [this](const std::string& sentence) { notify("note", {{"text", sentence}}); };
    return w;
  }

  // The processes that a question is about, if it says so: "all", or a list of their numbers.
  std::vector<uint64_t> processes_named(const Params& p) {
    std::vector<uint64_t> numbers;
    if (p.is_text("processes")) {
      if (p.get<std::string>("processes") != "all")
        throw RpcError{kInvalidParams, "'processes' is a list of numbers, or \"all\""};
      return recording_.processes();
    }
    for (const uint64_t n : p.get<std::vector<uint64_t>>("processes"))
      numbers.push_back(recording::find_process(recording_, n));
    return numbers;
  }
  session::Several* several(const Params& p) {
    if (!p.has("processes")) return nullptr;
    several_ = std::make_unique<session::Several>(options_, library_, recording_, processes_named(p));
    several_->attention.fd = lines_.in();
    several_->attention.stop_wanted = [this] { return stop_wanted(); };
    return several_.get();
  }
  static session::StretchOfEach stretch_of_each(const Params& p) {
    return {p.get<std::string>("from", ""), p.get<std::string>("to", "")};
  }
  static void add_process(Json& json, const session::AskedProcess& process) {
    json["process"] = process.number, json["pid"] = process.pid;
  }

  session::Stretch stretch(const Params& p) {
    session::Stretch s;
    if (const auto from = p.get<std::string>("from", ""); !from.empty() && from != "start")
      s.from = session().moment(from);
    if (const auto to = p.get<std::string>("to", ""); !to.empty() && to != "end") s.to = session().moment(to);
    return s;
  }

  Json where() {
    const auto now = session().timeline().now();
    const auto state = session().timeline().present().state();
    int name = 1;
    for (const auto& t : state.threads)
      if (t.tid == state.tid) name = t.name;
    Json json{{"at", point({now.tick, now.pc})},
              {"tick", now.tick},
              {"pc", now.pc},
              {"event", now.event},
              {"thread", name},
              {"tid", state.tid}};
    const auto frames = session().program().frames_at(now.pc);
    if (!frames.empty()) {
      json["function"] = frames[0].function;
      if (frames[0].line) json["file"] = frames[0].file, json["line"] = frames[0].line;
    }
    return json;
  }

  Json arrived(const Arrival& arrival) {
    static const std::map<Arrival::Why, const char*> kWhy = {
        {Arrival::Stepped, "step"},          {Arrival::Break, "event"},
        {Arrival::Watch, "event"},           {Arrival::Signal, "signal"},
        {Arrival::Begin, "start"},           {Arrival::End, "end"},
        {Arrival::There, "there"},           {Arrival::Missing, "no such moment"},
        {Arrival::Interrupted, "cancelled"}, {Arrival::DebugStop, "debug code"},
    };
    Json json = where();
    auto why = kWhy.find(arrival.why);
    json["why"] = why == kWhy.end() ? "other" : why->second;
    if (arrival.why == Arrival::Signal) json["signal"] = arrival.signo;
    return json;
  }

  // --- methods ---

  Json list_methods(const Params&) {
    Json list = Json::array();
    for (const auto& [name, row] : methods()) list.push_back(name);
    return list;
  }
  Json version(const Params&) { return {{"version", BACKSTEP_VERSION}, {"protocol", 1}}; }
  Json info(const Params&) {
    const auto& log = session().timeline().log();
    Json json{{"recording", recording_.dir()}, {"process", log.process()},           {"pid", log.pid()},
              {"ticks", log.last().tick},      {"events", log.events() - log.own()}, {"end", log.end_text()}};
    json["last"] = point({log.last().tick, log.last().pc});
    return json;
  }
  Json processes(const Params&) {
    Json list = Json::array();
    for (const auto& p : recording::list_processes(recording_)) {
      Json argv = Json::array();
      for (const auto& a : p.argv) argv.push_back(a);
      list.push_back({{"process", p.number},
                      {"pid", p.pid},
                      {"born", recording::birth_name(p)},
                      {"parent", p.parent},
                      {"command", argv}});
    }
    return list;
  }
  Json process(const Params& p) {
    options_.process = recording::find_process(recording_, fmt::format("#{}", p.get<uint64_t>("process")));
    event_set_.reset();
    stepper_.reset();
    session_.reset();
    database_.reset();
    history_.reset();
    return info(p);
  }
  Json now(const Params&) { return where(); }
  Json go_to(const Params& p) {
    const auto to = p.get<std::string>("to");
    timeline::Timeline& t = session().timeline();
    if (to == "start") return arrived(t.go_to_birth());
    return arrived(t.go_to(session().moment(to)));
  }
  Json bookmark(const Params& p) {
    const auto name = p.get<std::string>("name");
    const auto now = session().timeline().now();
    timeline::add_bookmark(recording_, name, session().timeline().log().process(), {now.tick, now.pc},
                           p.get<std::string>("note", ""));
    return bookmark_json(name, timeline::load_bookmarks(recording_)[name]);
  }
  Json bookmarks(const Params&) {
    Json list = Json::array();
    const Json marks = timeline::load_bookmarks(recording_);
    for (const auto& [name, mark] : marks.items()) list.push_back(bookmark_json(name, mark));
    return list;
  }
  Json remove_bookmark(const Params& p) {
    const auto name = p.get<std::string>("name");
    if (!timeline::remove_bookmark(recording_, name))
      throw Error(fmt::format("there is no bookmark '{}'", name), kExitUsage);
    return nullptr;
  }
  // To the next or last match of any of the events.
  Json move(const Params& p, bool forward) {
    return arrived(session().go_to_match(p.get<std::vector<std::string>>("events", {}), forward));
  }
  Json forward(const Params& p) { return move(p, true); }
  Json backward(const Params& p) { return move(p, false); }
  Json step(const Params& p) {
    const auto by = session::step_named(p.get<std::string>("by", "instruction"));
    if (!by) throw RpcError{kInvalidParams, "a step is by instruction, line, over, out or quantum"};
    if (!stepper_) stepper_ = std::make_unique<session::Stepper>(session());
    const auto count = p.get<uint64_t>("count", 1);
    Arrival arrival;
    for (uint64_t i = 0; i < count; i++) {
      arrival = stepper_->step(*by, p.get<bool>("back", false), p.get<int>("tid", 0));
      if (arrival.why != Arrival::Stepped || cancelled_) break;
    }
    return arrived(arrival);
  }
  static Json checkpoint_json(const timeline::CheckpointInfo& checkpoint) {
    return {{"checkpoint", checkpoint.id},
            {"at", point({checkpoint.at.tick, checkpoint.at.pc})},
            {"tick", checkpoint.at.tick},
            {"note", checkpoint.note}};
  }
  Json checkpoint(const Params& p) {
    timeline::Timeline& t = session().timeline();
    const int id = t.add_checkpoint(p.get<std::string>("note", ""));
    for (const auto& c : t.checkpoints())
      if (c.id == id) return checkpoint_json(c);
    return nullptr;
  }
  Json checkpoints(const Params&) {
    Json list = Json::array();
    for (const auto& c : session().timeline().checkpoints()) list.push_back(checkpoint_json(c));
    return list;
  }
  Json restart(const Params& p) {
    const auto arrival = session().timeline().restart(p.get<int>("checkpoint"));
    if (!arrival) throw no_checkpoint(p);
    return arrived(*arrival);
  }
  Json remove_checkpoint(const Params& p) {
    if (!session().timeline().remove_checkpoint(p.get<int>("checkpoint"))) throw no_checkpoint(p);
    return nullptr;
  }
  static Error no_checkpoint(const Params& p) {
    return Error(fmt::format("there is no checkpoint {}; 'checkpoints' lists them", p.get<int>("checkpoint")),
                 kExitUsage);
  }
  Json threads(const Params&) {
    Json list = Json::array();
    for (const auto& t : present().threads())
      list.push_back({{"thread", t.name},
                      {"tid", t.tid},
                      {"has_turn", t.has_turn},
                      {"in_call", t.in_call},
                      {"pc", t.pc}});
    return list;
  }
  Json registers(const Params& p) {
    static constexpr const char* kNames[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                             "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
    const auto r = present().registers(p.get<int>("tid", 0));
    Json json = Json::object();
    for (size_t i = 0; i < 16; i++) json[kNames[i]] = r.gpr[i];
    json["rip"] = r.rip, json["rflags"] = r.rflags, json["fs_base"] = r.fs_base, json["gs_base"] = r.gs_base;
    return json;
  }
  Json memory(const Params& p) {
    constexpr uint64_t kMost = 4 << 20;
    const auto size = p.get<uint64_t>("size");
    if (size > kMost)
      throw RpcError{kInvalidParams, fmt::format("at most {} bytes can be read at once", kMost)};
    const auto bytes = present().memory(p.get<uint64_t>("address"), size);
    std::string hex;
    for (uint8_t b : bytes) hex += fmt::format("{:02x}", b);
    return {{"bytes", hex}, {"size", bytes.size()}};
  }
  Json stack(const Params& p) {
    bool complete = true;
    const auto frames = present().stack(p.get<int>("tid", 0), &complete);
    return {{"frames", frames_json(frames)}, {"complete", complete}};
  }
  Json value(const Params& p) {
    return value_json(
        present().value(p.get<std::string>("expression"), p.get<int>("tid", 0), p.get<uint64_t>("frame", 0)));
  }
  Json locals(const Params& p) {
    Json list = Json::array();
    for (const auto& v : present().locals(p.get<int>("tid", 0), p.get<uint64_t>("frame", 0)))
      list.push_back(value_json(v));
    return list;
  }
  Json count(const Params& p) {
    Json list = Json::array();
    if (auto* of = several(p)) {
      const auto specs = p.get<std::vector<std::string>>("specs");
      for (const auto& c : of->count(specs, stretch_of_each(p), watcher())) {
        Json shares = Json::array();
        for (const auto& [process, share] : c.shares) {
          Json& json = shares.emplace_back(Json::object());
          add_process(json, process);
          json["count"] = share.matches, json["failures"] = share.failures;
        }
        list.push_back({{"spec", c.sum.spec},
                        {"count", c.sum.matches},
                        {"failures", c.sum.failures},
                        {"processes", shares}});
      }
      return list;
    }
    for (const auto& c : session().count(p.get<std::vector<std::string>>("specs"), stretch(p), watcher()))
      list.push_back({{"spec", c.spec}, {"count", c.matches}, {"failures", c.failures}});
    return list;
  }
  session::EventSet& event_set() {
    if (!event_set_) event_set_ = std::make_unique<session::EventSet>(session());
    return *event_set_;
  }
  Json create_event(const Params& p) {
    using session::EventRequest;
    static const std::map<std::string, EventRequest::Action> kActions = {
        {"stop", EventRequest::Stop}, {"log", EventRequest::Log}, {"count", EventRequest::Count}};
    const auto action = kActions.find(p.get<std::string>("action", "stop"));
    if (action == kActions.end()) throw RpcError{kInvalidParams, "an action is stop, log or count"};
    const int id =
        event_set().create({p.get<std::string>("spec"), action->second, p.get<uint64_t>("times", 0),
                            p.get<std::vector<std::string>>("values", {}), p.get<bool>("stack", false)},
                           watcher());
    if (p.get<bool>("install", true)) event_set().install(id);
    return {{"event_id", id}};
  }
  Json install(const Params& p) {
    event_set().install(p.get<int>("event_id"));
    return nullptr;
  }
  Json uninstall(const Params& p) {
    event_set().uninstall(p.get<int>("event_id"));
    return nullptr;
  }
  Json destroy(const Params& p) {
    event_set().destroy(p.get<int>("event_id"));
    return nullptr;
  }
  Json events(const Params&) {
    Json list = Json::array();
    for (const auto& e : event_set().list())
      list.push_back({{"event_id", e.id},
                      {"spec", e.request.spec},
                      {"installed", e.installed},
                      {"spent", e.spent},
                      {"matches", e.matches},
                      {"times", e.request.times}});
    return list;
  }
  Json event_hit(int id, const session::Hit& hit) {
    const session::EventRequest& request = event_set().request(id);
    Json json{{"event_id", id}};
    json.update(hit_json(hit, {request.spec, request.values, request.stack, {}}));
    return json;
  }
  Json run(const Params& p) {
    auto told = [&](int id, const session::Hit& hit) { notify("hit", event_hit(id, hit)); };
    const bool back = p.get<bool>("back", false);
    const auto stop = back ? event_set().backward(told, watcher()) : event_set().forward(told, watcher());
    Json json = arrived(stop.arrival), matches = Json::array();
    for (const auto& [id, hit] : stop.hits) matches.push_back(event_hit(id, hit));
    json["matches"] = matches;
    return json;
  }
  // Matches come as notifications, before the result. All of them may have been found before a client that
  // reads slowly has the first, so it is listened to between them, too.
  Json log(const Params& p) {
    session::LogRequest request{p.get<std::string>("spec"),
                                p.get<std::vector<std::string>>("values", {}),
                                p.get<bool>("stack", false),
                                {}};
    if (p.has("limit") && p.has("last"))
      throw RpcError{kInvalidParams, "'limit' is about the first matches and 'last' about the last ones"};
    if (auto* of = several(p)) {
      const auto count = of->log(
          request, stretch_of_each(p), p.get<uint64_t>("limit", ~0ull), p.get<uint64_t>("last", 0),
          [&](const session::AskedProcess& process, const session::Hit& h) {
            Json json = hit_json(h, request);
            add_process(json, process);
            notify("hit", json);
            return !stop_wanted();
          },
          watcher());
      return {{"count", count.matches}, {"failures", count.failures}};
    }
    request.stretch = stretch(p);
    if (const auto last = p.get<uint64_t>("last", 0)) {
      const auto hits = session().log_last(request, last, watcher());
      for (const auto& h : hits) {
        notify("hit", hit_json(h, request));
        if (stop_wanted()) break;
      }
      return {{"count", hits.size()}};
    }
    const auto limit = p.get<uint64_t>("limit", ~0ull);
    uint64_t told = 0;
    if (limit == 0) return {{"count", 0}};
    const auto count = session().log(
        request,
        [&](const session::Hit& h) {
          notify("hit", hit_json(h, request));
          return ++told < limit && !stop_wanted();
        },
        watcher());
    return {{"count", count.matches}, {"failures", count.failures}};
  }
  // Goes there, unless it is told not to.
  Json query(const Params& p) {
    const session::QueryRequest asked{p.get<std::string>("query"), session().timeline().now(),
                                      p.get<std::vector<std::string>>("values", {}),
                                      p.get<bool>("stack", false)};
    const auto answer = session::query(session(), asked, watcher());
    Json json{{"found", answer.hit.has_value()}, {"matches", answer.matches}, {"failures", answer.failures}};
    if (!answer.hit) return json;
    Json hit = hit_json(*answer.hit, {"", asked.values, asked.stack, {}});
    if (!answer.place.function.empty()) hit["function"] = answer.place.function;
    if (answer.place.line) hit["file"] = answer.place.file, hit["line"] = answer.place.line;
    json["hit"] = hit;
    if (p.get<bool>("move", true))
      session().timeline().go_to({answer.hit->at.tick, answer.hit->event, answer.hit->at.pc});
    return json;
  }
  Json check(const Params& p) {
    const auto assertions =
        events::parse_assertions(p.get<std::string>("assertions"), session::event_forms());
    Json list = Json::array();
    if (auto* of = several(p)) {
      for (const auto& v : of->check(assertions, stretch_of_each(p), watcher())) {
        list.push_back(verdict_json(v.sum));
        if (v.process) add_process(list.back()["first"], *v.process);
      }
      return list;
    }
    for (const auto& v : session::check(session(), assertions, stretch(p), watcher()).list)
      list.push_back(verdict_json(v));
    return list;
  }
  static session::TreeRequest tree_request(const Params& p, bool tree) {
    session::TreeRequest request;
    request.function = p.get<std::string>("function");
    request.system = p.get<bool>("system", false);
    request.depth = p.get<uint64_t>("depth", request.depth);
    request.limit = p.get<uint64_t>("limit", tree ? request.limit : ~0ull);
    return request;
  }
  Json calls_of(session::Several& of, const Params& p, bool tree) {
    uint64_t told = 0;
    of.calls(
        tree_request(p, tree), stretch_of_each(p), tree,
        [&](const session::AskedProcess& process, const session::CallWithTree& both) {
          Json json = call_json(both.call);
          if (tree) json["tree"] = both.tree.to_json();
          add_process(json, process);
          notify("call", json);
          told++;
          return !stop_wanted();
        },
        watcher());
    return {{"count", told}};
  }
  Json call_trees(const Params& p) {
    session::TreeRequest request = tree_request(p, true);
    request.stretch = stretch(p);
    const auto trees = session::call_trees(session(), request, watcher());
    for (const auto& [call, tree] : trees) {
      Json json = call_json(call);
      json["tree"] = tree.to_json();
      notify("call", json);
    }
    return {{"count", trees.size()}};
  }
  Json calls(const Params& p) {
    const bool tree = p.get<bool>("tree", false);
    if (auto* of = several(p)) return calls_of(*of, p, tree);
    if (tree) return call_trees(p);
    const auto limit = p.get<uint64_t>("limit", ~0ull);
    uint64_t told = 0;
    if (limit == 0) return {{"count", 0}};
    session::calls(
        session(), p.get<std::string>("function"), stretch(p),
        [&](const session::Call& call) {
          notify("call", call_json(call));
          return ++told < limit && !stop_wanted();
        },
        watcher());
    return {{"count", told}};
  }
  Json profile(const Params& p) {
    session::ProfileRequest request;
    request.period = p.get<uint64_t>("period", 100'000);
    if (request.period == 0) throw RpcError{kInvalidParams, "a period of 0 ticks makes no sense"};
    request.lines = p.get<bool>("lines", false);
    request.instructions = p.get<bool>("instructions", false);
    const char* unit = request.instructions ? "instructions" : "ticks";
    auto profile_json = [unit](const session::Profile& profile) {
      Json stacks = Json::array();
      for (const auto& [stack, n] : profile.stacks)
        stacks.push_back({{"stack", stack}, {unit, n * profile.period}});
      return Json{{"period", profile.period}, {"samples", profile.samples}, {"stacks", stacks}};
    };
    if (auto* of = several(p)) {
      const auto profile = of->profile(request, stretch_of_each(p), watcher());
      Json json = profile_json(profile.all), processes = Json::array();
      for (const auto& [process, samples] : profile.samples) {
        Json& share = processes.emplace_back(Json::object());
        add_process(share, process);
        share["program"] = process.program, share["samples"] = samples;
      }
      json["processes"] = processes;
      return json;
    }
    request.stretch = stretch(p);
    return profile_json(session::profile(session(), request, watcher()));
  }
  Json coverage(const Params& p) {
    Json files = Json::array();
    const bool system = p.get<bool>("system", false);
    auto* of = several(p);
    const auto coverage = of ? of->coverage(stretch_of_each(p), system, watcher())
                             : session::coverage(session(), stretch(p), system, watcher());
    for (const auto& [name, f] : coverage.files) {
      Json executed = Json::array(), missed = Json::array();
      for (const auto& [line, yes] : f.lines) (yes ? executed : missed).push_back(line);
      files.push_back({{"file", name}, {"executed", executed}, {"missed", missed}});
    }
    return files;
  }
  Json why(const Params& p) {
    session::FlowRequest request;
    request.expression = p.get<std::string>("expression");
    const auto at = p.get<std::string>("at", "");
    request.at = at.empty() ? session().timeline().now() : session().moment(at);
    request.tid = p.get<int>("tid", 0);
    if (const auto frame = p.get<uint64_t>("frame", ~0ull); frame != ~0ull) request.frame = frame;
    request.depth = p.get<uint64_t>("depth", request.depth);
    request.width = p.get<uint64_t>("width", request.width);
    request.most = p.get<uint64_t>("limit", request.most);
    request.addresses = p.get<bool>("addresses", false);
    request.copies = p.get<bool>("copies", false);
    const session::FlowAnswer answer = session::why(session(), request, watcher());
    Json result = session::flow_json(answer);
    result["text"] = session::flow_text(answer);
    return result;
  }
  Json diff(const Params& p) {
    const auto other = library_.resolve(p.get<std::string>("other"));
    ReplayOptions options = options_;
    options.recording = other.dir();
    options.process = session().timeline().log().process();
    Session second(options, library_, other);
    const session::Parting parting =
        session::find_parting(session(), second, p.get<bool>("exact", false), watcher());
    Json result = session::parting_json(parting);
    result["text"] = session::parting_text(parting);
    return result;
  }
  Json allocs(const Params& p) {
    session::HeapReportRequest request;
    request.leaks = p.get<bool>("leaks", true);
    request.unwritten = p.get<bool>("uninitialised", false);
    request.uses = request.unwritten || p.get<bool>("errors", false);
    request.errors = request.uses || p.get<bool>("frees", false);
    request.to = stretch(p).to;
    return session::heap_json(session::heap_report(session(), request, watcher()));
  }
  Json races(const Params& p) {
    return session::races_json(session::races(session(), stretch(p), watcher()));
  }
  Json sql(const Params& p) {
    constexpr uint64_t kUsual = 10'000;
    const auto query = p.get<std::string>("query");
    const auto limit = p.get<uint64_t>("limit", kUsual);
    Json columns = Json::array(), rows = Json::array();
    bool complete = true;
    database().history().forget_notes();
    trace::Reader reader;
    // Of several statements the last answer counts.
    reader.headings = [&](const std::vector<trace::Heading>& headings) {
      columns = Json::array(), rows = Json::array();
      for (const auto& h : headings) columns.push_back(h.name);
      return true;
    };
    reader.row = [&](const trace::Row& row) {
      if (rows.size() == limit) return complete = false;
      Json cells = Json::array();
      for (const auto& value : row) cells.push_back(cell_json(value));
      rows.push_back(std::move(cells));
      return true;
    };
    try {
      database().ask(query, reader);
    } catch (const trace::Interrupted&) {
      throw RpcError{kCancelled, "cancelled"};
    }
    return {{"columns", columns}, {"rows", rows}, {"complete", complete}};
  }
  void tell_debug(const probe::Note& note) {
    if (note.kind == replayer::DebugNote::Mark)
      timeline::add_bookmark(recording_, note.text, session().timeline().log().process(),
                             {note.at.tick, note.at.pc}, "by debug code");
    notify("debug", note.to_json());
  }
  void tell_notes(const probe::Built& built) {
    for (const std::string& note : built.notes) notify("note", {{"text", note}});
  }
  // Over a stretch of the run; the session does not move.
  Json probe(const Params& p) {
    const probe::TemporaryFolder folder;
    const probe::CompanionCode code = debug_code(p);
    if (!code.any())
      throw RpcError{kInvalidParams, "what is to run? 'at' has snippets, 'sources' debug regions"};
    const probe::Built built =
        probe::build(session(), {code.snippets, code.sources, layout::kProbe, folder.path()});
    tell_notes(built);
    const probe::RunResult result = probe::run(
        session(), built.module, {stretch(p), p.get<bool>("parallel", false)},
        [&](const probe::Note& note) {
          tell_debug(note);
          return !stop_wanted();
        },
        watcher());
    Json regions = Json::array();
    for (const auto& [region, calls] : probe::calls_of_regions(built.module, result))
      regions.push_back({{"code", region->shown()}, {"calls", calls}});
    return {{"regions", regions}, {"complete", result.complete}};
  }
  // Along with the session, from now on.
  Json debug(const Params& p) {
    session().timeline().end_debug();
    const probe::CompanionCode code = debug_code(p);
    companion_ = code.any() ? std::make_unique<probe::Companion>(session(), code) : nullptr;
    Json places = Json::array();
    if (companion_) {
      tell_notes(companion_->built());
      companion_->go_along(session(), true, [this](const probe::Note& note) { tell_debug(note); });
      for (size_t i = 0; i < companion_->built().places.size(); i++) {
        const probe::BoundPlace& place = companion_->built().places[i];
        if (companion_->built().module.places[i].region == probe::Place::kNobodys) continue;
        places.push_back(
            {{"pc", place.pc}, {"function", place.function}, {"file", place.file}, {"line", place.line}});
      }
    }
    return {{"places", places}};
  }
  Json cancel(const Params&) { return false; }  // nothing is under way
  Json shutdown(const Params&) {
    over_ = true;
    return nullptr;
  }

  ReplayOptions options_;
  recording::Library library_;
  recording::Recording recording_;
  Lines lines_;
  std::deque<std::string> later_;
  timeline::Attention ear_;
  // From the logs alone: nothing is replayed.
  Json syscalls(const Params& p) {
    session::SyscallsRequest request{p.get<std::string>("filter", ""),
                                     p.get<bool>("failed", false),
                                     {},
                                     p.get<std::string>("from", ""),
                                     p.get<std::string>("to", ""),
                                     p.get<uint64_t>("limit", session::kAllCalls),
                                     p.get<uint64_t>("last", session::kAllCalls)};
    if (request.limit != session::kAllCalls && request.last != session::kAllCalls)
      throw RpcError{kInvalidParams, "'limit' is about the first calls and 'last' about the last ones"};
    request.processes =
        p.has("processes") ? processes_named(p) : std::vector<uint64_t>{session().timeline().log().process()};
    const bool summary = p.get<bool>("summary", false);
    const auto strings = p.get<uint64_t>("strings", session::kJsonStrings);
    session::SyscallTotals totals;
    uint64_t count = 0;
    const auto damaged = session::Syscalls(recording_, request).each([&](const events::Call& call) {
      count++;
      summary ? totals.add(call) : notify("syscall", session::syscall_json(call, strings));
      return !stop_wanted();
    });
    Json json{{"count", count}};
    if (summary) json["totals"] = totals.to_json();
    for (const auto& log : damaged)
      notify("note", {{"text", fmt::format("process #{}: {}", log.process, log.text)}});
    return json;
  }

  std::unique_ptr<probe::Companion> companion_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<session::EventSet> event_set_;
  std::unique_ptr<session::Stepper> stepper_;
  std::unique_ptr<session::Several> several_;  // that were asked last
  std::unique_ptr<trace::History> history_;
  std::unique_ptr<trace::Database> database_;
  Json id_;  // of the request under way
  bool cancelled_ = false, over_ = false;
  std::chrono::steady_clock::time_point told_;
};

const std::map<std::string, Rpc::Row>& Rpc::methods() {
  static const std::map<std::string, Row> table = {
      {"methods", {&Rpc::list_methods, {}}},
      {"version", {&Rpc::version, {}}},
      {"info", {&Rpc::info, {}}},
      {"processes", {&Rpc::processes, {}}},
      {"process", {&Rpc::process, {"process"}}},
      {"now", {&Rpc::now, {}}},
      {"goto", {&Rpc::go_to, {"to"}}},
      {"bookmark", {&Rpc::bookmark, {"name", "note"}}},
      {"bookmarks", {&Rpc::bookmarks, {}}},
      {"remove_bookmark", {&Rpc::remove_bookmark, {"name"}}},
      {"forward", {&Rpc::forward, {"events"}}},
      {"backward", {&Rpc::backward, {"events"}}},
      {"step", {&Rpc::step, {"by", "back", "count", "tid"}}},
      {"checkpoint", {&Rpc::checkpoint, {"note"}}},
      {"checkpoints", {&Rpc::checkpoints, {}}},
      {"restart", {&Rpc::restart, {"checkpoint"}}},
      {"remove_checkpoint", {&Rpc::remove_checkpoint, {"checkpoint"}}},
      {"threads", {&Rpc::threads, {}}},
      {"registers", {&Rpc::registers, {"tid"}}},
      {"memory", {&Rpc::memory, {"address", "size"}}},
      {"stack", {&Rpc::stack, {"tid"}}},
      {"value", {&Rpc::value, {"expression", "tid", "frame"}}},
      {"locals", {&Rpc::locals, {"tid", "frame"}}},
      {"count", {&Rpc::count, {"specs", "from", "to", "processes"}}},
      {"log", {&Rpc::log, {"spec", "values", "stack", "from", "to", "processes", "limit", "last"}}},
      {"query", {&Rpc::query, {"query", "values", "stack", "move"}}},
      {"assert", {&Rpc::check, {"assertions", "from", "to", "processes"}}},
      {"calls", {&Rpc::calls, {"function", "system", "depth", "limit", "tree", "from", "to", "processes"}}},
      {"profile", {&Rpc::profile, {"period", "lines", "instructions", "from", "to", "processes"}}},
      {"coverage", {&Rpc::coverage, {"system", "from", "to", "processes"}}},
      {"why",
       {&Rpc::why, {"expression", "at", "tid", "frame", "depth", "width", "limit", "addresses", "copies"}}},
      {"diff", {&Rpc::diff, {"other", "exact"}}},
      {"allocs", {&Rpc::allocs, {"leaks", "uninitialised", "errors", "frees", "from", "to"}}},
      {"races", {&Rpc::races, {"from", "to"}}},
      {"sql", {&Rpc::sql, {"query", "limit"}}},
      {"syscalls",
       {&Rpc::syscalls,
        {"filter", "failed", "summary", "strings", "limit", "last", "from", "to", "processes"}}},
      {"create_event", {&Rpc::create_event, {"spec", "action", "times", "values", "stack", "install"}}},
      {"install", {&Rpc::install, {"event_id"}}},
      {"uninstall", {&Rpc::uninstall, {"event_id"}}},
      {"destroy", {&Rpc::destroy, {"event_id"}}},
      {"events", {&Rpc::events, {}}},
      {"run", {&Rpc::run, {"back"}}},
      {"probe", {&Rpc::probe, {"at", "sources", "flags", "parallel", "from", "to"}}},
      {"debug", {&Rpc::debug, {"at", "sources", "flags", "keep"}}},
      {"cancel", {&Rpc::cancel, {"id"}}},
      {"shutdown", {&Rpc::shutdown, {}}},
  };
  return table;
}

}  // namespace

void serve_rpc(const ReplayOptions& options, const recording::Library& library,
               const recording::Recording& recording, int in, int out) {
  signal(SIGPIPE, SIG_IGN);
  Rpc(options, library, recording, in, out).serve();
}

}  // namespace backstep::serve
