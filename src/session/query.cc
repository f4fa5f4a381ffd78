// The plan (query_plan.h) says which taps there are; a sweep has their matches in the order of time. Forwards
// it ends at the n-th. Backwards the run is swept in parts from the present on, as `log --last` does, and the
// last n matches of what has been seen are kept.
//
// What a tap's own condition could not decide is decided here: the stack is unwound from what came with the
// match, and patterns are compared with it.
#include "session/query.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <regex>

#include <fmt/format.h>

#include "engine/context.h"
#include "replay/bytecode.h"
#include "session/hits.h"
#include "session/known_calls.h"
#include "session/query_plan.h"
#include "timeline/moments.h"

namespace backstep::session {
namespace {

using replayer::TapRecord;
using timeline::Sweep;
using timeline::Tap;

constexpr Tick kSoon = 10'000;  // who goes forwards will probably not go far

enum class Truth : uint8_t { No, Yes, Unknown };

Truth negated(Truth t) {
  return t == Truth::Unknown ? t : t == Truth::Yes ? Truth::No : Truth::Yes;
}

class Searching {
 public:
  Searching(Session& session, const QueryRequest& request, const Watcher& watcher)
      : session_(session),
        request_(request),
        query_(events::parse_query(request.query)),
        plan_(session, query_, translated(request.values, query_.type), watcher),
        watcher_(watcher) {
    for (const std::string& note : plan_.notes())
      if (watcher.note) watcher.note(note);
    for (QueryTap& tap : plan_.taps()) {
      add_values(tap);
      taps_.list.push_back(tap.resolved.tap);
    }
    for (const auto& [text, n] : fails_)
      if (n == taps_.list.size()) std::rethrow_exception(failed_);
  }

  QueryAnswer run() {
    answer_.wanted = query_.count;
    answer_.forward = query_.forward;
    answer_.interrupted = session_.timeline().attention.stop_asked;
    if (taps_.empty() || answer_.interrupted) return answer_;
    query_.forward ? forward() : backward();
    if (answer_.hit && request_.stack && answer_.hit->stack.empty()) add_stack(*answer_.hit);
    if (answer_.hit) name_place();
    return answer_;
  }

 private:
  static std::vector<std::string> translated(std::vector<std::string> values, events::Query::Type type) {
    for (std::string& v : values) v = events::expression_of(v, type);
    return values;
  }
  // Values that are asked stand behind those that the condition needs.
  void add_values(QueryTap& tap) {
    auto& compiled = compiled_.emplace_back();
    ResolvedTap& r = tap.resolved;
    for (const std::string& text : request_.values) {
      try {
        compiled.push_back(
            session_.compiler().compile(events::expression_of(text, query_.type), r.pc, r.offers));
      } catch (const symbols::ExpressionError&) {
        if (!failed_) failed_ = std::current_exception();
        compiled.emplace_back().text = text;
        compiled.back().optimized_out = true;
        fails_[text]++;
      }
      replayer::CapturedExpression code = compiled.back().code;
      if (compiled.back().optimized_out)
        code = {{replayer::kConst8, 0, replayer::kEnd}, replayer::Capture::Scalar, 8};
      (tap.accesses ? tap.of_access : r.tap.values).push_back(std::move(code));
    }
    r.tap.stack = (tap.needs_stack || request_.stack) && !tap.accesses;
  }

  // One match, with what came with it.
  struct Match {
    const TapRecord& record;
    const QueryTap& tap;
    std::vector<std::optional<bool>> conditions;  // none: could not be evaluated
    std::vector<StackFrame> stack;                // innermost first
    bool stack_complete = true;
  };

  bool sweep(const Stretch& stretch, const std::function<bool(Hit)>& take) {
    Sweep s;
    s.taps = taps_;
    s.from = stretch.from, s.to = stretch.to;
    s.progress = watcher_.progress;
    if (query_.forward) s.hurry = kSoon;
    bool enough = false;
    s.record = [&](const TapRecord& record, const uint8_t* bytes) {
      auto hit = hit_of(record, bytes);
      if (hit && !take(std::move(*hit))) enough = true;
      return !enough;
    };
    const auto swept = session_.timeline().sweep(s);
    for (const auto& c : swept.counts) answer_.failures += c.failures;
    answer_.interrupted |= !swept.complete && !enough;
    return !answer_.interrupted;
  }

