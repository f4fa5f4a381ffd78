// First the calls of the function itself (calls.cc), then a second look at the stretch from the first of them
// to the end of the last, at the entries and exits of all functions.
//
// Who called whom is told by where the return addresses lie: a call that has not returned, at a lower or the
// same place of the stack as one that begins, has been left by longjmp or an exception.
#include "session/call_tree.h"

#include <algorithm>
#include <map>
#include <set>

#include "session/exits.h"
#include "session/hits.h"
#include "session/modules.h"

namespace backstep::session {
namespace {

using timeline::Tap;

class Trees {
 public:
  Trees(Session& session, const TreeRequest& request, std::vector<CallWithTree>& trees)
      : session_(session), request_(request), trees_(trees) {
    const symbols::Compiled stack = session.compiler().compile("$rsp", 0, {});
    std::set<Address> known;
    for (const symbols::Module& module : session.program().modules()) {
      const bool system = is_of_the_system(module.name);
      for (const symbols::Function& f : session.program().all_functions(module)) {
        if (f.inlined || !known.insert(f.entry).second) continue;
        // Between a call and the function, the first time.
        if (!request.system && f.name.starts_with("_dl_runtime_resolve")) continue;
        add(f.entry, functions_.size(), true, stack);
        for (const Exit& exit : exits_of(session.program(), f)) {
          add(exit.pc, functions_.size(), false, stack);
          if (exit.only_if.empty()) continue;
          taps_.back().conditions = {session.compiler().compile_condition(exit.only_if, exit.pc)};
          taps_.back().strict = true;
        }
        functions_.push_back({f.name, system});
      }
    }
  }

  void run(const Watcher& watcher) {
    timeline::Sweep sweep;
    sweep.taps.list = std::move(taps_);
    const ControlPoint first = trees_.front().call.at;
    sweep.from = Position{first.tick, 0, first.pc};
    sweep.to = request_.stretch.to;
    // Of calls that did not return nobody knows how far they went.
    const bool ends = std::all_of(trees_.begin(), trees_.end(), [](const auto& t) { return t.call.left; });
    if (ends) {
      Tick last = 0;
      for (const CallWithTree& t : trees_) last = std::max(last, t.call.left->tick);
      if (!sweep.to || last + 1 < sweep.to->tick) sweep.to = Position{last + 1, 0, 0};
    }
    sweep.progress = watcher.progress;
    sweep.record = [&](const replayer::TapRecord& record, const uint8_t* bytes) {
      const Point& p = points_[record.tap];
      const uint64_t stack = CapturedValues(bytes).word();
      auto& frames = threads_[record.thread];
      p.entry ? enter(p.function, record, stack, frames) : leave(record, stack, frames);
      return true;
    };
    session_.timeline().sweep(sweep);
  }

 private:
  struct Named {
    std::string name;
    bool system = false;
  };
  struct Point {
    size_t function = 0;
    bool entry = false;
  };
  struct Frame {
    size_t function = 0;
    uint64_t stack = 0;  // where the return address is
    Tick since = 0;
    CallNode* node = nullptr;
  };

  void add(Address pc, size_t function, bool entry, const symbols::Compiled& stack) {
    Tap& tap = taps_.emplace_back();
    tap.start = pc;
    tap.action = Tap::Log;
    tap.values.push_back(stack.code);
    points_.push_back({function, entry});
  }

  void enter(size_t function, const replayer::TapRecord& record, uint64_t stack, std::vector<Frame>& frames) {
    while (!frames.empty() && frames.back().stack <= stack) frames.pop_back();
    if (frames.empty()) {
      while (next_ < trees_.size() && trees_[next_].call.at.tick < record.tick) next_++;
      for (size_t i = next_; i < trees_.size() && trees_[i].call.at.tick == record.tick; i++)
        if (trees_[i].call.at.pc == record.pc && trees_[i].call.thread == record.thread) {
          trees_[i].tree.count = 1;
          frames.push_back({function, stack, record.tick, &trees_[i].tree});
        }
      return;
    }
    const Frame& caller = frames.back();
    if (frames.size() > request_.depth) return;
    if (!request_.system && functions_[function].system && functions_[caller.function].system) return;
    auto& calls = caller.node->calls;
    const std::string& name = functions_[function].name;
    auto same = std::find_if(calls.begin(), calls.end(), [&](const auto& c) { return c->function == name; });
    if (same == calls.end()) {
      calls.push_back(std::make_unique<CallNode>());
      same = std::prev(calls.end());
      (*same)->function = name;
    }
    (*same)->count++;
    frames.push_back({function, stack, record.tick, same->get()});
  }

  void leave(const replayer::TapRecord& record, uint64_t stack, std::vector<Frame>& frames) {
    auto frame =
        std::find_if(frames.rbegin(), frames.rend(), [&](const Frame& f) { return f.stack == stack; });
    if (frame == frames.rend()) return;
    frame->node->ticks += record.tick - frame->since;
    frames.erase(std::prev(frame.base()), frames.end());
  }

  Session& session_;
  const TreeRequest& request_;
  std::vector<CallWithTree>& trees_;
  size_t next_ = 0;
  std::vector<Named> functions_;
  std::vector<Tap> taps_;
  std::vector<Point> points_;                  // by tap
  std::map<int, std::vector<Frame>> threads_;  // of each: the outermost first
};

}  // namespace

nlohmann::ordered_json CallNode::to_json() const {
  auto array = nlohmann::ordered_json::array();
  for (const auto& child : calls)
    array.push_back({{"function", child->function},
                     {"count", child->count},
                     {"ticks", child->ticks},
                     {"calls", child->to_json()}});
  return array;
}

std::vector<CallWithTree> call_trees(Session& session, const TreeRequest& request, const Watcher& watcher) {
  std::vector<CallWithTree> trees;
  std::map<int, Tick> until;  // by thread: where the last of them ends
  calls(
      session, request.function, request.stretch,
      [&](const Call& call) {
        auto [end, first] = until.try_emplace(call.thread, 0);
        if (!first && call.at.tick <= end->second) return true;  // it is in the tree of that one
        if (trees.size() == request.limit) return false;
        end->second = call.left ? call.left->tick : call.at.tick;
        trees.emplace_back().call = call;
        trees.back().tree.function = call.function;
        return true;
      },
      watcher);
  if (!trees.empty()) Trees(session, request, trees).run(watcher);
  // Those below one that never returned are in its tree.
  std::erase_if(trees, [](const CallWithTree& t) { return t.tree.count == 0; });
  return trees;
}

}  // namespace backstep::session
