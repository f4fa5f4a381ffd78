// Each assertion becomes a few taps, as an event does, and all of them run in one sweep. Their matches come
// in the order of time; what an assertion has to remember of those before is little: the last B, the first A
// that waits for one.
//
// Values are captured with each match, so that the first violation can say what was the case; there is no
// second replay for that.
#include "session/assertions.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include <fmt/format.h>

#include "events/matcher.h"
#include "session/fixed_reads.h"
#include "session/hits.h"
#include "session/lock_holders.h"
#include "session/memory_place.h"
#include "session/resolve.h"

namespace backstep::session {
namespace {

using events::Assertion;
using replayer::TapRecord;
using timeline::Tap;
using Form = Assertion::Form;

constexpr size_t kMostOperands = 8;

// Which part of its assertion a tap belongs to.
enum class Role : uint8_t { A, B, Write, Lock };

struct AssertionTap {
  Tap tap;
  Role role = Role::A;
  size_t part = 0;                       // which simple event of A or B; which tap of the lock
  bool truth = false;                    // its first value is whether the expression holds
  std::vector<symbols::Compiled> shown;  // what is told of a violation
};

Position place_of(const TapRecord& record) {
  return {record.tick, record.event, record.pc};
}

// One assertion that is being looked after.
class Check {
 public:
  Check(Session& session, const Assertion& assertion, const Watcher& watcher)
      : session_(session), assertion_(assertion), watcher_(watcher) {
    verdict_.assertion = assertion.text;
    verdict_.line = assertion.line;
    switch (assertion.form) {
      case Form::Never:
      case Form::AtMost:
        add_event(assertion.a, Role::A, "");
        break;
      case Form::AlwaysAt:
        add_event(assertion.a, Role::A, assertion.expression);
        break;
      case Form::Between:
        add_event(assertion.a, Role::A, assertion.expression);
        add_event(assertion.b, Role::B, assertion.expression);
        add_reads();
        break;
      case Form::Followed:
      case Form::Preceded:
      case Form::Alternates:
        add_event(assertion.a, Role::A, "");
        add_event(assertion.b, Role::B, "");
        break;
      case Form::OnlyHolder:
        add_lock();
        break;
    }
  }

  std::vector<AssertionTap>& taps() { return taps_; }
  bool needs_the_past() const { return assertion_.form == Form::OnlyHolder; }

  void feed(const AssertionTap& tap, const TapRecord& record, const uint8_t* bytes, bool counts) {
    if (tap.role == Role::Lock) {
      lock_->feed(tap.part, record, bytes);
      return;
    }
    if (!counts) return;
    auto& matcher = tap.role == Role::A ? a_ : b_;
    if (tap.role != Role::Write && !matcher->feed(tap.part, place_of(record))) return;
    if (tap.role == Role::B) {
      second(tap, record, bytes);
    } else {
      first(tap, record, bytes);
    }
  }

  // The stretch is over.
  Verdict finish() {
    if (assertion_.form == Form::Followed) {
      for (const Waiting& w : waiting_) not_followed(w);
      verdict_.violations += more_waiting_;
    }
    return verdict_;
  }
  void add_failures(uint64_t n) { verdict_.failures += n; }

 private:
  // An A that no B has followed yet.
  struct Waiting {
    Violation at;
    Tick tick = 0;
  };

  void note(const std::string& sentence) const {
    if (watcher_.note) watcher_.note(sentence);
  }