  // The present's own moment does not count, whichever way one goes.
  Stretch stretch() const {
    Stretch s;
    const bool current = query_.from == events::Query::From::Current && request_.current;
    if (query_.forward) {
      if (query_.from == events::Query::From::Last) s.from = session_.timeline().log().last().position();
      if (current) s.from = request_.current;
    } else {
      if (query_.from == events::Query::From::First)
        s.to = session_.timeline().log().birth().value_or(Position{});
      if (current) s.to = request_.current;
    }
    return s;
  }
  bool is_current(const TapRecord& record) const {
    if (query_.from != events::Query::From::Current || !request_.current) return false;
    const Position& now = *request_.current;
    return now.tick == record.tick && now.pc == record.pc &&
           (now.event == 0 || session_.timeline().log().is_same(now, position_of(record)));
  }

  void forward() {
    sweep(stretch(), [&](Hit hit) {
      if (++answer_.matches < query_.count) return true;
      answer_.hit = std::move(hit);
      return false;
    });
  }

  void backward() {
    std::deque<Hit> last;
    session_.backwards(stretch(), [&](const Stretch& part) {
      std::deque<Hit> here;
      uint64_t seen = 0;
      const bool complete = sweep(part, [&](Hit hit) {
        seen++;
        here.push_back(std::move(hit));
        if (here.size() > query_.count) here.pop_front();
        return true;
      });
      last.insert(last.begin(), std::make_move_iterator(here.begin()), std::make_move_iterator(here.end()));
      while (last.size() > query_.count) last.pop_front();
      answer_.matches += seen;
      return !complete || last.size() == query_.count;
    });
    if (last.size() == query_.count && !answer_.interrupted) answer_.hit = std::move(last.front());
    answer_.matches = last.size();
  }

  std::optional<Hit> hit_of(const TapRecord& record, const uint8_t* bytes) {
    const Position at{record.tick, record.event, record.pc};
    if (is_current(record)) return std::nullopt;
    const QueryTap& tap = plan_.taps()[record.tap];
    Match match{record, tap, {}, {}, true};
    std::vector<uint8_t> evaluated;
    if (tap.accesses) {
      evaluated = values_of_access(tap, record, CapturedValues(bytes).next());
      bytes = evaluated.data();
    }
    CapturedValues values(bytes);
    for (size_t i = 0; i < tap.captured; i++) {
      bool readable = true;
      uint64_t word = 0;
      const auto value = values.next(&readable);
      std::memcpy(&word, value.data(), std::min(value.size(), sizeof word));
      match.conditions.push_back(readable ? std::optional(word != 0) : std::nullopt);
    }
    Hit hit;
    hit.at = {record.tick, record.pc};
    hit.event = record.event;
    hit.thread = record.thread;
    for (const symbols::Compiled& c : compiled_[record.tap])
      values.read(c, &hit.values.emplace_back(), &hit.json.emplace_back());
    if (tap.resolved.tap.stack) read_stack(match, values);
    const Truth truth = evaluate(tap.rest, match);
    if (truth == Truth::Unknown) answer_.failures++;
    if (truth != Truth::Yes) return std::nullopt;
    // One instruction may touch two ranges of memory, or make several accesses.
    if (last_ == at && (tap.accesses || tap.resolved.tap.is_data())) return std::nullopt;
    last_ = at;
    hit.stack = std::move(match.stack);
    hit.stack_complete = match.stack_complete;
    return hit;
  }

