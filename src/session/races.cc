// Happened-before with vector clocks, over the one order in which the recorded run had its threads take
// turns.
//
// Each thread has a clock of all threads: what it can know of them. Giving a lock leaves the giver's clock
// with the lock, and taking it joins that into the taker's; likewise semaphores, barriers, the making of a
// thread and the waiting for its end, and what goes through system calls (thread_order.h). An access is
// unordered with an earlier one of another thread if that one's time is beyond what this thread knows of it.
// For each eight bytes the last accesses of each thread are kept, with the bytes that they touched, so
// nothing that races is lost.
//
// Atomic variables are known by what is done to them: memory that an instruction with a lock prefix or an
// xchg accesses anywhere in the run is atomic, and there a plain load takes and a plain store gives, as on
// x86 they do for std::atomic. A variable that is only ever loaded and stored plainly cannot be told from an
// ordinary one.
//
// What the functions of locks and of the heap do themselves does not count, nor what ld.so does, nor libc but
// for its functions that copy memory and strings. Of those that search (strlen, memcmp, strcpy, …) loads do
// not count: they load whole vectors, of which they look at a part only. Memory that is allocated anew, and
// the stack of a new thread, has no past.
//
// The first pass finds memory that several threads access, one of them storing, and what is atomic; the
// second one looks only at that.
#include "session/races.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "isa/decode.h"
#include "session/accesses.h"
#include "session/hits.h"
#include "session/locks.h"
#include "session/thread_order.h"
#include "symbols/data_names.h"
#include "timeline/moments.h"

namespace backstep::session {
namespace {

constexpr uint64_t kWord = 8, kRacePage = 4096, kWords = kRacePage / kWord;
constexpr size_t kMostRaces = 1'000;  // different ones

using Clock = std::vector<uint64_t>;  // by thread

void join_clock(Clock& to, const Clock& from) {
  if (to.size() < from.size()) to.resize(from.size());
  for (size_t i = 0; i < from.size(); i++) to[i] = std::max(to[i], from[i]);
}

// ---- What the threads did besides accessing memory ----

struct RaceSurroundings {
  std::vector<SyncEvent> events;
  SpansByThread inside;  // of functions whose accesses do not count
};

RaceSurroundings surroundings_of(Session& session, const Stretch& stretch, const Watcher& watcher) {
  RaceSurroundings s;
  const timeline::LogIndex& log = session.timeline().log();
  auto thread_at = [&](Tick tick) {
    auto next = std::upper_bound(log.turns().begin(), log.turns().end(), tick,
                                 [](Tick t, const timeline::Turn& turn) { return t < turn.tick; });
    return next == log.turns().begin() ? 1 : std::prev(next)->thread;
  };
  // Where each thread runs first, and its fs base, which is what pthread_t is.
  std::map<int, Tick> first;
  for (const timeline::Turn& t : log.turns()) first.try_emplace(t.thread, t.tick);
  std::map<Address, int> by_handle;
  timeline::Sweep sweep;
  for (auto [thread, tick] : first) {
    timeline::Tap& tap = sweep.taps.list.emplace_back();
    tap.kind = timeline::Tap::Moment;
    tap.action = timeline::Tap::Log;
    tap.values = {session.compiler().compile("$fs_base", 0).code};
    tap.moments = {{Position{tick, 0, 0}, 0}};
  }
  sweep.from = Position{};
  sweep.record = [&](const replayer::TapRecord& record, const uint8_t* bytes) {
    constexpr uint64_t kStack = 8 << 20;
    const Address handle = CapturedValues(bytes).word();
    const int thread = record.thread;
    if (thread == 1 || !handle) return true;
    by_handle[handle] = thread;
    s.events.push_back(
        {SyncEvent::Fresh, record.tick, thread, handle - std::min(handle, kStack), handle + kRacePage, 0, 0});
    return true;
  };
  session.timeline().sweep(sweep);
  int made = 1;
  for (const timeline::Moment& m : log.thread_starts())
    s.events.push_back({SyncEvent::Make, m.tick, thread_at(m.tick), 0, 0, ++made, 0});
  locks(
      session, {{Position{}, stretch.to}, true},
      [&](const LockOperation& o) {
        using Effect = LockFunction::Effect;
        const Tick leave = o.left ? o.left->tick : ~0ull - 1;
        s.inside[o.thread].push_back({o.at.tick, leave});
        const bool got = o.result && *o.result == 0;
        auto add = [&](SyncEvent::Kind kind, Tick tick, Address lock) {
          s.events.push_back({kind, tick, o.thread, lock, 0, 0, 0});
        };
        switch (o.function->effect) {
          case Effect::Take:
            if (got) add(SyncEvent::Take, leave + 1, o.lock);
            break;
          case Effect::TakeShared:
            if (got) add(SyncEvent::TakeShared, leave + 1, o.lock);
            break;
          case Effect::Give:
            add(SyncEvent::Give, o.at.tick, o.lock);
            break;
          case Effect::Wait:
            add(SyncEvent::Give, o.at.tick, o.second);
            if (o.left) add(SyncEvent::Take, leave + 1, o.second);
            break;
          case Effect::Both:
            add(SyncEvent::Give, o.at.tick, o.lock);
            if (o.left) add(SyncEvent::Take, leave + 1, o.lock);
            break;
          case Effect::Join:
            if (auto t = by_handle.find(o.lock); got && t != by_handle.end())
              s.events.push_back({SyncEvent::Joined, leave + 1, o.thread, 0, 0, t->second, 0});
            break;
          case Effect::Create:
          case Effect::None:
            break;
        }
        return true;
      },
      watcher);
  HeapListener listener;
  listener.block = [&](const HeapBlock& b) {
    s.events.push_back(
        {SyncEvent::Fresh, b.allocated.done + 1, b.allocated.thread, b.address, b.address + b.size, 0, 0});
    return true;
  };
  listener.inside = [&](int thread, Tick enter, Tick leave) { s.inside[thread].push_back({enter, leave}); };
  HeapRequest books;
  books.to = stretch.to;
  heap(session, books, listener, watcher);
  for (auto& [thread, spans] : s.inside)
    std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.enter < b.enter; });
  for (const SyncEvent& e : calls_that_order(session, s.inside)) s.events.push_back(e);
  std::stable_sort(s.events.begin(), s.events.end(), [](const SyncEvent& a, const SyncEvent& b) {
    const bool a_gives = a.kind == SyncEvent::Give, b_gives = b.kind == SyncEvent::Give;
    if (a.tick != b.tick) return a.tick < b.tick;
    return a.event != b.event ? a.event < b.event : a_gives < b_gives;
  });
  return s;
}

