// The native process: runs snippets directly on the CPU.
//
// Every way out ends in `finish`: a jump to kExit stores the state by itself (native_entry.S), a signal's
// frame holds it otherwise. System calls of snippets never reach the kernel: syscall user dispatch turns them
// into SIGSYS. Ticks are counted in a second run of the same snippet under the trap flag, by the rule of the
// specification and with Zydis, that is, independently of the translator.
#include <Zydis/Zydis.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "case.h"

extern "C" {
void fuzz_enter();
void fuzz_resume();
extern fuzz::State fuzz_state;
extern uint64_t fuzz_host_fs, fuzz_mask;
extern uint32_t fuzz_exited;
}

namespace fuzz {
namespace {

constexpr uint64_t kTrapFlag = 0x100, kAlignmentCheck = 0x40000, kResumeFlag = 0x10000;
constexpr Address kGuestEnd = 0x5000'0000'0000;      // nothing of the host lies below
constexpr unsigned kThisArchitecture = 0xc000'003e;  // AUDIT_ARCH_X86_64
constexpr uint64_t kStepLimit = 5'000;

const Case* running;
Outcome* outcome;  // of the snippet that is running; null: none is
Outcome counted;   // of the run under the trap flag
bool stepping;
unsigned alarms;  // timer signals since the snippet began
ZydisDecoder decoder;

// The instruction that the next trap will have executed.
struct Upcoming {
  bool valid;
  Address pc, target;
  uint64_t length;
  enum Kind { Other, Counted, Direct, Pushf, Popf, Lost } kind;
  bool patched;  // popf: the trap flag was added to the word at...
  Address word_at;
  uint64_t word;
} upcoming;
uint64_t steps;
Address stepped_to;  // where the last trap has found it

bool in_stack(Address a) {
  return a >= kStack && a + 8 <= kStack + sizeof(Memory::stack);
}

bool readable_code(Address pc) {
  for (const CodeArea& area : kAreas)
    if (pc >= area.start && pc < area.start + kAreaSize) return true;
  return pc >= kExit && pc < kExit + 4096;
}

void look_ahead(Address pc, Address rsp) {
  upcoming = {};
  if (!readable_code(pc)) return;
  upcoming.pc = pc;
  upcoming.valid = true;
  ZydisDecodedInstruction z;
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, nullptr, reinterpret_cast<void*>(pc), 15, &z)))
    return;
  upcoming.length = z.length;
  switch (z.mnemonic) {
    case ZYDIS_MNEMONIC_RET:
    case ZYDIS_MNEMONIC_CALL:
    case ZYDIS_MNEMONIC_IRETQ:
    case ZYDIS_MNEMONIC_IRETD:
      upcoming.kind = Upcoming::Counted;
      break;
    case ZYDIS_MNEMONIC_PUSHF:
    case ZYDIS_MNEMONIC_PUSHFQ:
      upcoming.kind = Upcoming::Pushf;
      break;
    case ZYDIS_MNEMONIC_POPF:
    case ZYDIS_MNEMONIC_POPFQ:
      upcoming.kind = Upcoming::Popf;
      if (in_stack(rsp)) {
        auto* word = reinterpret_cast<uint64_t*>(rsp);
        upcoming.word = *word;
        upcoming.word_at = rsp;
        upcoming.patched = true;
        *word |= kTrapFlag;
      } else {
        upcoming.kind = Upcoming::Lost;
      }
      break;
    case ZYDIS_MNEMONIC_MOV:  // mov ss holds back the trap behind it
      if (z.opcode == 0x8e) upcoming.kind = Upcoming::Lost;
      break;
    case ZYDIS_MNEMONIC_SGDT:  // done by the kernel (UMIP), which forgets the trap
    case ZYDIS_MNEMONIC_SIDT:
    case ZYDIS_MNEMONIC_SLDT:
    case ZYDIS_MNEMONIC_SMSW:
    case ZYDIS_MNEMONIC_STR:
      upcoming.kind = Upcoming::Lost;
      break;
    default:
      if (z.meta.category == ZYDIS_CATEGORY_UNCOND_BR || z.meta.category == ZYDIS_CATEGORY_COND_BR) {
        bool direct = z.raw.imm[0].is_relative;
        upcoming.kind = direct ? Upcoming::Direct : Upcoming::Counted;
        upcoming.target = pc + z.length + static_cast<uint64_t>(z.raw.imm[0].value.s);
      }
  }
}

// iretq would take the trap flag away: put it into the flags image that it pops.
void keep_stepping_over_iret(Address pc, Address rsp) {
  auto* code = reinterpret_cast<const uint8_t*>(pc);
  if (!upcoming.valid || !(code[0] == 0x48 && code[1] == 0xcf) || !in_stack(rsp + 16)) return;
  auto* word = reinterpret_cast<uint64_t*>(rsp + 16);
  upcoming.patched = true;
  upcoming.word_at = rsp + 16;
  upcoming.word = *word;
  *word |= kTrapFlag;
}

