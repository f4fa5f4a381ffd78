// The engine process: runs the same snippets through the translator, in the part of the recorder and
// replayer.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>

#include "case.h"
#include "engine/engine.h"
#include "engine/host_ops.h"

namespace fuzz {
namespace {

using namespace backstep;
using engine::Engine;
using engine::Stop;

bool inside(Address a, uint64_t n, Address start, uint64_t size) {
  return a >= start && a - start < size && n <= size - (a - start);
}

bool writable(Address a, uint64_t n) {
  for (const Piece& p : kPieces)
    if (inside(a, n, p.start, p.size)) return true;
  for (const CodeArea& area : kAreas)
    if (area.writable && inside(a, n, area.start, kAreaSize)) return true;
  return false;
}

bool readable(Address a, uint64_t n) {
  for (const CodeArea& area : kAreas)
    if (inside(a, n, area.start, kAreaSize)) return true;
  return writable(a, n);
}

std::optional<engine::FetchRange> fetch(Address pc) {
  for (const CodeArea& area : kAreas)
    if (inside(pc, 1, area.start, kAreaSize))
      return engine::FetchRange{area.start, area.start + kAreaSize, area.writable, false, {}, 0};
  return std::nullopt;
}

engine::SignalVerdict on_signal(int signo, void* info, void*, bool in_guest) {
  if (signo == SIGALRM) return engine::SignalVerdict::Stop;
  char text[160];
  int n = std::snprintf(text, sizeof text, "fuzz: signal %d in the engine process, address %p, %s\n", signo,
                        static_cast<siginfo_t*>(info)->si_addr, in_guest ? "guest code" : "host code");
  if (write(2, text, static_cast<size_t>(n)) != n) _exit(4);
  _exit(3);
}

void fault(Outcome& out, int signo, int code, uint64_t trapno) {
  out.end = End::Fault;
  out.signo = signo;
  out.code = code;
  out.trapno = trapno;
}

// As the recorder does it: nothing executable at `address`.
void bad_fetch(Outcome& out, Address address) {
  bool canonical = backstep::canonical(address);
  fault(out, SIGSEGV,
        !canonical ? SI_KERNEL : static_cast<int>(readable(address, 1) ? SEGV_ACCERR : SEGV_MAPERR),
        canonical ? 14 : 13);
  out.has_address = canonical;
  out.address = address;
}

const Case* running;

// The host's instructions. True: go on.
bool host_op(Engine& engine, Outcome& out, const isa::Insn& insn) {
  Context& ctx = context();
  if (insn.cls == isa::Class::Bad) {
    for (const CodeArea& area : kAreas)
      if (inside(ctx.rip, 1, area.start, kAreaSize) && area.start + kAreaSize - ctx.rip < 15) {
        bad_fetch(out, area.start + kAreaSize);
        return false;
      }
    fault(out, SIGSEGV, SI_KERNEL, 13);
    return false;
  }
  if (engine::host_op_of(insn) != engine::HostOp::None) {
    out.end = End::Skipped;
    return false;
  }
  // Different on purpose (see skipped() in generate.cc); a snippet may come to one by chance.
  if (insn.cls == isa::Class::Xsave || insn.cls == isa::Class::Xrstor || insn.cls == isa::Class::Segment) {
    out.end = End::Skipped;
    return false;
  }
  Address address = 0;
  engine::GuestAccess access{readable, [&](Address a, uint64_t n) {
                               if (!writable(a, n)) return false;
                               engine.prepare_write(a, a + n);
                               return true;
                             }};
  const bool environment = insn.cls == isa::Class::FpEnv;
  if (environment) {
    const Address at = engine::effective_address(insn, ctx);
    constexpr uint64_t kAlignmentCheck = 0x40000;  // not emulated
    if (out.environments_size == kMaxEnvironments || (ctx.rflags & kAlignmentCheck) ||
        fetch(at)) {  // into code, of all places
      out.end = End::Skipped;
      return false;
    }
    out.environments[out.environments_size++] = {insn.map == 1                    ? EnvironmentStore::Fxsave
                                                 : insn.opsize && !(insn.rex & 8) ? EnvironmentStore::Short
                                                                                  : EnvironmentStore::Long,
                                                 at};
  }
  switch (engine::emulate(insn, ctx, xsave_layout().mask & 7, access, &address)) {
    case engine::Emulated::Done:
      return true;
    case engine::Emulated::IllegalInstruction:
      fault(out, SIGILL, ILL_ILLOPN, 6);
      return false;
    case engine::Emulated::GeneralProtection:
      fault(out, SIGSEGV, SI_KERNEL, 13);
      // Through the stack segment it would be SIGBUS; the emulation makes no difference there.
      if (environment && running->native.trapno == 12) out.end = End::Skipped;
      // Far returns of other sizes or to other segments, by chance: what faults first there is the CPU's
      // affair.
      if (insn.cls == isa::Class::FarRet || (insn.cls == isa::Class::Iret && !(insn.rex & 8)))
        out.end = End::Skipped;
      return false;
    case engine::Emulated::MemoryFault:
      fault(out, SIGSEGV, SEGV_MAPERR, 14);
      out.has_address = true;
      out.address = address;
      // These touch more than a word; where they begin is the CPU's affair.
      if (environment || insn.cls == isa::Class::FarRet || insn.cls == isa::Class::Iret)
        out.end = End::Skipped;
      return false;
  }
  return false;
}

// Somebody who sends signals to this process as fast as it can take them.
void start_interrupting() {
  engine::install_handler(SIGALRM, SA_RESTART);
  pid_t victim = getpid();
  if (fork() != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Random random(static_cast<uint64_t>(victim));
  while (kill(victim, SIGALRM) == 0)
    for (uint64_t n = random.below(40'000); n > 0; n--) asm volatile("");
  _exit(0);
}

bool syscall_hot(Context& ctx) {
  if (running->syscalls != Syscalls::Hot) return false;
  ctx.gpr[RAX] = kAnswer;
  return true;
}

Drive drive = Drive::Run;
uint64_t interruptions;

void run(Engine& engine, const Case& c, Outcome& out) {
  Context& ctx = context();
  reset_segments();
  running = &c;
  out.end = End::None;
  out.has_address = false;
  out.address = out.error = out.trapno = 0;
  out.trail_size = 0;
  out.environments_size = 0;
  std::memcpy(ctx.gpr, c.start.gpr, sizeof ctx.gpr);
  ctx.rip = c.start.rip;
  ctx.rflags = c.start.rflags;
  ctx.fs_base = c.start.fs_base;
  ctx.gs_base = c.start.gs_base;
  std::memcpy(ctx.xsave, c.start.xsave, kXsave);
  ctx.tick = c.start_tick;
  const bool checked = engine::bs_cache.check;
  const uint64_t limit_step = drive == Drive::Step ? 1 : c.limit_step;
  ctx.limit = checked ? c.start_tick + limit_step : ~0ull;
  // A loop that natively takes no time may take a million steps or stops.
  for (unsigned stops = 0; out.end == End::None; stops++) {
    if (stops > 100'000) out.end = End::Skipped;
    Stop stop{};
    if (drive == Drive::Step) {
      ctx.limit = ctx.tick + 1;
      auto stopped = engine.step();
      if (!stopped) continue;
      stop = *stopped;
    } else {
      stop = engine.run();
    }
    switch (stop.kind) {
      case Stop::Syscall:
        if (c.syscalls == Syscalls::Host) {
          ctx.gpr[RAX] = kAnswer;
          break;
        }
        fault(out, SIGSYS, 2 /*SYS_USER_DISPATCH*/, 0);
        break;
      case Stop::HostOp:
        host_op(engine, out, stop.insn);
        break;
      case Stop::Break:
      case Stop::Watched:
      case Stop::TickStop:
        if (ctx.tick != ctx.limit) {
          std::fprintf(stderr, "fuzz: stopped at tick %lu with limit %lu\n", ctx.tick, ctx.limit);
          _exit(5);
        }
        // trail[i] is where tick start+i+1 began.
        if (ctx.tick - c.start_tick <= kMaxTrail) {
          unsigned at = static_cast<unsigned>(ctx.tick - c.start_tick) - 1;
          while (out.trail_size < at) out.trail[out.trail_size++] = 0;
          out.trail[out.trail_size++] = ctx.rip;
        }
        ctx.limit += limit_step;
        break;
      case Stop::Fault:
        fault(out, stop.fault.signo, stop.fault.code, stop.fault.trapno);
        out.error = stop.fault.error;
        out.has_address =
            stop.fault.signo == SIGSEGV && (stop.fault.code == SEGV_MAPERR || stop.fault.code == SEGV_ACCERR);
        out.address = stop.fault.address;
        // What the engine does not support is #UD there (far branches, near ones with an operand size
        // prefix): a snippet may come to one by changing its code or in the middle of an instruction. Which
        // instructions those are is for tests/unit/decode_test.cc.
        if (out.signo == SIGILL && readable(ctx.rip, 15) &&
            isa::decode(reinterpret_cast<const uint8_t*>(ctx.rip), 15).cls == isa::Class::Forbidden)
          out.end = End::Skipped;
        break;
      case Stop::BadFetch:
        if (ctx.rip == kExit)
          out.end = End::Exit;
        else if (!canonical(ctx.rip))
          // The lookup multiplies by four: a few targets that are no addresses look like ones that are. Then
          // the branch is not known any more that should have faulted.
          out.end = End::Skipped;
        else
          bad_fetch(out, ctx.rip);
        break;
      case Stop::Signal:
        if (stop.fault.exact) {
          interruptions++;
          break;
        }
        std::fprintf(stderr, "fuzz: asynchronous signal %d\n", stop.fault.signo);
        _exit(5);
    }
  }
  State& s = out.state;
  std::memcpy(s.gpr, ctx.gpr, sizeof s.gpr);
  s.rip = ctx.rip;
  s.rflags = ctx.rflags;
  s.fs_base = ctx.fs_base;
  s.gs_base = ctx.gs_base;
  std::memcpy(s.xsave, ctx.xsave, kXsave);
  out.ticks = ctx.tick - c.start_tick;
  out.ticks_known = true;
  out.all_vectors = !(ctx.features & kVectorCounter);
  get_memory(out.memory);
}

// An AVX-512 instruction: from here on the counter is in memory and all vector registers are the guest's.
void warm_up(Engine& engine) {
  Case c{};
  c.at = kAreas[0].start;
  const uint8_t code[] = {0x62, 0xf1, 0x7d, 0x48, 0xef, 0xc0, 0x0f, 0x0b};  // vpxord zmm0, zmm0, zmm0; ud2
  std::memcpy(reinterpret_cast<void*>(c.at), code, sizeof code);
  c.limit_step = 1;
  c.start.rip = c.at;
  c.start.rflags = 0x202;
  uint32_t mxcsr = 0x1f80;
  std::memcpy(c.start.xsave + 24, &mxcsr, 4);
  run(engine, c, c.translated);
}

}  // namespace

void engine_process(Shared& shared, int in, int out, const EngineOptions& options, bool evex, Drive how) try {
  map_memory();
  engine::bs_hooks = {syscall_hot, [](Context&, const isa::Insn&) { return false; }, on_signal, nullptr};
  Engine engine(options, fetch);
  if (evex) warm_up(engine);
  drive = how;
  if (drive == Drive::Interrupt) start_interrupting();
  char byte;
  while (read(in, &byte, 1) == 1) {
    for (const CodeArea& area : kAreas) {
      engine.forget(area.start, area.start + kAreaSize);
      mprotect(reinterpret_cast<void*>(area.start), kAreaSize, PROT_READ | PROT_WRITE);
    }
    put_code(shared);
    for (const CodeArea& area : kAreas)
      if (!area.writable) mprotect(reinterpret_cast<void*>(area.start), kAreaSize, PROT_READ);
    for (unsigned i = 0; i < shared.count; i++) {
      shared.current = i;
      Case& c = shared.cases[i];
      c.translated.end = End::Skipped;
      if (!comparable(c)) continue;
      set_memory(c.memory);
      if (kAreas[c.area].writable) {  // an earlier case may have written here
        const Piece piece = cleared_by(c);
        engine.prepare_write(piece.start, piece.start + piece.size);
        engine.forget(piece.start, piece.start + piece.size);
        put_code(c);
      }
      run(engine, c, c.translated);
    }
    if (!evex && engine::bs_cache.evex_seen) shared.reborn = true;
    shared.interruptions += interruptions;
    interruptions = 0;
    if (write(out, &byte, 1) != 1) break;
  }
  _exit(0);
} catch (const std::exception& e) {
  std::fprintf(stderr, "fuzz: the engine says: %s\n", e.what());
  _exit(6);
}

}  // namespace fuzz
