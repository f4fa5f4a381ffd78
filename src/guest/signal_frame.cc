// What lies on the stack when a handler starts, from the top down:
//
//             the interrupted function's frame and its red zone of 128 bytes
//             FP_XSTATE_MAGIC2
//   fpstate   vector state in standard XSAVE form, 64-byte aligned: legacy area (512 bytes, the last 48 of
//             them say how much follows), XSAVE header (64), AVX (256), AVX-512 if visible
//             siginfo                                                   <- rsi
//             ucontext with the registers, signal mask, alternate stack  <- rdx
//   rsp ->    address of the restorer, which makes the rt_sigreturn system call; rsp % 16 == 8, as after a
//   call
//
// The bytes must be the same in recording and replay, and on a CPU that the recording is carried to. The
// hardware is less strict than that: it tracks which components are in their initial state (XINUSE), and
// when it notices is its own business. So the frame always claims all components (XSTATE_BV == xcr0), and
// those that the CPU did not save are written out as what 'initial' means. The x87 instruction and data
// pointers, which would tell addresses in the code cache, are zero, as on AMD without a pending exception.
//
// A frame is guest memory and a guest may write what it likes into it (debuggers, coroutines and Go's
// runtime do), so taking it down treats every field as the kernel does: reserved bits make the frame bad,
// privileged bits are ignored.
#include "guest/signal_frame.h"

#include "guest/loadable.h"

#include <cpuid.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/entry.h"

