// Setting up, entering and leaving the cache; turning faults in cache code into facts about the guest.
#include "engine/engine.h"

#include <cpuid.h>
#include <fmt/format.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error.h"
#include "base/room_for_memory.h"
#include "engine/emit.h"
#include "engine/entry.h"
#include "engine/report.h"

extern "C" {
void bs_signal(int, siginfo_t*, void*);
void bs_sigreturn();
int arch_prctl(int, unsigned long);
}

namespace backstep::engine {
namespace {

constexpr int kArchSetGs = 0x1001, kArchGetFs = 0x1003;

void map_fixed(uint64_t address, uint64_t size, int prot, const char* what) {
  void* p = mmap(reinterpret_cast<void*>(address), size, prot,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (p != reinterpret_cast<void*>(address)) {
    int err = errno;
    if (p != MAP_FAILED) munmap(p, size);
    throw Error(
        fmt::format("cannot reserve {} MB of addresses at {:#x} for {}: {}. A limit on virtual memory "
                    "(ulimit -v) or strict overcommit is the usual cause; lift it and try again.",
                    size >> 20, address, what, p == MAP_FAILED ? errno_text(err) : "occupied"));
  }
}

void make_pads() {
  void (*const targets[])() = {bs_exit_branch, bs_exit_miss,    bs_exit_hostop, bs_exit_tick,
                               bs_wide_lookup, bs_exit_syscall, bs_probe_lookup};
  static_assert(std::size(targets) == static_cast<size_t>(Pad::Count));
  for (uint32_t i = 0; i < std::size(targets); i++) {
    Emitter e{reinterpret_cast<uint8_t*>(static_cast<uint64_t>(pad_address(static_cast<Pad>(i))))};
    e.u8(0xff), e.u8(0x25), e.u32(2),
        e.u16(0x9066);  // jmp [rip+2]; the address is aligned: the guest may set AC
    e.u64(reinterpret_cast<uint64_t>(targets[i]));
  }
}

void make_signal_stack() {
  constexpr size_t kSize = 256 << 10;
  void* stack = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack_t alt{stack, 0, kSize};
  if (stack == MAP_FAILED || sigaltstack(&alt, nullptr) != 0)
    throw Error("cannot set up a signal stack: " + errno_text(errno));
}

Machine look_at_machine() {
  Machine m;
  unsigned a, b, c, d;
  if (__get_cpuid(1, &a, &b, &c, &d) && (c & (1u << 27))) {
    unsigned low, high;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    m.xcr0 = low | static_cast<uint64_t>(high) << 32;
  }
  m.fsgsbase = getauxval(AT_HWCAP2) & 2;
  m.bmi2 = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & (1u << 8)) && (m.xcr0 & 4);
  bool avx512 =
      __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & (1u << 16)) && (b & (1u << 17)) && (b & (1u << 31));
  if (avx512 && (m.xcr0 & 0xe6) == 0xe6 && __get_cpuid_count(0xd, 7, &a, &b, &c, &d))
    m.hi16_offset = b, m.vector_counter = b + 1024 <= kXsaveSize;
  return m;
}

// The guest's r11, when the guest was interrupted in an indirect branch.
uint64_t r11_of_branch(const Context& ctx) {
  if (!r11_in_vector()) return ctx.spill_r11;
  uint64_t r11;  // the counter's steps (xmm30) are never 0, so the area has these registers
  std::memcpy(&r11, ctx.xsave + bs_cache.hi16_offset + 13 * 64, sizeof r11);
  return r11;
}

}  // namespace

// Virtual machines take their time over each cpuid: it is asked once.
const Machine& this_machine() {
  static const Machine machine = look_at_machine();
  return machine;
}

void install_handler(int signo, uint64_t extra_flags) {
  struct {
    void (*handler)(int, siginfo_t*, void*);
    unsigned long flags;
    void (*restorer)();
    unsigned long mask;
  } action{bs_signal, SA_SIGINFO | SA_ONSTACK | 0x04000000 | extra_flags, bs_sigreturn, ~0ul};
  syscall(SYS_rt_sigaction, signo, &action, nullptr, 8);
}

