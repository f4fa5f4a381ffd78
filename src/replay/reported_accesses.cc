// Everything goes through the engine's buffer, in the order in which it happens, and is taken out of it when
// it is full or when the run is over. Only here it gets the form in which it leaves the process, and only
// what was asked for does: most questions are about little memory, and most accesses are elsewhere.
//
// An instruction that is executed alone is one that translated code could not report, or any one on the way
// to a moment in the middle of a tick. What it accesses Zydis tells from the registers before it
// (guest/accesses.h). A repeated string instruction counts as one load or store of all that it has gone
// through, which is known afterwards; if it meets a fault on its way, of what it has done up to there.
#include "replay/reported_accesses.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "engine/entry.h"

namespace backstep::replayer {
namespace {

constexpr uint64_t kMany = 64 << 20;  // bytes of log

uint64_t word_at(Address at, uint64_t size) {
  uint64_t value = 0;
  if (!bs_guarded_copy(&value, reinterpret_cast<const void*>(at), std::min<uint64_t>(size, sizeof value)))
    return 0;
  return value;
}

uint64_t first_of(uint64_t word, unsigned size) {
  return size >= sizeof word ? word : word & ((1ull << 8 * size) - 1);
}

}  // namespace

void ReportedAccesses::begin() {
  const Tap* tap = taps_.accesses();
  engine::Engine::Reports reports;
  const Tap* trace = taps_.trace();
  if (tap && trace) throw Error("internal error: accesses are asked for, and a trace");
  wanted_ = tap || trace;
  trace_.reset();
  if (trace) {
    trace_.emplace(taps_, static_cast<int>(trace->length));
    stores_ = reports.stores = true;
    loads_ = false;
    only_ = 0;
    data_.clear(), code_.clear();
    reports.full = [this] { take(); };
    looked_at_ = 0;
  }
  if (tap) {
    stores_ = reports.stores = tap->length & Tap::kStores;
    loads_ = reports.loads = tap->length & Tap::kLoads;
    only_ = static_cast<int>(tap->start);
    from_ = tap->from, to_ = tap->to;
    data_ = tap->data, code_ = tap->code;
    std::sort(data_.begin(), data_.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
    low_ = 0, reach_ = ~0ull;
    if (!data_.empty()) {
      Address last = 0;
      for (const Tap::Range& r : data_) last = std::max(last, r.end);
      low_ = data_.front().start - std::min<Address>(data_.front().start, engine::kWatchReach);
      reach_ = last - low_;
    }
    for (const Tap::Range& r : tap->code) reports.code.push_back({r.start, r.end});
    reports.full = [this] { take(); };
    looked_at_ = 0;
  }
  unwanted_run_ = false;
  near_.clear();
  near_of_.clear();
  engine::bs_writer = {};
  process_.engine().set_report(std::move(reports));
}

void ReportedAccesses::make_room() {
  if (engine::report_room() < engine::kRoomForWrites) take();
}

void ReportedAccesses::begin_run(uint64_t event, int thread) {
  if (!wanted_) return;
  if (unwanted_run_) context().report_at = run_at_;
  make_room();
  run_at_ = context().report_at;
  run_event_ = event, run_thread_ = thread;
  unwanted_run_ = only_ && thread != only_;
  engine::report_context(event, static_cast<uint32_t>(thread));
}

// Something else than a block of the run is going to be reported, of that thread.
void ReportedAccesses::begin_record(int thread) {
  if (unwanted_run_ && thread == only_) {
    context().report_at = run_at_;
    engine::report_context(run_event_, static_cast<uint32_t>(run_thread_));
    unwanted_run_ = false;
  }
  make_room();
}

void ReportedAccesses::begin_writing(const Position& at, int thread, bool by_kernel) {
  if (!wanted_) return;
  begin_record(thread);
  engine::end_write();
  engine::bs_writer = {.writing = true,
                       .by_kernel = by_kernel,
                       .thread = static_cast<uint32_t>(thread),
                       .tick = at.tick,
                       .event = at.event,
                       .pc = at.pc};
}

void ReportedAccesses::end_writing() {
  if (!wanted_) return;
  engine::end_write();
  engine::bs_writer.writing = false;
  if (engine::bs_writer.lost)
    throw Error("internal error: a system call has written more pieces of memory than can be reported");
}

void ReportedAccesses::begin_alone(const Position& at, int thread) {
  if (!wanted_) return;
  alone_at_ = at;
  alone_thread_ = thread;
  count_ = context().gpr[RCX];
  alone_ = guest::instruction_at_rip();
  before_.clear();
  for (const guest::Accessed& a : alone_.accesses) {
    const bool all = alone_.repeated && alone_.backwards;
    before_.emplace_back(all ? a.length : std::min<uint64_t>(a.length, sizeof(uint64_t)));
    auto& bytes = before_.back();
    // The part of it that is there: all the rest it cannot come to.
    size_t first = 0;
    while (first < bytes.size()) {
      const size_t n =
          std::min<size_t>(bytes.size() - first, layout::kPage - (a.start + first) % layout::kPage);
      if (!bs_guarded_copy(bytes.data() + first, reinterpret_cast<const void*>(a.start + first), n))
        std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(first), n, uint8_t{0});
      first += n;
    }
  }
}

void ReportedAccesses::end_alone(bool done) {
  if (!wanted_) return;
  begin_record(alone_thread_);
  const uint64_t times = count_ - context().gpr[RCX];
  if (alone_.repeated ? times == 0 : !done) return;
  if (!code_.empty() && std::none_of(code_.begin(), code_.end(), [&](const Tap::Range& r) {
        return alone_at_.pc >= r.start && alone_at_.pc < r.end;
      }))
    return;
  // First it reads, then it writes.
  for (const bool store : {false, true})
    for (size_t i = 0; i < alone_.accesses.size(); i++) {
      const guest::Accessed& a = alone_.accesses[i];
      if (!(store ? a.write && stores_ : a.read && loads_)) continue;
      uint64_t skipped = 0, length = a.length;
      if (alone_.repeated && alone_.times) {
        // It may have ended before the count did.
        const uint64_t unit = a.length / alone_.times;
        if (alone_.backwards) skipped = (alone_.times - times) * unit;
        length = times * unit;
      }
      uint64_t old = 0;
      const auto& bytes = before_[i];
      if (skipped < bytes.size())
        std::memcpy(&old, bytes.data() + skipped,
                    std::min<uint64_t>({bytes.size() - skipped, length, sizeof old}));
      engine::report_access({engine::ReportedAccess::kId, static_cast<uint32_t>(length), alone_at_.tick,
                             alone_at_.event, alone_at_.pc, a.start + skipped, old,
                             store ? word_at(a.start + skipped, length) : old,
                             static_cast<uint32_t>(alone_thread_), store, false});
    }
}

void ReportedAccesses::end_host_op(Address pc) {
  if (!wanted_) return;
  // What writes (xsave) is known already. (That it looks at its area's header first does not count as a
  // load.)
  const bool writes = std::any_of(alone_.accesses.begin(), alone_.accesses.end(),
                                  [](const guest::Accessed& a) { return a.write; });
  end_alone(!writes && context().rip != pc);
}

bool ReportedAccesses::is_wanted(Address address, uint64_t size) const {
  if (data_.empty()) return true;
  auto range =
      std::partition_point(data_.begin(), data_.end(), [&](const Tap::Range& r) { return r.end <= address; });
  return range != data_.end() && range->start < address + size;
}

void ReportedAccesses::log(Tick tick, uint64_t event, Address pc, int thread, const AccessRecord& access) {
  if ((only_ && thread != only_) || tick < from_ || tick >= to_) return;
  taps_.log_access(tick, event, pc, thread, access);
}

// Of a block that was not met before.
const ReportedAccesses::NearOfBlock& ReportedAccesses::look_at_block(uint32_t unit) {
  if (unit >= near_of_.size()) near_of_.resize(std::max<size_t>(unit + 1, 2 * near_of_.size()));
  NearOfBlock of;
  of.known = true;
  of.more = static_cast<uint32_t>(near_.size());
  bool any = false;
  const engine::ReportBlock& block = *engine::report_block(unit);
  const engine::ReportSite* const sites = engine::report_sites(unit);
  for (const engine::ReportSite* s = sites; s != sites + block.sites; s++) {
    if (!s->address_at) {
      of.always |= s->add - low_ < reach_;
      continue;
    }
    if (std::any_of(sites, s, [&](const auto& other) { return other.address_at == s->address_at; })) continue;
    // From the least to the most that is added to the word, as signed numbers.
    auto least = static_cast<int64_t>(s->add), most = least;
    for (const engine::ReportSite* other = s; other != sites + block.sites; other++) {
      if (other->address_at != s->address_at) continue;
      least = std::min(least, static_cast<int64_t>(other->add));
      most = std::max(most, static_cast<int64_t>(other->add));
    }
    const uint64_t span = static_cast<uint64_t>(most) - static_cast<uint64_t>(least);
    of.always |= reach_ + span < reach_;
    const Near near{static_cast<uint64_t>(most) - low_, reach_ + span, s->address_at};
    if (!std::exchange(any, true)) {
      of.first = near;
    } else {
      near_.push_back(near);
      of.count++;
    }
  }
  return near_of_[unit] = of;
}

inline bool ReportedAccesses::may_touch(uint32_t unit, const uint64_t* record) {
  const NearOfBlock* of = near_of_.data() + unit;
  if (unit >= near_of_.size() || !of->known) [[unlikely]]
    of = &look_at_block(unit);
  bool may = of->always | (record[of->first.at] + of->first.add < of->first.below);
  for (unsigned i = 0; i < of->count; i++) {
    const Near& n = near_[of->more + i];
    may |= record[n.at] + n.add < n.below;
  }
  return may;
}

// As many blocks as follow each other.
const uint64_t* ReportedAccesses::take_blocks(const uint64_t* at, const uint64_t* end) {
  const Address low = low_;
  const uint64_t reach = reach_;
  const bool filtered = !data_.empty();
  while (at < end) {
    const uint64_t* record = at;
    const engine::ReportHead head = engine::report_head(record[0]);
    if (head.unit < engine::kFirstReportUnit) break;
    at += head.words;
    // Nearly all of them end here, so this is what a sweep costs.
    if (filtered && !may_touch(head.unit, record)) continue;
    const engine::ReportBlock& block = *engine::report_block(head.unit);
    const engine::ReportSite* site = engine::report_sites(head.unit);
    const engine::ReportSite* const last = site + block.sites;
    for (; site != last; site++) {
      // (Word 0 of a record is no address.)
      const Address address = site->add + (site->address_at ? record[site->address_at] : 0);
      if (address - low >= reach) continue;
      if (head.cut && site->instruction + 1u >= head.cut) break;
      if (!is_wanted(address, site->size)) continue;
      const uint64_t old_value = first_of(record[site->old_at], site->size);
      const uint64_t new_value = first_of(site->new_at ? record[site->new_at] : site->value, site->size);
      log(record[head.words - 1], event_, block.guest + site->pc, thread_,
          {address, old_value, new_value, site->size, site->store, false, {}});
    }
  }
  return at;
}

void ReportedAccesses::take() {
  if (!wanted_) return;
  if (trace_) trace_->begin_buffer();
  if (generation_ != engine::bs_cache.report_generation) {
    generation_ = engine::bs_cache.report_generation;  // the engine has forgotten its blocks
    near_.clear();
    near_of_.clear();
  }
  const auto* at = reinterpret_cast<const uint64_t*>(layout::kReports);
  const auto* end = reinterpret_cast<const uint64_t*>(unwanted_run_ ? run_at_ : context().report_at);
  while (at < end) {
    const auto id = static_cast<uint32_t>(*at);
    if (id == engine::ReportContext::kId) {
      engine::ReportContext c;
      std::memcpy(&c, at, sizeof c);
      event_ = c.event;
      thread_ = static_cast<int>(c.thread);
      if (trace_) trace_->context(c);
      at += sizeof c / sizeof *at;
    } else if (id == engine::ReportedAccess::kId) {
      engine::ReportedAccess a;
      std::memcpy(&a, at, sizeof a);
      if (trace_) {
        trace_->store(a);
      } else if (is_wanted(a.address, a.size)) {
        log(a.tick, a.event, a.pc, static_cast<int>(a.thread),
            {a.address, a.old_value, a.new_value, a.size, a.store, a.by_kernel, {}});
      }
      at += sizeof a / sizeof *at;
    } else {
      at = trace_ ? trace_->blocks(at, end) : take_blocks(at, end);
    }
  }
  engine::empty_reports();
  run_at_ = layout::kReports;
  if (taps_.logged() - looked_at_ > kMany) context().stop_request = 1;
}

void ReportedAccesses::finish() {
  take();
  if (trace_) trace_->finish();
}

bool ReportedAccesses::are_many() {
  if (!wanted_ || taps_.logged() - looked_at_ <= kMany) return false;
  looked_at_ = taps_.logged();
  return true;
}

}  // namespace backstep::replayer
