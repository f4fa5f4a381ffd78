// The host's half of taps.
//
// A place in the code begins as a breakpoint of the engine: cheap to set and 4 us each time it is met. When
// that has been paid a few hundred times, all of them are put into translated code at once (one translation
// anew, however many there are), where a pass costs some 40 ns, or less than two if it is only counted or if
// the condition is one that translated code can evaluate and does not hold (condition_code.cc).
#include "replay/tap_set.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "engine/cache.h"
#include "engine/entry.h"
#include "replay/condition_code.h"

namespace backstep::replayer {
namespace {

constexpr uint64_t kOften = 200;  // some time for a flush of the cache, in signals
constexpr size_t kRoom = 4 << 20;
constexpr uint64_t kMostStack = 256 << 10;  // bytes of stack that come with a record

TapRecord of_tap(size_t tap) {
  TapRecord record{};
  record.tap = static_cast<uint32_t>(tap);
  return record;
}

uint32_t longest_record(const Tap& tap) {
  uint64_t n = sizeof(TapRecord);
  for (const CapturedExpression& v : tap.values) n += sizeof(uint32_t) + std::max<uint64_t>(v.size, 8);
  if (tap.stack) n += 2 * sizeof(uint32_t) + 17 * sizeof(uint64_t) + kMostStack;
  return static_cast<uint32_t>(std::min<uint64_t>(n, kUnreadable - 1));
}

}  // namespace

bool any_holds(const Tap& tap, const Surroundings& around, bool* failed) {
  if (!tap.guard.empty()) {
    const Value v = evaluate(tap.guard.data(), tap.guard.size(), around);
    if (!v.known || !v.value) return false;
  }
  if (tap.conditions.empty()) return true;
  for (const auto& c : tap.conditions) {
    const Value v = evaluate(c.data(), c.size(), around);
    if (v.known ? v.value != 0 : !tap.strict) return true;
    if (!v.known && failed) *failed = true;
  }
  return false;
}

void TapSet::clear() {
  for (auto& [pc, place] : places_) engine::forget_asked(pc);
  for (Address pc : counters_) engine::forget_asked(pc);
  engine::inline_breaks(false);
  places_.clear();
  counters_.clear();
  hot_.clear();
  added_.clear();
  free_.clear();
  conditions_.clear();
  filters_.clear();
  values_.clear();
  taps_ = {};
  periods_.clear();
  due_.clear();
  next_due_ = 0;
  cover_.reset();
  contents_.reset();
  accesses_.reset();
  trace_.reset();
  words_ = false;
}

void TapSet::compile(size_t index) {
  const Tap& tap = spec(index);
  if (index == hot_.size()) {
    hot_.emplace_back();
    conditions_.emplace_back();
    values_.emplace_back();
  }
  auto& conditions = conditions_[index];
  conditions.clear();
  for (const auto& c : tap.conditions) conditions.push_back({c.data(), c.size()});
  conditions.push_back({nullptr, 0});
  auto& values = values_[index];
  values.clear();
  for (const CapturedExpression& v : tap.values)
    values.push_back({v.code.data(), static_cast<uint32_t>(v.code.size()), v.capture, v.size});
  HotTap& hot = hot_[index];
  hot = {};
  hot.conditions = tap.conditions.empty() ? nullptr : conditions.data();
  hot.values = values.data();
  hot.value_count = static_cast<uint32_t>(values.size());
  hot.number = static_cast<uint32_t>(index);
  hot.longest = longest_record(tap);
  hot.from = tap.from, hot.to = tap.to;
  hot.action = tap.action;
  hot.strict = tap.strict;
  hot.stack = tap.stack;
  hot.vector = tap.vector;
  hot.function = tap.function, hot.cookie = tap.cookie;
  hot.owner = tap.owner == Tap::kOwn ? hot.number : tap.owner;
}

// What says without asking that nothing matches at a place.
engine::Filter TapSet::filter(const Place& place) {
  const Tap& tap = spec(place.taps.front()->number);
  if (place.taps.size() > 1 || tap.conditions.size() != 1) return {};
  const std::vector<uint8_t>& code = filters_.emplace_back(filter_of(tap.conditions.front()));
  return {code.data(), static_cast<uint32_t>(code.size())};
}

bool TapSet::install_code() {
  for (HotTap& hot : hot_) {
    const Tap& tap = taps_.list[hot.number];
    if (tap.off) continue;
    add_due(hot.number, std::nullopt, true);
    if (tap.kind == Tap::Cover) cover_ = hot.number;
    if (tap.kind == Tap::Contents) contents_ = hot.number;
    if (tap.kind == Tap::Accesses) accesses_ = hot.number;
    if (tap.kind == Tap::Trace) trace_ = hot.number;
    words_ = words_ || tap.kind == Tap::Words;
    if (tap.kind == Tap::Pc) places_[tap.start].taps.push_back(&hot);
  }
  for (auto& [pc, place] : places_) {
    std::vector<HotTap*> by_era = place.taps;
    std::stable_sort(by_era.begin(), by_era.end(),
                     [](const HotTap* a, const HotTap* b) { return a->from < b->from; });
    for (auto t = by_era.rbegin(); t != by_era.rend(); ++t) (*t)->next = std::exchange(place.hot.later, *t);
    const HotTap& first = *place.taps.front();
    const bool counts = first.action == Tap::Count && !first.conditions && place.taps.size() == 1 &&
                        first.from == 0 && first.to == ~0ull;
    if (!(counts ? engine::count_at(pc) : engine::ask_at(pc, &place.hot, filter(place)))) return false;
    if (counts) counters_.push_back(pc);
  }
  std::stable_sort(due_.begin(), due_.end(), [](const Due& a, const Due& b) { return a.at < b.at; });
  return true;
}

void TapSet::set(Taps taps) {
  clear();
  taps_ = std::move(taps);
  for (size_t i = 0; i < taps_.list.size(); i++) compile(i);
  if (!install_code()) {
    clear();
    throw Error("there are too many places in the code to look out for");
  }
  // Once it has been worth it, it will be again.
  const bool stops = std::all_of(taps_.list.begin(), taps_.list.end(),
                                 [](const Tap& t) { return t.action == Tap::Stop && t.conditions.empty(); });
  if (inlined_ && !stops) engine::inline_breaks(true);
}

void TapSet::add_due(size_t index, const std::optional<Position>& now, bool fresh) {
  const Tap& tap = spec(index);
  for (const Tap::MomentAt& m : tap.moments)
    if (!now || (tap.after || fresh ? m.at >= *now : m.at > *now))
      due_.push_back({m.at, m.event, index, tap.after, m.number});
}

size_t TapSet::add(Tap tap, const Position& now, bool fresh) {
  size_t index = count();
  if (free_.empty()) {
    added_.push_back(std::move(tap));
  } else {
    index = free_.back();
    free_.pop_back();
    added_[index - taps_.list.size()] = std::move(tap);
  }
  compile(index);
  const Tap& what = spec(index);
  if (what.kind == Tap::Pc && !add_to_place(index)) {
    remove(index);
    throw Error("there are too many places in the code to look out for");
  }
  if (what.kind == Tap::Period) aim_at_period(index, now.tick + (fresh ? 0 : 1));
  if (!what.moments.empty()) {
    due_.erase(due_.begin(), due_.begin() + static_cast<ptrdiff_t>(std::exchange(next_due_, 0)));
    add_due(index, now, fresh);
    std::stable_sort(due_.begin(), due_.end(), [](const Due& a, const Due& b) { return a.at < b.at; });
  }
  return index;
}

bool TapSet::add_to_place(size_t index) {
  HotTap& hot = hot_[index];
  const Address pc = spec(index).start;
  Place& place = places_[pc];
  if (const auto counter = std::find(counters_.begin(), counters_.end(), pc); counter != counters_.end()) {
    // One that only counts by itself does so no more.
    if (const engine::Break* b = engine::find_break(pc)) place.taps.front()->matches += b->count;
    engine::forget_asked(pc);
    counters_.erase(counter);
  }
  place.taps.push_back(&hot);
  HotTap** at = &place.hot.later;
  while (*at && (*at)->from <= hot.from) at = &(*at)->next;
  hot.next = *at;
  *at = &hot;
  place.hot.change = 0;
  return engine::ask_at(pc, &place.hot, filter(place));
}

void TapSet::remove_from_place(size_t index) {
  const auto found = places_.find(spec(index).start);
  if (found == places_.end()) return;
  Place& place = found->second;
  std::erase(place.taps, &hot_[index]);
  for (HotTap** list : {&place.hot.current, &place.hot.later})
    for (HotTap** at = list; *at;) {
      if (*at == &hot_[index])
        *at = (*at)->next;
      else
        at = &(*at)->next;
    }
  place.hot.change = 0;
  engine::forget_asked(found->first);
  if (place.taps.empty())
    places_.erase(found);
  else
    engine::ask_at(found->first, &place.hot, filter(place));
}

void TapSet::remove(size_t index) {
  const Tap& tap = spec(index);
  if (tap.kind == Tap::Pc) remove_from_place(index);
  std::erase_if(periods_, [&](const auto& p) { return p.second == index; });
  if (!tap.moments.empty()) {
    due_.erase(due_.begin(), due_.begin() + static_cast<ptrdiff_t>(std::exchange(next_due_, 0)));
    std::erase_if(due_, [&](const Due& d) { return d.tap == index; });
  }
  hot_[index].to = 0;
  added_[index - taps_.list.size()] = {};
  free_.push_back(index);
}

// Its era is over.
void TapSet::retire(size_t index) {
  if (index >= count()) return;
  hot_[index].to = 0;
  Tap& tap = index < taps_.list.size() ? taps_.list[index] : added_[index - taps_.list.size()];
  tap.to = 0;
  const auto place = tap.kind == Tap::Pc ? places_.find(tap.start) : places_.end();
  if (place != places_.end()) place->second.hot.change = 0;
}

bool TapSet::stops_at(Address pc, const Surroundings& around) const {
  auto place = places_.find(pc);
  if (place == places_.end()) return false;
  for (const HotTap* t : place->second.taps)
    if (t->action == Tap::Stop && around.ctx.tick >= t->from && around.ctx.tick < t->to &&
        any_holds(spec(t->number), around))
      return true;
  return false;
}

bool TapSet::met_by_itself(Address pc) const {
  const engine::Break* b = engine::find_break(pc);
  return b && b->prefix;
}

bool TapSet::meet(const Surroundings& around, uint64_t event, Which which) {
  const Context& ctx = around.ctx;
  auto place = places_.find(ctx.rip);
  if (place == places_.end()) return false;
  bool stop = false;
  HotPlace& hot = place->second.hot;
  bring_up_to_date(hot, ctx.tick);
  for (const HotTap* t = hot.current; t; t = t->next)
    if (which == All || (t->action == Tap::Run) == (which == OnlyDebug))
      stop |= meet_one(t->number, around, event, ctx.tick, ctx.rip);
  const engine::Break* b = engine::find_break(ctx.rip);
  if (!stop && b && !b->prefix && ++trapped_ >= kOften) {
    inlined_ = true;
    trapped_ = 0;  // others may be added later
    engine::inline_breaks(true);
  }
  return stop;
}

bool TapSet::holds(size_t index, const Surroundings& around) const {
  return any_holds(spec(index), around);
}

bool TapSet::meet_one(size_t index, const Surroundings& around, uint64_t event, Tick tick, Address pc) {
  HotTap& tap = hot_[index];
  if (tick < tap.from || tick >= tap.to) return false;
  // In front of a call that does not return: which one it is the log does not say.
  const Tap& what = spec(index);
  if (what.kind == Tap::Moment && !what.after && !what.asks_for(around.ctx.gpr[RAX])) return false;
  bool failed = false;
  const bool matches = any_holds(what, around, &failed);
  if (failed) tap.failures++;
  if (!matches) return false;
  if (tap.action == Tap::Stop) return true;
  tap.matches++;
  if (tap.action == Tap::Log) log(tap, around, event, tick, pc);
  if (tap.action == Tap::Run) run(tap, around, {tick, event, pc});
  return false;
}

void TapSet::take_due(Tick tick, const std::function<bool(const Due&)>& done) {
  const auto first = due_.begin() + static_cast<ptrdiff_t>(next_due_);
  const auto end = std::find_if(first, due_.end(), [&](const Due& d) { return d.at.tick > tick; });
  // What is done moves to the front, where the past is.
  const auto rest = std::stable_partition(first, end, done);
  next_due_ = static_cast<size_t>(rest - due_.begin());
}

// Its first multiple from a tick on, if its era has one.
void TapSet::aim_at_period(size_t index, Tick tick) {
  const Tap& tap = spec(index);
  const Tick from = std::max(tick, tap.from);
  const uint64_t number = from / tap.length + (from % tap.length ? 1 : 0);
  if (number <= ~0ull / tap.length && number * tap.length < tap.to)
    periods_.emplace(number * tap.length, index);
}

void TapSet::begin_periods(Tick tick) {
  periods_.clear();
  for (size_t i = 0; i < taps_.list.size(); i++)
    if (taps_.list[i].kind == Tap::Period && !taps_.list[i].off) aim_at_period(i, tick);
}

void TapSet::pass_periods(Tick tick) {
  while (next_period() <= tick) {
    const size_t index = periods_.begin()->second;
    periods_.erase(periods_.begin());
    if (tick != ~0ull) aim_at_period(index, tick + 1);
  }
}

bool TapSet::meet_periods(const Surroundings& around, uint64_t event) {
  const Tick tick = around.ctx.tick;
  bool stop = false;
  for (auto next = periods_.begin(); next != periods_.end() && next->first <= tick; ++next)
    if (tick % spec(next->second).length == 0)
      stop |= meet_one(next->second, around, event, tick, around.ctx.rip);
  pass_periods(tick);
  return stop;
}

// Registers as DWARF numbers them, then the stack from rsp on.
static void add_stack(std::vector<uint8_t>& bytes, guest::Process& process, const Context& ctx) {
  static constexpr int kOrder[16] = {RAX, RDX, RCX, RBX, RSI, RDI, RBP, RSP,
                                     R8,  R9,  R10, R11, R12, R13, R14, R15};
  auto put = [&](const void* from, size_t n) {
    auto* p = static_cast<const uint8_t*>(from);
    bytes.insert(bytes.end(), p, p + n);
  };
  auto put32 = [&](uint32_t v) { put(&v, sizeof v); };
  put32(17 * sizeof(uint64_t));
  for (int r : kOrder) put(&ctx.gpr[r], sizeof(uint64_t));
  put(&ctx.rip, sizeof ctx.rip);
  const Address from = ctx.gpr[RSP];
  const guest::Region* region = process.map.find(from);
  const uint64_t size = region ? std::min(region->end - from, kMostStack) : 0;
  put32(static_cast<uint32_t>(size));
  const size_t at = bytes.size();
  bytes.resize(at + size);
  if (size && !bs_guarded_copy(bytes.data() + at, reinterpret_cast<const void*>(from), size))
    std::fill(bytes.begin() + static_cast<ptrdiff_t>(at), bytes.end(), uint8_t{0});
}

void TapSet::log(const HotTap& hot, const Surroundings& around, uint64_t event, Tick tick, Address pc) {
  const Tap& tap = spec(hot.number);
  std::vector<uint8_t> bytes(sizeof(TapRecord));
  for (const CapturedExpression& expression : tap.values) {
    const Captured value = capture(expression, around);
    const uint32_t length = static_cast<uint32_t>(value.bytes.size()) | (value.readable ? 0 : kUnreadable);
    const auto* p = reinterpret_cast<const uint8_t*>(&length);
    bytes.insert(bytes.end(), p, p + sizeof length);
    bytes.insert(bytes.end(), value.bytes.begin(), value.bytes.end());
  }
  if (tap.stack) add_stack(bytes, process_, around.ctx);
  const TapRecord record{static_cast<uint32_t>(bytes.size()),
                         hot.number,
                         tick,
                         event,
                         pc,
                         bs_taps.thread,
                         static_cast<uint32_t>(tap.values.size() + (tap.stack ? 2 : 0))};
  std::memcpy(bytes.data(), &record, sizeof record);
  make_room(bytes.size());
  std::memcpy(bs_taps.p, bytes.data(), bytes.size());
  bs_taps.p += bytes.size();
}

void TapSet::log_note(size_t tap, const Position& at, int thread,
                      std::initializer_list<std::span<const uint8_t>> values) {
  TapRecord record{};
  record.tap = static_cast<uint32_t>(tap);
  record.tick = at.tick, record.event = at.event, record.pc = at.pc;
  record.thread = thread;
  log_blobs(record, values);
}

void TapSet::log_blobs(TapRecord record, std::initializer_list<std::span<const uint8_t>> blobs) {
  std::vector<uint8_t> bytes(sizeof(TapRecord));
  for (const auto& blob : blobs) {
    const auto length = static_cast<uint32_t>(blob.size());
    const auto* p = reinterpret_cast<const uint8_t*>(&length);
    bytes.insert(bytes.end(), p, p + sizeof length);
    bytes.insert(bytes.end(), blob.begin(), blob.end());
  }
  record.size = static_cast<uint32_t>(bytes.size());
  record.values = static_cast<uint32_t>(blobs.size());
  std::memcpy(bytes.data(), &record, sizeof record);
  make_room(bytes.size());
  std::memcpy(bs_taps.p, bytes.data(), bytes.size());
  bs_taps.p += bytes.size();
}

void TapSet::log_cover(const std::vector<engine::DataRange>& ranges, const std::vector<Address>& maybe) {
  auto bytes_of = [](const auto& list) {
    return std::span(reinterpret_cast<const uint8_t*>(list.data()), list.size() * sizeof list[0]);
  };
  log_blobs(of_tap(*cover_), {bytes_of(ranges), bytes_of(maybe)});
}

void TapSet::log_straight_code(const std::vector<uint8_t>& packed, uint64_t gone) {
  log_blobs(of_tap(*cover_), {packed, std::span(reinterpret_cast<const uint8_t*>(&gone), sizeof gone)});
}

void TapSet::log_contents(const std::vector<uint8_t>& packed) {
  log_blobs(of_tap(*contents_), {packed});
}

void TapSet::log_access(Tick tick, uint64_t event, Address pc, int thread, const AccessRecord& access) {
  struct {
    TapRecord record;
    uint32_t length;
  } head{};
  constexpr uint32_t kHead = sizeof(TapRecord) + sizeof(uint32_t), kSize = kHead + sizeof access;
  head.record = {kSize, static_cast<uint32_t>(*accesses_), tick, event, pc, thread, 1};
  head.length = sizeof access;
  make_room(kSize);
  std::memcpy(bs_taps.p, &head, kHead);
  std::memcpy(bs_taps.p + kHead, &access, sizeof access);
  bs_taps.p += kSize;
  hot_[*accesses_].matches++;
}

void TapSet::log_trace(uint64_t count, const std::vector<uint8_t>& links,
                       const std::vector<uint8_t>& stores) {
  log_blobs(of_tap(*trace_),
            {std::span(reinterpret_cast<const uint8_t*>(&count), sizeof count), links, stores});
}

void TapSet::make_room(uint64_t bytes) {
  if (static_cast<uint64_t>(bs_taps.end - bs_taps.p) >= bytes) return;
  flush_log();
  uint64_t size = kRoom;
  for (const HotTap& t : hot_) size = std::max<uint64_t>(size, 4ull * t.longest);
  size = std::max(size, bytes);
  if (room_.size() < size) room_.resize(size);
  bs_taps.p = room_.data();
  bs_taps.end = room_.data() + room_.size();
}

void TapSet::log_to(Fd file) {
  file_ = std::move(file);
  bs_taps.p = room_.data();
  written_ = 0;
}

uint64_t TapSet::flush_log() {
  const uint8_t* from = room_.data();
  while (from < bs_taps.p) {
    const ssize_t n = ::write(file_.get(), from, static_cast<size_t>(bs_taps.p - from));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw Error("cannot keep what was logged: " + errno_text(n ? errno : ENOSPC));
    from += n;
    written_ += static_cast<uint64_t>(n);
  }
  bs_taps.p = room_.data();
  return written_;
}

std::vector<TapCount> TapSet::counts() const {
  std::vector<TapCount> counts;
  for (const HotTap& t : hot_) counts.push_back({t.matches, t.failures});
  for (Address pc : counters_) {
    const engine::Break* b = engine::find_break(pc);
    auto place = places_.find(pc);
    if (b && place != places_.end()) counts[place->second.taps.front()->number].matches += b->count;
  }
  return counts;
}

}  // namespace backstep::replayer
