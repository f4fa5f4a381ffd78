// The life of a call:
//
//   set_aside   the guest's registers to SetAside (or in the hot world: enter_debug_hot)
//   begin       the module's registers: its stack, its thread-local storage, the function, where it returns
//   to react       whatever takes it out of the cache: its system calls and requests, stores that cannot be
//               checked in code, the border to the program's own code, faults, the clock
//   give_back   what was set aside, and memory that functions of the program have written to
//
// *The border.* Debug code and the guest cannot get into each other by themselves (engine::out_of_reach):
// where control would cross, the engine says BadFetch. A call of a function of the program is let through,
// with the guest's thread-local storage, once its memory is write-protected (undone_writes.h); its return, or
// a function of the debug code that it calls, comes back the same way. Whoever is on the other side with
// another stack than the module's has not been called (longjmp), and ends there.
//
// *Failures.* Whatever debug code must not do ends the call, with a sentence and what is needed to say where
// that was in the user's source. The module goes on to be called at the next place, as it was left.
#include "replay/debug_world.h"

#include <cpuid.h>
#include <fmt/format.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "engine/cache.h"
#include "engine/entry.h"
#include "engine/host_ops.h"
#include "guest/accesses.h"
#include "guest/cpu.h"
#include "replay/replay_hot.h"

namespace backstep::replayer {
namespace {

constexpr suseconds_t kClockStep = 50'000;  // microseconds of CPU
constexpr unsigned kStepsInSecond = 1'000'000 / kClockStep;
constexpr unsigned kXsaveBits = 512;

// Of CPU in one call. Tests do not wait so long.
double most_seconds() {
  constexpr double kMost = 10;
  static const char* const wanted = std::getenv("BACKSTEP_DEBUG_SECONDS");
  return wanted ? std::strtod(wanted, nullptr) : kMost;
}

uint64_t vector_bits(const unsigned char* xsave) {
  uint64_t bits;
  std::memcpy(&bits, xsave + kXsaveBits, sizeof bits);
  return bits;
}

void set_vector_bits(unsigned char* xsave, uint64_t bits) {
  std::memcpy(xsave + kXsaveBits, &bits, sizeof bits);
}

std::string where(Address a) {
  return a < layout::kPage ? fmt::format("{:#x}, a null pointer", a) : fmt::format("{:#x}", a);
}

std::span<const uint8_t> bytes_of(const auto& value) {
  return {reinterpret_cast<const uint8_t*>(&value), sizeof value};
}

bool knows_in_use() {
  constexpr unsigned kXsaveLeaf = 0xd, kInUse = 4;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(kXsaveLeaf, 1, &a, &b, &c, &d) && (a & kInUse);
}

// Between what the program prints.
void print(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    text.remove_prefix(static_cast<size_t>(n));
  }
}

void set_clock(suseconds_t step) {
  itimerval timer{};
  timer.it_value.tv_usec = timer.it_interval.tv_usec = step;
  setitimer(ITIMER_PROF, &timer, nullptr);
}

}  // namespace

DebugClock::DebugClock(bool wanted) : wanted_(wanted) {
  if (!wanted) return;
  engine::install_handler(SIGPROF, SA_RESTART);
  set_clock(kClockStep);
}

DebugClock::~DebugClock() {
  if (wanted_) set_clock(0);
}

void DebugWorld::on_add(const guest::Region& r) {
  if (DebugMemory::is_free_of(r.start, r.end)) return;
  throw Error(
      fmt::format("{}: the recorded program maps memory at {:#x} to {:#x}, where the debug code is; that can "
                  "run up to here only (--to)",
                  place(context().tick, context().rip), r.start, r.end));
}

void DebugWorld::load(const guest::ElfImage& elf) {
  memory_.reserve(process_.map);
  process_.map.set_listener(this);
  DebugMemory::Start start = memory_.load(elf);
  process_.engine().admit_probe(std::move(start.code));
  const DebugClock clock(true);
  set_aside({context().tick, 0, context().rip}, process_.current().name);
  bs_debug.stack = start.stack;
  bs_debug.knows_in_use = knows_in_use();
  bs_debug.tap = Tap::kNobodys, bs_debug.number = kNoTap;
  begin({start.entry}, {});
  context().gpr[RSP] = start.stack;
  context().gpr[RDI] = 0;
  run_to_end(std::nullopt);
  if (!failure_.empty()) throw Error("the debug code cannot be started: it " + failure_);
}