Engine::Engine(const EngineOptions& options, std::function<std::optional<FetchRange>(Address)> fetch)
    : fetch_(std::move(fetch)) {
  make_room_for_memory();
  Machine machine = this_machine();
  if (!(machine.xcr0 & 2))
    throw Error("this CPU or kernel has no XSAVE; Backstep needs it (any x86-64 machine since 2011 has it)");
  uint64_t size =
      std::clamp<uint64_t>(options.cache_size, 64 << 10, layout::kCacheMax) & ~(layout::kPage - 1);
  map_fixed(layout::kHotPage, sizeof(Context), PROT_READ | PROT_WRITE, "the guest's context");
  map_fixed(layout::kFence, layout::kHotPage + layout::kHotSize - layout::kFence, PROT_NONE, "the fence");
  map_fixed(layout::kWatchMap, layout::kWatchMapSize, PROT_READ | PROT_WRITE, "the watch map");
  map_fixed(layout::kCacheStart, size, PROT_READ | PROT_WRITE | PROT_EXEC, "the code cache");
  map_fixed(layout::kJumpTable, layout::kJumpTableSize, PROT_READ | PROT_WRITE, "the jump table");
  map_fixed(layout::kArenas, kArenasTotal, PROT_READ | PROT_WRITE, "engine tables");
  madvise(reinterpret_cast<void*>(layout::kJumpTable), layout::kJumpTableSize, MADV_NOHUGEPAGE);
  madvise(reinterpret_cast<void*>(layout::kArenas), kArenasTotal, MADV_NOHUGEPAGE);
  // Big programs feel the instruction TLB; small ones should not pay for clearing 2 MB pages.
  constexpr uint64_t kHuge = 2 << 20;
  if (size > 4 * kHuge)
    madvise(reinterpret_cast<void*>(layout::kCacheStart + kHuge), size - 2 * kHuge, MADV_HUGEPAGE);

  Context& ctx = context();
  bool vector = machine.vector_counter && options.counter != EngineOptions::Counter::Memory;
  if (options.counter == EngineOptions::Counter::Vector && !vector)
    throw Error(
        "this CPU cannot count in a vector register (it has no AVX-512DQ and VL); use "
        "--engine-counter=memory");
  ctx.features = 0;
  if (machine.fsgsbase) ctx.features |= kHaveFsgsbase;
  if (vector) ctx.features |= kVectorCounter;
  if (machine.xcr0 & 4) ctx.features |= kHaveAvx;
  if (machine.bmi2) ctx.features |= kHaveBmi2;
  ctx.save_mask = machine.xcr0 & kSavedComponents;
  ctx.limit = ~0ull;
  ctx.one[0] = ctx.one[1] = 1;
  ctx.jump_table = layout::kJumpTable;
  ctx.rflags = 0x202;
  // The host's FS base never changes: one host thread runs guests.
  asm volatile("mov %%fs:0, %0" : "=r"(ctx.host_fs));
  if (machine.fsgsbase) {
    asm volatile("wrgsbase %0" : : "r"(layout::kJumpTable));
  } else {
    syscall(SYS_arch_prctl, kArchSetGs, layout::kJumpTable);
  }
  // Initial vector state: XSTATE_BV 0 means 'initial' for XRSTOR; MXCSR is read regardless.
  uint32_t mxcsr = 0x1f80;
  std::memcpy(ctx.xsave + 24, &mxcsr, 4);

  bs_cache.hi16_offset = machine.hi16_offset;
  bs_cache.size = size;
  bs_cache.max_block = std::clamp(options.max_block, 1u, 64u);
  bs_cache.link = options.links;
  bs_cache.check = options.check_ticks;
  bs_cache.vector = vector;
  make_pads();
  flush();
  make_signal_stack();
  for (int signo : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) install_handler(signo);
}