// ---- Which accesses count ----

enum class Sort : uint8_t { Ignored, Plain, Atomic, Stores };  // Stores: plain, loads are ignored

class Sorter {
 public:
  Sorter(Session& session, const RaceSurroundings& around) : session_(session), around_(around) {}

  // In the order of time.
  Sort sort(const Access& a) {
    auto spans = around_.inside.find(a.thread);
    if (spans != around_.inside.end()) {
      size_t& n = next_[a.thread];
      const auto& list = spans->second;
      while (n < list.size() && list[n].leave < a.tick) n++;
      if (n < list.size() && list[n].enter <= a.tick) return Sort::Ignored;
    }
    auto [place, fresh] = of_.try_emplace(a.pc, Sort::Plain);
    if (fresh) place->second = find(a.pc);
    if (place->second == Sort::Stores) return a.store ? Sort::Plain : Sort::Ignored;
    return place->second;
  }

 private:
  Sort find(Address pc) const {
    const symbols::Module* module = session_.program().module_at(pc);
    if (!module) return Sort::Plain;
    const std::string_view bytes = module->elf().bytes(pc - module->bias, 15);
    const isa::Insn in = isa::decode(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    const bool exchange = in.map == 0 && in.encoding == 0 && (in.opcode == 0x86 || in.opcode == 0x87);
    if (in.lock || (exchange && in.memory_operand())) return Sort::Atomic;
    const std::string file = module->name.substr(module->name.rfind('/') + 1);
    if (file.starts_with("ld-")) return Sort::Ignored;
    if (!file.starts_with("libc.") && !file.starts_with("libc-")) return Sort::Plain;
    const auto function = session_.program().function_at(pc);
    if (!function) return Sort::Ignored;
    std::string_view name = function->name;
    while (name.starts_with("_")) name.remove_prefix(1);
    for (const char* exact : {"memcpy", "memmove", "mempcpy", "memset", "wmemset"})
      if (name.starts_with(exact)) return Sort::Plain;
    for (const char* known : {"mem", "str", "stp", "wcs", "wmem", "bcmp", "rawmem"})
      if (name.starts_with(known)) return Sort::Stores;
    return Sort::Ignored;
  }

  Session& session_;
  const RaceSurroundings& around_;
  std::map<int, size_t> next_;
  std::unordered_map<Address, Sort> of_;
};

// ---- First pass ----

struct SharedMemory {
  std::vector<recording::AddressRange> ranges;
  std::set<Address> atomic;  // words
};

SharedMemory shared_memory(Session& session, const Stretch& stretch, const RaceSurroundings& around,
                           const Watcher& watcher) {
  enum : uint8_t { kStored = 1, kShared = 2 };
  struct Seen {
    uint16_t thread[kWords] = {};
    uint8_t flags[kWords] = {};
  };
  std::unordered_map<Address, Seen> pages;
  SharedMemory found;
  Sorter sorter(session, around);
  AccessRequest request;
  request.stretch = stretch;
  request.loads = true;
  accesses(
      session, request,
      [&](const Access& a) {
        const Sort sort = sorter.sort(a);
        if (sort == Sort::Ignored) return true;
        for (Address w = a.address & ~(kWord - 1); w < a.address + a.size; w += kWord) {
          if (sort == Sort::Atomic) found.atomic.insert(w);
          Seen& page = pages[w / kRacePage];
          const size_t i = w % kRacePage / kWord;
          const auto thread = static_cast<uint16_t>(a.thread);
          if (!page.thread[i]) page.thread[i] = thread;
          if (page.thread[i] != thread) page.flags[i] |= kShared;
          if (a.store) page.flags[i] |= kStored;
        }
        return true;
      },
      watcher);
  for (const auto& [number, page] : pages)
    for (size_t i = 0; i < kWords; i++)
      if (page.flags[i] == (kStored | kShared)) {
        const Address start = number * kRacePage + i * kWord;
        found.ranges.push_back({start, start + kWord});
      }
  std::sort(found.ranges.begin(), found.ranges.end(),
            [](const auto& a, const auto& b) { return a.start < b.start; });
  std::vector<recording::AddressRange> merged;
  for (const auto& r : found.ranges)
    if (!merged.empty() && merged.back().end == r.start)
      merged.back().end = r.end;
    else
      merged.push_back(r);
  found.ranges = std::move(merged);
  return found;
}

// ---- Second pass ----

class Detector {
 public:
  Detector(Session& session, const RaceSurroundings& around, const SharedMemory& shared)
      : session_(session), around_(around), shared_(shared), sorter_(session, around) {}