void DebugWorld::set_aside(const Position& at, int thread) {
  const Context& ctx = context();
  SetAside& g = bs_debug.guest;
  std::copy(std::begin(ctx.gpr), std::end(ctx.gpr), g.gpr);
  g.rip = ctx.rip, g.rflags = ctx.rflags, g.fs_base = ctx.fs_base, g.gs_base = ctx.gs_base;
  g.tick = ctx.tick, g.limit = ctx.limit;
  g.all_vectors = true;
  g.evex_seen = engine::bs_cache.evex_seen;
  std::memcpy(g.xsave, ctx.xsave, sizeof g.xsave);
  bs_debug.at = at;
  bs_debug.thread = thread;
  bs_debug.on_hot = false;
}

void DebugWorld::begin(const Call& what, const DebugEvent& event) {
  Context& ctx = context();
  tell_debug(bs_debug, event, what.vector ? bs_debug.guest.xsave : nullptr);
  bs_debug.running = true;
  bs_debug.rung = 0;
  bs_debug.calls++;
  bs_debug.function = what.function;
  engine::bs_cache.in_probe = true;
  failure_.clear();
  std::fill(std::begin(ctx.gpr), std::end(ctx.gpr), 0);
  ctx.gpr[RDI] = reinterpret_cast<uint64_t>(kDebugRegisters);
  ctx.gpr[RSI] = what.cookie;
  ctx.gpr[RSP] = bs_debug.stack - sizeof(uint64_t);
  std::memcpy(reinterpret_cast<void*>(ctx.gpr[RSP]), &bs_debug.done, sizeof bs_debug.done);
  ctx.rip = what.function;
  ctx.rflags = 0x202;
  ctx.fs_base = bs_debug.fs_base;
  ctx.gs_base = 0;
  ctx.limit = ~0ull;
  set_vector_bits(ctx.xsave, 0);
  constexpr uint32_t kMxcsr = 0x1f80;
  std::memcpy(ctx.xsave + 24, &kMxcsr, sizeof kMxcsr);
}

void DebugWorld::give_back() {
  undo_.finish();
  memory_.forget();
  Context& ctx = context();
  const SetAside& g = bs_debug.guest;
  std::copy(std::begin(g.gpr), std::end(g.gpr), ctx.gpr);
  ctx.rip = g.rip, ctx.rflags = g.rflags, ctx.fs_base = g.fs_base, ctx.gs_base = g.gs_base;
  ctx.tick = g.tick, ctx.limit = g.limit;
  ctx.target = kNoTarget;
  ctx.branch_site = 0;
  if (g.all_vectors) {
    std::memcpy(ctx.xsave, g.xsave, sizeof g.xsave);
  } else {
    // The rest is as it was, unless a function of the program was the first to use it just now.
    constexpr uint64_t kHere = 7;
    constexpr size_t kLegacy = 512, kHigh = 576, kHighSize = 256;
    uint64_t rest = vector_bits(ctx.xsave) & ~kHere;
    if (engine::bs_cache.evex_seen) rest = 0;
    std::memcpy(ctx.xsave, g.xsave, kLegacy);
    std::memcpy(ctx.xsave + kHigh, g.xsave + kHigh, kHighSize);
    set_vector_bits(ctx.xsave, (vector_bits(g.xsave) & kHere) | rest);
  }
  engine::bs_cache.in_probe = false;
  bs_debug.running = bs_debug.on_hot = false;
}

void DebugWorld::call(const HotTap& tap, const Surroundings& around, const Position& at, int thread) {
  if (!bs_debug.ready || bs_debug.running) return;
  bs_debug.tap = tap.owner, bs_debug.number = tap.number;
  set_aside(at, thread);
  auto known = [&](StateWord word) { return around.known_state >> word & 1 ? around.state[word] : 0; };
  DebugEvent event;
  event.address = known(kStateAddress), event.number = known(kStateNumber);
  event.value[1] = context().gpr[RAX];
  if (event.address) event.value[0] = known(kStateOld), event.value[1] = known(kStateNew);
  begin({tap.function, tap.cookie, tap.vector}, event);
  run_to_end(std::nullopt);
}

void DebugWorld::end_of_window(const Position& at, int thread) {
  if (!bs_debug.finish || bs_debug.running) return;
  const DebugClock clock(true);
  bs_debug.tap = Tap::kNobodys, bs_debug.number = kNoTap;
  set_aside(at, thread);
  begin({bs_debug.finish}, {});
  run_to_end(std::nullopt);
}

std::optional<engine::Stop> DebugWorld::finish(const std::optional<engine::Stop>& stop) {
  bs_debug.on_hot = false;  // it ends here, or the guest would go on in our loop
  run_to_end(stop);
  engine::bs_cache.answered = {context().tick, context().rip};
  const bool due_now = bs_replay.timer ? bs_replay.rung : interrupted && interrupted();
  if (due_now || stop_ || callbacks_changed_) {
    engine::Stop due{engine::Stop::Signal, {}, {}};
    due.fault.exact = true;
    return due;
  }
  process_.engine().pass_break();
  return std::nullopt;
}