  // What a record of an access has, as values of expressions about it are logged elsewhere. They know nothing
  // of registers and memory.
  static std::vector<uint8_t> values_of_access(const QueryTap& tap, const TapRecord& record,
                                               std::span<const uint8_t> bytes) {
    static const auto context = std::make_unique<Context>();
    constexpr uint32_t kRip = 1u << 16;
    context->rip = record.pc;
    replayer::AccessRecord access{};
    std::memcpy(&access, bytes.data(), std::min(bytes.size(), sizeof access));
    replayer::Surroundings around{*context, [](uint64_t, uint64_t*, unsigned, const void*) { return false; },
                                  nullptr,  {},
                                  0,        false,
                                  ~kRip,    replayer::float_operation};
    around.set(replayer::kStateTick, record.tick);
    around.set(replayer::kStateThread, static_cast<uint64_t>(record.thread));
    around.set(replayer::kStateAddress, access.address);
    around.set(replayer::kStateOld, access.old_value);
    around.set(replayer::kStateNew, access.new_value);
    around.set(replayer::kStateSize, access.size);
    std::vector<uint8_t> values;
    for (const replayer::CapturedExpression& e : tap.of_access) {
      const replayer::Captured value = replayer::capture(e, around);
      uint32_t size = static_cast<uint32_t>(value.bytes.size());
      if (!value.readable) size |= replayer::kUnreadable;
      values.insert(values.end(), reinterpret_cast<const uint8_t*>(&size),
                    reinterpret_cast<const uint8_t*>(&size + 1));
      values.insert(values.end(), value.bytes.begin(), value.bytes.end());
    }
    return values;
  }

  void add_stack(Hit& hit) {
    const auto stacks = stacks_at(session_, {hit.position()}, watcher_);
    hit.stack = stacks[0].frames;
    hit.stack_complete = stacks[0].complete;
  }

  void read_stack(Match& match, CapturedValues& values) const {
    symbols::UnwindRegisters registers;
    const auto gpr = values.next();
    std::memcpy(registers.gpr, gpr.data(), std::min(gpr.size(), sizeof registers.gpr));
    match.stack = session_.frames(registers, registers.gpr[symbols::UnwindRegisters::kRsp], values.next(),
                                  &match.stack_complete);
    // What is inlined at the first instruction of a function has not been begun.
    if (match.tap.whole_functions)
      while (match.stack.size() > 1 && match.stack[0].inlined) match.stack.erase(match.stack.begin());
  }

  Truth evaluate(const Remainder& r, const Match& match) {
    using Op = Remainder::Op;
    switch (r.op) {
      case Op::True:
        return Truth::Yes;
      case Op::Not:
        return negated(evaluate(r.parts[0], match));
      case Op::And:
      case Op::Or: {
        // As in C: what comes first may decide it.
        const Truth decides = r.op == Op::And ? Truth::No : Truth::Yes;
        for (const Remainder& part : r.parts)
          if (const Truth t = evaluate(part, match); t == decides || t == Truth::Unknown) return t;
        return negated(decides);
      }
      case Op::Captured: {
        const auto known = match.conditions[r.value];
        return !known ? Truth::Unknown : *known ? Truth::Yes : Truth::No;
      }
      case Op::Source:
      case Op::Function: {
        const auto frames = session_.program().frames_at(match.record.pc);
        if (frames.empty()) return Truth::No;
        const bool yes = r.op == Op::Source ? plan_.is_source(*r.leaf, frames[0].file, frames[0].line)
                                            : plan_.pattern(r.leaf->text)
                                                  .fits(session_.program(), match.record.pc,
                                                        frames[0].function, frames.size() > 1);
        return yes ? Truth::Yes : Truth::No;
      }
      case Op::Stack:
        return fits_stack(r.leaf->frames, match);
      default:
        return Truth::No;
    }
  }

