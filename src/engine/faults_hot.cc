// Signal handlers. A fault in cache code is the guest's own fault (or one of ours by design: a jump table
// miss, a store to a watched page); the handler copies the guest's registers out of the signal frame into the
// context and lets the kernel resume on the host stack, in bs_fault_resume. Handlers run with whatever FS
// base was loaded, so they are hot-world code on an alternate stack.
#include <sys/syscall.h>
#include <ucontext.h>

#include <csignal>

#include "base/hot.h"
#include "engine/cache.h"
#include "engine/emit.h"
#include "engine/entry.h"
#include "engine/hooks.h"
#include "isa/decode.h"

namespace backstep::engine {

FaultInfo bs_fault_info;

FaultInfo no_address(uint32_t cache_pc) {
  return {SIGSEGV, SI_KERNEL, 0, 0, 13 /*#GP*/, 0, cache_pc};
}

namespace {

constexpr int kGregs[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                            REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

constexpr unsigned kFpMagicOffset = 464;  // sw_reserved in the legacy area
constexpr uint32_t kFpMagic1 = 0x46505853;

constexpr uint64_t kTrapFlag = 0x100;

void copy_state(Context& ctx, const ucontext_t* uc) {
  for (int i = 0; i < 16; i++) ctx.gpr[i] = static_cast<uint64_t>(uc->uc_mcontext.gregs[kGregs[i]]);
  ctx.rflags = static_cast<uint64_t>(uc->uc_mcontext.gregs[REG_EFL]) & ~0x10000ull;  // not RF
  if (ctx.stop_request) ctx.rflags &= ~kTrapFlag;                                    // that is ours
  auto* area = reinterpret_cast<const unsigned char*>(uc->uc_mcontext.fpregs);
  uint32_t magic, size;
  __builtin_memcpy(&magic, area + kFpMagicOffset, 4);
  __builtin_memcpy(&size, area + kFpMagicOffset + 16, 4);  // xstate_size
  if (magic == kFpMagic1) {
    if (size > kXsaveSize) size = kXsaveSize;
    hot::copy(ctx.xsave, area, size);
    // The kernel's bit vector may name components that we do not keep.
    uint64_t bits;
    __builtin_memcpy(&bits, ctx.xsave + 512, 8);
    if (ctx.features & kVectorCounter) {
      ctx.tick = 0;
      if (bits & 0x80) __builtin_memcpy(&ctx.tick, ctx.xsave + bs_cache.hi16_offset + 15 * 64, 8);
    }
    bits &= ctx.save_mask;
    __builtin_memcpy(ctx.xsave + 512, &bits, 8);
    for (unsigned i = 520; i < 576; i++) ctx.xsave[i] = 0;
  } else {
    hot::copy(ctx.xsave, area, 512);
    uint64_t bits = 3;
    __builtin_memcpy(ctx.xsave + 512, &bits, 8);
  }
}

// Patches the lookup at `site` to go to a stub that notes the site and goes on to the wide lookup.
void take_wide_way(ucontext_t* uc, uint32_t site) {
  constexpr unsigned kStub = 16;
  Cache& c = bs_cache;
  if (static_cast<uint64_t>(c.cold - c.hot) < 4 * kStub) {  // no room: this time only
    context().branch_site = site;
    uc->uc_mcontext.gregs[REG_RIP] = static_cast<greg_t>(pad_address(Pad::Wide));
    return;
  }
  c.cold -= kStub;
  Emitter stub{c.cold};
  const uint32_t address = stub.address();
  stub.store_imm32(BACKSTEP_FIELD(branch_site), site);
  stub.jump(pad_address(Pad::Wide));
  Emitter e{reinterpret_cast<uint8_t*>(static_cast<uint64_t>(site))};
  e.jump(address);
  c.stats.wide_sites++;
}

bool is_lookup(uint64_t pc) {
  auto* code = reinterpret_cast<const uint8_t*>(pc);
  for (unsigned i = 0; i < 9; i++)
    if (code[i] != kLookup[i]) return false;
  return true;
}

// The guest's registers are in the context: go on in the host, as an exit with Reason::Fault.
void leave(Context& ctx, ucontext_t* uc) {
  ctx.target = kNoTarget;  // an indirect branch that faulted is over
  uc->uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(&bs_fault_resume);
  uc->uc_mcontext.gregs[REG_RSP] = static_cast<greg_t>(ctx.host_rsp);
  uc->uc_mcontext.gregs[REG_EFL] &= ~0x500;  // direction and trap flags
}

// The guest is to be stopped at an instruction boundary, where its state is exact and (tick, pc) names the
// place. Cache code between two boundaries is single-stepped; there are only a few instructions of ours
// there. A string instruction may be half done, which no (tick, pc) tells: a trap behind it gets hold of the
// guest when it is over. Code outside of the cache looks at the request by itself, except for the last few
// instructions before the cache and the lookup of far branches, which go on in the cache.
void seek_boundary(Context& ctx, ucontext_t* uc) {
  auto pc = static_cast<uint64_t>(uc->uc_mcontext.gregs[REG_RIP]);
  auto& flags = uc->uc_mcontext.gregs[REG_EFL];
  if (pc >= reinterpret_cast<uint64_t>(&bs_resume_window) &&
      pc < reinterpret_cast<uint64_t>(&bs_resume_end)) {
    flags |= kTrapFlag;
    ctx.rflags |= kTrapFlag;
    return;
  }
  ctx.rflags &= ~kTrapFlag;
  const bool far_branch = pc >= reinterpret_cast<uint64_t>(&bs_wide_lookup) &&
                          pc < reinterpret_cast<uint64_t>(&bs_wide_lookup_end);
  const bool in_cache = pc >= layout::kCacheStart && pc < layout::kCacheStart + bs_cache.size;
  if (!in_cache && !far_branch) {
    flags &= ~static_cast<greg_t>(kTrapFlag);
    return;
  }
  const uint32_t id = in_cache ? block_at(static_cast<uint32_t>(pc)) : 0;
  if (id) {
    const Block& block = kBlocks[id];
    const uint8_t* meta = kMeta + block.meta;
    uint32_t cache = block.cache;
    Address guest = block.guest;
    unsigned i = 0;
    for (; i < block.count && cache < pc; i++) guest += meta[2 * i], cache += meta[2 * i + 1];
    // In the middle of what reports, registers are borrowed.
    const bool borrowed = block.report && i > 0 && i < block.count;
    if (cache == pc && !borrowed) {
      if (i < block.count &&
          isa::is_repeated_string(isa::decode(reinterpret_cast<const uint8_t*>(guest), meta[2 * i]))) {
        remove_trap();
        bs_cache.trap_address = cache + meta[2 * i + 1];
        auto* trap = reinterpret_cast<uint8_t*>(static_cast<uint64_t>(bs_cache.trap_address));
        bs_cache.trap_byte = *trap;
        *trap = kTrapByte;
        flags &= ~static_cast<greg_t>(kTrapFlag);
        return;
      }
      copy_state(ctx, uc);
      ctx.rip = guest;
      bs_fault_info = {};
      bs_fault_info.exact = true;
      leave(ctx, uc);
      return;
    }
  }
  flags |= kTrapFlag;
}

// Is it the trap behind an instruction that was executed alone? The kernel tells that by DR6, in which some
// virtual machines lose the bit now and then: the trap then looks like one of `int1`. While the trap flag is
// set because of a stop request no instruction of the guest's is begun, so it cannot be one. (A SIGTRAP that
// somebody has sent, timers of ours among them, says so in its code; the number of the trap is an old one
// then.)
bool is_step(const siginfo_t* info, const ucontext_t* uc) {
  constexpr greg_t kDebugException = 1;
  return info->si_code == TRAP_TRACE ||
         (info->si_code == TRAP_BRKPT && uc->uc_mcontext.gregs[REG_TRAPNO] == kDebugException &&
          (uc->uc_mcontext.gregs[REG_EFL] & kTrapFlag));
}

// A fault in our own code, which nobody expects, would come again and again. (Once may be a signal that the
// guest has sent to itself, made to look like a fault.)
void stop_if_it_repeats(int signo, uint64_t pc) {
  static uint64_t last;
  static unsigned count;
  constexpr unsigned kMany = 10'000;
  count = pc == last ? count + 1 : 0;
  last = pc;
  if (count < kMany) return;
  static constexpr char kText[] = "backstep: internal error: a fault in Backstep itself\n";
  hot::syscall6(SYS_write, 2, reinterpret_cast<long>(kText), sizeof kText - 1, 0, 0, 0);
  const uint64_t none[4] = {};
  hot::syscall6(SYS_rt_sigaction, signo, reinterpret_cast<long>(none), 0, 8, 0, 0);
}

}  // namespace
}  // namespace backstep::engine

using namespace backstep;
using namespace backstep::engine;

extern "C" void bs_signal(int signo, siginfo_t* info, void* frame) {
  // The kernel leaves the guest's alignment check flag on; our code is not for that.
  asm volatile("pushfq; andq $~0x40000, (%%rsp); popfq" ::: "cc", "memory");
  auto* uc = static_cast<ucontext_t*>(frame);
  Context& ctx = context();
  auto pc = static_cast<uint64_t>(uc->uc_mcontext.gregs[REG_RIP]);
  bool in_cache = pc >= layout::kCacheStart && pc < layout::kCacheStart + layout::kCacheMax;
  bool synchronous = info->si_code > 0 && (signo == SIGSEGV || signo == SIGBUS || signo == SIGFPE ||
                                           signo == SIGILL || signo == SIGTRAP);
  if (synchronous && (pc == reinterpret_cast<uint64_t>(&bs_guarded_insn) ||
                      (pc >= reinterpret_cast<uint64_t>(&bs_guarded_pair) &&
                       pc < reinterpret_cast<uint64_t>(&bs_guarded_pair_end)) ||
                      (pc >= reinterpret_cast<uint64_t>(&bs_guarded_load) &&
                       pc < reinterpret_cast<uint64_t>(&bs_guarded_load_end)))) {
    uc->uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(&bs_guarded_fail);
    return;
  }
  if (signo == SIGTRAP && ctx.in_guest && bs_cache.trap_address && pc == bs_cache.trap_address + 1ull) {
    uc->uc_mcontext.gregs[REG_RIP] = static_cast<greg_t>(bs_cache.trap_address);
    remove_trap();
    seek_boundary(ctx, uc);
    return;
  }
  const bool step = signo == SIGTRAP && is_step(info, uc);
  if (signo == SIGTRAP && !step && in_cache && ctx.in_guest && bs_cache.break_count) {
    if (const Break* b = break_at(static_cast<uint32_t>(pc - 1))) {
      copy_state(ctx, uc);
      ctx.rip = b->pc;
      bs_fault_info = {};
      bs_fault_info.signo = SIGTRAP;
      bs_fault_info.exact = true;
      leave(ctx, uc);
      return;
    }
  }
  if (step && ctx.stop_request && ctx.in_guest) {
    seek_boundary(ctx, uc);
    return;
  }
  if (synchronous && ctx.in_guest) {
    const auto r11 = static_cast<uint64_t>(uc->uc_mcontext.gregs[REG_R11]);
    if (pc == r11 && !in_cache && pc < 1ull << 32) {
      // `jmp r11` through an empty jump table entry, or through something that a wild jump took for one: a
      // miss. State is as at any miss.
      uc->uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(&bs_exit_miss);
      if (ctx.stop_request) uc->uc_mcontext.gregs[REG_EFL] &= ~static_cast<greg_t>(kTrapFlag);
      return;
    }
    if (const uint32_t behind = in_cache && bs_cache.filters ? behind_filter(static_cast<uint32_t>(pc)) : 0) {
      uc->uc_mcontext.gregs[REG_RCX] = 1;
      uc->uc_mcontext.gregs[REG_RIP] = behind;
      return;
    }
    const bool lookup = in_cache && signo == SIGSEGV && is_lookup(pc);
    if (lookup && canonical(r11)) {
      // The target lies beyond the jump table: this site takes the wide way from now on.
      take_wide_way(uc, static_cast<uint32_t>(pc));
      return;
    }
    if (in_cache && signo == SIGSEGV && (bs_cache.watch || bs_cache.probe)) {
      const Check* check = check_at(static_cast<uint32_t>(pc));
      if (check && check->reg & kStoreCheck) {
        uc->uc_mcontext.gregs[kGregs[check->reg & 15]] = static_cast<greg_t>(ctx.spill_r11);
        uc->uc_mcontext.gregs[REG_RIP] = static_cast<greg_t>(widen_store_check(*check));
        return;
      }
    }
    if (in_cache) {
      copy_state(ctx, uc);
      bs_fault_info = {signo,
                       info->si_code,
                       reinterpret_cast<uint64_t>(info->si_addr),
                       static_cast<uint64_t>(uc->uc_mcontext.gregs[REG_ERR]),
                       static_cast<uint64_t>(uc->uc_mcontext.gregs[REG_TRAPNO]),
                       static_cast<uint64_t>(uc->uc_mcontext.gregs[REG_CR2]),
                       static_cast<uint32_t>(pc)};
      if (lookup) {
        bs_fault_info = no_address(static_cast<uint32_t>(pc));
        ctx.target = kNoTarget;  // it was not reached: bs_hot_miss must not find it
      }
      leave(ctx, uc);
      return;
    }
  }
  if (synchronous && !ctx.in_guest) stop_if_it_repeats(signo, pc);
  switch (bs_hooks.signal_hot(signo, info, frame, in_cache && ctx.in_guest)) {
    case SignalVerdict::Later:
      break;
    case SignalVerdict::Stop:
      if (ctx.stop_request == 0) ctx.stop_request = 1;
      if (ctx.in_guest) seek_boundary(ctx, uc);
      break;
    case SignalVerdict::Leave:
      copy_state(ctx, uc);
      bs_fault_info = {};
      bs_fault_info.signo = signo;
      leave(ctx, uc);
      break;
  }
}

// rt_sigreturn, for SA_RESTORER.
asm(R"(
	.text
	.globl bs_sigreturn
	.type bs_sigreturn, @function
bs_sigreturn:
	movl $15, %eax
	syscall
	.size bs_sigreturn, . - bs_sigreturn
)");