void DebugWorld::run_to_end(std::optional<engine::Stop> stop) {
  for (;;) {
    if (!stop) stop = process_.engine().run();
    if (stop->kind == engine::Stop::Watched) {
      std::optional<engine::Stop> inner;
      if (on_checked_store(inner) == Next::Over) break;
      stop = inner;
      if (!stop) continue;
    }
    if (react(*stop) == Next::Over) break;
    stop.reset();
  }
  give_back();
}

DebugWorld::Next DebugWorld::react(const engine::Stop& stop) {
  switch (stop.kind) {
    case engine::Stop::Syscall:
      return engine::bs_cache.in_probe ? on_call() : program_call();
    case engine::Stop::HostOp:
      return on_host_op(stop.insn);
    case engine::Stop::Fault:
      return on_fault(stop.fault);
    case engine::Stop::BadFetch:
      return cross();
    case engine::Stop::Signal:
      return on_clock();
    case engine::Stop::Break:  // a place in a function of the program
      process_.engine().pass_break();
      return Next::GoOn;
    case engine::Stop::TickStop:
    case engine::Stop::Watched:
      return Next::GoOn;
  }
  return Next::GoOn;
}

DebugWorld::Next DebugWorld::on_clock() {
  if (interrupted && interrupted()) return fail("was interrupted");
  if (bs_debug.rung < most_seconds() * kStepsInSecond) return Next::GoOn;
  // It would take as long the next time.
  const bool again = bs_debug.number != kNoTap;
  retire();
  return fail(fmt::format("has run for {:g} seconds in one call: an endless loop?{}", most_seconds(),
                          again ? " From here on it is not called any more" : ""));
}

// A store that translated code has found outside, or could not check.
DebugWorld::Next DebugWorld::on_checked_store(std::optional<engine::Stop>& inner) {
  if (engine::bs_cache.in_probe) {
    const guest::Instruction in = guest::instruction_at_rip();
    if (!in.known) return fail("writes to memory by an instruction that cannot be checked");
    for (const guest::Accessed& a : in.accesses) {
      if (!a.write || DebugMemory::owns(a.start, a.length)) continue;
      const bool guests = process_.map.find(a.start) != nullptr;
      return fail(fmt::format(
          "writes to {}, {}", where(a.start),
          guests ? "memory of the recorded program, which stays as it was" : "where nothing of its own is"));
    }
  }
  inner = process_.engine().step();
  return Next::GoOn;
}

DebugWorld::Next DebugWorld::on_fault(const engine::FaultInfo& fault) {
  if (undo_.watching() && undo_.open(fault)) return Next::GoOn;
  if (process_.alias_write(fault)) return Next::GoOn;
  const std::string who = engine::bs_cache.in_probe ? "" : "calls a function of the program that ";
  switch (fault.signo) {
    case SIGSEGV:
    case SIGBUS: {
      if (memory_.is_below_stack(fault.address)) return fail("has used up its stack: an endless recursion?");
      if (fault.trapno != 14) return fail(who + "uses an address that is none (a wild pointer)");
      const char* does = fault.error & engine::kWriteFault ? "writes to" : "reads from";
      return fail(fmt::format("{}{} {}, where {}", who, does, where(fault.address),
                              process_.map.find(fault.address) ? "it may not" : "nothing is"));
    }
    case SIGFPE:
      return fail(who + "divides by zero, or by a number for which the result has no room");
    case SIGILL:
      return fail(
          who +
          "has come to an instruction that it cannot use (code for AVX-512, compiled with -march=native?"
          " __builtin_trap, __builtin_unreachable?)");
    default:
      return fail(fmt::format("{}has met a trap (signal {})", who, fault.signo));
  }
}

DebugWorld::Next DebugWorld::on_host_op(const isa::Insn& insn) {
  Context& ctx = context();
  if (const engine::HostOp op = engine::host_op_of(insn); op != engine::HostOp::None) {
    engine::HostValues values = engine::sample(op, ctx);
    if (op == engine::HostOp::Cpuid)
      guest::hide_features(guest::CpuLevel::Machine, static_cast<uint32_t>(ctx.gpr[RAX]),
                           static_cast<uint32_t>(ctx.gpr[RCX]), values.value);
    if (op == engine::HostOp::Xgetbv) values.value[0] = process_.xcr0;
    engine::apply(op, insn, values, ctx);
    return Next::GoOn;
  }
  const engine::GuestAccess access{
      [&](Address a, uint64_t n) { return DebugMemory::owns(a, n) || process_.readable(a, n); },
      [&](Address a, uint64_t n) {
        return DebugMemory::owns(a, n) || (!engine::bs_cache.in_probe && undo_.open(a, n));
      }};
  Address at = 0;
  switch (engine::emulate(insn, ctx, process_.xcr0, access, &at)) {
    case engine::Emulated::Done:
      return Next::GoOn;
    case engine::Emulated::MemoryFault:
      return fail(fmt::format("reaches {}, where it may not", where(at)));
    default:
      return fail("has come to an instruction that it cannot use");
  }
}