namespace backstep::guest {
namespace {

constexpr uint64_t kSaSiginfo = 4, kSaOnstack = 0x0800'0000, kSaNodefer = 0x4000'0000,
                   kSaRestorer = 0x0400'0000;
constexpr uint32_t kSsOnstack = 1, kSsDisable = 2, kSsAutodisarm = 1u << 31;
constexpr uint64_t kMinSignalStack = 2048;  // MINSIGSTKSZ
constexpr uint64_t kUnblockable = 1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1);

constexpr uint64_t kRedZone = 128;
constexpr uint64_t kUserFlags = 0x50dd5;  // FIX_EFLAGS: AC RF OF DF TF SF ZF AF PF CF
constexpr uint64_t kFlagTF = 0x100, kFlagDF = 0x400, kFlagRF = 0x10000;
constexpr uint64_t kAlwaysSetFlags = 0x202;  // the reserved bit 1, and IF
constexpr uint16_t kUserCs = 0x33, kUserSs = 0x2b;

// ---- The kernel's structures

struct FrameStack {
  uint64_t sp;
  uint32_t flags, pad;
  uint64_t size;
};

struct FrameRegisters {  // struct sigcontext_64
  uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, flags;
  uint16_t cs, gs, fs, ss;
  uint64_t err, trapno, oldmask, cr2, fpstate, reserved[8];
};

struct Frame {  // struct rt_sigframe
  uint64_t restorer;
  uint64_t uc_flags, uc_link;
  FrameStack uc_stack;
  FrameRegisters registers;
  uint64_t mask;
  unsigned char info[128];
};
static_assert(sizeof(FrameRegisters) == 256 && sizeof(Frame) == 440 && offsetof(Frame, info) == 312);
static_assert(sizeof(siginfo_t) == sizeof(Frame::info));

// UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS
constexpr uint64_t kUcFlags = 7;

// FrameRegisters' fields in the order of Context::gpr.
constexpr uint64_t FrameRegisters::*kRegisterOrder[16] = {
    &FrameRegisters::rax, &FrameRegisters::rcx, &FrameRegisters::rdx, &FrameRegisters::rbx,
    &FrameRegisters::rsp, &FrameRegisters::rbp, &FrameRegisters::rsi, &FrameRegisters::rdi,
    &FrameRegisters::r8,  &FrameRegisters::r9,  &FrameRegisters::r10, &FrameRegisters::r11,
    &FrameRegisters::r12, &FrameRegisters::r13, &FrameRegisters::r14, &FrameRegisters::r15};

// ---- Vector state

// The standard XSAVE form, both in the frame and in Context::xsave.
struct VectorState {
  uint16_t fcw, fsw, ftw, fop;
  uint64_t fip, fdp;
  uint32_t mxcsr, mxcsr_mask;
  unsigned char st[8][16];
  unsigned char xmm[16][16];
  unsigned char reserved[48];
  struct {  // struct _fpx_sw_bytes
    uint32_t magic1, extended_size;
    uint64_t xfeatures;
    uint32_t xstate_size, padding[7];
  } software;
  uint64_t xstate_bv, xcomp_bv, header_reserved[6];
  unsigned char extended[kXsaveSize - 576];
};
static_assert(offsetof(VectorState, st) == 32 && offsetof(VectorState, xmm) == 160);
static_assert(offsetof(VectorState, software) == 464 && offsetof(VectorState, xstate_bv) == 512);
static_assert(offsetof(VectorState, extended) == 576 && sizeof(VectorState) == kXsaveSize);

constexpr uint64_t kX87 = 1, kSse = 2, kAvx = 4;
constexpr uint32_t kMagic1 = 0x46505853, kMagic2 = 0x46505845;  // FP_XSTATE_MAGIC1, 2
constexpr uint32_t kMxcsrBits = 0xffff, kMxcsrInitial = 0x1f80;
constexpr uint16_t kFcwInitial = 0x37f;
constexpr uint32_t kLegacySize = 512, kMinXsaveSize = 576;

// Where the CPU puts the components behind the header. AVX is at 576 everywhere; the three parts of AVX-512
// lie elsewhere on AMD than on Intel. All of them are zero in their initial state.
struct Component {
  uint64_t bit;
  uint32_t offset, size;
};

const std::vector<Component>& components() {
  static const std::vector<Component> found = [] {
    std::vector<Component> list;
    for (uint32_t number : {2, 5, 6, 7}) {
      uint32_t size, offset, c, d;
      if (!__get_cpuid_count(0xd, number, &size, &offset, &c, &d) || size == 0) continue;
      if (offset >= kMinXsaveSize && offset + size <= kXsaveSize)
        list.push_back({1ull << number, offset, size});
    }
    return list;
  }();
  return found;
}

uint64_t visible(uint64_t xcr0) {
  uint64_t known = kX87 | kSse;
  for (auto& c : components()) known |= c.bit;
  return xcr0 & known;
}

uint32_t xsave_size(uint64_t xcr0) {
  uint32_t size = kMinXsaveSize;
  for (auto& c : components())
    if (xcr0 & c.bit) size = std::max(size, c.offset + c.size);
  return size;
}

VectorState initial_state() {
  VectorState v = {};
  v.fcw = kFcwInitial;
  v.mxcsr = kMxcsrInitial;
  v.mxcsr_mask = kMxcsrBits;
  return v;
}

// Copies the components in `which`; of x87 not the pointers to the last instruction and its data.
void copy_components(VectorState& to, const VectorState& from, uint64_t which) {
  if (which & kX87) {
    to.fcw = from.fcw, to.fsw = from.fsw, to.ftw = from.ftw & 0xff;
    for (int i = 0; i < 8; i++) memcpy(to.st[i], from.st[i], 10);
  }
  if (which & kSse) memcpy(to.xmm, from.xmm, sizeof to.xmm);
  for (auto& c : components()) {
    size_t at = c.offset - kMinXsaveSize;
    if (which & c.bit) memcpy(to.extended + at, from.extended + at, c.size);
  }
}

VectorState load_state(const Context& ctx) {
  VectorState v;
  memcpy(&v, ctx.xsave, sizeof v);
  return v;
}

// Replaces the components that the guest sees by those of `v`. MXCSR belongs to no component in standard
// form: XRSTOR always loads it. `in_use` false tells the CPU that they are initial.
void store_state(Context& ctx, const VectorState& v, uint64_t xcr0, bool in_use) {
  VectorState state = load_state(ctx);
  copy_components(state, v, visible(xcr0));
  state.fop = v.fop, state.fip = v.fip, state.fdp = v.fdp;
  state.mxcsr = v.mxcsr;
  state.xstate_bv = (state.xstate_bv & ~visible(xcr0)) | (in_use ? visible(xcr0) : 0);
  state.xcomp_bv = 0;
  memcpy(ctx.xsave, &state, sizeof state);
}

VectorState frame_state(const Context& ctx, uint64_t xcr0) {
  VectorState saved = load_state(ctx), v = initial_state();
  copy_components(v, saved, saved.xstate_bv & visible(xcr0));
  v.mxcsr = saved.mxcsr & kMxcsrBits;
  v.software.magic1 = kMagic1;
  v.software.xstate_size = xsave_size(xcr0);
  v.software.extended_size = v.software.xstate_size + sizeof kMagic2;
  v.software.xfeatures = visible(xcr0);
  v.xstate_bv = visible(xcr0);
  return v;
}

// Memory that the map says is there may lie behind the end of a mapped file.
bool load(void* to, uint64_t addr, size_t size) {
  return bs_guarded_copy(to, reinterpret_cast<const void*>(addr), size);
}
bool store(uint64_t addr, const void* from, size_t size) {
  return bs_guarded_copy(reinterpret_cast<void*>(addr), from, size);
}

// What the frame's vector state means, as XRSTOR (or FXRSTOR, if the frame has no valid extended part) would
// load it. False: the CPU would fault on it, or it cannot be read.
bool read_frame_state(uint64_t addr, uint64_t xcr0, const MemoryCheck& readable, VectorState& v) {
  v = initial_state();
  if (addr == 0) return true;
  VectorState in = {};
  if (addr % 16 || !readable(addr, kLegacySize)) return false;
  if (!load(&in, addr, kLegacySize)) return false;

  const auto sw = in.software;
  bool extended = sw.magic1 == kMagic1 && sw.xstate_size >= kMinXsaveSize &&
                  sw.xstate_size <= xsave_size(xcr0) && sw.xstate_size <= sw.extended_size;
  if (extended) {
    if (!readable(addr, sw.xstate_size + sizeof kMagic2)) return false;
    uint32_t magic2;
    if (!load(&magic2, addr + sw.xstate_size, sizeof magic2)) return false;
    extended = magic2 == kMagic2;
  }

  uint64_t wanted = kX87 | kSse, present = kX87 | kSse;
  if (extended) {
    if (addr % 64) return false;
    if (!load(&in, addr, sw.xstate_size)) return false;
    for (uint64_t word : in.header_reserved)
      if (word) return false;
    if (in.xcomp_bv || (in.xstate_bv & ~visible(xcr0))) return false;
    wanted = sw.xfeatures & visible(xcr0);
    for (auto& c : components())
      if (c.offset + c.size > sw.xstate_size) wanted &= ~c.bit;
    present = in.xstate_bv & wanted;
  }
  if (wanted & (kSse | kAvx)) {
    if (in.mxcsr & ~kMxcsrBits) return false;
    v.mxcsr = in.mxcsr;
  }
  copy_components(v, in, present);
  if (present & kX87) v.fop = in.fop, v.fip = in.fip, v.fdp = in.fdp;
  return true;
}

}  // namespace