  void take(const Access& a) {
    for (; next_ < around_.events.size(); next_++) {
      const SyncEvent& e = around_.events[next_];
      if (e.tick > a.tick || (e.tick == a.tick && e.event > a.event)) break;
      happen(e);
    }
    const Sort sort = sorter_.sort(a);
    if (sort == Sort::Ignored) return;
    bool gives = false;
    for (Address w = a.address & ~(kWord - 1); w < a.address + a.size; w += kWord) {
      if (shared_.atomic.count(w)) {
        // A load and a store of the same instruction: takes, then gives.
        if (a.store) {
          join_clock(locks_[w], clock(a.thread));
          gives = true;
        } else if (auto l = locks_.find(w); l != locks_.end()) {
          join_clock(clock(a.thread), l->second);
        }
        continue;
      }
      look_at(a, w);
    }
    if (gives) clock(a.thread)[static_cast<size_t>(a.thread)]++;
  }
  std::vector<Race> races() { return std::move(races_); }

 private:
  struct Record {
    int thread;
    bool store;
    uint8_t mask;  // bytes
    uint64_t time;
    Position at;
    uint32_t size;
  };

  Clock& clock(int thread) {
    Clock& c = clocks_[thread];
    const auto n = static_cast<size_t>(thread);
    if (c.size() <= n) c.resize(n + 1);
    if (!c[n]) c[n] = 1;
    return c;
  }
  void tick(int thread) { clock(thread)[static_cast<size_t>(thread)]++; }

  void happen(const SyncEvent& e) {
    switch (e.kind) {
      case SyncEvent::Take:
        join_clock(clock(e.thread), locks_[e.lock]);
        join_clock(clock(e.thread), readers_[e.lock]);
        break;
      case SyncEvent::TakeShared:
        join_clock(clock(e.thread), locks_[e.lock]);
        reading_.insert({e.thread, e.lock});
        break;
      case SyncEvent::Give: {
        // What readers give concerns writers only.
        auto reading = reading_.find({e.thread, e.lock});
        join_clock(reading != reading_.end() ? readers_[e.lock] : locks_[e.lock], clock(e.thread));
        if (reading != reading_.end()) reading_.erase(reading);
        tick(e.thread);
        break;
      }
      case SyncEvent::Make:
        join_clock(clock(e.other), clock(e.thread));
        tick(e.thread);
        break;
      case SyncEvent::Joined:
        join_clock(clock(e.thread), clock(e.other));
        break;
      case SyncEvent::Fresh:
        forget(e.lock, e.end);
        break;
    }
  }

  void forget(Address start, Address end) {
    constexpr Address kMany = 1 << 16;
    if (end - start > kMany) {
      std::erase_if(words_, [&](const auto& w) { return w.first >= start && w.first < end; });
      return;
    }
    for (Address w = start & ~(kWord - 1); w < end; w += kWord) words_.erase(w);
  }