DebugWorld::Next DebugWorld::cross() {
  Context& ctx = context();
  const bool leaves = engine::bs_cache.in_probe;
  const bool on_stack = DebugMemory::owns(ctx.gpr[RSP], sizeof(uint64_t));
  if (leaves && !layout::is_probe(ctx.rip)) {
    const auto [start, end] = process_.map.executable_range(ctx.rip);
    if (start == end) return fail(fmt::format("jumps to {}, where no code is", where(ctx.rip)));
    if (!on_stack || !bs_debug.ready)
      return fail(fmt::format("jumps into the recorded program, to {}; it can only call functions of it",
                              where(ctx.rip)));
    if (!undo_.watching()) memory_.remember();
    undo_.begin();
    bs_debug.fs_base = ctx.fs_base;
    ctx.fs_base = bs_debug.guest.fs_base;
    ctx.gs_base = bs_debug.guest.gs_base;
    engine::bs_cache.in_probe = false;
    return Next::GoOn;
  }
  if (!leaves && layout::is_probe(ctx.rip) && on_stack) {
    ctx.fs_base = bs_debug.fs_base;
    ctx.gs_base = 0;
    engine::bs_cache.in_probe = true;
    return Next::GoOn;
  }
  return fail(fmt::format("{}jumps to {}, where no code is",
                          leaves ? "" : "calls a function of the program that ", where(ctx.rip)));
}

bool DebugWorld::is_silent() const {
  return is_session(mode) && !bs_replay.output;
}

void DebugWorld::note(DebugNote kind, std::string_view text) {
  if (!bs_debug.ready) {
    early_.emplace_back(kind, text);
    acted_ = true;
    return;
  }
  if (is_silent()) return;
  if (mode == DebugMode::Session && (kind == DebugNote::Output || kind == DebugNote::Errors)) {
    print(kind == DebugNote::Output ? STDOUT_FILENO : STDERR_FILENO, text);
    return;
  }
  const std::span bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  taps_.log_note(bs_debug.tap, bs_debug.at, bs_debug.thread, {bytes_of(kind), bytes});
}

void DebugWorld::tell_what_was_early(const Position& at) {
  bs_debug.at = at, bs_debug.thread = process_.current().name;
  bs_debug.tap = Tap::kNobodys;
  for (const auto& [kind, text] : std::exchange(early_, {})) note(kind, text);
}

DebugWorld::Next DebugWorld::fail(const std::string& sentence) {
  failure_ = sentence;
  if (bs_debug.ready) note_with_stack(DebugNote::Failure, sentence);
  return Next::Over;
}

void DebugWorld::complain(const std::string& sentence) {
  bs_debug.ready ? note_with_stack(DebugNote::Complaint, sentence) : note(DebugNote::Complaint, sentence);
}

// With registers and stack as Tap::stack has them, for the names of what was executed.
void DebugWorld::note_with_stack(DebugNote kind, const std::string& sentence) {
  if (is_silent()) return;
  const Context& ctx = context();
  static constexpr std::array kOrder = {RAX, RDX, RCX, RBX, RSI, RDI, RBP, RSP,
                                        R8,  R9,  R10, R11, R12, R13, R14, R15};
  std::vector<uint64_t> state;
  for (int r : kOrder) state.push_back(ctx.gpr[r]);
  state.push_back(ctx.rip);
  constexpr uint64_t kMostWords = 4096;
  const Address from = ctx.gpr[RSP] & ~7ull;
  const Address end = bs_debug.stack;
  if (DebugMemory::owns(from, sizeof(uint64_t)) && from < end) {
    const uint64_t words = std::min<uint64_t>((end - from) / sizeof(uint64_t), kMostWords);
    const size_t at = state.size();
    state.resize(at + words);
    if (!bs_guarded_copy(&state[at], reinterpret_cast<const void*>(from), words * sizeof(uint64_t)))
      state.resize(at);
  }
  const std::span text(reinterpret_cast<const uint8_t*>(sentence.data()), sentence.size());
  const std::span bytes(reinterpret_cast<const uint8_t*>(state.data()), state.size() * sizeof state[0]);
  taps_.log_note(bs_debug.tap, bs_debug.at, bs_debug.thread, {bytes_of(kind), text, bytes});
}

}  // namespace backstep::replayer
