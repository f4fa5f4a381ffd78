// Replay under a debugger's control: up to a moment, to a breakpoint, instruction by instruction.
//
// The same engine and the same reactions to events as in a replay to the end; only the loop around them is
// another one. Between two of its rounds the guest stands at an instruction boundary with exact state, and no
// event has been taken from the log that has not had all of its effects. Three kinds of rounds:
//
//   a call goes on   the thread that got the turn stands in a system call, whose result comes next
//   an event is due  a signal or a turn from outside, at its control point
//   the guest runs   to a tick, a breakpoint, something for the host, or by one instruction
//
// Places in the middle of a quantum are reached with a breakpoint of our own, at the engine's full speed.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/file_data.h"
#include "engine/host_ops.h"
#include "guest/buffers.h"
#include "guest/cpu.h"
#include "guest/elf.h"
#include "replay/agent_expression.h"
#include "replay/replayer.h"

namespace backstep::replayer {

using recording::Event;
using recording::EventHeader;
using recording::EventKind;

void Replayer::start() {
  hold_signals_ = true;
  process_.engine().keep_breaks();
  process_.engine().set_check(true);
  engine::install_handler(SIGALRM, SA_RESTART);
  prepare();
  after_call(0, 0);
}

Position Replayer::position() const {
  const Context& ctx = context();
  return {ctx.tick, event_base_ + bs_replay.event, resume_call_ ? ctx.rip - 2 : ctx.rip};
}

bool Replayer::at_goal() const {
  const Context& ctx = context();
  return goal_ && ctx.tick == goal_->tick && (goal_->pc == 0 || ctx.rip == goal_->pc);
}

void Replayer::install(Taps taps) {
  if (debug_) debug_->leave_out(taps);
  taps_.set(std::move(taps));
  process_.engine().set_cover(taps_.cover() || taps_.contents());
  words_.count(taps_.contents().has_value() || taps_.words());
  accesses_.begin();
  cuts_.clear();
  passed_.clear();
  met_.reset();
  after_.clear();
  taps_.begin_periods(context().tick);
  if (debug_) debug_->set_callbacks_again(position());
  watch_.set(taps_);
}

// What debug code has asked for on the way, or does not want any more. True: there was something.
bool Replayer::renew_callbacks() {
  if (!debug_ || !debug_->callbacks_changed()) return false;
  const DebugWorld::Changes changes = debug_->set_callbacks(position());
  std::erase_if(after_, [&](const TapSet::Due& due) { return changes.gone.count(due.tap); });
  if (changes.data) watch_.set(taps_);
  return true;
}

// What an expression sees of the present.
Surroundings Replayer::surroundings() {
  const Context& ctx = context();
  Surroundings around{.ctx = ctx, .read = read_mapped, .argument = &process_, .vectors = true};
  around.floats = float_operation;
  around.set(kStateTick, ctx.tick);
  around.set(kStateThread, static_cast<uint64_t>(process_.current().name));
  around.set(kStateFsBase, ctx.fs_base);
  around.set(kStateGsBase, ctx.gs_base);
  return around;
}

Arrival Replayer::halt(Arrival::Why why) {
  Arrival h;
  h.why = why;
  h.at = h.before = position();
  h.tid = id_of(process_.current());
  // The usual first stop of a session: what was translated on the way there is kept for the next one. (Code
  // of a diversion may not be what the files say.)
  if ((why == Arrival::End || why == Arrival::Fault) && !diverted_) save_translations();
  return h;
}

// Is it a thread whose doings are asked for?
bool Replayer::counts() const {
  const int thread = taps_.taps().thread;
  return thread == 0 || id_of(process_.current()) == thread;
}

// Is the instruction at rip what comes next?
bool Replayer::can_meet() const {
  return !taps_.empty() && !resume_call_ && !at_goal() && (counts() || debug_);
}

bool Replayer::breakpoint_here() {
  return can_meet() && counts() && taps_.stops_at(context().rip, surroundings());
}

// Does what is to be done here, once. (An instruction may be begun several times, until the pages are there
// that it needs.) True: somebody wants to stop.
bool Replayer::meet_taps() {
  const Context& ctx = context();
  if (!can_meet() || met_ == ControlPoint{ctx.tick, ctx.rip}) return false;
  met_ = {ctx.tick, ctx.rip};
  bs_taps.thread = process_.current().name;
  const bool called = std::exchange(debug_met_, met_) == met_;
  const bool stop = taps_.meet(surroundings(), position().event, called ? TapSet::NoDebug : TapSet::All);
  return stop && counts();
}

// A run that begins here does not stop here; but debug code may not have been called yet, as the last
// movement ended with what the instruction before has changed, or taps have been installed since.
void Replayer::meet_debug_here() {
  const Context& ctx = context();
  if (!debug_ || !can_meet() || debug_met_ == ControlPoint{ctx.tick, ctx.rip}) return;
  debug_met_ = {ctx.tick, ctx.rip};
  bs_taps.thread = process_.current().name;
  taps_.meet(surroundings(), position().event, TapSet::OnlyDebug);
}

bool Replayer::meet_periods() {
  if (context().tick < taps_.next_period()) return false;
  bs_taps.thread = process_.current().name;
  return taps_.meet_periods(surroundings(), position().event);
}

void Replayer::note_change(Address start, Address end) {
  written_.note(start, end);
  words_.note(start, end);
}

// Is this where `p` says? Its pc or its event may be left open.
static bool is_at(const Position& now, const Position& p) {
  return now.tick == p.tick && (p.pc == 0 || (now.pc == p.pc && now.event >= p.event));
}

bool Replayer::meet_moments(const Position& now) {
  bool stop = false;
  auto meet = [&](const TapSet::Due& due) {
    bs_taps.thread = process_.current().name;
    Surroundings around = surroundings();
    around.set(kStateNumber, due.after ? due.number : context().gpr[RAX]);
    stop |= taps_.meet_one(due.tap, around, now.event, now.tick, now.pc);
  };
  std::erase_if(after_, [&](const TapSet::Due& due) {
    if (now.event <= due.event) return false;
    meet(due);
    return true;
  });
  taps_.take_due(now.tick, [&](const TapSet::Due& due) {
    // It is over when its event is. (Its position has the least number that may be next there.)
    if (!is_at(now, due.at)) return now.tick > due.at.tick || (due.event && now.event > due.event);
    due.after ? after_.push_back(due) : meet(due);
    return true;
  });
  return stop;
}

// The replayer's own work on guest memory: watched pages are open, and compared afterwards.
void Replayer::with_memory_open(const std::function<void()>& work) {
  watch_.disarm();
  note_conditions();
  written_here_.clear();
  watcher_counts_ = counts();
  accesses_.begin_writing(before_, thread_before_, true);
  work();
  accesses_.end_writing();
  compare_watched(written_here_);
}

// The replayer is about to write there, for the kernel or another process.
void Replayer::note_write(Address start, uint64_t length) {
  engine::mark_written(start, length);
  for (size_t index : watch_.stored(start, length)) written_here_.push_back(index);
}

// In front of something that may touch watched bytes.
void Replayer::note_conditions() {
  if (!backward || watch_.empty()) return;
  held_before_.assign(watch_.count(), true);
  const Surroundings around = surroundings();
  for (size_t i = 0; i < watch_.count(); i++) held_before_[i] = any_holds(watch_.spec(i), around);
}

// Watched bytes were touched, at before_.
void Replayer::touch(size_t index) {
  const Tap& tap = watch_.spec(index);
  Surroundings around = surroundings();
  // When and who: of what touched them, which may have been a call, or the thread's last doing.
  around.set(kStateTick, before_.tick);
  around.set(kStateThread, static_cast<uint64_t>(thread_before_));
  around.set(kStateAddress, tap.start);
  around.set(kStateSize, tap.length);
  around.set(kStateOld, watch_.old_value(index));
  around.set(kStateNew, watch_.new_value(index));
  bs_taps.thread = thread_before_;
  // A debugger's condition is about what it sees, which backwards is the state in front of the change. An
  // event is the same one both ways.
  const bool stop = tap.action == Tap::Stop && backward && !tap.strict
                        ? held_before_[index]
                        : taps_.meet_one(watch_.tap(index), around, before_.event, before_.tick, before_.pc);
  if (stop && !watch_hit_) watch_hit_ = index;
}

void Replayer::compare_watched(const WatchedMemory::Hits& touched) {
  if (watch_.empty()) return;
  const WatchedMemory::Hits changed = watch_.changed();
  if (!watcher_counts_) return;
  WatchedMemory::Hits hits = changed;
  for (size_t index : touched)
    if (std::find(hits.begin(), hits.end(), index) == hits.end()) hits.push_back(index);
  for (size_t index : hits) touch(index);
}

// An instruction that the code cache does not keep is executed code all the same.
void Replayer::note_alone() {
  const Address page = context().rip & ~(layout::kPage - 1);
  if (written_.counting() && (stepped_.empty() || stepped_.back().start != page))
    stepped_.push_back({page, page + layout::kPage});
  constexpr size_t kMany = 10000;
  if (stepped_.size() > kMany) simplify(stepped_);
}

std::optional<engine::Stop> Replayer::step_alone() {
  note_alone();
  words_.mark_instruction();
  accesses_.begin_alone(position(), process_.current().name);
  auto stop = process_.engine().step();
  accesses_.end_alone(!stop || stop->kind == engine::Stop::TickStop);
  return stop;
}

// One round. `stepping`: at most one instruction.
void Replayer::advance(const Until& until, bool stepping) {
  Context& ctx = context();
  watch_hit_.reset();
  watcher_counts_ = counts();
  before_ = position();
  thread_before_ = process_.current().name;
  if (resume_call_) {
    with_memory_open([&] {
      resume_call_ = false;
      on_syscall();
    });
    return;
  }
  if (at_goal()) {
    with_memory_open([&] {
      goal_.reset();
      const auto call = held_;
      held_ = {};
      deliver_ = true;
      after_call(call.nr, call.result);
      deliver_ = false;
    });
    return;
  }
  if (goal_ && ctx.tick > goal_->tick) {
    Event e;
    take(e);
    diverged(e, event_text(e), "the next tick, without having come by");
  }

  Tick limit = taps_.next_period();
  std::vector<Address> ours;
  auto aim = [&](Tick tick, Address pc) {
    if (tick > ctx.tick) {
      limit = std::min(limit, tick);
    } else if (tick == ctx.tick && pc != 0 && accesses_.wanted()) {
      stepping = true;  // what reports has no breakpoints
    } else if (tick == ctx.tick && pc != 0) {
      limit = std::min(limit, ctx.tick + 1);
      if (engine::add_break(pc)) ours.push_back(pc);
    }
  };
  if (goal_) aim(goal_->tick, goal_->pc);
  if (until.point) aim(until.point->tick, until.point->pc);
  for (const TapSet::Due& due : taps_.due()) {
    aim(due.at.tick, due.at.pc);
    if (due.at.tick > ctx.tick) break;
  }

  std::optional<engine::Stop> stop;
  const double leg = stepping ? 0 : quick_leg(until, limit);
  const bool step = leg == 0 && (stepping || engine::find_break(ctx.rip));
  if (step) note_conditions();
  if (leg == 0) look_at_ticks(true);
  const Tick way = std::exchange(limit, std::min(limit, until.tick));
  const auto touched_by_step = step && watch_.compare_steps() ? watch_.touched() : WatchedMemory::Hits();
  watch_.arm();
  bs_taps.thread = process_.current().name;
  bs_taps.event_base = event_base_;
  accesses_.begin_run(event_base_ + bs_replay.event, bs_taps.thread);
  const std::optional<Passing> passing = step ? std::nullopt : watch_cut();
  if (passing) ours.push_back(passing->to);
  if (step) {
    ctx.limit = ctx.tick + 1;
    stop = step_alone();
  } else if (leg > 0) {
    stop = run_quick(leg, way);
  } else {
    ctx.limit = limit;
    stop = run_guest();
  }
  ctx.limit = ~0ull;
  if (taps_.cover()) {
    if (passing) note_passed(*passing);
    note_cut();
  }
  watch_.disarm();
  for (Address pc : ours) engine::remove_break(pc);
  if (step && watch_.compare_steps() && (!stop || stop->kind == engine::Stop::TickStop))
    compare_watched(touched_by_step);
  if (stop && stop->kind == engine::Stop::Signal &&
      engine::bs_cache.answered == ControlPoint{ctx.tick, ctx.rip})
    met_ = debug_met_ = engine::bs_cache.answered;
  if (!stop || overshot_) return;
  switch (stop->kind) {
    case engine::Stop::TickStop:
    case engine::Stop::Break:
    case engine::Stop::Signal:
      return;
    case engine::Stop::Watched: {
      before_ = position();
      note_conditions();
      const auto touched = watch_.touched();
      ctx.limit = ctx.tick + 1;
      auto inner = step_alone();
      ctx.limit = ~0ull;
      if (inner && inner->kind != engine::Stop::TickStop) return with_memory_open([&] { react(*inner); });
      compare_watched(touched);
      return;
    }
    case engine::Stop::Syscall:
      before_ = {ctx.tick, event_base_ + bs_replay.event, ctx.rip - 2};
      if (diverted_) return diverted_syscall();
      break;
    case engine::Stop::HostOp:
      before_ = position();
      if (diverted_) return diverted_host_op(stop->insn);
      accesses_.begin_alone(before_, thread_before_);
      with_memory_open([&] {
        // What it writes is the guest's doing.
        accesses_.begin_writing(before_, thread_before_, false);
        react(*stop);
      });
      accesses_.end_host_op(before_.pc);
      return;
    case engine::Stop::BadFetch:
      before_ = position();
      if (diverted_) {
        diverted_signal_ = process_.bad_fetch(ctx.rip).signo;
        return;
      }
      break;
    case engine::Stop::Fault:
      before_ = position();
      // It may be begun once more.
      if (taps_.met_by_itself(ctx.rip)) met_ = debug_met_ = ControlPoint{ctx.tick, ctx.rip};
      if (watch_.ours(stop->fault)) {
        // Once more, with the pages open.
        const auto touched = watch_.touched();
        note_conditions();
        ctx.limit = ctx.tick + 1;
        auto inner = step_alone();
        ctx.limit = ~0ull;
        if (inner && inner->kind != engine::Stop::TickStop) react(*inner);
        compare_watched(touched);
        return;
      }
      if (diverted_) {
        if (!process_.alias_write(stop->fault)) diverted_signal_ = stop->fault.signo;
        return;
      }
      break;
  }
  with_memory_open([&] { react(*stop); });
}

// What a round may have ended with. None: go on.
Arrival Replayer::outcome_of_round() {
  if (overshot_) return halt(Arrival::Overshot);
  if (watch_hit_) {
    Arrival h = halt(Arrival::Watch);
    h.before = before_;
    h.address = watch_.spec(*watch_hit_).start;
    h.watch_kind = watch_.spec(*watch_hit_).kind;
    return h;
  }
  if (outcome_) return halt(Arrival::End);
  if (diverted_signal_) {
    Arrival h = halt(Arrival::Fault);
    h.signo = std::exchange(diverted_signal_, 0);
    return h;
  }
  return {.why = Arrival::None};
}

bool Replayer::look_up() {
  constexpr unsigned kRounds = 256;
  return interrupted && ++rounds_ % kRounds == 0 && interrupted();
}

void Replayer::admit_debug(Fd file, const std::string& name, DebugMode mode, const Fd& state) {
  const guest::ElfImage elf =
      guest::read_elf(guest::ProgramFile(std::move(file), name, "cannot load the debug module"));
  auto world = std::make_unique<DebugWorld>(process_, taps_);
  world->interrupted = [this] { return interrupted && interrupted(); };
  world->ask = debug_answers;
  world->mode = mode;
  state ? world->restore(elf, state) : world->load(elf);
  taps_.run = [this](const HotTap& tap, const Surroundings& around, const Position& at) {
    debug_->call(tap, around, at, bs_taps.thread);
  };
  debug_ = std::move(world);
}

void Replayer::save_debug(const Fd& to) const {
  if (!debug_) throw Error("internal error: there is no debug code whose state could be kept");
  debug_->save(to);
}

void Replayer::leave_debug() {
  if (!debug_) return;
  install({});
  taps_.run = nullptr;
  debug_.reset();
  bs_debug = {};
  process_.engine().dismiss_probe();
  DebugMemory::leave();
}

// What debug code does on the way is over when this returns. It may read what is watched.
engine::Stop Replayer::run_guest() {
  for (;;) {
    std::optional<engine::Stop> stop = process_.engine().run();
    if (!bs_debug.running) return *stop;
    const bool closed = stop->kind == engine::Stop::Fault && watch_.ours(stop->fault);
    watch_.disarm();
    if (closed) stop.reset();
    if (auto due = debug_->finish(stop)) return *due;
    watch_.arm();
  }
}

Arrival Replayer::run_until(const Until& until) {
  const DebugClock clock(debug_ != nullptr);
  if (debug_) debug_->tell_what_was_early(position());
  const Arrival halt = run_rounds(until);
  set_timer(0, 0);
  accesses_.take();
  return halt;
}

Arrival Replayer::run_rounds(const Until& until) {
  // What has begun before this run does not begin again.
  if (!until.fresh) taps_.pass_periods(context().tick);
  for (bool first = !until.fresh;; first = false) {
    const Position now = position();
    if (outcome_) return halt(Arrival::End);
    // In front of the point: what a debugger stops for there (a fork, a call, the end) is the instruction's
    // doing, which has not been executed. (A point without an event is not to be compared: a run goes no
    // further than there, or to the next tick.)
    const bool over =
        until.before && until.point && (is_at(now, *until.point) || now.tick > until.point->tick);
    bool stop = (!over || !after_.empty()) && meet_moments(now);
    if (!first && !over) stop |= meet_periods();
    if (!first && !over) stop |= meet_taps();
    if (first && !over) meet_debug_here();
    renew_callbacks();
    if (!first && stop) return halt(Arrival::Break);
    if (debug_ && debug_->take_stop()) return halt(Arrival::DebugStop);
    if (until.point) {
      const Position& p = *until.point;
      if (is_at(now, p)) return halt(Arrival::There);
      if (now.tick > p.tick) return halt(Arrival::Missing);
    }
    if (now.tick >= until.tick) return halt(Arrival::AtTick);
    if (look_up()) return halt(Arrival::Interrupted);
    if (accesses_.are_many()) return halt(Arrival::AtTick);
    advance(until, !after_.empty());
    Arrival h = outcome_of_round();
    if (h.why != Arrival::None) return h;
  }
}

// Is the next thing that happens here something of the world's, which is no step of the thread?
bool Replayer::turn_is_due() {
  if (!at_goal()) return false;
  EventHeader header;
  return peek(header) && static_cast<EventKind>(header.kind) != EventKind::Signal;
}

void Replayer::know_forking_threads(const std::vector<int>& names) {
  ancestors_.assign(names.size(), 0);
  for (size_t i = names.size(); i-- > 0 && names[i] == names.back();) ancestors_[i] = names[i];
}

int Replayer::id_of(const guest::Thread& thread) const {
  constexpr int kOthers = 1 << 30;
  if (path_at_ < path_.size() && path_at_ < ancestors_.size() && ancestors_[path_at_] == thread.name)
    return path_.back().pid;
  for (auto& [name, other] : process_.threads())
    if (name < thread.name && other->tid == thread.tid) return kOthers + thread.name;
  return thread.tid;
}

bool Replayer::has_thread(int tid) const {
  return std::any_of(process_.threads().begin(), process_.threads().end(),
                     [&](const auto& entry) { return id_of(*entry.second) == tid; });
}

// Who steps meets nothing but breakpoints; debug code is called all the same. True: it wants to stop.
bool Replayer::meet_debug() {
  meet_moments(position());
  meet_periods();
  meet_taps();
  renew_callbacks();
  return debug_->take_stop();
}

Arrival Replayer::step(int tid, const Until& until) {
  const DebugClock clock(debug_ != nullptr);
  for (bool first = true;; first = false) {
    if (outcome_) return halt(Arrival::End);
    const Position now = position();
    if (until.point && now.tick == until.point->tick && now.pc == until.point->pc &&
        now.event >= until.point->event && !first)
      return halt(Arrival::There);
    const bool mine = id_of(process_.current()) == tid;
    if (!mine) {
      if (!first && meet_taps()) return halt(Arrival::Break);
      if (now.tick >= until.tick) return halt(Arrival::AtTick);
    }
    if (look_up()) return halt(Arrival::Interrupted);
    if (!has_thread(tid)) return halt(Arrival::Stepped);  // it has ended: that was its step
    const bool turn = turn_is_due();
    advance(until, mine);
    Arrival h = outcome_of_round();
    if (h.why != Arrival::None) return h;
    const bool stepped =
        mine && !turn && position() != now && id_of(process_.current()) == tid && !resume_call_;
    if (debug_ && meet_debug()) return halt(Arrival::DebugStop);
    if (stepped) return halt(Arrival::Stepped);
  }
}

std::optional<Position> Replayer::last_step_before(int tid, const Position& end) {
  std::optional<Position> last;
  Until until;
  until.point = end;
  while (!outcome_ && position() < end) {
    const Position now = position();
    const bool mine = id_of(process_.current()) == tid && !turn_is_due();
    advance(until, id_of(process_.current()) == tid);
    if (mine && position() != now) last = now;
    if (look_up()) break;
  }
  return last;
}

// fork() copies private memory; what is mapped shared would still be one memory for both processes. Files
// that several mappings show get a new memory file with the same contents, anonymous memory becomes private.
void Replayer::after_fork() {
  written_.after_fork();
  process_.engine().start_anew(false);
  std::vector<guest::Region> shared;
  process_.map.for_each([&](const guest::Region& r) {
    if (r.flags & MAP_SHARED) shared.push_back(r);
  });
  for (auto& [id, file] : live_) {
    Fd copy(memfd_create("backstep-live", MFD_CLOEXEC));
    struct stat st {};
    if (!copy || fstat(file.get(), &st) != 0 || ftruncate(copy.get(), st.st_size) != 0 ||
        !copy_data(file.get(), copy.get(), 0, ~0ull))
      throw Error("cannot copy a file that the program changes: " + errno_text(errno));
    std::vector<guest::Region> mappings;
    process_.map.for_each([&](const guest::Region& r) {
      if (!(r.flags & (MAP_SHARED | MAP_ANONYMOUS)) && std::pair(r.dev, r.inode) == id) mappings.push_back(r);
    });
    for (const guest::Region& r : mappings) process_.change_backing(r, copy.get());
    file = std::move(copy);
  }
  if (shared.empty()) return;
  for (auto& [id, file] : shared_) {
    Fd copy(memfd_create("backstep-shared", MFD_CLOEXEC));
    struct stat st {};
    if (!copy || fstat(file.get(), &st) != 0 || ftruncate(copy.get(), st.st_size) != 0 ||
        !copy_data(file.get(), copy.get(), 0, ~0ull))
      throw Error("cannot copy memory that the program maps shared: " + errno_text(errno));
    file = std::move(copy);
  }
  for (const guest::Region& r : shared) {
    auto* at = reinterpret_cast<void*>(r.start);
    const size_t size = r.end - r.start;
    const int prot = r.prot & PROT_WRITE ? PROT_READ | PROT_WRITE : r.prot ? PROT_READ : PROT_NONE;
    auto file = shared_.find({r.dev, r.inode});
    if (file != shared_.end() && r.inode) {
      if (mmap(at, size, prot, MAP_SHARED | MAP_FIXED, file->second.get(), static_cast<off_t>(r.offset)) !=
          at)
        throw Error("cannot map shared memory again: " + errno_text(errno));
    } else {
      void* copy =
          mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (copy == MAP_FAILED) throw Error("cannot copy shared memory: " + errno_text(errno));
      for (size_t offset = 0; offset < size; offset += layout::kPage) {
        unsigned char present = 0;
        auto* from = static_cast<char*>(at) + offset;
        if (mincore(from, layout::kPage, &present) == 0 && !(present & 1)) continue;
        bs_guarded_copy(static_cast<char*>(copy) + offset, from, layout::kPage);
      }
      if (mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, at) != at || mprotect(at, size, prot) != 0)
        throw Error("cannot place the copy of shared memory: " + errno_text(errno));
    }
    // Write protections because of translated code are gone: so must be that code.
    process_.engine().forget(r.start, r.end);
  }
}