  // From the innermost function outwards: which entries of the pattern may be next.
  Truth fits_stack(const std::vector<std::string>& pattern, const Match& match) {
    std::vector<bool> next(pattern.size() + 1);  // next[n]: the last n entries are matched
    next[0] = true;
    auto skip_stars = [&](std::vector<bool>& at) {
      for (size_t n = 0; n < pattern.size(); n++)
        if (at[n] && pattern[pattern.size() - 1 - n] == "*") at[n + 1] = true;
    };
    skip_stars(next);
    for (const StackFrame& frame : match.stack) {
      std::vector<bool> behind(pattern.size() + 1);
      for (size_t n = 0; n < pattern.size(); n++) {
        const std::string& entry = pattern[pattern.size() - 1 - n];
        if (!next[n]) continue;
        if (entry == "*") {
          behind[n] = true;
        } else if (entry == "?" || fits_frame(entry, frame)) {
          behind[n + 1] = true;
        }
      }
      skip_stars(behind);
      next = std::move(behind);
    }
    const bool fits = next[pattern.size()];
    if (match.stack_complete) return fits ? Truth::Yes : Truth::No;
    // Functions outside of these are not known. Only a * there takes whatever they are.
    if (fits && pattern[0] == "*") return Truth::Yes;
    if (std::find(next.begin(), next.end(), true) == next.end()) return Truth::No;
    answer_.cut++;
    return Truth::Unknown;
  }
  bool fits_frame(const std::string& entry, const StackFrame& frame) {
    return plan_.pattern(entry).fits(session_.program(), frame.pc, frame.function, frame.inlined);
  }

  void name_place() {
    const Hit& hit = *answer_.hit;
    answer_.place.pc = hit.at.pc;
    const auto frames = session_.program().frames_at(hit.at.pc);
    if (frames.empty()) return;
    answer_.place.function = frames[0].function;
    answer_.place.file = frames[0].file, answer_.place.line = frames[0].line;
    answer_.place.inlined = frames.size() > 1;
  }

  Session& session_;
  const QueryRequest& request_;
  events::Query query_;
  QueryPlan plan_;
  const Watcher& watcher_;
  timeline::Taps taps_;
  std::vector<std::vector<symbols::Compiled>> compiled_;  // by tap: values that are asked
  std::map<std::string, size_t> fails_;
  std::exception_ptr failed_;
  std::optional<Position> last_;
  QueryAnswer answer_;
};

}  // namespace

QueryAnswer query(Session& session, const QueryRequest& request, const Watcher& watcher) {
  session.timeline().attention.stop_asked = false;
  return Searching(session, request, watcher).run();
}

namespace {

// func=b, where there was no match: was func=<b> meant? The sentence about it; empty: probably not.
std::string about_brackets(const std::string& text) {
  static const std::regex pattern(R"(\b(func|src|stack|name)\s*(==?|!=)\s*([A-Za-z_*][\w.,:*/-]*))");
  std::smatch found;
  if (!std::regex_search(text, found, pattern)) return "";
  const std::string meant = fmt::format("{}{}<{}>", found.str(1), found.str(2), found.str(3));
  return fmt::format(" ('{}' compares a variable '{}' of the program; did you mean {}?)", found.str(),
                     found.str(1), meant);
}

}  // namespace

std::string answer_text(const QueryAnswer& answer, const QueryRequest& request) {
  if (answer.interrupted) return "interrupted";
  if (!answer.hit) {
    const char* where = answer.forward ? "from there on" : "before that";
    if (answer.matches == 0)
      return fmt::format("there is no such moment {}{}", where, about_brackets(request.query));
    return fmt::format("there {} only {} such moment{} {}", answer.matches == 1 ? "is" : "are",
                       answer.matches, answer.matches == 1 ? "" : "s", where);
  }
  const Hit& hit = *answer.hit;
  std::string text = fmt::format("{:<26}  {}  ", timeline::point_text(hit.at.tick, hit.at.pc), hit.thread);
  text += answer.place.function.empty() ? fmt::format("{:#x}", hit.at.pc) : answer.place.function;
  if (answer.place.line)
    text += fmt::format(" at {}:{}", answer.place.file.substr(answer.place.file.rfind('/') + 1),
                        answer.place.line);
  for (size_t i = 0; i < hit.values.size(); i++)
    text += fmt::format("\n    {} = {}", request.values[i], hit.values[i]);
  return text;
}

}  // namespace backstep::session