void unpatch() {
  if (upcoming.patched) *reinterpret_cast<uint64_t*>(upcoming.word_at) = upcoming.word;
  upcoming.patched = false;
}

void tick(Address pc) {
  outcome->ticks++;
  if (outcome->trail_size < kMaxTrail) outcome->trail[outcome->trail_size++] = pc;
}

// One instruction was executed and control is at `pc` now.
void on_step(ucontext_t* uc) {
  auto pc = static_cast<Address>(uc->uc_mcontext.gregs[REG_RIP]);
  auto rsp = static_cast<Address>(uc->uc_mcontext.gregs[REG_RSP]);
  steps++;
  stepped_to = pc;
  unpatch();
  if (upcoming.valid) {
    switch (upcoming.kind) {
      case Upcoming::Counted:
        tick(pc);
        break;
      case Upcoming::Direct:
        if (pc == upcoming.target && upcoming.target <= upcoming.pc) tick(pc);
        break;
      case Upcoming::Pushf:
        if (in_stack(rsp))
          *reinterpret_cast<uint64_t*>(rsp) &= ~kTrapFlag;
        else
          outcome->ticks_known = false;
        break;
      case Upcoming::Lost:
        outcome->ticks_known = false;
        break;
      case Upcoming::Popf:
      case Upcoming::Other:
        break;
    }
  }
  if (pc == kExit || (pc >= kGuestEnd && upcoming.valid)) {
    uc->uc_mcontext.gregs[REG_EFL] &= ~static_cast<greg_t>(kTrapFlag);
    upcoming.valid = false;
    return;
  }
  look_ahead(pc, rsp);
  if (upcoming.kind == Upcoming::Counted) keep_stepping_over_iret(pc, rsp);
}

constexpr int kGregs[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                            REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

// The snippet is over: its state from the signal frame, and back to fuzz_enter's caller.
void finish(ucontext_t* uc, uint64_t fs) {
  State& s = fuzz_state;
  for (unsigned i = 0; i < 16; i++) s.gpr[i] = static_cast<uint64_t>(uc->uc_mcontext.gregs[kGregs[i]]);
  s.rip = static_cast<uint64_t>(uc->uc_mcontext.gregs[REG_RIP]);
  s.rflags = static_cast<uint64_t>(uc->uc_mcontext.gregs[REG_EFL]);
  s.fs_base = fs;
  asm volatile("rdgsbase %0" : "=r"(s.gs_base));
  auto* area = reinterpret_cast<const unsigned char*>(uc->uc_mcontext.fpregs);
  uint32_t size;
  std::memcpy(&size, area + 464 + 16, 4);  // xstate_size of the frame
  std::memcpy(s.xsave, area, size < kXsave ? size : kXsave);
  uc->uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(&fuzz_resume);
  uc->uc_mcontext.gregs[REG_EFL] &= ~static_cast<greg_t>(kTrapFlag | kAlignmentCheck | 0x400);
}

void handle(int signo, siginfo_t* info, ucontext_t* uc, uint64_t fs) {
  auto pc = static_cast<Address>(uc->uc_mcontext.gregs[REG_RIP]);
  if (signo == SIGALRM) {
    // Only a snippet that is at it for several timer periods, and in its own code, is stopped.
    if (!outcome || ++alarms < (stepping ? 40 : 3) || pc >= kGuestEnd) return;
    outcome->end = End::Timeout;
    finish(uc, fs);
    return;
  }
  if (!outcome) {
    std::fprintf(stderr, "fuzz: signal %d in the native process itself, at %#lx address %p\n", signo, pc,
                 info->si_addr);
    _exit(3);
  }
  if (signo == SIGTRAP && stepping && info->si_code == TRAP_TRACE) {
    if (steps > kStepLimit) {
      outcome->end = End::Timeout;
      finish(uc, fs);
      return;
    }
    on_step(uc);
    return;
  }
  unpatch();
  if (signo == SIGSYS && info->si_arch == kThisArchitecture && running->syscalls != Syscalls::End) {
    uc->uc_mcontext.gregs[REG_RAX] = static_cast<greg_t>(kAnswer);
    if (!stepping) return;
    // No trap comes for the system call itself, and r11 is not to show the flag.
    uc->uc_mcontext.gregs[REG_R11] &= ~static_cast<greg_t>(kTrapFlag);
    uc->uc_mcontext.gregs[REG_EFL] |= static_cast<greg_t>(kTrapFlag);
    stepped_to = pc;
    look_ahead(pc, static_cast<Address>(uc->uc_mcontext.gregs[REG_RSP]));
    return;
  }
  outcome->end = End::Fault;
  // Virtual machines lose a trap now and then; behind a popf, which takes the flag away, there is no other.
  if (stepping && steps > 0 && signo != SIGTRAP && pc != stepped_to) outcome->ticks_known = false;
  // The snippet set the trap flag (a popf in a loop): not for the engine.
  if (signo == SIGTRAP && info->si_code == TRAP_TRACE) outcome->end = End::Skipped;
  outcome->signo = signo;
  outcome->code = info->si_code;
  outcome->error = static_cast<uint64_t>(uc->uc_mcontext.gregs[REG_ERR]);
  outcome->trapno = static_cast<uint64_t>(uc->uc_mcontext.gregs[REG_TRAPNO]);
  outcome->has_address = signo == SIGSEGV && (info->si_code == SEGV_MAPERR || info->si_code == SEGV_ACCERR);
  outcome->address = reinterpret_cast<uint64_t>(info->si_addr);
  if (signo == SIGSYS && info->si_arch != kThisArchitecture) outcome->end = End::Skipped;  // int 0x80
  finish(uc, fs);
}

// The kernel leaves FS base and the alignment check flag as the snippet had them.
void on_signal(int signo, siginfo_t* info, void* frame) {
  uint64_t fs;
  asm volatile("pushfq; andq %1, (%%rsp); popfq; rdfsbase %0; wrfsbase %2"
               : "=&r"(fs)
               : "i"(static_cast<int>(~kAlignmentCheck)), "r"(fuzz_host_fs)
               : "memory", "cc");
  handle(signo, info, static_cast<ucontext_t*>(frame), fs);
  asm volatile("wrfsbase %0" : : "r"(fs) : "memory");
}

void install_handlers() {
  constexpr size_t kSize = 256 << 10;
  stack_t alt{};
  alt.ss_sp = std::malloc(kSize);
  alt.ss_size = kSize;
  sigaltstack(&alt, nullptr);
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigfillset(&action.sa_mask);
  for (int signo : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGALRM})
    sigaction(signo, &action, nullptr);
  itimerval timer{{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &timer, nullptr);
}

void run(const Case& c, Outcome& out, bool step) {
  set_memory(c.memory);
  reset_segments();
  fuzz_state = c.start;
  out.end = End::None;
  out.ticks = 0;
  out.trail_size = 0;
  out.ticks_known = step;
  fuzz_exited = 0;
  alarms = 0;
  steps = 0;
  stepped_to = 0;
  upcoming = {};
  stepping = step;
  if (step) fuzz_state.rflags |= kTrapFlag;
  running = &c;
  outcome = &out;
  fuzz_enter();
  outcome = nullptr;
  if (fuzz_exited) {
    out.end = End::Exit;
    fuzz_state.rip = kExit;
    if (step && stepped_to != kExit) out.ticks_known = false;
  }
}

}  // namespace

