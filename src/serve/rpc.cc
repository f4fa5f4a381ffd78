// The methods are a table: name, and a function from parameters to a result. While one takes its time the
// client is listened to: it may cancel it. What comes meanwhile and is no cancellation is answered
// afterwards.
#include "serve/rpc.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
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
#include "recording/tree.h"
#include "serve/rpc_lines.h"
#include "session/call_tree.h"
#include "session/coverage.h"
#include "session/present.h"
#include "session/profile.h"
#include "session/resolve.h"
#include "session/session.h"
#include "session/several.h"
#include "timeline/moments.h"
#include "trace/database.h"

namespace backstep::serve {
namespace {

using Json = nlohmann::ordered_json;
using session::Session;
using timeline::Arrival;

// Of JSON-RPC, and ours.
enum Code : int {
  kParseError = -32700,
  kInvalidRequest = -32600,
  kNoSuchMethod = -32601,
  kInvalidParams = -32602,
  kFailed = -32000,  // the sentence says why
  kCancelled = -32001,
};

struct RpcError {
  int code;
  std::string sentence;
};

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json point(const ControlPoint& at) {
  return timeline::point_text(at.tick, at.pc);
}

Json frame_json(const session::StackFrame& f) {
  Json frame{{"pc", f.pc}};
  if (!f.function.empty()) frame["function"] = f.function;
  if (f.line) frame["file"] = f.file, frame["line"] = f.line;
  if (f.inlined) frame["inlined"] = true;
  return frame;
}

Json frames_json(const std::vector<session::StackFrame>& stack) {
  Json frames = Json::array();
  for (const auto& f : stack) frames.push_back(frame_json(f));
  return frames;
}

Json value_json(const session::ValueFacts& v) {
  Json json{{"expression", v.expression}, {"text", v.text}, {"value", v.json}};
  if (!v.type.empty()) json["type"] = v.type;
  if (!v.why.empty()) json["why"] = v.why;
  return json;
}

// Parameters by name, checked.
class Params {
 public:
  explicit Params(const Json& json) : json_(json) {
    if (!json.is_object() && !json.is_null())
      throw RpcError{kInvalidParams, "params must be an object: parameters have names here"};
  }
  template <class T>
  T get(const char* name) const {
    if (!has(name)) throw RpcError{kInvalidParams, fmt::format("the parameter '{}' is missing", name)};
    return convert<T>(name);
  }
  template <class T>
  T get(const char* name, T otherwise) const {
    return has(name) ? convert<T>(name) : otherwise;
  }
  bool is_text(const char* name) const { return has(name) && json_[name].is_string(); }
  bool has(const char* name) const {
    return json_.is_object() && json_.contains(name) && !json_[name].is_null();
  }