std::optional<siginfo_t> Replayer::probe_fault() {
  Context& ctx = context();
  if (resume_call_) return std::nullopt;
  watch_.disarm();
  ctx.limit = ctx.tick + 1;
  auto stop = step_alone();
  ctx.limit = ~0ull;
  if (!stop) return std::nullopt;
  if (stop->kind == engine::Stop::Fault) return guest::fault_siginfo(stop->fault);
  if (stop->kind == engine::Stop::BadFetch) return guest::fault_siginfo(process_.bad_fetch(ctx.rip));
  return std::nullopt;
}

void Replayer::divert() {
  if (diverted_) return;
  diverted_ = true;
  if (resume_call_) context().rip -= 2;
  resume_call_ = false;
  goal_.reset();
  bs_replay.p = bs_replay.end = nullptr;  // the hot handlers find no events and leave all to us
}

// A function that the user calls runs in the thread that he has chosen, even if that one waits for its turn,
// or in a system call. (It is not in that any more: a debugger has given it other registers.)
void Replayer::divert_to(int tid) {
  for (auto& [name, thread] : process_.threads()) {
    if (id_of(*thread) != tid || thread.get() == &process_.current()) continue;
    process_.turn_to(*thread);
    thread->in_call = false;
    return;
  }
}

}  // namespace backstep::replayer
