// Two events, `call F` and `return F`, whose matches belong together: at both the stack pointer is at the
// return address, and of all calls that have not returned only the newest can have it there. So no stack has
// to be followed, and it does not matter on which one the function runs: a signal handler's, a coroutine's. A
// call that is left by longjmp or an exception never returns; the next one at the same place says so.
#include "session/calls.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <unordered_map>

#include <fmt/format.h>

#include "session/exits.h"
#include "session/hits.h"
#include "session/resolve.h"

namespace backstep::session {
namespace {

using timeline::Tap;

constexpr size_t kArgsShownBlindly = 3;  // of a function without debug information

class Calls {
 public:
  Calls(Session& session, const std::string& function) : session_(session) {
    enter_ = resolve(session, "call " + function, false);
    for (ResolvedTap& r : enter_.taps) add_entry(r);
    for (const symbols::Function& f : functions_named(session.program(), function)) add_exits(f);
  }
  Calls(Session& session, const std::vector<symbols::Function>& functions) : session_(session) {
    for (const symbols::Function& f : functions) {
      ResolvedTap enter;
      enter.tap.kind = Tap::Pc;
      enter.tap.start = enter.pc = f.entry;
      enter.offers.args = true;
      enter.offers.function = f.entry;
      add_entry(enter);
      add_exits(f);
    }
  }

  void run(const Stretch& stretch, const std::function<bool(const Call&)>& call, const Watcher& watcher) {
    timeline::Sweep sweep;
    for (const Point& p : points_) sweep.taps.list.push_back(p.tap);
    sweep.from = stretch.from, sweep.to = stretch.to;
    sweep.progress = watcher.progress;
    sweep.record = [&](const replayer::TapRecord& record, const uint8_t* values) {
      take(record, values);
      return tell(call, false);
    };
    if (session_.timeline().sweep(sweep).complete) tell(call, true);
  }

  void run_as_they_end(const CallsRequest& request, const std::function<bool(const Call&)>& call,
                       const Watcher& watcher) {
    using Begun = std::pair<uint64_t, Call>;   // numbered in the order in which they began
    std::unordered_map<uint64_t, Begun> open;  // by stack pointer
    uint64_t begun = 0;
    bool behind = false, enough = false;  // behind the stretch; nobody wants more
    auto tell_one = [&](const Call& c) { return !(enough = enough || !call(c)); };
    timeline::Sweep sweep;
    for (const Point& p : points_) sweep.taps.list.push_back(p.tap);
    sweep.from = request.stretch.from, sweep.to = request.stretch.to;
    sweep.progress = watcher.progress;
    sweep.record = [&](const replayer::TapRecord& record, const uint8_t* bytes) {
      const Point& p = points_[record.tap];
      CapturedValues values(bytes);
      const uint64_t stack = values.word();
      if (auto found = open.find(stack); found != open.end()) {
        if (!p.entry) leave(p, record, values, found->second.second);
        const Call over = std::move(found->second.second);
        open.erase(found);
        if (!tell_one(over)) return false;
      }
      if (p.entry && !behind) open[stack] = {begun++, enter(p, record, values)};
      return !behind || !open.empty();
    };
    bool complete = session_.timeline().sweep(sweep).complete;
    if (complete && request.to_their_end && request.stretch.to && !open.empty()) {
      behind = true;
      sweep.from = request.stretch.to, sweep.to = std::nullopt;
      complete = session_.timeline().sweep(sweep).complete || open.empty();
    }
    if (!complete || enough) return;
    std::vector<Begun> rest;
    for (auto& [stack, b] : open) rest.push_back(std::move(b));
    std::sort(rest.begin(), rest.end(), [](const Begun& a, const Begun& b) { return a.first < b.first; });
    for (const Begun& b : rest)
      if (!tell_one(b.second)) return;
  }

 private:
  struct Point {
    Tap tap;
    bool entry = false, jump = false;
    std::string function;
    std::vector<std::string> names;  // of the arguments
    bool args_known = false;
    std::vector<symbols::Compiled> values;
  };
  struct Open {
    Call call;
    bool over = false;
  };

  void add_value(Point& p, const ResolvedTap& r, const std::string& text) {
    p.values.push_back(session_.compiler().compile(text, r.pc, r.offers));
    p.tap.values.push_back(p.values.back().code);
  }