uint32_t Engine::address_of_rip(std::optional<Stop>& stop) {
  Context& ctx = context();
  bool transient = transient_ == ctx.rip;
  transient_.reset();
  for (;;) {
    uint32_t address = transient || out_of_reach(ctx.rip) ? 0 : find(ctx.rip).cache;
    if (address) return address;
    if (bs_cache.blocks == 1 && looked_after_ != bs_cache.stats.flushes) load_translations();
    switch (translate(ctx.rip, false, transient, &address)) {
      case Result::Ok:
        return address;
      case Result::NeedFlush:
        if (bs_cache.report) {
          reports_.full();
          bs_cache.report_units = kFirstReportUnit;  // nobody knows the old ones any more
          bs_cache.report_generation++;
        }
        flush();
        break;
      case Result::NeedCounter:
        // An AVX-512 instruction: the engine's registers are the guest's from now on. It finds them as at the
        // start of a program, not with our numbers (which a memory counter would not leave).
        if (bs_cache.vector) std::memset(ctx.xsave + bs_cache.hi16_offset + 13 * 64, 0, 3 * 64);
        count_in_memory();
        break;
      case Result::NeedFetch: {
        std::optional<FetchRange> range;
        if (!out_of_reach(ctx.rip)) range = bs_cache.in_probe ? fetch_probe(ctx.rip) : fetch_(ctx.rip);
        if (!range) {
          stop = Stop{Stop::BadFetch, {}, {}};
          return 0;
        }
        bs_cache.fetch[bs_cache.fetch_next++ % kFetchRanges] = *range;
        translations_.activate(*range);
        break;
      }
    }
  }
}

Reason Engine::enter(uint32_t address) {
  Context& ctx = context();
  ctx.resume = address;
  // With more than 32 bits to go the alarm comes too early; after_check() sees that and we are here again.
  constexpr Tick kFull = 1ull << 32;
  Tick left = ctx.limit > ctx.tick ? ctx.limit - ctx.tick : 0;
  ctx.alarm = kFull - std::min(left, kFull);
  const auto reason = static_cast<Reason>(bs_enter());
  if (bs_cache.lanes_used) take_lanes();
  return reason;
}

// Replays with a debugger or a question need them, others not.
void Engine::keep_breaks() {
  if (bs_cache.break_top) return;
  map_fixed(layout::kBreaks, layout::kBreaksSize, PROT_READ | PROT_WRITE, "breakpoints");
  madvise(reinterpret_cast<void*>(layout::kBreaks), layout::kBreaksSize, MADV_NOHUGEPAGE);
  bs_cache.break_top = 1;
  bs_cache.keep_jumps = true;
}

void Engine::translate_here() {
  std::optional<Stop> none;
  if (!transient_) address_of_rip(none);
}

void Engine::pass_break() {
  transient_ = context().rip;
}

bool Engine::is_half_done() const {
  const Context& ctx = context();
  return half_done_ && *half_done_ == std::pair{ctx.tick, ctx.rip};
}

// The guest goes on at `pc`. It may have stopped there because of a fault, so the next instruction need not
// have been executed as often as this one.
static void note_resumed(Address pc) {
  if (!bs_cache.cover) return;
  note_entered(pc);
  const Found found = find(pc);
  if (!found.cache) return;
  const Block& b = kBlocks[found.block];
  const uint8_t* meta = kMeta + b.meta;
  Address at = b.guest;
  unsigned i = 0;
  while (at < pc) at += meta[2 * i++];
  note_entered(pc + meta[2 * i]);
}

// Runs the one instruction at rip. nullopt: done. (One that writes to a page with code on it faults first.)
std::optional<Stop> Engine::step() {
  Context& ctx = context();
  for (;;) {
    std::optional<Stop> stop;
    transient_ = ctx.rip;
    bs_cache.stepping = true;
    uint32_t address = address_of_rip(stop);
    bs_cache.stepping = false;
    if (stop) return stop;
    note_resumed(ctx.rip);
    ctx.stop_request = 2;
    Reason reason = enter(address);
    ctx.stop_request = 0;
    once_more_ = false;
    stop = after_exit(reason);
    if (stop || !once_more_) return stop;
  }
}