  void look_at(const Access& a, Address word) {
    const Address low = std::max(a.address, word), high = std::min(a.address + a.size, word + kWord);
    const auto mask = static_cast<uint8_t>(((1u << (high - low)) - 1) << (low - word));
    std::vector<Record>& records = words_[word];
    const Clock& now = clock(a.thread);
    for (const Record& r : records) {
      const auto n = static_cast<size_t>(r.thread);
      if (r.thread == a.thread || !(r.mask & mask) || !(r.store || a.store)) continue;
      if (r.time <= (n < now.size() ? now[n] : 0)) continue;
      tell(r, a, word + static_cast<Address>(__builtin_ctz(r.mask & mask)));
    }
    const uint64_t time = now[static_cast<size_t>(a.thread)];
    const Position at{a.tick, a.event, a.pc};
    std::erase_if(records, [&](const Record& r) {
      return r.thread == a.thread && r.store == a.store && (r.mask & ~mask) == 0;
    });
    records.push_back({a.thread, a.store, mask, time, at, a.size});
  }

  void tell(const Record& r, const Access& a, Address address) {
    std::pair<std::string, std::string> lines{line_of(r.at.pc), line_of(a.pc)};
    if (lines.second < lines.first) std::swap(lines.first, lines.second);
    auto [place, fresh] = known_.try_emplace(std::move(lines), races_.size());
    if (fresh && races_.size() < kMostRaces) {
      Race race;
      race.first = {r.at, r.thread, r.store, r.size, {}};
      race.second = {{a.tick, a.event, a.pc}, a.thread, a.store, a.size, {}};
      race.address = address;
      races_.push_back(std::move(race));
    }
    if (place->second < races_.size()) races_[place->second].count++;
  }
  std::string line_of(Address pc) {
    auto [place, fresh] = lines_.try_emplace(pc);
    if (!fresh) return place->second;
    const auto frames = session_.program().frames_at(pc);
    place->second = frames.empty() || !frames[0].line ? std::to_string(pc)
                                                      : frames[0].file + ":" + std::to_string(frames[0].line);
    return place->second;
  }

  Session& session_;
  const RaceSurroundings& around_;
  const SharedMemory& shared_;
  Sorter sorter_;
  size_t next_ = 0;
  std::map<int, Clock> clocks_;
  std::unordered_map<Address, Clock> locks_, readers_;
  std::set<std::pair<int, Address>> reading_;
  std::unordered_map<Address, std::vector<Record>> words_;
  std::vector<Race> races_;
  std::map<std::pair<std::string, std::string>, size_t> known_;
  std::unordered_map<Address, std::string> lines_;
};

}  // namespace

RacesReport races(Session& session, const Stretch& stretch, const Watcher& watcher) {
  RacesReport report;
  const auto& attention = session.timeline().attention;
  auto stopped = [&] { return report.complete = !attention.stop_asked, attention.stop_asked; };
  if (session.timeline().log().thread_starts().empty()) return report;
  const RaceSurroundings around = surroundings_of(session, stretch, watcher);
  if (stopped()) return report;
  const SharedMemory shared = shared_memory(session, stretch, around, watcher);
  if (stopped() || shared.ranges.empty()) return report;
  Detector detector(session, around, shared);
  AccessRequest request;
  request.stretch = stretch;
  request.loads = true;
  request.data = shared.ranges;
  accesses(
      session, request,
      [&](const Access& a) {
        detector.take(a);
        return true;
      },
      watcher);
  if (stopped()) return report;
  report.races = detector.races();
  std::vector<Position> moments;
  symbols::DataNames names(session.program());
  for (const Race& r : report.races) moments.push_back(r.first.at), moments.push_back(r.second.at);
  auto stacks = stacks_at(session, moments, watcher);
  for (size_t i = 0; i < report.races.size(); i++) {
    Race& r = report.races[i];
    r.first.stack = std::move(stacks[2 * i]), r.second.stack = std::move(stacks[2 * i + 1]);
    r.variable = names.at(r.address);
  }
  return report;
}

nlohmann::ordered_json races_json(const RacesReport& report) {
  using Json = nlohmann::ordered_json;
  auto side = [](const RaceSide& s) {
    return Json{{"at", timeline::point_text(s.at.tick, s.at.pc)},
                {"thread", s.thread},
                {"access", s.store ? "store" : "load"},
                {"size", s.size},
                {"stack", frames_json(s.stack.frames)}};
  };
  Json list = Json::array();
  for (const Race& r : report.races) {
    Json race{{"address", r.address}, {"count", r.count}};
    if (!r.variable.empty()) race["variable"] = r.variable;
    race["first"] = side(r.first), race["second"] = side(r.second);
    list.push_back(race);
  }
  return list;
}

}  // namespace backstep::session