  // `expression`: whether it holds is asked at each match.
  void add_event(const events::Event& event, Role role, const std::string& expression) {
    const Resolved resolved = resolve(session_, event.text, names_variables(expression));
    for (const std::string& n : resolved.notes) note(n);
    const auto specs = events::specs_of(resolved.event);
    size_t left_out = 0;
    std::exception_ptr failed;
    for (const ResolvedTap& r : resolved.taps) {
      AssertionTap tap;
      tap.tap = r.tap;
      tap.role = role;
      tap.part = r.spec;
      try {
        if (!expression.empty()) add_truth(tap, r.pc, r.offers, expression);
      } catch (const symbols::ExpressionError&) {
        failed = std::current_exception();
        left_out++;
        continue;
      }
      add_shown(tap, r.pc, r.offers, expression.empty() ? specs[r.spec]->condition : expression);
      taps_.push_back(std::move(tap));
    }
    if (failed && left_out == resolved.taps.size()) std::rethrow_exception(failed);
    if (left_out)
      note(fmt::format("'{}' makes no sense at {} of the {} places of '{}': it is not checked there",
                       expression, left_out, resolved.taps.size(), event.text));
    (role == Role::A ? a_ : b_).emplace(resolved.event);
  }

  void add_truth(AssertionTap& tap, Address pc, const symbols::EventVariables& offers,
                 const std::string& expression) {
    session_.compiler().compile_condition(expression, pc, offers);  // says best what is wrong with it
    tap.tap.values.push_back(session_.compiler().compile("!!(" + expression + ")", pc, offers).code);
    tap.truth = true;
  }
  void add_shown(AssertionTap& tap, Address pc, const symbols::EventVariables& offers,
                 const std::string& expression) {
    for (const std::string& operand : operands_of(expression)) {
      if (tap.shown.size() == kMostOperands) break;
      try {
        symbols::Compiled compiled = session_.compiler().compile(operand, pc, offers);
        if (compiled.optimized_out) continue;
        tap.tap.values.push_back(compiled.code);
        tap.shown.push_back(std::move(compiled));
      } catch (const symbols::ExpressionError&) {
        // It is no expression by itself.
      }
    }
  }

  void add_reads() {
    const auto reads = fixed_reads(session_.compiler().compile_condition(assertion_.expression, 0));
    if (!reads)
      throw Error(
          fmt::format("'{}' reads what is not at one place all the time (through a pointer, of a thread, "
                      "in a register), so it cannot be checked whenever that is written; write it as "
                      "'always P at E'",
                      assertion_.expression),
          kExitUsage);
    for (const ReadRange& range : *reads) {
      AssertionTap tap;
      tap.tap.kind = Tap::Store;
      tap.tap.start = range.address, tap.tap.length = range.size;
      tap.role = Role::Write;
      add_truth(tap, 0, {}, assertion_.expression);
      add_shown(tap, 0, {}, assertion_.expression);
      taps_.push_back(std::move(tap));
    }
  }

  void add_lock() {
    std::vector<std::string> notes;
    const MemoryPlace lock = object_named(session_, assertion_.lock, notes);
    const MemoryPlace data = memory_of(session_, assertion_.expression, notes);
    for (const std::string& n : notes) note(n);
    lock_.emplace(session_, lock.address);
    for (size_t i = 0; i < lock_->taps().size(); i++) {
      AssertionTap tap;
      tap.tap = lock_->taps()[i];
      tap.role = Role::Lock;
      tap.part = i;
      taps_.push_back(std::move(tap));
    }
    AssertionTap tap;
    tap.tap.kind = Tap::Store;
    tap.tap.start = data.address, tap.tap.length = data.size;
    tap.role = Role::Write;
    symbols::EventVariables offers;
    offers.addr = offers.old_value = offers.new_value = true;
    offers.value_type = data.type;
    for (const char* value : {"$old", "$new"}) {
      tap.shown.push_back(session_.compiler().compile(value, 0, offers));
      tap.tap.values.push_back(tap.shown.back().code);
    }
    taps_.push_back(std::move(tap));
  }

  // --- matches ---