Stop Engine::run() {
  Context& ctx = context();
  for (;;) {
    remove_trap();
    if (ctx.stop_request && is_half_done()) {
      std::optional<Stop> stop = step();
      ctx.stop_request = 1;
      if (stop) return *stop;
      continue;
    }
    if (ctx.stop_request) {
      ctx.stop_request = 0;
      Stop stop{Stop::Signal, {}, {}};
      stop.fault.exact = true;
      return stop;
    }
    if (bs_cache.check && ctx.tick >= ctx.limit) return {Stop::TickStop, {}, {}};
    std::optional<Stop> stop;
    uint32_t address = address_of_rip(stop);
    if (stop) return *stop;
    note_resumed(ctx.rip);
    if (auto s = after_exit(enter(address))) return *s;
  }
}

// What the guest left the cache for; nullopt: nothing that concerns our client.
std::optional<Stop> Engine::after_exit(Reason reason) {
  Context& ctx = context();
  switch (reason) {
    case Reason::Dispatch:
      return std::nullopt;
    case Reason::Syscall:
      return Stop{Stop::Syscall, {}, {}};
    case Reason::HostOp: {
      const Exit& exit = kExits[ctx.exit];
      ctx.rip = exit.target;
      if (exit.kind == ExitKind::Break) return Stop{Stop::Break, {}, {}};
      if (exit.kind == ExitKind::Watch) return Stop{Stop::Watched, {}, {}};
      isa::Insn insn;
      if (exit.length) insn = isa::decode(reinterpret_cast<const uint8_t*>(ctx.rip), exit.length);
      return Stop{Stop::HostOp, insn, {}};
    }
    case Reason::TickStop:
      ctx.rip = kExits[ctx.exit].target;
      return Stop{Stop::TickStop, {}, {}};
    case Reason::Fault:
      return after_fault();
  }
  return std::nullopt;
}

// A tick check ran into the fence: the branch is done and counted; only the borrowed register is to be put
// back.
std::optional<Stop> Engine::after_check(const Check& check) {
  Context& ctx = context();
  ctx.gpr[check.reg] = ctx.spill_r11;
  ctx.rip = check.target;
  if (ctx.tick < ctx.limit) return std::nullopt;
  return Stop{Stop::TickStop, {}, {}};
}