 private:
  template <class T>
  T convert(const char* name) const {
    const Json& value = json_[name];
    constexpr bool kNumber = std::is_integral_v<T> && !std::is_same_v<T, bool>;
    const bool fits =
        !kNumber || value.is_number_unsigned() || (value.is_number_integer() && value.get<int64_t>() >= 0);
    try {
      if (fits) return value.get<T>();
    } catch (const nlohmann::json::exception&) {
      // as below
    }
    throw RpcError{kInvalidParams,
                   fmt::format("the parameter '{}' is of another type than it should be", name)};
  }
  const Json& json_;
};

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
  static const std::map<std::string, Method>& methods();

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
      const Json result =
          (this->*method->second)(Params(message.contains("params") ? message["params"] : none));
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
  session::Several* several(const Params& p) {
    if (!p.has("processes")) return nullptr;
    std::vector<uint64_t> numbers;
    if (p.is_text("processes")) {
      if (p.get<std::string>("processes") != "all")
        throw RpcError{kInvalidParams, "'processes' is a list of numbers, or \"all\""};
      numbers = recording_.processes();
    } else {
      for (const uint64_t n : p.get<std::vector<uint64_t>>("processes"))
        numbers.push_back(recording::find_process(recording_, n));
    }
    several_ = std::make_unique<session::Several>(options_, library_, recording_, numbers);
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
        {Arrival::Interrupted, "cancelled"},
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
    for (const auto& [name, method] : methods()) list.push_back(name);
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
  static Json bookmark_json(const std::string& name, const Json& mark) {
    return {{"name", name},
            {"at", mark.value("at", "")},
            {"process", mark.value("process", 1u)},
            {"note", mark.value("note", "")}};
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
    timeline::Timeline& t = session().timeline();
    const bool back = p.get<bool>("back", false);
    const auto count = p.get<uint64_t>("count", 1);
    Arrival arrival;
    for (uint64_t i = 0; i < count; i++) {
      const int tid = p.has("tid") ? p.get<int>("tid") : t.present().state().tid;
      arrival = back ? t.step_back(tid) : t.step(tid, 0, 0, {});
      if (arrival.why != Arrival::Stepped || cancelled_) break;
    }
    return arrived(arrival);
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
  Json hit_json(const session::Hit& h, const session::LogRequest& request) {
    Json json{{"at", point(h.at)}, {"tick", h.at.tick}, {"pc", h.at.pc}, {"thread", h.thread}};
    Json values = Json::object(), texts = Json::object();
    for (size_t i = 0; i < request.values.size(); i++)
      values[request.values[i]] = h.json[i], texts[request.values[i]] = h.values[i];
    json["values"] = values;
    json["texts"] = texts;
    if (request.stack) json["stack"] = frames_json(h.stack), json["stack_complete"] = h.stack_complete;
    return json;
  }
  // Matches come as notifications, before the result. All of them may have been found before a client that
  // reads slowly has the first, so it is listened to between them, too.
  Json log(const Params& p) {
    session::LogRequest request{p.get<std::string>("spec"),
                                p.get<std::vector<std::string>>("values", {}),
                                p.get<bool>("stack", false),
                                {}};
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
  static Json call_json(const session::Call& call) {
    Json args = Json::array();
    for (size_t i = 0; i < call.args.size(); i++)
      args.push_back(
          {{"name", call.args[i].first}, {"value", call.args_json[i]}, {"text", call.args[i].second}});
    Json json{{"at", point(call.at)},
              {"tick", call.at.tick},
              {"thread", call.thread},
              {"function", call.function},
              {"args", args}};
    json["ret"] = call.end == session::Call::End::Returned ? call.result_json : Json(nullptr);
    json["end"] = call.end == session::Call::End::Returned ? "returned"
                  : call.end == session::Call::End::Jumped ? "jumped"
                                                           : "unknown";
    if (call.left) json["left"] = point(*call.left), json["ticks"] = call.left->tick - call.at.tick;
    json["caller"] = frame_json(call.caller);
    return json;
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
    auto profile_json = [](const session::Profile& profile) {
      Json stacks = Json::array();
      for (const auto& [stack, n] : profile.stacks)
        stacks.push_back({{"stack", stack}, {"ticks", n * profile.period}});
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
  static Json cell_json(const trace::Value& value) {
    if (const auto* n = std::get_if<int64_t>(&value)) return *n;
    if (const auto* x = std::get_if<double>(&value)) return *x;
    if (const auto* text = std::get_if<std::string>(&value)) return *text;
    if (const auto* blob = std::get_if<trace::Blob>(&value)) {
      std::string hex;
      for (unsigned char b : blob->bytes) hex += fmt::format("{:02x}", b);
      return hex;
    }
    return nullptr;
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
  std::unique_ptr<Session> session_;
  std::unique_ptr<session::Several> several_;  // that were asked last
  std::unique_ptr<trace::History> history_;
  std::unique_ptr<trace::Database> database_;
  Json id_;  // of the request under way
  bool cancelled_ = false, over_ = false;
  std::chrono::steady_clock::time_point told_;
};

const std::map<std::string, Rpc::Method>& Rpc::methods() {
  static const std::map<std::string, Method> table = {
      {"methods", &Rpc::list_methods},
      {"version", &Rpc::version},
      {"info", &Rpc::info},
      {"processes", &Rpc::processes},
      {"process", &Rpc::process},
      {"now", &Rpc::now},
      {"goto", &Rpc::go_to},
      {"bookmark", &Rpc::bookmark},
      {"bookmarks", &Rpc::bookmarks},
      {"remove_bookmark", &Rpc::remove_bookmark},
      {"forward", &Rpc::forward},
      {"backward", &Rpc::backward},
      {"step", &Rpc::step},
      {"threads", &Rpc::threads},
      {"registers", &Rpc::registers},
      {"memory", &Rpc::memory},
      {"stack", &Rpc::stack},
      {"value", &Rpc::value},
      {"locals", &Rpc::locals},
      {"count", &Rpc::count},
      {"log", &Rpc::log},
      {"calls", &Rpc::calls},
      {"profile", &Rpc::profile},
      {"coverage", &Rpc::coverage},
      {"sql", &Rpc::sql},
      {"cancel", &Rpc::cancel},
      {"shutdown", &Rpc::shutdown},
  };
  return table;
}

}  // namespace

void serve_rpc(const ReplayOptions& options, const recording::Library& library,
               const recording::Recording& recording, int in, int out) {
  signal(SIGPIPE, SIG_IGN);
  Rpc(options, library, recording, in, out).serve();
}

void listen_rpc(const ReplayOptions& options, const recording::Library& library,
                const recording::Recording& recording, const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    throw Error("the path of the socket is too long: " + path, kExitUsage);
  std::memcpy(address.sun_path, path.data(), path.size());
  Fd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const mode_t before = umask(0177);
  const int bound = bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
  const int error = errno;
  umask(before);
  if (bound != 0) throw Error(fmt::format("cannot listen at {}: {}", path, errno_text(error)));
  if (listen(listener.get(), 8) != 0)
    throw Error(fmt::format("cannot listen at {}: {}", path, errno_text(errno)));
  fmt::print(stderr, "backstep: a session is at {}; Ctrl-C ends it\n", path);
  for (;;) {
    Fd client(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      throw Error("cannot take a client: " + errno_text(errno));
    }
    serve_rpc(options, library, recording, client.get(), client.get());
  }
}

}  // namespace backstep::serve