  void add_entry(const ResolvedTap& r) {
    Point p;
    p.tap = r.tap;
    p.tap.action = Tap::Log;
    p.entry = true;
    const auto function = session_.program().function_at(r.tap.start);
    p.function = function ? function->name : "";
    add_value(p, r, "$rsp");
    add_value(p, r, "*(unsigned long *)$rsp");
    if (function)
      for (const auto& local :
           session_.compiler().locals(function->body, symbols::EventVariables::kNotInlined))
        if (local.parameter) p.names.push_back(local.name);
    p.args_known = !p.names.empty() || (function && !function->file.empty());
    if (!p.args_known) p.names.assign(kArgsShownBlindly, "");
    for (size_t i = 0; i < p.names.size(); i++) {
      try {
        add_value(p, r, fmt::format("$arg{}", i));
      } catch (const symbols::ExpressionError&) {  // one that is passed in memory
        p.names.resize(i);
        p.args_known = false;
      }
    }
    points_.push_back(std::move(p));
  }

  // None, if it never returns.
  void add_exits(const symbols::Function& f) {
    for (const Exit& exit : exits_of(session_.program(), f)) {
      ResolvedTap leave;
      leave.tap.kind = Tap::Pc;
      leave.tap.start = leave.pc = exit.pc;
      leave.tap.strict = true;
      leave.offers.retval = !exit.jump;
      leave.offers.function = f.entry;
      if (!exit.only_if.empty())
        leave.tap.conditions = {session_.compiler().compile_condition(exit.only_if, exit.pc)};
      add_exit(leave);
    }
  }

  void add_exit(const ResolvedTap& r) {
    Point p;
    p.tap = r.tap;
    p.tap.action = Tap::Log;
    p.jump = !r.offers.retval;
    add_value(p, r, "$rsp");
    try {
      if (r.offers.retval) add_value(p, r, "$retval");
    } catch (const symbols::ExpressionError&) {  // it returns nothing
    }
    points_.push_back(std::move(p));
  }

  void take(const replayer::TapRecord& record, const uint8_t* bytes) {
    const Point& p = points_[record.tap];
    CapturedValues values(bytes);
    const uint64_t stack = values.word();
    if (p.entry) {
      enter_at(stack, enter(p, record, values));
      return;
    }
    auto found = open_.find(stack);
    if (found == open_.end()) return;  // it was called before the stretch
    Open& open = calls_[found->second - first_];
    leave(p, record, values, open.call);
    open.over = true;
    open_.erase(found);
  }

  void enter_at(uint64_t stack, Call call) {
    calls_.emplace_back().call = std::move(call);
    auto [place, fresh] = open_.try_emplace(stack, first_ + calls_.size() - 1);
    if (fresh) return;
    calls_[place->second - first_].over = true;  // whoever was there is gone
    place->second = first_ + calls_.size() - 1;
  }

  // The values behind the stack pointer.
  Call enter(const Point& p, const replayer::TapRecord& record, CapturedValues& values) const {
    Call call;
    call.function = p.function;
    call.at = {record.tick, record.pc};
    call.thread = record.thread;
    call.args_known = p.args_known;
    const Address back = values.word();
    auto frames = session_.program().frames_at(back - 1);
    if (frames.empty()) frames = session_.program().frames_at(back);  // nobody called: see Session::named
    call.caller.pc = back;
    if (!frames.empty())
      call.caller.function = frames[0].function, call.caller.file = frames[0].file,
      call.caller.line = frames[0].line;
    else if (const symbols::Module* module = session_.program().module_at(back))
      call.caller.module = module->name;
    for (size_t i = 0; i < p.names.size(); i++) {
      std::string text;
      values.read(p.values[2 + i], &text, &call.args_json.emplace_back());
      call.args.push_back({p.names[i], text});
    }
    return call;
  }
  static void leave(const Point& p, const replayer::TapRecord& record, CapturedValues& values, Call& call) {
    call.left = ControlPoint{record.tick, record.pc};
    call.end = p.jump ? Call::End::Jumped : Call::End::Returned;
    if (p.values.size() > 1) values.read(p.values[1], &call.result, &call.result_json);
  }

  // False: enough.
  bool tell(const std::function<bool(const Call&)>& call, bool all) {
    while (!calls_.empty() && (all || calls_.front().over)) {
      if (!call(calls_.front().call)) return false;
      calls_.pop_front();
      first_++;
    }
    return true;
  }

  Session& session_;
  Resolved enter_;
  std::vector<Point> points_;
  std::deque<Open> calls_;                       // not told yet, in the order in which they began …
  uint64_t first_ = 0;                           // … the first of them is this one
  std::unordered_map<uint64_t, uint64_t> open_;  // by stack pointer: which call
};

}  // namespace

void calls(Session& session, const std::string& function, const Stretch& stretch,
           const std::function<bool(const Call&)>& call, const Watcher& watcher) {
  Calls(session, function).run(stretch, call, watcher);
}

void calls_as_they_end(Session& session, const CallsRequest& request,
                       const std::function<bool(const Call&)>& call, const Watcher& watcher) {
  Calls(session, request.functions).run_as_they_end(request, call, watcher);
}

}  // namespace backstep::session