// The signal handler has copied the registers; now find the guest instruction and undo what our own code in
// front of it had changed. Indirect branches hold r11 in xmm29 or its spill slot from their first instruction
// on, gs: accesses in the slot, far operands keep the scratch register in spill_any.
std::optional<Stop> Engine::after_fault() {
  Context& ctx = context();
  FaultInfo fault = bs_fault_info;
  if (fault.cache_pc == 0) {
    if (ctx.features & kHaveFsgsbase) asm volatile("wrgsbase %0" : : "r"(layout::kJumpTable));
    ctx.stop_request = 0;
    return Stop{fault.exact && fault.signo == SIGTRAP ? Stop::Break : Stop::Signal, {}, fault};
  }
  if (const Check* check = check_at(fault.cache_pc)) return after_check(*check);
  // Traps (int3, int 4) are reported behind their instruction; int1 is, too, but not under every hypervisor.
  const isa::Insn trap =
      isa::decode(reinterpret_cast<const uint8_t*>(static_cast<uint64_t>(fault.cache_pc)), 15);
  const bool in_front = trap.cls == isa::Class::Trap && trap.map == 0 && trap.opcode == 0xf1;
  const uint32_t trapped = fault.trapno == 3 || fault.trapno == 4 || (fault.trapno == 1 && !in_front) ? 1 : 0;
  fault.cache_pc -= trapped;
  uint32_t id = block_at(fault.cache_pc);
  if (id == 0)
    throw Error(
        fmt::format("internal error: signal {} in the code cache at {:#x}, outside of any block (tick {})",
                    fault.signo, fault.cache_pc, ctx.tick));
  const Block& block = kBlocks[id];
  const uint8_t* meta = kMeta + block.meta;
  uint32_t cache = block.cache;
  Address pc = block.guest;
  unsigned i = 0;
  for (; i < block.count && cache + meta[2 * i + 1] <= fault.cache_pc; i++) {
    pc += meta[2 * i];
    cache += meta[2 * i + 1];
  }
  ctx.rip = pc;
  ReportFault report;
  if (block.report) report = after_report_fault(block, fault.cache_pc - block.cache, i, cache - block.cache);
  if (report.full) {
    ctx.rip = block.guest;
    reports_.full();
    once_more_ = true;
    return std::nullopt;
  }
  if (report.ours) return Stop{Stop::Watched, {}, {}};
  if (trapped && i < block.count) ctx.rip = pc + meta[2 * i];
  if (i < block.count && !trapped) {
    auto* code = reinterpret_cast<const uint8_t*>(pc);
    isa::Insn in = isa::decode(code, meta[2 * i]);
    if (isa::is_repeated_string(in)) half_done_ = {ctx.tick, pc};
    // A branch whose target is no address faults at its lookup, when the stack pointer has moved already.
    const bool at_lookup = fault.cache_pc == cache + meta[2 * i + 1] - sizeof kLookup;
    switch (in.cls) {
      case isa::Class::Ret:
        if (at_lookup) ctx.gpr[RSP] -= 8 + (in.opcode == 0xc2 ? static_cast<uint64_t>(in.rel) : 0);
        if (fault.cache_pc > cache + report.front) ctx.gpr[R11] = r11_of_branch(ctx);
        break;
      case isa::Class::CallInd:
        if (at_lookup) ctx.gpr[RSP] += 8;
        [[fallthrough]];
      case isa::Class::JmpInd:
        if (fault.cache_pc > cache + report.front) ctx.gpr[R11] = r11_of_branch(ctx);
        [[fallthrough]];
      case isa::Class::Gs:
      case isa::Class::Evex:
        if (ctx.features & kHaveFsgsbase) asm volatile("wrgsbase %0" : : "r"(layout::kJumpTable));
        break;
      default:
        break;
    }
    // A far RIP-relative operand: `mov [spill_any], reg` was emitted first; its register is in the code.
    const uint32_t copied = cache + report.front + prefix_at(pc, cache) + (in.gs ? kGsPrologue : 0);
    auto* emitted = reinterpret_cast<const uint8_t*>(static_cast<uint64_t>(copied));
    if (in.disp_at && fault.cache_pc > copied && emitted[0] == 0x48 && emitted[1] == 0x89 &&
        emitted[3] == 0x25) {
      uint32_t slot;
      std::memcpy(&slot, emitted + 4, 4);
      if (slot == BACKSTEP_FIELD(spill_any)) ctx.gpr[emitted[2] >> 3 & 7] = ctx.spill_any;
    }
  }
  if (fault.signo == SIGSEGV && bs_cache.watched_pages) {
    PageCode* page = page_of(fault.address, false);
    if (page && page->watched) {
      // The guest writes to a page that code was translated from. Drop the code; if a block that starts at
      // the writer would come from that page too (its last instruction may lie across the page's end), run
      // the write alone first, or we would be back here for ever; likewise if something was counted or asked
      // in front of it, which has been done.
      Address written = fault.address & ~(layout::kPage - 1);
      Address writer = ctx.rip & ~(layout::kPage - 1);
      invalidate_page(written);
      if (writer == written || writer + layout::kPage == written || find_break(ctx.rip)) transient_ = ctx.rip;
      once_more_ = true;
      return std::nullopt;
    }
  }
  // Where the kernel tells the address of the instruction (SIGFPE, SIGILL), it told ours.
  if (fault.address - layout::kCacheStart < layout::kCacheMax) fault.address = ctx.rip;
  return Stop{Stop::Fault, {}, fault};
}

