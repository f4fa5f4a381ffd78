// Signal handlers. A fault in cache code is the guest's own fault (or one of ours by design: a jump table
// miss, a store to a watched page); the handler copies the guest's registers out of the signal frame into the
// context and lets the kernel resume on the host stack, in bs_fault_resume. Handlers run with whatever FS
// base was loaded, so they are hot-world code on an alternate stack.
#include <ucontext.h>

#include <csignal>

#include "base/hot.h"
#include "engine/cache.h"
#include "engine/emit.h"
#include "engine/entry.h"
#include "engine/hooks.h"

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

void copy_state(Context& ctx, const ucontext_t* uc) {
  for (int i = 0; i < 16; i++) ctx.gpr[i] = static_cast<uint64_t>(uc->uc_mcontext.gregs[kGregs[i]]);
  ctx.rflags = static_cast<uint64_t>(uc->uc_mcontext.gregs[REG_EFL]) & ~0x10000ull;  // not RF
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
  if (synchronous && pc == reinterpret_cast<uint64_t>(&bs_guarded_insn)) {
    uc->uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(&bs_guarded_fail);
    return;
  }
  if (synchronous && ctx.in_guest) {
    if (pc == 0) {
      // `jmp r11` through an empty jump table entry: a miss. State is as at any miss.
      uc->uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(&bs_exit_miss);
      return;
    }
    const bool lookup = in_cache && signo == SIGSEGV && is_lookup(pc);
    if (lookup && canonical(static_cast<uint64_t>(uc->uc_mcontext.gregs[REG_R11]))) {
      // The target lies beyond the jump table: this site takes the wide way from now on.
      take_wide_way(uc, static_cast<uint32_t>(pc));
      return;
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
      if (lookup) bs_fault_info = no_address(static_cast<uint32_t>(pc));
      uc->uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(&bs_fault_resume);
      uc->uc_mcontext.gregs[REG_RSP] = static_cast<greg_t>(ctx.host_rsp);
      uc->uc_mcontext.gregs[REG_EFL] &= ~0x400;
      return;
    }
  }
  if (bs_hooks.signal_hot(signo, info, frame, in_cache && ctx.in_guest)) {
    copy_state(ctx, uc);
    bs_fault_info = {signo, info->si_code, 0, 0, 0, 0, 0};
    uc->uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(&bs_fault_resume);
    uc->uc_mcontext.gregs[REG_RSP] = static_cast<greg_t>(ctx.host_rsp);
    uc->uc_mcontext.gregs[REG_EFL] &= ~0x400;
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
