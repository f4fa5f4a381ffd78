// Two runs of one program, side by side.
//
// The same program with the same input takes the same way: that is what replaying relies on. So two
// recordings part behind the first thing that came from outside and was not the same, and the logs tell which
// that was. (It need not be the cause: a clock always shows another time.) Where the ways part is found in
// two passes. First both runs are replayed, in windows on all processors, and their position is written down
// at each tick, or at one in so many of a long run. Then the stretch between the last common position and the
// first that is not is replayed step by step on both sides: the last step that both made is where they part,
// and what decided there are the flags of the comparison before it.
#include "session/parting.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include <fmt/format.h>

#include "base/error.h"
#include "events/event_text.h"
#include "events/recorded_call.h"
#include "session/flow.h"
#include "session/flow_effects.h"
#include "session/flow_origins.h"
#include "session/present.h"
#include "timeline/moments.h"

namespace backstep::session {
namespace {

using recording::Event;
using recording::EventKind;
using replayer::StepRecord;
using timeline::point_text;

constexpr uint64_t kMostSamples = 4'000'000;
constexpr uint64_t kMostSideBySide = 1 << 18;

struct Sample {
  Tick tick;
  Address pc;
  int thread;
  friend bool operator==(const Sample&, const Sample&) = default;
};

std::vector<Sample> samples_of(Session& session, Tick period, const Watcher& watcher, double begin,
                               double end) {
  std::vector<Sample> list;
  timeline::Sweep sweep;
  timeline::Tap tap;
  tap.kind = timeline::Tap::Period;
  tap.action = timeline::Tap::Log;
  tap.length = period;
  sweep.taps.list.push_back(tap);
  if (watcher.progress)
    sweep.progress = [=, &watcher](double d) { watcher.progress(begin + d * (end - begin)); };
  sweep.record = [&](const replayer::TapRecord& r, const uint8_t*) {
    list.push_back({r.tick, r.pc, r.thread});
    return true;
  };
  if (!session.timeline().sweep(sweep).complete) throw Error("interrupted");
  return list;
}

struct OwnEvent {
  std::vector<uint8_t> bytes;
  Event event;
};

std::vector<OwnEvent> events_of(const Session& session) {
  std::vector<OwnEvent> list;
  const timeline::LogIndex& log = session.timeline().log();
  log.each(0, [&](const timeline::Moment& m, std::span<const uint8_t> bytes) {
    OwnEvent& e = list.emplace_back();
    e.bytes.assign(bytes.begin(), bytes.end());
    Tick tick = 0;
    if (!recording::decode_event(e.bytes, tick, e.event))
      list.pop_back();
    else
      e.event.number = m.event, e.event.tick = m.tick, e.event.pc = m.pc;
    return true;
  });
  // Before its first instruction: arguments and environment, which are compared by themselves, and random
  // bytes from the kernel, which always differ.
  std::erase_if(list, [](const OwnEvent& e) {
    const bool start = e.event.tick == 0 && e.event.pc == 0;
    return start || recording::is_remark(e.event.kind) || e.event.kind == EventKind::Checksum;
  });
  return list;
}

template <class T>
bool same_bytes(std::span<const T> a, std::span<const T> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

// Did the outside give the same? (Digests of registers are the program's own doing.)
bool same_input(const Event& a, const Event& b) {
  if (a.kind != b.kind || a.nr != b.nr || a.tick != b.tick || a.pc != b.pc) return false;
  if (a.result != b.result || a.values != b.values || a.signo != b.signo || a.next_thread != b.next_thread)
    return false;
  if (a.kind == EventKind::Map) return a.addr == b.addr && a.key == b.key && a.offset == b.offset;
  if (a.kind == EventKind::Memory || a.kind == EventKind::Gap)
    return a.addr == b.addr && same_bytes(a.body, b.body);
  if (a.pieces.size() != b.pieces.size()) return false;
  for (size_t i = 0; i < a.pieces.size(); i++) {
    const auto &p = a.pieces[i], &q = b.pieces[i];
    if (p.kind == recording::PieceKind::Sum) continue;  // what the program gave
    if (p.kind != q.kind || p.addr != q.addr || !same_bytes(p.bytes, q.bytes)) return false;
  }
  return true;
}

std::string event_line(const Event& e) {
  if (e.kind == EventKind::Syscall) return guest::print_syscall(events::view_of(e));
  if (e.kind == EventKind::Signal) return fmt::format("signal {}", e.signo);
  if (e.kind == EventKind::Turn) return fmt::format("the turn passes to thread {}", e.next_thread);
  if (e.kind == EventKind::Instr)
    return fmt::format("an instruction that the processor answered: {}", e.values.empty() ? 0 : e.values[0]);
  if (e.kind == EventKind::Map) return fmt::format("{} is mapped at {:#x}", e.text, e.addr);
  if (e.kind == EventKind::End) return "the end";
  return "memory written from outside";
}

std::string differing_items(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  for (size_t i = 0; i < std::max(a.size(), b.size()); i++) {
    const std::string x = i < a.size() ? "\"" + a[i] + "\"" : "none",
                      y = i < b.size() ? "\"" + b[i] + "\"" : "none";
    if (x != y) return fmt::format("[{}]: {} and {}", i, x, y);
  }
  return "";
}

class Comparison {
 public:
  Comparison(Session& a, Session& b, bool exact, const Watcher& watcher)
      : sides_{&a, &b}, exact_(exact), watcher_(watcher) {}

  Parting run() {
    check_program();
    compare_starts();
    find_window();
    if (result_.parted) narrow();
    compare_logs();
    return std::move(result_);
  }

 private:
  void check_program() {
    std::string key[2], path[2];
    for (int i = 0; i < 2; i++) {
      const auto& files = sides_[i]->timeline().log().files();
      if (!files.empty()) key[i] = files.front().key, path[i] = files.front().path;
    }
    if (key[0] != key[1])
      throw Error(
          fmt::format("these are recordings of different programs: {} and {} have not the same contents",
                      path[0], path[1]));
  }

  void compare_starts() {
    const auto a = sides_[0]->recording().manifest(), b = sides_[1]->recording().manifest();
    const std::string argv = differing_items(a.argv, b.argv), env = differing_items(a.env, b.env);
    if (!argv.empty()) result_.start.push_back("argv" + argv);
    if (!env.empty()) result_.start.push_back("environment" + env);
  }

  // Up to the parting events correspond to each other, one by one.
  void compare_logs() {
    std::vector<OwnEvent> events[2] = {events_of(*sides_[0]), events_of(*sides_[1])};
    const Tick end = result_.last ? result_.last->at.tick : ~0ull;
    for (size_t i = 0; i < std::max(events[0].size(), events[1].size()); i++) {
      const bool both = i < events[0].size() && i < events[1].size();
      if (result_.parted && (!both || events[0][i].event.tick > end || events[1][i].event.tick > end)) break;
      if (both && same_input(events[0][i].event, events[1][i].event)) continue;
      PartingInput input;
      for (int s = 0; s < 2; s++) {
        if (i >= events[s].size()) continue;
        const Event& e = events[s][i].event;
        input.event[s] = e.number;
        input.at[s] = {e.tick, e.pc};
        input.text[s] = event_line(e);
      }
      (result_.inputs++ ? result_.nearest : result_.input) = input;
    }
  }

  void find_window() {
    Tick ticks = 0;
    for (Session* s : sides_) ticks = std::max(ticks, s->timeline().log().last().tick);
    const Tick period = exact_ ? 1 : ticks / kMostSamples + 1;
    result_.period = period;
    const std::vector<Sample> a = samples_of(*sides_[0], period, watcher_, 0, 0.45);
    const std::vector<Sample> b = samples_of(*sides_[1], period, watcher_, 0.45, 0.9);
    size_t i = 0;
    while (i < a.size() && i < b.size() && a[i] == b[i]) i++;
    const timeline::Moment ends[2] = {sides_[0]->timeline().log().last(), sides_[1]->timeline().log().last()};
    if (i == a.size() && i == b.size()) {
      result_.parted = ends[0].tick != ends[1].tick || ends[0].pc != ends[1].pc;
    } else {
      result_.parted = true;
    }
    from_ = i ? a[i - 1].tick : 0;
    for (int s = 0; s < 2; s++) {
      const auto& list = s ? b : a;
      to_[s] = i < list.size() ? list[i].tick + 1 : ends[s].tick + 1;
    }
    result_.exact_from = from_;
  }

  std::vector<StepRecord> steps(int side, Tick from, Tick to, Position* end) {
    const Position last = sides_[side]->timeline().log().last().position();
    auto list = sides_[side]->timeline().steps(from, std::min(Position{to, 0, 0}, last), kMostSideBySide);
    if (!list) throw Error("interrupted");
    if (list->dropped)
      throw Error("the stretch in which the runs part is too long to be replayed step by step");
    *end = list->end;
    return std::move(list->list);
  }

  // Step by step, from the last position that both have.
  void narrow() {
    const Tick window = std::max<Tick>(1, std::max(to_[0], to_[1]) - from_);
    const Tick chunk = std::min<Tick>(window, kMostSideBySide / 64);
    std::vector<StepRecord> before[2];
    for (Tick from = from_;; from += chunk) {
      std::vector<StepRecord> list[2];
      Position end[2];
      for (int s = 0; s < 2; s++) list[s] = steps(s, from, std::min(from + chunk, to_[s]), &end[s]);
      size_t i = 0;
      auto same = [](const StepRecord& x, const StepRecord& y) {
        return x.at.pc == y.at.pc && x.thread == y.thread && x.at.tick == y.at.tick;
      };
      while (i < list[0].size() && i < list[1].size() && same(list[0][i], list[1][i])) i++;
      const bool all = i == list[0].size() && i == list[1].size();
      if (all && from + chunk < std::min(to_[0], to_[1])) {
        for (int s = 0; s < 2; s++) before[s] = std::move(list[s]);
        continue;
      }
      for (int s = 0; s < 2; s++) {
        before[s].insert(before[s].end(), list[s].begin(), list[s].begin() + static_cast<ptrdiff_t>(i));
        if (i < list[s].size()) result_.next[s] = side_of(s, list[s][i]);
      }
      tell(before);
      return;
    }
  }

  PartingSide side_of(int s, const StepRecord& step) {
    PartingSide p;
    p.at = {step.at.tick, step.at.pc};
    p.thread = step.thread;
    const auto frames = sides_[s]->program().frames_at(step.at.pc);
    if (!frames.empty()) p.function = frames[0].function, p.file = frames[0].file, p.line = frames[0].line;
    p.what = decoder_.text(step);
    return p;
  }

  void tell(const std::vector<StepRecord> (&before)[2]) {
    if (before[0].empty() || before[1].empty()) {
      result_.sentence = "they differ from the first step on";
      return;
    }
    const StepRecord& step = before[0].back();
    result_.last = side_of(0, step);
    const DecodedStep& d = decoder_.decode(step);
    if (d.is_call) {
      result_.sentence = "a system call that waited, was interrupted or ended the run in only one of them";
    } else if (d.valid && d.in.meta.category == ZYDIS_CATEGORY_COND_BR) {
      result_.sentence = "a branch that only one of them took";
      tell_comparison(before);
    } else if (d.valid &&
               (d.in.meta.category == ZYDIS_CATEGORY_UNCOND_BR || d.in.meta.category == ZYDIS_CATEGORY_CALL ||
                d.in.meta.category == ZYDIS_CATEGORY_RET)) {
      result_.sentence = "a jump to different places";
      operands_of(before, before[0].size() - 1, before[1].size() - 1);
    } else {
      result_.sentence = "a signal, a turn of another thread, or a fault in only one of them";
    }
  }

  // What the branch went by: the last step that wrote the flags.
  void tell_comparison(const std::vector<StepRecord> (&before)[2]) {
    constexpr uint64_t kFlags = 1ull << 49;
    const int thread = before[0].back().thread;
    for (size_t back = 2; back <= before[0].size() && back <= before[1].size(); back++) {
      const StepRecord& a = before[0][before[0].size() - back];
      if (a.thread != thread || !(decoder_.decode(a).registers & kFlags)) continue;
      const Effect effect = decoder_.effect(a);
      const bool writes = std::any_of(effect.written.begin(), effect.written.end(),
                                      [](const Written& w) { return w.first.kind == Loc::Flags; });
      if (!writes) continue;
      result_.decided = side_of(0, a);
      operands_of(before, before[0].size() - back, before[1].size() - back);
      return;
    }
  }

  void operands_of(const std::vector<StepRecord> (&before)[2], size_t a, size_t b) {
    const StepRecord* step[2] = {&before[0][a], &before[1][b]};
    const Effect effect[2] = {decoder_.effect(*step[0]), decoder_.effect(*step[1])};
    for (size_t i = 0; i < effect[0].inputs.size() && i < effect[1].inputs.size(); i++) {
      Parting::Operand o;
      std::string where[2];
      for (int s = 0; s < 2; s++) {
        const FlowInput& in = effect[s].inputs[i];
        if (in.first.kind == Loc::Flags || in.address) continue;
        o.name = in.first.kind == Loc::Memory ? fmt::format("{} bytes at {:#x}", in.count, in.first.where)
                                              : register_name(in.first, in.count);
        std::vector<uint8_t> bytes(in.count);
        if (in.first.kind == Loc::General) {
          std::memcpy(bytes.data(),
                      reinterpret_cast<const uint8_t*>(&step[s]->gpr[in.first.number()]) + in.first.byte(),
                      std::min<uint64_t>(in.count, 8 - in.first.byte()));
        } else if (in.first.kind == Loc::Memory) {
          sides_[s]->timeline().go_to(step[s]->at);
          bytes = Present(*sides_[s]).memory(in.first.where, in.count);
        } else {
          continue;
        }
        o.value[s] = flow_number(bytes);
        where[s] = in.first.kind == Loc::Memory
                       ? fmt::format("{:#x}:{}", in.first.where, in.count)
                       : "$" + register_name({Loc::General, in.first.number() * 64ull}, 8);
      }
      if (o.value[0] != o.value[1] && !where[0].empty() && !where[1].empty())
        for (int s = 0; s < 2; s++) o.from[s] = sources_of(s, where[s], *step[s]);
      if (!o.name.empty()) result_.operands.push_back(std::move(o));
    }
  }

  // What the value was made of: the ends of its way back.
  std::vector<std::string> sources_of(int s, const std::string& expression, const StepRecord& step) {
    constexpr uint64_t kDepth = 12, kOrigins = 40;
    FlowRequest request;
    request.expression = expression;
    request.at = step.at;
    request.frame = 0;
    request.depth = kDepth;
    request.most = kOrigins;
    std::vector<std::string> list;
    std::function<void(const FlowValue&)> visit = [&](const FlowValue& v) {
      for (const FlowPart& p : v.parts) {
        const FlowOrigin& o = *p.origin;
        const bool dull = o.kind == FlowOrigin::Kind::Computed || o.kind == FlowOrigin::Kind::Constant ||
                          o.kind == FlowOrigin::Kind::Zero;
        const std::string text = o.sentence + (o.call.empty() ? "" : ", " + o.call);
        if (!dull && std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
        for (const FlowValue& i : o.inputs) visit(i);
      }
    };
    try {
      visit(why(*sides_[s], request, {}).value);
    } catch (const Error&) {  // then it is not told
    }
    return list;
  }

  Session* sides_[2];
  bool exact_;
  const Watcher& watcher_;
  Decoder decoder_;
  Parting result_;
  Tick from_ = 0, to_[2] = {};
};

nlohmann::ordered_json side_json(const PartingSide& s) {
  nlohmann::ordered_json o{{"at", point_text(s.at.tick, s.at.pc)}, {"tick", s.at.tick}, {"thread", s.thread}};
  if (!s.function.empty()) o["function"] = s.function;
  if (s.line) o["file"] = s.file, o["line"] = s.line;
  o["instruction"] = s.what;
  return o;
}

std::string side_text(const PartingSide& s) {
  std::string text = point_text(s.at.tick, s.at.pc);
  if (!s.function.empty()) text += "  " + s.function;
  if (s.line) text += fmt::format(" ({}:{})", s.file.substr(s.file.rfind('/') + 1), s.line);
  if (s.thread != 1) text += fmt::format(", thread {}", s.thread);
  return text + "  [" + s.what + "]";
}

}  // namespace

Parting find_parting(Session& a, Session& b, bool exact, const Watcher& watcher) {
  return Comparison(a, b, exact, watcher).run();
}

nlohmann::ordered_json parting_json(const Parting& p) {
  using Json = nlohmann::ordered_json;
  Json o{{"parted", p.parted}};
  if (!p.sentence.empty()) o["sentence"] = p.sentence;
  if (p.last) o["last"] = side_json(*p.last);
  const char* const names[] = {"a", "b"};
  for (int s = 0; s < 2; s++)
    if (p.parted) o[names[s]] = p.next[s] ? side_json(*p.next[s]) : Json(nullptr);
  if (p.decided) o["decided"] = side_json(*p.decided);
  if (!p.operands.empty()) {
    o["operands"] = Json::array();
    for (const auto& v : p.operands)
      o["operands"].push_back(Json{{"name", v.name},
                                   {"a", v.value[0]},
                                   {"b", v.value[1]},
                                   {"a_from", v.from[0]},
                                   {"b_from", v.from[1]}});
  }
  auto input_json = [&](const PartingInput& input) {
    Json both = Json::object();
    for (int s = 0; s < 2; s++) {
      const ControlPoint& at = input.at[s];
      both[names[s]] =
          input.text[s].empty()
              ? Json(nullptr)
              : Json{{"event", input.event[s]}, {"at", point_text(at.tick, at.pc)}, {"text", input.text[s]}};
    }
    return both;
  };
  o["inputs"] = p.inputs;
  if (p.input) o["input"] = input_json(*p.input);
  if (p.nearest) o["nearest"] = input_json(*p.nearest);
  o["start"] = p.start;
  o["period"] = p.period;
  return o;
}

std::vector<std::string> parting_text(const Parting& p) {
  std::vector<std::string> lines;
  if (!p.parted) {
    lines.push_back("both runs take the same way, from the start to the end");
  } else {
    lines.push_back("the runs part: " + p.sentence);
    if (p.last) lines.push_back("  both  " + side_text(*p.last));
    for (int s = 0; s < 2; s++)
      lines.push_back(
          fmt::format("  {}     {}", s ? 'B' : 'A', p.next[s] ? side_text(*p.next[s]) : "ends there"));
    if (p.decided) lines.push_back("decided by  " + side_text(*p.decided));
    for (const auto& v : p.operands) {
      lines.push_back(fmt::format("  {}: {} in A, {} in B", v.name, v.value[0], v.value[1]));
      for (int s = 0; s < 2; s++)
        for (const std::string& text : v.from[s])
          lines.push_back(fmt::format("    {}  {}", s ? 'B' : 'A', text));
    }
  }
  for (const std::string& s : p.start) lines.push_back("their beginnings differ: " + s);
  auto input_text = [&](const std::string& title, const PartingInput& input) {
    lines.push_back(title);
    for (int s = 0; s < 2; s++)
      lines.push_back(fmt::format("  {}  event {} at {}: {}", s ? 'B' : 'A', input.event[s],
                                  point_text(input.at[s].tick, input.at[s].pc),
                                  input.text[s].empty() ? "none" : input.text[s]));
  };
  const char* before = p.parted ? " before that" : "";
  if (p.input) input_text(fmt::format("inputs that differ{}: {}; the first", before, p.inputs), *p.input);
  if (p.nearest) input_text("and the last", *p.nearest);
  if (p.period > 1)
    lines.push_back(fmt::format(
        "(one tick in {} was compared: a detour that came back in between is not seen; --exact)", p.period));
  return lines;
}

}  // namespace backstep::session