void Engine::forget(Address start, Address end) {
  reset_fetch();
  // What goes with a library that is unloaded comes back with the next run (or the next load).
  auto invalidate = [&](Address page) {
    if (has_stable_code(page)) translations_.save();
    translations_.forget(start, end);
    invalidate_page(page);
  };
  for (Address page = start & ~(layout::kPage - 1); page < end;) {
    if (bs_cache.pages <= 1) break;
    // Long ranges: walk our pages instead of theirs.
    if (end - page > 4096 * layout::kPage) {
      for (uint32_t i = 1; i < bs_cache.pages; i++)
        if (kPages[i].page >= page && kPages[i].page < end) invalidate(kPages[i].page);
      break;
    }
    invalidate(page);
    page += layout::kPage;
  }
  translations_.forget(start, end);
}

void Engine::prepare_write(Address start, Address end) {
  if (bs_cache.watched_pages) unwatch(start, end);
}

void Engine::count_in_memory() {
  bs_cache.evex_seen = true;
  if (!bs_cache.vector) return;
  bs_cache.vector = false;
  context().features &= ~static_cast<uint64_t>(kVectorCounter);
  flush();
}

void Engine::set_watch(bool watch) {
  change_mode(bs_cache.watch, watch);
}

void Engine::set_check(bool check) {
  change_mode(bs_cache.check, check);
}

// Other code from now on; what there was is kept under the old mode.
void Engine::change_mode(bool& mode, bool value) {
  if (mode == value) return;
  translations_.save();
  mode = value;
  flush();
  load_translations();
}

void Engine::admit_probe(std::vector<DataRange> code) {
  constexpr uint8_t kOthers = 1;
  map_fixed(layout::kOwnMap, layout::kOwnMapSize, PROT_READ | PROT_WRITE, "the map of what debug code owns");
  map_fixed(layout::kProbeJumps, 4 * layout::kProbeSize, PROT_READ | PROT_WRITE, "landings of debug code");
  madvise(reinterpret_cast<void*>(layout::kProbeJumps), 4 * layout::kProbeSize, MADV_NOHUGEPAGE);
  auto* map = reinterpret_cast<uint8_t*>(layout::kOwnMap);
  std::memset(map, kOthers, layout::kOwnMapSize);
  std::memset(map + (layout::kProbeData >> 32), 0, layout::kProbeDataSize >> 32);
  Context& ctx = context();
  ctx.own_low[0] = layout::kProbeData, ctx.own_span[0] = layout::kProbeDataSize;
  ctx.own_low[1] = layout::kProbe, ctx.own_span[1] = layout::kProbeSize;
  probe_code_ = std::move(code);
  bs_cache.probe = true;
}

void Engine::dismiss_probe() {
  forget(layout::kProbe, layout::kProbe + layout::kProbeSize);
  munmap(reinterpret_cast<void*>(layout::kOwnMap), layout::kOwnMapSize);
  munmap(reinterpret_cast<void*>(layout::kProbeJumps), 4 * layout::kProbeSize);
  probe_code_.clear();
  bs_cache.probe = bs_cache.in_probe = false;
}

std::optional<FetchRange> Engine::fetch_probe(Address pc) const {
  for (const DataRange& r : probe_code_)
    if (pc >= r.start && pc < r.end) return FetchRange{r.start, r.end, false, false, {}, 0, 0};
  return std::nullopt;
}

void Engine::set_cover(bool cover) {
  if (cover == bs_cache.cover) return;
  if (cover) {
    translations_.save();
    start_anew(true);
    map_fixed(layout::kCovered, layout::kCoveredSize, PROT_READ | PROT_WRITE, "what was executed");
  } else {
    munmap(kCovered, layout::kCoveredSize);
    start_anew(false);
  }
  bs_cache.covered = 0;
  bs_cache.cover = cover;
  flush();
  bs_cache.covered = 0;
}