  // A, or a write.
  void first(const AssertionTap& tap, const TapRecord& record, const uint8_t* bytes) {
    switch (assertion_.form) {
      case Form::Never:
        verdict_.checks++;
        violated(tap, record, bytes, fmt::format("'{}' happens", assertion_.a.text));
        break;
      case Form::AtMost:
        if (++verdict_.checks > assertion_.n)
          violated(tap, record, bytes,
                   fmt::format("'{}' happens for the {}. time", assertion_.a.text, verdict_.checks));
        break;
      case Form::AlwaysAt:
        holds_here(tap, record, bytes);
        break;
      case Form::Between:
        if (tap.role == Role::A) open_ = true;
        if (open_) holds_here(tap, record, bytes);
        break;
      case Form::Followed:
        verdict_.checks++;
        wait(tap, record, bytes);
        break;
      case Form::Preceded:
        verdict_.checks++;
        if (!was_preceded(record)) violated(tap, record, bytes, why_not_preceded(record));
        break;
      case Form::Alternates:
        verdict_.checks++;
        if (std::exchange(open_, true))
          violated(
              tap, record, bytes,
              fmt::format("another '{}', without '{}' in between", assertion_.a.text, assertion_.b.text));
        break;
      case Form::OnlyHolder:
        verdict_.checks++;
        if (!lock_->holds(record.thread)) violated(tap, record, bytes, "");
        break;
    }
  }

  void second(const AssertionTap& tap, const TapRecord& record, const uint8_t* bytes) {
    switch (assertion_.form) {
      case Form::Between:
        if (std::exchange(open_, false)) holds_here(tap, record, bytes);
        break;
      case Form::Followed:
        followed(record);
        break;
      case Form::Preceded:
        // No moment is before itself.
        if (last_ != place_of(record)) before_last_ = last_;
        last_ = place_of(record);
        break;
      case Form::Alternates:
        verdict_.checks++;
        if (!std::exchange(open_, false))
          violated(tap, record, bytes,
                   fmt::format("'{}', without '{}' before it", assertion_.b.text, assertion_.a.text));
        break;
      default:
        break;
    }
  }

  void holds_here(const AssertionTap& tap, const TapRecord& record, const uint8_t* bytes) {
    verdict_.checks++;
    bool readable = true;
    uint64_t word = 0;
    const auto value = CapturedValues(bytes).next(&readable);
    std::memcpy(&word, value.data(), std::min(value.size(), sizeof word));
    if (readable && word) return;
    violated(
        tap, record, bytes,
        fmt::format("'{}' {}", assertion_.expression, readable ? "does not hold" : "cannot be evaluated"));
  }

  std::optional<Position> last_before(const TapRecord& record) const {
    return last_ == place_of(record) ? before_last_ : last_;
  }
  bool was_preceded(const TapRecord& record) const {
    const auto b = last_before(record);
    return b && (!assertion_.within || record.tick - b->tick <= *assertion_.within);
  }
  std::string why_not_preceded(const TapRecord& record) const {
    const auto b = last_before(record);
    if (!b) return fmt::format("'{}', and no '{}' before it", assertion_.a.text, assertion_.b.text);
    return fmt::format("'{}', and the last '{}' is {} ticks before it", assertion_.a.text, assertion_.b.text,
                       record.tick - b->tick);
  }

  void wait(const AssertionTap& tap, const TapRecord& record, const uint8_t* bytes) {
    expire(record.tick);
    // Without a limit all of them wait for the same B: it is enough to know the first and the newest.
    if (!assertion_.within && waiting_.size() == 2) {
      waiting_.pop_back();
      more_waiting_++;
    }
    Waiting w;
    if (!verdict_.first) w.at = described(tap, record, bytes);
    w.tick = record.tick;
    waiting_.push_back(std::move(w));
    newest_ = place_of(record);
  }
  void followed(const TapRecord& record) {
    expire(record.tick);
    if (late_ && verdict_.first) {
      verdict_.first->words += fmt::format("; the next one is {} ticks behind it", record.tick - *late_);
      late_.reset();
    }
    // An A at this very moment waits for the next one.
    const bool same = !waiting_.empty() && newest_ == place_of(record);
    waiting_.erase(waiting_.begin(), same ? std::prev(waiting_.end()) : waiting_.end());
    more_waiting_ = 0;
  }
  // Those that have waited for too long.
  void expire(Tick now) {
    while (assertion_.within && !waiting_.empty() && now - waiting_.front().tick > *assertion_.within) {
      if (!verdict_.first) late_ = waiting_.front().tick;
      not_followed(waiting_.front());
      waiting_.pop_front();
    }
  }
  void not_followed(const Waiting& w) {
    if (verdict_.violations++) return;
    verdict_.first = w.at;
    verdict_.first->words =
        fmt::format("'{}', and no '{}' behind it{}", assertion_.a.text, assertion_.b.text,
                    assertion_.within ? fmt::format(" within {} ticks", *assertion_.within) : "") +
        w.at.words;
  }

