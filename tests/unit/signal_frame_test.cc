// Signal frames: what goes in comes out, the layout is the one of <ucontext.h>, and the kernel of this
// machine is the judge in both directions: it takes down a frame of ours, and we take down one of its.
#include "guest/signal_frame.h"

#include <cpuid.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <vector>

namespace backstep::guest {
namespace {

constexpr uint64_t kAvxVisible = 7;
constexpr uint64_t kSiginfoFlag = SA_SIGINFO, kRestorerFlag = 0x0400'0000;
constexpr size_t kFrameToFlags = 8, kFrameToInfo = 312;
constexpr size_t kMxcsr = 24, kXmm = 160, kSoftware = 464, kXstateBv = 512, kYmmHigh = 576;

template <class T>
T peek(const void* at, size_t offset = 0) {
  T value;
  memcpy(&value, static_cast<const char*>(at) + offset, sizeof value);
  return value;
}
template <class T>
void poke(void* at, size_t offset, T value) {
  memcpy(static_cast<char*>(at) + offset, &value, sizeof value);
}

struct SignalFrame : testing::Test {
  alignas(64) unsigned char stack[16384];
  alignas(64) unsigned char alternate[16384];
  std::unique_ptr<Context> owned = std::make_unique<Context>();
  Context& ctx = *owned;
  SignalState state;
  KernelSigaction action{0x401000, kSiginfoFlag | kRestorerFlag, 0x402000, 0};
  siginfo_t info = {};

  SignalFrame() {
    memset(stack, 0xee, sizeof stack);
    memset(alternate, 0xee, sizeof alternate);
    memset(&ctx, 0, sizeof ctx);
    for (int i = 0; i < 16; i++) ctx.gpr[i] = 0x1111'1111'1111'1111ull * i + 3;
    ctx.gpr[RSP] = top();
    ctx.rip = 0x400123, ctx.rflags = 0x246;
    for (size_t i = 0; i < 416; i++) ctx.xsave[i] = static_cast<unsigned char>(i * 7);
    for (int i = 0; i < 8; i++) memset(ctx.xsave + 32 + 16 * i + 10, 0, 6);
    poke<uint16_t>(ctx.xsave, 0, 0x27f);
    poke<uint16_t>(ctx.xsave, 4, 0x00ff);
    poke<uint16_t>(ctx.xsave, 6, 0x1d9);
    poke<uint32_t>(ctx.xsave, kMxcsr, 0x3fa0);
    poke<uint32_t>(ctx.xsave, kMxcsr + 4, 0xffff);
    poke<uint64_t>(ctx.xsave, kXstateBv, 7);
    for (int i = 0; i < 256; i++) ctx.xsave[kYmmHigh + i] = static_cast<unsigned char>(255 - i);
    info.si_signo = SIGUSR1, info.si_code = SI_USER, info.si_pid = 4711;
  }

  uint64_t top() const { return reinterpret_cast<uint64_t>(stack) + sizeof stack - 40; }