bool is_loadable(const void* xsave) {
  VectorState v;
  memcpy(&v, xsave, sizeof v);
  for (uint64_t word : v.header_reserved)
    if (word) return false;
  return v.xcomp_bv == 0 && !(v.mxcsr & ~kMxcsrBits);
}

bool is_loadable_here(const void* xsave) {
  VectorState v;
  memcpy(&v, xsave, sizeof v);
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return is_loadable(xsave) && !(v.xstate_bv & ~(static_cast<uint64_t>(high) << 32 | low));
}

namespace {

// ---- The alternate stack

bool has_alt_stack(const AltStack& alt) {
  return alt.size != 0 && !(alt.flags & kSsDisable);
}

bool inside_alt_stack(const AltStack& alt, uint64_t sp) {
  return sp > alt.sp && sp - alt.sp <= alt.size;
}

// With SS_AUTODISARM nobody is ever 'on' it: it was disarmed when a handler went there.
bool on_alt_stack(const AltStack& alt, uint64_t sp) {
  return has_alt_stack(alt) && !(alt.flags & kSsAutodisarm) && inside_alt_stack(alt, sp);
}

// sigaltstack() as sigreturn does it: what is not acceptable is silently not done.
void restore_alt_stack(AltStack& alt, const FrameStack& wanted, uint64_t sp) {
  if (on_alt_stack(alt, sp)) return;
  uint32_t mode = wanted.flags & ~kSsAutodisarm;
  if (mode == kSsDisable) {
    alt = {.sp = 0, .flags = static_cast<int>(wanted.flags), .size = 0};
  } else if ((mode == 0 || mode == kSsOnstack) && wanted.size >= kMinSignalStack) {
    alt = {.sp = wanted.sp, .flags = static_cast<int>(wanted.flags), .size = wanted.size};
  }
}

}  // namespace