  // --- words ---

  Violation described(const AssertionTap& tap, const TapRecord& record, const uint8_t* bytes) const {
    Violation v;
    v.at = {record.tick, record.pc};
    v.thread = record.thread;
    v.place.pc = record.pc;
    const auto frames = session_.program().frames_at(record.pc);
    if (!frames.empty())
      v.place.function = frames[0].function, v.place.file = frames[0].file, v.place.line = frames[0].line;
    CapturedValues values(bytes);
    if (tap.truth) values.next();
    for (const symbols::Compiled& c : tap.shown) {
      std::string text;
      values.read(c, &text, &v.values[c.text]);
      v.words += fmt::format("{}{} is {}", v.words.empty() ? ": " : ", ", c.text, text);
    }
    return v;
  }

  void violated(const AssertionTap& tap, const TapRecord& record, const uint8_t* bytes,
                const std::string& what) {
    if (verdict_.violations++) return;
    Violation v = described(tap, record, bytes);
    v.words = assertion_.form == Form::OnlyHolder ? held_words(tap, record, bytes) : what + v.words;
    verdict_.first = std::move(v);
  }

  std::string held_words(const AssertionTap& tap, const TapRecord& record, const uint8_t* bytes) const {
    CapturedValues values(bytes);
    std::string before, after, holders;
    nlohmann::ordered_json json;
    values.read(tap.shown[0], &before, &json);
    values.read(tap.shown[1], &after, &json);
    for (int thread : lock_->holders()) holders += fmt::format("{}{}", holders.empty() ? "" : ", ", thread);
    return fmt::format("thread {} writes {} ({} -> {}) without the lock {}, which {}", record.thread,
                       assertion_.expression, before, after, assertion_.lock,
                       holders.empty() ? "nobody holds" : "thread " + holders + " holds");
  }