  bool in_stacks(uint64_t addr, uint64_t size) const {
    for (auto* area : {&stack, &alternate}) {
      auto start = reinterpret_cast<uint64_t>(*area);
      if (addr >= start && size <= sizeof *area && addr - start <= sizeof *area - size) return true;
    }
    return false;
  }
  MemoryCheck check() const {
    return [this](uint64_t addr, uint64_t size) { return in_stacks(addr, size); };
  }
  bool push(int signo = SIGUSR1, TrapInfo trap = {}, uint64_t xcr0 = kAvxVisible) {
    return push_signal_frame(ctx, state, action, signo, info, trap, xcr0, check());
  }
  // As the restorer does it: `ret` has popped its address.
  bool pop(uint64_t xcr0 = kAvxVisible) {
    ctx.gpr[RSP] += 8;
    return pop_signal_frame(ctx, state, xcr0, check());
  }
  ucontext_t* uc() { return reinterpret_cast<ucontext_t*>(ctx.gpr[RSP] + kFrameToFlags); }
  unsigned char* fpstate() { return reinterpret_cast<unsigned char*>(uc()->uc_mcontext.fpregs); }
  AltStack use_alternate(int flags = 0) {
    return state.alt = {reinterpret_cast<uint64_t>(alternate), flags, sizeof alternate};
  }
};

TEST_F(SignalFrame, TheFrameHasTheLayoutOfUcontext) {
  Context before = ctx;
  state.mask = 0x800;
  ASSERT_TRUE(push(SIGSEGV, {.err = 6, .trapno = 14, .cr2 = 0xdead000}));

  uint64_t frame = ctx.gpr[RSP];
  EXPECT_EQ(frame % 16, 8u);
  EXPECT_EQ(peek<uint64_t>(reinterpret_cast<void*>(frame)), action.restorer);
  EXPECT_EQ(uc()->uc_flags, 7u);
  EXPECT_EQ(uc()->uc_link, nullptr);
  EXPECT_EQ(uc()->uc_stack.ss_flags, SS_DISABLE);
  const auto& g = uc()->uc_mcontext.gregs;
  constexpr int kOrder[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                              REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  for (int i = 0; i < 16; i++) EXPECT_EQ(static_cast<uint64_t>(g[kOrder[i]]), before.gpr[i]) << i;
  EXPECT_EQ(static_cast<uint64_t>(g[REG_RIP]), before.rip);
  EXPECT_EQ(g[REG_EFL], 0x246);
  EXPECT_EQ(g[REG_CSGSFS], 0x002b'0000'0000'0033);
  EXPECT_EQ(g[REG_ERR], 6);
  EXPECT_EQ(g[REG_TRAPNO], 14);
  EXPECT_EQ(g[REG_CR2], 0xdead000);
  EXPECT_EQ(g[REG_OLDMASK], 0x800);
  EXPECT_EQ(peek<uint64_t>(&uc()->uc_sigmask), 0x800u);
  EXPECT_EQ(memcmp(reinterpret_cast<void*>(frame + kFrameToInfo), &info, sizeof info), 0);

  auto fp = reinterpret_cast<uint64_t>(fpstate());
  EXPECT_EQ(fp % 64, 0u);
  EXPECT_GE(fp, frame + kFrameToInfo + sizeof info);
  EXPECT_LE(fp + 832 + 4, before.gpr[RSP] - 128) << "red zone";
  EXPECT_EQ(uc()->uc_mcontext.fpregs->mxcsr, 0x3fa0u);
  EXPECT_EQ(memcmp(uc()->uc_mcontext.fpregs->_xmm, before.xsave + kXmm, 256), 0);
  EXPECT_EQ(memcmp(fpstate() + kYmmHigh, before.xsave + kYmmHigh, 256), 0);
}

TEST_F(SignalFrame, TheHandlerStartsAsTheKernelStartsIt) {
  Context before = ctx;
  ctx.rflags |= 0x10500;  // DF, TF, RF
  ASSERT_TRUE(push(SIGUSR1));
  EXPECT_EQ(ctx.rip, action.handler);
  EXPECT_EQ(ctx.gpr[RDI], uint64_t{SIGUSR1});
  EXPECT_EQ(ctx.gpr[RSI], ctx.gpr[RSP] + kFrameToInfo);
  EXPECT_EQ(ctx.gpr[RDX], ctx.gpr[RSP] + kFrameToFlags);
  EXPECT_EQ(ctx.gpr[RAX], 0u);
  EXPECT_EQ(ctx.gpr[R12], before.gpr[R12]);
  EXPECT_EQ(ctx.rflags, 0x246u);
  EXPECT_EQ(peek<uint64_t>(ctx.xsave, kXstateBv), 0u) << "handlers start with the initial vector state";
  EXPECT_EQ(peek<uint32_t>(ctx.xsave, kMxcsr), 0x1f80u);
}

TEST_F(SignalFrame, PushThenPopGivesTheSameContext) {
  Context before = ctx;
  SignalState before_state = state;
  ASSERT_TRUE(push());
  EXPECT_EQ(state.mask, 1ull << (SIGUSR1 - 1));
  ASSERT_TRUE(pop());
  EXPECT_EQ(memcmp(before.gpr, ctx.gpr, sizeof ctx.gpr), 0);
  EXPECT_EQ(ctx.rip, before.rip);
  EXPECT_EQ(ctx.rflags, before.rflags);
  EXPECT_EQ(state.mask, before_state.mask);
  // all vector state but the x87 pointers, which frames do not carry
  memset(before.xsave + 6, 0, 18);
  EXPECT_EQ(memcmp(before.xsave, ctx.xsave, 832), 0);
}

TEST_F(SignalFrame, ComponentsThatTheCpuDidNotSaveAreWrittenAsInitial) {
  poke<uint64_t>(ctx.xsave, kXstateBv, 0);  // the bytes themselves are stale
  ASSERT_TRUE(push());
  EXPECT_EQ(peek<uint64_t>(fpstate(), kXstateBv), 7u);
  EXPECT_EQ(peek<uint16_t>(fpstate(), 0), 0x37f);
  for (size_t i = 2; i < kMxcsr; i++) EXPECT_EQ(fpstate()[i], 0) << i;
  EXPECT_EQ(peek<uint32_t>(fpstate(), kMxcsr), 0x3fa0u) << "MXCSR is not part of that";
  for (size_t i = 32; i < kSoftware; i++) EXPECT_EQ(fpstate()[i], 0) << i;
  for (size_t i = kXstateBv + 8; i < 832; i++) EXPECT_EQ(fpstate()[i], 0) << i;
}

TEST_F(SignalFrame, WithoutAvxTheFrameIsSmaller) {
  ASSERT_TRUE(push(SIGUSR1, {}, 3));
  EXPECT_EQ(peek<uint32_t>(fpstate(), kSoftware + 4), 580u);
  EXPECT_EQ(peek<uint64_t>(fpstate(), kSoftware + 8), 3u);
  EXPECT_EQ(peek<uint32_t>(fpstate(), kSoftware + 16), 576u);
  EXPECT_EQ(peek<uint64_t>(fpstate(), kXstateBv), 3u);
  EXPECT_EQ(peek<uint32_t>(fpstate(), 576), uint32_t{FP_XSTATE_MAGIC2});
  ASSERT_TRUE(pop(3));
  EXPECT_EQ(ctx.rip, 0x400123u);
}

// Its place differs: opmasks at 1088 on Intel, at 832 on AMD.
TEST_F(SignalFrame, Avx512TravelsWhenVisible) {
  if (!__builtin_cpu_supports("avx512f")) GTEST_SKIP() << "no AVX-512";
  poke<uint64_t>(ctx.xsave, kXstateBv, 0xe7);
  for (size_t i = 832; i < kXsaveSize; i++) ctx.xsave[i] = static_cast<unsigned char>(i * 3);
  Context before = ctx;
  ASSERT_TRUE(push(SIGUSR1, {}, 0xe7));
  EXPECT_EQ(peek<uint64_t>(ctx.xsave, kXstateBv), 0u);
  memset(ctx.xsave + 832, 0, kXsaveSize - 832);
  ASSERT_TRUE(pop(0xe7));
  EXPECT_EQ(peek<uint64_t>(ctx.xsave, kXstateBv), 0xe7u);
  for (unsigned component : {5, 6, 7}) {
    unsigned size = 0, offset = 0, c, d;
    ASSERT_TRUE(__get_cpuid_count(0xd, component, &size, &offset, &c, &d));
    EXPECT_EQ(memcmp(before.xsave + offset, ctx.xsave + offset, size), 0) << component;
  }
}

TEST_F(SignalFrame, HiddenComponentsAreLeftAlone) {
  poke<uint64_t>(ctx.xsave, kXstateBv, 0xe7);
  memset(ctx.xsave + 832, 0x5a, kXsaveSize - 832);
  std::vector<unsigned char> before(ctx.xsave + 832, ctx.xsave + kXsaveSize);
  ASSERT_TRUE(push());
  EXPECT_EQ(peek<uint64_t>(ctx.xsave, kXstateBv), 0xe0u);
  ASSERT_TRUE(pop());
  EXPECT_EQ(peek<uint64_t>(ctx.xsave, kXstateBv), 0xe7u);
  EXPECT_EQ(memcmp(before.data(), ctx.xsave + 832, before.size()), 0);
}

TEST_F(SignalFrame, WithoutSiginfoThoseBytesStay) {
  action.flags = kRestorerFlag;
  ASSERT_TRUE(push());
  for (size_t i = 0; i < sizeof info; i++) EXPECT_EQ(peek<unsigned char>(uc(), kFrameToInfo - 8 + i), 0xee);
}

TEST_F(SignalFrame, MasksFollowTheAction) {
  action.mask = 1ull << (SIGUSR2 - 1) | 1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1);
  state.mask = 1;
  ASSERT_TRUE(push());
  EXPECT_EQ(state.mask, 1 | 1ull << (SIGUSR2 - 1) | 1ull << (SIGUSR1 - 1));
  poke<uint64_t>(&uc()->uc_sigmask, 0, ~0ull);
  ASSERT_TRUE(pop());
  EXPECT_EQ(state.mask, ~(1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1)));

  state.mask = 0;
  action.mask = 0, action.flags |= SA_NODEFER;
  ctx.gpr[RSP] = top();
  ASSERT_TRUE(push());
  EXPECT_EQ(state.mask, 0u);
}

TEST_F(SignalFrame, AHandlerInsideSigsuspendGoesBackToTheMaskBefore) {
  state.mask = 2, state.saved_mask = 4, state.restore_mask = true;
  ASSERT_TRUE(push());
  EXPECT_EQ(state.mask, 2 | 1ull << (SIGUSR1 - 1));
  EXPECT_FALSE(state.restore_mask);
  EXPECT_EQ(uc()->uc_mcontext.gregs[REG_OLDMASK], 4);
  ASSERT_TRUE(pop());
  EXPECT_EQ(state.mask, 4u);
}

TEST_F(SignalFrame, TheAlternateStackIsUsedWhenAskedForAndKeptWhenNested) {
  AltStack alt = use_alternate();
  ASSERT_TRUE(push());
  EXPECT_GT(ctx.gpr[RSP], top() - 4096) << "SA_ONSTACK is not set";
  ASSERT_TRUE(pop());

  action.flags |= SA_ONSTACK;
  ASSERT_TRUE(push());
  uint64_t first = ctx.gpr[RSP];
  EXPECT_GT(first, alt.sp + alt.size - 2048);
  EXPECT_LT(first, alt.sp + alt.size);
  EXPECT_EQ(uc()->uc_stack.ss_sp, alternate);
  EXPECT_EQ(uc()->uc_stack.ss_size, sizeof alternate);
  EXPECT_EQ(uc()->uc_stack.ss_flags, 0);
  ASSERT_TRUE(push(SIGUSR2));
  EXPECT_LT(ctx.gpr[RSP], first - 128) << "continues below, does not start again at the top";
  ASSERT_TRUE(pop());
  EXPECT_EQ(ctx.gpr[RSP], first);
  ASSERT_TRUE(pop());
  EXPECT_EQ(ctx.gpr[RSP], top());
}

TEST_F(SignalFrame, AnAlternateStackIsNotOverrun) {
  state.alt = {reinterpret_cast<uint64_t>(alternate) + 4096, 0, 2048};
  action.flags |= SA_ONSTACK;
  ASSERT_TRUE(push());
  Context before = ctx;
  EXPECT_FALSE(push(SIGUSR2)) << "although the memory below could be written";
  EXPECT_EQ(memcmp(&before, &ctx, sizeof ctx), 0);
}

TEST_F(SignalFrame, AutodisarmDisablesTheStackUntilTheReturn) {
  AltStack alt = use_alternate(static_cast<int>(1u << 31));
  action.flags |= SA_ONSTACK;
  ASSERT_TRUE(push());
  EXPECT_EQ(state.alt.size, 0u);
  EXPECT_EQ(state.alt.flags, SS_DISABLE);
  ASSERT_TRUE(pop());
  EXPECT_EQ(state.alt.sp, alt.sp);
  EXPECT_EQ(state.alt.size, alt.size);
  EXPECT_EQ(state.alt.flags, alt.flags);
}

TEST_F(SignalFrame, TheReturnSetsAnAlternateStackOnlyIfSigaltstackWould) {
  struct {
    int flags;
    uint64_t size;
    bool accepted;
  } cases[] = {
      {0, 2048, true}, {SS_ONSTACK, 4096, true}, {0, 2047, false}, {4, 4096, false}, {SS_DISABLE, 1, true}};
  for (auto& c : cases) {
    AltStack alt = use_alternate();
    ctx.gpr[RSP] = top();
    ASSERT_TRUE(push());
    uc()->uc_stack.ss_sp = stack, uc()->uc_stack.ss_flags = c.flags, uc()->uc_stack.ss_size = c.size;
    ASSERT_TRUE(pop());
    uint64_t expected = !c.accepted ? alt.size : c.flags == SS_DISABLE ? 0 : c.size;
    EXPECT_EQ(state.alt.size, expected) << c.flags << " " << c.size;
  }
}

TEST_F(SignalFrame, WithoutAPlaceOrARestorerNothingChanges) {
  Context before = ctx;
  auto nothing = [](uint64_t, uint64_t) { return false; };
  EXPECT_FALSE(push_signal_frame(ctx, state, action, SIGUSR1, info, {}, kAvxVisible, nothing));
  for (uint64_t sp : {uint64_t{0}, uint64_t{100}, uint64_t{1000}, ~uint64_t{0}}) {
    ctx.gpr[RSP] = sp;
    EXPECT_FALSE(push());
  }
  ctx.gpr[RSP] = top();
  action.flags = kSiginfoFlag;
  EXPECT_FALSE(push());
  EXPECT_EQ(memcmp(&before, &ctx, sizeof ctx), 0);
  EXPECT_EQ(state.mask, 0u);
}

TEST_F(SignalFrame, AnUnreadableFrameIsBad) {
  ctx.gpr[RSP] = 8;
  EXPECT_FALSE(pop_signal_frame(ctx, state, kAvxVisible, check()));
  ctx.gpr[RSP] = top();
  ASSERT_TRUE(push());
  uc()->uc_mcontext.fpregs = reinterpret_cast<fpregset_t>(0x1000);
  EXPECT_FALSE(pop());
}

TEST_F(SignalFrame, OnlyUserFlagsAreRestored) {
  ASSERT_TRUE(push());
  uc()->uc_mcontext.gregs[REG_EFL] = -1;
  ASSERT_TRUE(pop());
  EXPECT_EQ(ctx.rflags, 0x246u | 0x50dd5);
}

TEST_F(SignalFrame, BadVectorStateMakesABadFrame) {
  auto bad = [&](auto change) {
    ctx.gpr[RSP] = top();
    ASSERT_TRUE(push());
    change();
    Context before = ctx;
    ctx.gpr[RSP] += 8;
    EXPECT_FALSE(pop_signal_frame(ctx, state, kAvxVisible, check()));
    ctx.gpr[RSP] -= 8;
    EXPECT_EQ(memcmp(&before, &ctx, sizeof ctx), 0) << "nothing may change";
  };
  bad([&] { poke<uint32_t>(fpstate(), kMxcsr, 0x11f80); });
  bad([&] { poke<uint64_t>(fpstate(), kXstateBv, 7 | 1ull << 9); });
  bad([&] { poke<uint64_t>(fpstate(), kXstateBv + 8, 1ull << 63 | 7); });
  bad([&] { poke<uint64_t>(fpstate(), kXstateBv + 24, 1); });
  bad([&] { uc()->uc_mcontext.gregs[REG_CSGSFS] = 0x002b'0000'0000'0023; });
}

TEST_F(SignalFrame, AFrameWithoutFpstateRestoresTheInitialState) {
  ASSERT_TRUE(push());
  uc()->uc_mcontext.fpregs = nullptr;
  ASSERT_TRUE(pop());
  EXPECT_EQ(peek<uint16_t>(ctx.xsave, 0), 0x37f);
  EXPECT_EQ(peek<uint32_t>(ctx.xsave, kMxcsr), 0x1f80u);
  for (size_t i = 0; i < 256; i++) {
    EXPECT_EQ(ctx.xsave[kXmm + i], 0);
    EXPECT_EQ(ctx.xsave[kYmmHigh + i], 0);
  }
}

TEST_F(SignalFrame, AFrameWithoutMagicRestoresTheLegacyPartOnly) {
  for (bool second : {false, true}) {
    SetUp();
    ctx.gpr[RSP] = top();
    memset(ctx.xsave + kXmm, 0x77, 256);
    memset(ctx.xsave + kYmmHigh, 0x88, 256);
    poke<uint64_t>(ctx.xsave, kXstateBv, 7);
    ASSERT_TRUE(push());
    poke<uint32_t>(fpstate(), second ? 832 : kSoftware, 0);
    ASSERT_TRUE(pop());
    EXPECT_EQ(ctx.xsave[kXmm + 100], 0x77);
    EXPECT_EQ(ctx.xsave[kYmmHigh + 100], 0);
  }
}

TEST_F(SignalFrame, ComponentsThatTheFrameDoesNotHoldBecomeInitial) {
  ASSERT_TRUE(push());
  poke<uint64_t>(fpstate(), kXstateBv, 1);
  ASSERT_TRUE(pop());
  EXPECT_EQ(peek<uint16_t>(ctx.xsave, 0), 0x27f);
  EXPECT_EQ(peek<uint32_t>(ctx.xsave, kMxcsr), 0x3fa0u) << "loaded whatever XSTATE_BV says";
  EXPECT_EQ(ctx.xsave[kXmm + 100], 0);
  EXPECT_EQ(ctx.xsave[kYmmHigh + 100], 0);
}

// ---- The kernel's word

struct KernelFrame {
  bool taken = false;
  uint64_t frame, info, uc_flags, uc_link, csgsfs, fpstate, xfeatures, mask, oldmask;
  uint32_t magic1, magic2, extended_size, xstate_size;
  uint64_t interrupted_sp;
  bool popped;
  Context ctx;
} kernel_frame;

void look_at_frame(int, siginfo_t* info, void* context) {
  auto* uc = static_cast<ucontext_t*>(context);
  KernelFrame& k = kernel_frame;
  auto* fp = reinterpret_cast<unsigned char*>(uc->uc_mcontext.fpregs);
  k.frame = reinterpret_cast<uint64_t>(uc) - kFrameToFlags;
  k.info = reinterpret_cast<uint64_t>(info);
  k.uc_flags = uc->uc_flags;
  k.uc_link = reinterpret_cast<uint64_t>(uc->uc_link);
  k.csgsfs = uc->uc_mcontext.gregs[REG_CSGSFS];
  k.mask = peek<uint64_t>(&uc->uc_sigmask);
  k.oldmask = uc->uc_mcontext.gregs[REG_OLDMASK];
  k.interrupted_sp = uc->uc_mcontext.gregs[REG_RSP];
  k.fpstate = reinterpret_cast<uint64_t>(fp);
  k.magic1 = peek<uint32_t>(fp, kSoftware);
  k.extended_size = peek<uint32_t>(fp, kSoftware + 4);
  k.xfeatures = peek<uint64_t>(fp, kSoftware + 8);
  k.xstate_size = peek<uint32_t>(fp, kSoftware + 16);
  k.magic2 = peek<uint32_t>(fp, k.xstate_size);
  SignalState state;
  k.ctx.gpr[RSP] = k.frame + 8;
  k.popped = pop_signal_frame(k.ctx, state, k.xfeatures, [](uint64_t, uint64_t) { return true; });
  k.taken = true;
}

TEST_F(SignalFrame, OursIsLikeTheKernels) {
  struct sigaction mine = {}, old;
  mine.sa_sigaction = look_at_frame, mine.sa_flags = SA_SIGINFO;
  ASSERT_EQ(sigaction(SIGUSR1, &mine, &old), 0);
  long pid = getpid(), tid = gettid();
  uint64_t r12 = 0x1212, r13 = 0x1313, after = 0;
  asm volatile(
      "movq %[r12], %%r12\n movq %[r13], %%r13\n movq %%r12, %%xmm5\n"
      "syscall\n"
      "leaq (%%rip), %[after]\n"
      : [after] "=&r"(after), "+D"(pid), "+S"(tid)
      : "a"(SYS_tgkill), "d"(SIGUSR1), [r12] "m"(r12), [r13] "m"(r13)
      : "rcx", "r11", "r12", "r13", "xmm5", "memory");
  sigaction(SIGUSR1, &old, nullptr);
  const KernelFrame& k = kernel_frame;
  ASSERT_TRUE(k.taken);

  ASSERT_TRUE(push());
  uint64_t frame = ctx.gpr[RSP];
  EXPECT_EQ(frame % 16, k.frame % 16);
  EXPECT_EQ(ctx.gpr[RSI] - frame, k.info - k.frame);
  EXPECT_EQ(uc()->uc_flags, k.uc_flags);
  EXPECT_EQ(k.uc_link, 0u);
  EXPECT_EQ(static_cast<uint64_t>(uc()->uc_mcontext.gregs[REG_CSGSFS]), k.csgsfs);
  EXPECT_EQ(k.mask, k.oldmask);
  EXPECT_EQ(k.fpstate % 64, 0u);
  EXPECT_EQ(peek<uint32_t>(fpstate(), kSoftware), k.magic1);
  EXPECT_EQ(peek<uint32_t>(fpstate(), 832), k.magic2);
  EXPECT_EQ(k.extended_size, k.xstate_size + 4);
  // the places follow from the sizes in the same way
  uint64_t fp = (k.interrupted_sp - 128 - k.extended_size) & ~63ull;
  EXPECT_EQ(k.fpstate, fp);
  EXPECT_EQ(k.frame, ((fp - 440) & ~15ull) - 8);

  ASSERT_TRUE(k.popped);
  EXPECT_EQ(k.ctx.gpr[R12], r12);
  EXPECT_EQ(k.ctx.gpr[R13], r13);
  EXPECT_EQ(k.ctx.gpr[RSP], k.interrupted_sp);
  EXPECT_LT(after - k.ctx.rip, 16u);
  EXPECT_EQ(peek<uint64_t>(k.ctx.xsave, kXmm + 5 * 16), r12);
}

// Makes the kernel take down the frame at `frame`, after it was told to come back here, and stores what the
// other registers are then.
struct Arrived {
  uint64_t rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11;
  uint64_t ymm7[4];
  uint32_t mxcsr;
  uint16_t fcw;
};
extern "C" {
Arrived backstep_test_arrived;
void backstep_test_sigreturn(uint64_t frame);
}
asm(R"(
    .text
    .globl backstep_test_sigreturn
    .type backstep_test_sigreturn, @function
backstep_test_sigreturn:
    mov %rsp, 168(%rdi)
    mov %rbp, 128(%rdi)
    mov %rbx, 136(%rdi)
    mov %r12, 80(%rdi)
    mov %r13, 88(%rdi)
    mov %r14, 96(%rdi)
    mov %r15, 104(%rdi)
    lea 1f(%rip), %rax
    mov %rax, 176(%rdi)
    lea 8(%rdi), %rsp
    mov $15, %eax
    syscall
    ud2
1:  push %rax
    mov backstep_test_arrived@GOTPCREL(%rip), %rax
    pop (%rax)
    mov %rcx, 8(%rax)
    mov %rdx, 16(%rax)
    mov %rsi, 24(%rax)
    mov %rdi, 32(%rax)
    mov %r8, 40(%rax)
    mov %r9, 48(%rax)
    mov %r10, 56(%rax)
    mov %r11, 64(%rax)
    vmovdqu %ymm7, 72(%rax)
    vzeroupper
    stmxcsr 104(%rax)
    fnstcw 108(%rax)
    fninit
    movl $0x1f80, -8(%rsp)
    ldmxcsr -8(%rsp)
    ret
    .size backstep_test_sigreturn, . - backstep_test_sigreturn
)");

TEST_F(SignalFrame, TheKernelTakesDownOurFrame) {
  if (!__builtin_cpu_supports("avx")) GTEST_SKIP() << "no AVX";
  uint64_t blocked = 0;
  ASSERT_EQ(syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &blocked, 8), 0);
  stack_t current;
  ASSERT_EQ(sigaltstack(nullptr, &current), 0);
  state.mask = blocked;
  state.alt = {reinterpret_cast<uint64_t>(current.ss_sp), current.ss_flags, current.ss_size};
  memset(ctx.xsave + 4, 0, 2);  // x87 stack empty
  Context before = ctx;
  ASSERT_TRUE(push());
  backstep_test_sigreturn(ctx.gpr[RSP]);

  const Arrived& a = backstep_test_arrived;
  EXPECT_EQ(a.rax, before.gpr[RAX]);
  EXPECT_EQ(a.rcx, before.gpr[RCX]);
  EXPECT_EQ(a.rdx, before.gpr[RDX]);
  EXPECT_EQ(a.rsi, before.gpr[RSI]);
  EXPECT_EQ(a.rdi, before.gpr[RDI]);
  EXPECT_EQ(a.r8, before.gpr[R8]);
  EXPECT_EQ(a.r9, before.gpr[R9]);
  EXPECT_EQ(a.r10, before.gpr[R10]);
  EXPECT_EQ(a.r11, before.gpr[R11]);
  EXPECT_EQ(memcmp(a.ymm7, before.xsave + kXmm + 7 * 16, 16), 0);
  EXPECT_EQ(memcmp(a.ymm7 + 2, before.xsave + kYmmHigh + 7 * 16, 16), 0);
  EXPECT_EQ(a.mxcsr, 0x3fa0u);
  EXPECT_EQ(a.fcw, 0x27f);
}

}  // namespace
}  // namespace backstep::guest