bool push_signal_frame(Context& ctx, SignalState& state, const KernelSigaction& action, int signo,
                       const siginfo_t& info, const TrapInfo& trap, uint64_t xcr0,
                       const MemoryCheck& writable) {
  if (!(action.flags & kSaRestorer)) return false;

  uint64_t sp = ctx.gpr[RSP] - kRedZone;
  bool on_alt = on_alt_stack(state.alt, ctx.gpr[RSP]);
  if ((action.flags & kSaOnstack) && has_alt_stack(state.alt) && !on_alt_stack(state.alt, sp)) {
    sp = state.alt.sp + state.alt.size;
    on_alt = true;
  }
  uint64_t vector_size = xsave_size(xcr0);
  uint64_t vector_at = (sp - vector_size - sizeof kMagic2) & ~63ull;
  uint64_t frame_at = ((vector_at - sizeof(Frame)) & ~15ull) - 8;
  uint64_t end = vector_at + vector_size + sizeof kMagic2;
  // An alternate stack that is too small must not be overrun, even if the memory below it can be written.
  if (on_alt && !inside_alt_stack(state.alt, frame_at)) return false;
  if (frame_at >= end || !writable(frame_at, end - frame_at)) return false;

  uint64_t mask = state.restore_mask ? state.saved_mask : state.mask;
  Frame frame = {};
  frame.restorer = action.restorer;
  frame.uc_flags = kUcFlags;
  frame.uc_stack = {state.alt.sp, static_cast<uint32_t>(state.alt.flags), 0, state.alt.size};
  for (int r = 0; r < 16; r++) frame.registers.*kRegisterOrder[r] = ctx.gpr[r];
  frame.registers.rip = ctx.rip;
  frame.registers.flags = ctx.rflags | kAlwaysSetFlags;
  frame.registers.cs = kUserCs;
  frame.registers.ss = kUserSs;
  frame.registers.err = trap.err;
  frame.registers.trapno = trap.trapno;
  frame.registers.cr2 = trap.cr2;
  frame.registers.oldmask = mask;
  frame.registers.fpstate = vector_at;
  frame.mask = mask;
  memcpy(frame.info, &info, sizeof frame.info);
  VectorState vector = frame_state(ctx, xcr0);

  // Without SA_SIGINFO the kernel leaves the bytes of siginfo as they were.
  size_t frame_size = action.flags & kSaSiginfo ? sizeof frame : offsetof(Frame, info);
  if (!store(frame_at, &frame, frame_size) || !store(vector_at, &vector, vector_size) ||
      !store(vector_at + vector_size, &kMagic2, sizeof kMagic2))
    return false;

  ctx.gpr[RDI] = static_cast<uint64_t>(signo);
  ctx.gpr[RSI] = frame_at + offsetof(Frame, info);
  ctx.gpr[RDX] = frame_at + offsetof(Frame, uc_flags);
  ctx.gpr[RAX] = 0;  // no vector arguments, for handlers declared with (...)
  ctx.gpr[RSP] = frame_at;
  ctx.rip = action.handler;
  ctx.rflags &= ~(kFlagDF | kFlagTF | kFlagRF);
  store_state(ctx, initial_state(), xcr0, false);

  state.mask |= action.mask;
  if (!(action.flags & kSaNodefer)) state.mask |= 1ull << (signo - 1);
  state.mask &= ~kUnblockable;
  state.restore_mask = false;
  if (state.alt.flags & kSsAutodisarm) state.alt = {};
  return true;
}

bool pop_signal_frame(Context& ctx, SignalState& state, uint64_t xcr0, const MemoryCheck& readable) {
  uint64_t frame_at = ctx.gpr[RSP] - sizeof(uint64_t);
  constexpr size_t kNeeded = offsetof(Frame, info);
  if (!readable(frame_at, kNeeded)) return false;
  Frame frame;
  if (!load(&frame, frame_at, kNeeded)) return false;
  // A far jump to 32-bit code by way of a frame: possible on Linux, not here.
  if ((frame.registers.cs | 3) != kUserCs) return false;
  VectorState vector;
  if (!read_frame_state(frame.registers.fpstate, xcr0, readable, vector)) return false;

  for (int r = 0; r < 16; r++) ctx.gpr[r] = frame.registers.*kRegisterOrder[r];
  ctx.rip = frame.registers.rip;
  ctx.rflags = (ctx.rflags & ~kUserFlags) | (frame.registers.flags & kUserFlags);
  store_state(ctx, vector, xcr0, true);
  state.mask = frame.mask & ~kUnblockable;
  restore_alt_stack(state.alt, frame.uc_stack, ctx.gpr[RSP]);
  return true;
}

}  // namespace backstep::guest