std::vector<DataRange> Engine::covered() const {
  if (bs_cache.covered >= kMostCovered) throw Error("more code was executed than can be remembered");
  std::vector<DataRange> all;
  std::copy_if(kCovered, kCovered + bs_cache.covered, std::back_inserter(all),
               [](const DataRange& r) { return r.start < r.end; });
  for (uint32_t i = 1; i < bs_cache.blocks; i++)
    all.push_back({kBlocks[i].guest, kBlocks[i].guest + kBlocks[i].guest_size});
  return all;
}

std::vector<Address> Engine::entered() const {
  std::vector<Address> all;
  for (const DataRange* r = kCovered; r < kCovered + bs_cache.covered; r++)
    if (r->start == r->end) all.push_back(r->start);
  return all;
}

bool Engine::set_shadow(bool shadow) {
  if (!shadow && !bs_cache.shadow) return true;
  auto start_of = [](const layout::Zone& z) { return layout::page_down(layout::shadow_of(z.start)); };
  auto size_of = [&](const layout::Zone& z) {
    return layout::page_up(layout::shadow_of(z.end)) - start_of(z);
  };
  translations_.save();
  for (const layout::Zone& z : layout::kShadowed)
    if (bs_cache.shadow) munmap(reinterpret_cast<void*>(start_of(z)), size_of(z));
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  size_t mapped = 0;
  for (const layout::Zone& z : layout::kShadowed) {
    auto* at = reinterpret_cast<void*>(start_of(z));
    if (!shadow || mmap(at, size_of(z), PROT_READ | PROT_WRITE, kFlags, -1, 0) != at) break;
    madvise(at, size_of(z), MADV_NOHUGEPAGE);  // a mark should not cost 2 MB
    mapped++;
  }
  bs_cache.shadow = mapped == std::size(layout::kShadowed);
  for (size_t i = 0; i < mapped && !bs_cache.shadow; i++) {
    const layout::Zone& z = layout::kShadowed[i];
    munmap(reinterpret_cast<void*>(start_of(z)), size_of(z));
  }
  flush();
  load_translations();
  return bs_cache.shadow == shadow;
}

void Engine::set_report(Reports reports) {
  const bool wanted = reports.stores || reports.loads;
  if (!wanted && !bs_cache.report) return;
  translations_.save();
  constexpr uint64_t kGuard = 2 * layout::kPage;
  if (!bs_cache.report) {
    map_fixed(layout::kReports, layout::kReportsSize, PROT_READ | PROT_WRITE, "reports");
    map_fixed(layout::kReports + layout::kReportsSize, kGuard, PROT_NONE, "the end of reports");
    map_fixed(layout::kReportSites, layout::kReportSitesSize, PROT_READ | PROT_WRITE, "places that report");
    madvise(reinterpret_cast<void*>(layout::kReportSites), layout::kReportSitesSize, MADV_NOHUGEPAGE);
  } else if (!wanted) {
    munmap(reinterpret_cast<void*>(layout::kReports), layout::kReportsSize + kGuard);
    munmap(reinterpret_cast<void*>(layout::kReportSites), layout::kReportSitesSize);
  }
  reports_ = std::move(reports);
  empty_reports();
  Cache& c = bs_cache;
  c.report = wanted;
  c.report_stores = reports_.stores, c.report_loads = reports_.loads;
  c.report_ranges = reports_.code.data();
  c.report_range_count = static_cast<uint32_t>(reports_.code.size());
  c.report_units = kFirstReportUnit;
  c.report_generation++;
  flush();
  load_translations();
}

void Engine::load_translations() {
  if (!anew_) translations_.load();
  looked_after_ = bs_cache.stats.flushes;  // there may be none
}

void Engine::start_anew(bool anew) {
  anew_ = anew;
  looked_after_.reset();
  if (anew) flush();
}

std::string Engine::statistics() const {
  const Statistics& s = bs_cache.stats;
  return fmt::format("engine: {} blocks translated, {} kept ones taken in, {} exits, {} misses, {} flushes",
                     s.blocks, translations_.taken_in(), s.exits, s.misses, s.flushes);
}

void Engine::keep_translations(const std::string& folder, uint64_t start) {
  translations_.use(folder, start);
  translations_.load();
}

}  // namespace backstep::engine