void native_process(Shared& shared, int in, int out) {
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  map_memory();
  mprotect(reinterpret_cast<void*>(kExit), 4096, PROT_EXEC | PROT_READ);
  fuzz_mask = xsave_layout().mask;
  asm volatile("rdfsbase %0" : "=r"(fuzz_host_fs));
  install_handlers();
  constexpr int kDispatch = 59, kOn = 1;
  prctl(kDispatch, kOn, kGuestEnd, 0x8000'0000'0000 - kGuestEnd, nullptr);

  char byte;
  while (read(in, &byte, 1) == 1) {
    for (const CodeArea& area : kAreas)
      mprotect(reinterpret_cast<void*>(area.start), kAreaSize, PROT_READ | PROT_WRITE);
    put_code(shared);
    for (const CodeArea& area : kAreas)
      mprotect(reinterpret_cast<void*>(area.start), kAreaSize,
               PROT_READ | PROT_EXEC | (area.writable ? PROT_WRITE : 0));
    for (unsigned i = 0; i < shared.count; i++) {
      shared.current = i;
      Case& c = shared.cases[i];
      Outcome& o = c.native;
      // Ticks first, if the snippet ends at all; then the run that counts.
      bool stepped = c.stepped;
      if (kAreas[c.area].writable) put_code(c);
      if (stepped) {
        run(c, o, false);
        if (kAreas[c.area].writable) put_code(c);
        stepped = o.end != End::Timeout;
      }
      if (stepped) {
        run(c, counted, true);
        counted.ticks_known &= counted.end != End::Timeout;
        shared.native_steps += steps;
        if (kAreas[c.area].writable) put_code(c);
      } else {
        counted.ticks_known = false;
      }
      if (!c.stepped || stepped) run(c, o, false);
      o.ticks = counted.ticks;
      o.ticks_known = counted.ticks_known;
      o.trail_size = counted.ticks_known ? counted.trail_size : 0;
      std::memcpy(o.trail, counted.trail, sizeof o.trail);
      o.state = fuzz_state;
      std::memset(o.last_code, 0xcc, sizeof o.last_code);
      if (readable_code(o.state.rip) && readable_code(o.state.rip + 15))
        std::memcpy(o.last_code, reinterpret_cast<void*>(o.state.rip), sizeof o.last_code);
      get_memory(o.memory);
    }
    if (write(out, &byte, 1) != 1) break;
  }
  _exit(0);
}

}  // namespace fuzz