  Session& session_;
  const Assertion& assertion_;
  const Watcher& watcher_;
  Verdict verdict_;
  std::vector<AssertionTap> taps_;
  std::optional<events::Matcher> a_, b_;
  std::optional<LockHolders> lock_;
  bool open_ = false;                           // Between: behind an A; Alternates: the last was an A
  std::optional<Position> last_, before_last_;  // Preceded: B
  std::deque<Waiting> waiting_;                 // Followed
  uint64_t more_waiting_ = 0;                   // … between the two that are in the list, without a limit
  Position newest_;                             // … of those in the list
  std::optional<Tick> late_;                    // … of the first violation: when the next B comes is told
};

// A control point has no event, and is not to be compared with other positions.
std::optional<Position> exactly(Session& session, const std::optional<Position>& at) {
  if (!at || at->event || !at->pc) return at;
  timeline::Timeline& timeline = session.timeline();
  const Position now = timeline.now();
  timeline.go_to(*at);
  const Position there = timeline.now();
  timeline.go_to(now);
  return there;
}

}  // namespace

Verdicts check(Session& session, const std::vector<Assertion>& assertions, const Stretch& stretch,
               const Watcher& watcher, bool lenient) {
  Verdicts verdicts;
  std::deque<Check> checks;
  std::vector<size_t> number;                           // of each check: its assertion
  std::vector<std::pair<Check*, AssertionTap*>> owner;  // by tap
  bool past = false;
  for (size_t i = 0; i < assertions.size(); i++) {
    Verdict& verdict = verdicts.list.emplace_back();
    verdict.assertion = assertions[i].text, verdict.line = assertions[i].line;
    try {
      checks.emplace_back(session, assertions[i], watcher);
      number.push_back(i);
      past |= checks.back().needs_the_past();
    } catch (const Error& e) {
      if (e.exit_code != kExitUsage) throw;
      if (!lenient) throw Error(fmt::format("in '{}': {}", assertions[i].text, e.what()), kExitUsage);
      verdict.unknown = e.what();
    }
  }
  // Who holds a lock is known from the beginning on only.
  const bool early = past && stretch.from;
  const auto from = early ? exactly(session, stretch.from) : stretch.from;
  timeline::Sweep sweep;
  for (Check& c : checks)
    for (AssertionTap& t : c.taps()) {
      t.tap.action = Tap::Log;
      t.tap.strict = true;
      if (early && t.role != Role::Lock) t.tap.from = std::max(t.tap.from, from->tick);
      sweep.taps.list.push_back(t.tap);
      owner.push_back({&c, &t});
    }
  if (!early) sweep.from = stretch.from;
  sweep.to = stretch.to;
  sweep.progress = watcher.progress;
  sweep.record = [&](const TapRecord& record, const uint8_t* bytes) {
    const auto& [check, tap] = owner[record.tap];
    check->feed(*tap, record, bytes, !early || place_of(record) >= *from);
    return true;
  };
  if (!sweep.taps.empty()) {
    const auto swept = session.timeline().sweep(sweep);
    verdicts.complete = swept.complete;
    for (size_t i = 0; i < owner.size(); i++) owner[i].first->add_failures(swept.counts[i].failures);
  }
  for (size_t i = 0; i < checks.size(); i++) verdicts.list[number[i]] = checks[i].finish();
  return verdicts;
}

// Splits at && and ||, then at a comparison; what is in brackets as a whole is looked into.
std::vector<std::string> operands_of(const std::string& expression) {
  std::vector<std::string> list;
  static constexpr std::string_view kSigns[] = {"&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "->"};
  std::function<void(std::string_view)> take = [&](std::string_view text) {
    while (!text.empty() && (std::isspace(static_cast<unsigned char>(text.front())) || text.front() == '!'))
      text.remove_prefix(1);
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
    std::vector<size_t> logical, comparison;  // where they begin
    int depth = 0;
    char quote = 0;
    size_t closes = 0;  // behind the bracket that closes the first
    for (size_t i = 0; i < text.size(); i++) {
      const char c = text[i];
      if (quote) {
        if (c == '\\') i++;
        if (c == quote) quote = 0;
        continue;
      }
      if (c == '"' || c == '\'') quote = c;
      if (c == '(' || c == '[') depth++;
      if ((c == ')' || c == ']') && --depth == 0 && !closes) closes = i + 1;
      if (depth) continue;
      const auto sign = std::find_if(std::begin(kSigns), std::end(kSigns),
                                     [&](std::string_view s) { return text.substr(i).starts_with(s); });
      const size_t which = static_cast<size_t>(sign - std::begin(kSigns));
      if (which < 2) logical.push_back(i);
      const bool compares =
          (which >= 2 && which <= 5) || (sign == std::end(kSigns) && (c == '<' || c == '>'));
      if (compares && i > 0) comparison.push_back(i);
      if (sign != std::end(kSigns)) i++;
    }
    if (!logical.empty()) {
      size_t begin = 0;
      for (size_t at : logical) take(text.substr(begin, at - begin)), begin = at + 2;
      return take(text.substr(begin));
    }
    if (text.starts_with('(') && closes == text.size()) return take(text.substr(1, text.size() - 2));
    if (!comparison.empty()) {
      const size_t at = comparison[0];
      take(text.substr(0, at));
      return take(text.substr(at + (at + 1 < text.size() && text[at + 1] == '=' ? 2 : 1)));
    }
    const bool says_something =
        text.find('$') != std::string_view::npos || names_variables(std::string(text));
    if (!says_something || text.front() == '"') return;
    if (std::find(list.begin(), list.end(), text) == list.end()) list.emplace_back(text);
  };
  take(expression);
  return list;
}

}  // namespace backstep::session
