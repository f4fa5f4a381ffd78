// Memory and signals of the guest. Real mappings never have PROT_EXEC: guest text is only read, by the
// translator, so nothing can escape the cache unseen.
#include "guest/process.h"
#include "guest/raw_calls.h"

#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/hot.h"
#include "engine/entry.h"
#include "engine/host_ops.h"
#include "guest/buffers.h"

namespace backstep::guest {
namespace {

using layout::kPage;

}  // namespace

Process::Process(const EngineOptions& options)
    : engine_(options, [this](Address pc) -> std::optional<engine::FetchRange> {
        auto [start, end] = map.executable_range(pc);
        if (start == end) return std::nullopt;
        const Region* here = map.find(pc);
        if ((here->flags & MAP_SHARED) && here->inode) {
          // One page at a time, each with its other views watched; two where the code runs on, since an
          // instruction may cross the border.
          uint64_t page = pc & ~(kPage - 1), last = page + kPage, overhang = 0;
          if (code_is_there && !code_is_there(page, page)) return std::nullopt;
          watch_aliases(*here, page);
          if (last < end && (!code_is_there || code_is_there(page, last))) {
            const Region* next = map.find(last);
            watch_aliases(*next, last);
            last += kPage;
            overhang = kPage;
          }
          return engine::FetchRange{page, last, (here->prot & PROT_WRITE) != 0, false, {}, 0, overhang};
        }
        bool writable = false, stable = true;
        for (uint64_t at = start; at < end;) {
          const Region* r = map.find(at);
          writable |= (r->prot & PROT_WRITE) != 0;
          stable &= r->inode != 0;
          at = r->end;
        }
        engine::FetchRange range{start, end, writable, stable && !writable, {}, 0, 0};
        if (here->start == start && here->end == end)
          range.content = here->content, range.offset = here->offset;
        return range;
      }) {
  xcr0 = engine::this_machine().xcr0 & 7;
  map.brk_start = map.brk = layout::kBrkStart;
  current_ = (threads_[1] = std::make_unique<Thread>()).get();
}

void Process::keep_translations(const std::string& folder) {
  if (folder.empty()) return;
  std::vector<uint64_t> files;
  map.for_each([&](const Region& r) {
    if (r.content) files.insert(files.end(), {r.start, r.end, r.offset, r.content.high, r.content.low});
  });
  engine_.keep_translations(folder, XXH3_64bits(files.data(), files.size() * sizeof files[0]));
}

Thread* Process::thread(int name) {
  auto it = threads_.find(name);
  return it == threads_.end() ? nullptr : it->second.get();
}

namespace {

// Without AVX-512 state the rest of the area is nobody's (the counter's register is loaded on its own).
size_t vector_bytes() {
  constexpr size_t kUpToAvx = 832;
  return engine::bs_cache.evex_seen ? kXsaveSize : kUpToAvx;
}

void save(Thread& t, const SignalState& signals) {
  const Context& ctx = context();
  std::copy(std::begin(ctx.gpr), std::end(ctx.gpr), t.gpr);
  t.rip = ctx.rip, t.rflags = ctx.rflags, t.fs_base = ctx.fs_base, t.gs_base = ctx.gs_base;
  t.signals = signals;
  std::memcpy(t.xsave, ctx.xsave, vector_bytes());
}

void load(const Thread& t, SignalState& signals) {
  Context& ctx = context();
  std::copy(std::begin(t.gpr), std::end(t.gpr), ctx.gpr);
  ctx.rip = t.rip, ctx.rflags = t.rflags, ctx.fs_base = t.fs_base, ctx.gs_base = t.gs_base;
  signals = t.signals;
  std::memcpy(ctx.xsave, t.xsave, vector_bytes());
}

}  // namespace

bool is_lodger(uint64_t clone_flags) {
  return (clone_flags & (CLONE_VM | CLONE_THREAD | CLONE_VFORK)) == CLONE_VM;
}

bool Process::has_lodgers() const {
  return std::any_of(threads_.begin(), threads_.end(), [](const auto& t) { return t.second->lodger; });
}

Thread& Process::start_thread(uint64_t flags, uint64_t stack, uint64_t tls, int tid) {
  constexpr uint64_t kSetTls = 0x0008'0000;
  auto fresh = std::make_unique<Thread>();
  save(*fresh, signals);
  fresh->name = next_name_++;
  fresh->tid = tid;
  fresh->filters = current_->filters;
  fresh->strict = current_->strict;
  fresh->trapped = current_->trapped;
  fresh->gpr[RAX] = 0;
  if (stack) fresh->gpr[RSP] = stack;
  if (flags & kSetTls) fresh->fs_base = tls;
  fresh->signals.alt = AltStack{};  // the new thread is not on its creator's alternate stack
  fresh->signals.restore_mask = false;
  fresh->lodger = is_lodger(flags);
  if (fresh->lodger && !(flags & CLONE_SIGHAND))
    fresh->own_actions.assign(std::begin(actions), std::end(actions));
  Thread& t = *fresh;
  threads_[t.name] = std::move(fresh);
  return t;
}

void Process::turn_to(Thread& next) {
  if (&next != current_) {
    save(*current_, signals);
    load(next, signals);
    if (!current_->own_actions.empty() || !next.own_actions.empty()) {
      (current_->own_actions.empty() ? process_actions_ : current_->own_actions)
          .assign(std::begin(actions), std::end(actions));
      const auto& theirs = next.own_actions.empty() ? process_actions_ : next.own_actions;
      std::copy(theirs.begin(), theirs.end(), actions);
    }
    current_ = &next;
  }
  context().tick++;
}

void Process::end_thread(Thread& thread) {
  if (&thread != current_) threads_.erase(thread.name);
}

void Process::keep_only_current() {
  for (auto it = threads_.begin(); it != threads_.end();)
    it = it->second.get() == current_ ? std::next(it) : threads_.erase(it);
}

void Process::adopt_threads(std::map<int, std::unique_ptr<Thread>> threads, int current, int next_name) {
  threads_ = std::move(threads);
  current_ = threads_.at(current).get();
  next_name_ = next_name;
}

void Process::unmap_all() {
  std::vector<std::pair<uint64_t, uint64_t>> parts;
  map.for_each([&](const Region& r) { parts.emplace_back(r.start, r.end); });
  for (auto [start, end] : parts)
    if (unmap_guest_parts(start, end) != 0) throw Error("cannot take the program's memory down");
}

int Process::real_protection(int prot) {
  const int p = prot & (PROT_READ | PROT_WRITE);
  return prot & PROT_EXEC ? p | PROT_READ : p;
}

bool Process::readable(uint64_t addr, uint64_t size) const {
  if (!valid_range(addr, size)) return false;
  for (uint64_t at = addr; at < addr + size;) {
    const Region* r = map.find(at);
    if (!r || !(r->prot & (PROT_READ | PROT_EXEC | PROT_WRITE))) return false;
    at = r->end;
  }
  return true;
}

// Code in a shared file mapping can change through every other mapping of the file. Those pages are made
// read-only while translated code exists.
void Process::watch_aliases(const Region& code, uint64_t page) {
  uint64_t offset = code.offset + (page - code.start);
  map.for_each([&](const Region& r) {
    if (!(r.flags & MAP_SHARED) || r.dev != code.dev || r.inode != code.inode || !(r.prot & PROT_WRITE))
      return;
    if (offset < r.offset || offset - r.offset >= r.end - r.start) return;
    uint64_t alias = r.start + (offset - r.offset);
    if (alias == page) return;
    raw(SYS_mprotect, alias, kPage, PROT_READ);
    aliases_.emplace(alias, page);
    engine::bs_cache.alias_pages++;
  });
}

void Process::forget_aliases(uint64_t start, uint64_t end) {
  auto first = aliases_.lower_bound(start), last = aliases_.lower_bound(end);
  for (auto it = first; it != last; ++it) {
    engine_.forget(it->second, it->second + kPage);
    engine::bs_cache.alias_pages--;
  }
  aliases_.erase(first, last);
}

void Process::drop_alias(uint64_t page) {
  forget_aliases(page, page + kPage);
  const Region* r = map.find(page);
  if (r) raw(SYS_mprotect, page, kPage, real_protection(r->prot));
}

bool Process::alias_write(const engine::FaultInfo& fault) {
  uint64_t page = fault.address & ~(kPage - 1);
  if (fault.signo != SIGSEGV || !aliases_.count(page)) return false;
  auto [first, last] = aliases_.equal_range(page);
  for (auto it = first; it != last; ++it)
    if (it->second == (context().rip & ~(kPage - 1)))
      throw Error(
          "the program changes the code that it is executing through a second mapping of the same page; this "
          "is not supported");
  drop_alias(page);
  return true;
}

void Process::prepare_write(uint64_t start, uint64_t end) {
  engine_.prepare_write(start, end);
  while (!aliases_.empty()) {
    auto it = aliases_.lower_bound(start & ~(kPage - 1));
    if (it == aliases_.end() || it->first >= end) break;
    drop_alias(it->first);
  }
}

int Process::page_protection(uint64_t page) const {
  const Region* r = map.find(page);
  if (!r) return -1;
  int prot = real_protection(r->prot);
  const engine::PageCode* code = engine::page_of(page, false);
  if ((code && code->watched) || aliases_.count(page)) prot &= ~PROT_WRITE;
  return prot;
}

bool Process::writable(uint64_t addr, uint64_t size) {
  if (!valid_range(addr, size)) return false;
  for (uint64_t at = addr; at < addr + size;) {
    const Region* r = map.find(at);
    if (!r || !(r->prot & PROT_WRITE)) return false;
    at = r->end;
  }
  prepare_write(addr, addr + size);
  engine::mark_written(addr, size);
  return true;
}

bool Process::copy_out(uint64_t addr, const void* from, uint64_t size) {
  uint64_t end = addr;
  while (end - addr < size) {
    const Region* r = map.find(end);
    if (!r || !(r->prot & PROT_WRITE)) break;
    end = r->end;
  }
  const uint64_t n = std::min(size, end - addr);
  prepare_write(addr, addr + n);
  engine::mark_written(addr, n);
  return bs_guarded_copy(reinterpret_cast<void*>(addr), from, n) && n == size;
}

bool Process::is_base_prctl(uint64_t code) {
  constexpr uint32_t kSetGs = 0x1001, kGetGs = 0x1004;
  return static_cast<uint32_t>(code) >= kSetGs && static_cast<uint32_t>(code) <= kGetGs;
}

long Process::sys_arch_prctl(uint64_t code, uint64_t value) {
  constexpr uint32_t kSetGs = 0x1001, kSetFs = 0x1002, kGetFs = 0x1003;
  Context& ctx = context();
  switch (const auto what = static_cast<uint32_t>(code)) {
    case kSetFs:
    case kSetGs:
      if (value >= kUserEnd) return -EPERM;
      (what == kSetFs ? ctx.fs_base : ctx.gs_base) = value;
      return 0;
    default:
      if (!writable(value, 8)) return -EFAULT;
      std::memcpy(reinterpret_cast<void*>(value), what == kGetFs ? &ctx.fs_base : &ctx.gs_base, 8);
      return 0;
  }
}

long Process::sys_rt_sigaction(const uint64_t args[6]) {
  // What programs may set: NOCLDSTOP NOCLDWAIT SIGINFO EXPOSE_TAGBITS RESTORER ONSTACK RESTART NODEFER
  // RESETHAND. Others the kernel takes away, so that a program can find out which it knows.
  constexpr uint64_t kKnownFlags = 0xdc00'0807;
  const auto signo = static_cast<int>(args[0]);
  if (args[3] != 8) return -EINVAL;
  KernelSigaction fresh{};
  if (args[1] && !(readable(args[1], sizeof fresh) && read_guest(args[1], &fresh))) return -EFAULT;
  if (signo < 1 || signo > kSignals || (args[1] && (signo == SIGKILL || signo == SIGSTOP))) return -EINVAL;
  const KernelSigaction old = actions[signo];
  if (args[1]) {
    fresh.flags &= kKnownFlags;
    fresh.mask &= ~(1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1));
    actions[signo] = fresh;
  }
  return args[2] && !copy_out(args[2], &old, sizeof old) ? -EFAULT : 0;
}

long Process::sys_rt_sigprocmask(const uint64_t args[6]) {
  if (args[3] != 8) return -EINVAL;
  const uint64_t old = signals.mask;
  if (args[1]) {
    uint64_t set;
    if (!readable(args[1], 8) || !read_guest(args[1], &set)) return -EFAULT;
    set &= ~(1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1));
    switch (static_cast<int>(args[0])) {
      case SIG_BLOCK:
        signals.mask |= set;
        break;
      case SIG_UNBLOCK:
        signals.mask &= ~set;
        break;
      case SIG_SETMASK:
        signals.mask = set;
        break;
      default:
        return -EINVAL;
    }
  }
  return args[2] && !copy_out(args[2], &old, 8) ? -EFAULT : 0;
}

long Process::sys_sigaltstack(uint64_t new_stack, uint64_t old_stack) {
  struct KernelStack {
    uint64_t sp;
    int flags;
    int pad;
    uint64_t size;
  };
  constexpr int kDisable = 2, kOnStack = 1;
  constexpr int kAutodisarm = static_cast<int>(1u << 31);
  const AltStack old = signals.alt;
  uint64_t rsp = context().gpr[RSP];
  bool on = !(old.flags & kDisable) && rsp > old.sp && rsp - old.sp <= old.size && !(old.flags & kAutodisarm);
  if (new_stack) {
    KernelStack k;
    if (!readable(new_stack, sizeof k) || !read_guest(new_stack, &k)) return -EFAULT;
    int mode = k.flags & ~kAutodisarm;
    if (on) return -EPERM;
    if (mode != 0 && mode != kDisable && mode != kOnStack) return -EINVAL;
    if (mode == kDisable) {
      signals.alt = AltStack{0, k.flags, 0};
    } else {
      if (k.size < 2048) return -ENOMEM;
      signals.alt = AltStack{k.sp, k.flags & kAutodisarm, k.size};
    }
  }
  const KernelStack told{old.sp, old.flags | (on ? kOnStack : 0), 0, old.size};
  return old_stack && !copy_out(old_stack, &told, sizeof told) ? -EFAULT : 0;
}

bool Process::sys_rt_sigreturn() {
  return pop_signal_frame(context(), signals, visible_state(),
                          [this](uint64_t a, uint64_t n) { return readable(a, n); });
}

std::optional<engine::FaultInfo> Process::emulate(const isa::Insn& insn) {
  Context& ctx = context();
  const engine::FaultInfo protection{SIGSEGV, SI_KERNEL, 0, 0, 13, 0, 0};
  if (insn.cls == isa::Class::Bad) {  // no instruction fits into what is left of the code, or it is too long
    uint64_t end = map.executable_range(ctx.rip).second;
    return end - ctx.rip < 15 ? bad_fetch(end) : protection;
  }
  engine::GuestAccess access{[this](Address a, uint64_t n) { return readable(a, n); },
                             [this](Address a, uint64_t n) { return writable(a, n); }};
  Address fault = 0;
  switch (engine::emulate(insn, ctx, xcr0, access, &fault)) {
    case engine::Emulated::Done:
      return std::nullopt;
    case engine::Emulated::IllegalInstruction:
      return engine::FaultInfo{SIGILL, ILL_ILLOPN, ctx.rip, 0, 6, 0, 0};
    case engine::Emulated::MemoryFault:
      return engine::FaultInfo{SIGSEGV, SEGV_MAPERR, fault, 6, 14, fault, 0};
    case engine::Emulated::GeneralProtection:
      break;
  }
  return protection;
}

engine::FaultInfo Process::bad_fetch(uint64_t address) const {
  if (!canonical(address)) return {SIGSEGV, SI_KERNEL, 0, 0, 13, 0, 0};
  bool mapped = map.find(address) != nullptr;
  return {SIGSEGV, mapped ? SEGV_ACCERR : SEGV_MAPERR, address, mapped ? 0x15ul : 0x14ul, 14, address, 0};
}

void Process::suspend_mask(uint64_t mask) {
  signals.saved_mask = signals.mask;
  signals.restore_mask = true;
  set_mask(mask);
}

void Process::set_mask(uint64_t mask) {
  signals.mask = mask & ~(1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1));
}

void Process::restore_mask() {
  if (!signals.restore_mask) return;
  signals.restore_mask = false;
  signals.mask = signals.saved_mask;
}

// AVX-512 is not shown, but a guest that uses it all the same has it saved and restored around its handlers.
uint64_t Process::visible_state() const {
  return xcr0 | (engine::bs_cache.evex_seen ? context().save_mask & 0xe0 : 0);
}

bool Process::push_handler(int signo, const siginfo_t& info, const TrapInfo& trap) {
  KernelSigaction action = actions[signo];
  constexpr uint64_t kResetHand = 0x8000'0000;
  bool ok = push_signal_frame(context(), signals, action, signo, info, trap, visible_state(),
                              [this](uint64_t a, uint64_t n) { return writable(a, n); });
  if (action.flags & kResetHand) actions[signo].handler = 0;  // the kernel does that first
  return ok;
}

std::optional<siginfo_t> Process::forced_by(int signo) const {
  const bool blocked = signals.mask >> (SIGSEGV - 1) & 1;
  if (signo == SIGSEGV || blocked || fate_of(actions[SIGSEGV], SIGSEGV) != Fate::Handle) return std::nullopt;
  siginfo_t info;
  std::memset(&info, 0, sizeof info);
  info.si_signo = SIGSEGV;
  info.si_code = SI_KERNEL;
  return info;
}

bool Process::push_frame(const KernelSigaction& action, int signo, const siginfo_t& info) {
  return push_signal_frame(context(), signals, action, signo, info, TrapInfo{}, visible_state(),
                           [this](uint64_t a, uint64_t n) { return writable(a, n); });
}

uint32_t Process::memory_checksum() const {
  uint32_t crc = 0;
  std::vector<uint64_t> words(kPage / 8);
  map.for_each([&](const Region& r) {
    constexpr uint64_t kSparse =
        64ull << 30;  // sanitizers reserve terabytes; looking at each page would take hours
    if (!(r.prot & PROT_WRITE) || (r.flags & MAP_SHARED) || r.end - r.start > kSparse) return;
    for (uint64_t page = r.start; page < r.end; page += kPage) {
      // Untouched anonymous pages are zero; pages of zeroes do not count, so that having touched a page
      // without changing it makes no difference.
      unsigned char in_core = 0;
      if (r.inode == 0 && (mincore(reinterpret_cast<void*>(page), kPage, &in_core) != 0 || !(in_core & 1)))
        continue;
      if (!bs_guarded_copy(words.data(), reinterpret_cast<const void*>(page), kPage)) continue;
      if (std::all_of(words.begin(), words.end(), [](uint64_t w) { return w == 0; })) continue;
      crc = hot::crc32c(crc, &page, 8);
      crc = hot::crc32c(crc, words.data(), kPage);
    }
  });
  return crc;
}

Fate fate_of(const KernelSigaction& action, int signo) {
  if (signo == SIGKILL) return Fate::Die;
  if (signo == SIGSTOP) return Fate::StopProcess;
  if (action.handler == 1) return Fate::Ignore;
  if (action.handler != 0) return Fate::Handle;
  switch (signo) {
    case SIGCHLD:
    case SIGURG:
    case SIGWINCH:
    case SIGCONT:
      return Fate::Ignore;
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
      return Fate::StopProcess;
    default:
      return Fate::Die;
  }
}

bool is_synchronous(int signo) {
  return signo == SIGSEGV || signo == SIGBUS || signo == SIGFPE || signo == SIGILL || signo == SIGTRAP;
}

std::optional<uint64_t> waiting_mask(uint64_t nr, const uint64_t args[6]) {
  const Waiting& waiting = syscall_row(nr).waiting;
  uint64_t at = waiting.mask < 0 ? 0 : args[waiting.mask], mask;
  if (waiting.mask_behind && at && !read_guest(at, &at)) at = 0;
  if (at == 0 || !read_guest(at, &mask)) return std::nullopt;
  return mask;
}

void restart_interrupted(Context& ctx, uint64_t nr, int64_t result, const KernelSigaction& action) {
  constexpr uint64_t kRestart = 0x1000'0000;
  if (result != -EINTR || !(action.flags & kRestart)) return;
  // Not with a timeout: the kernel would have to remember how much of it is left.
  constexpr uint64_t kOperation = 0x7f, kRequeue = 3, kCompareRequeue = 4;
  const uint64_t operation = ctx.gpr[RSI] & kOperation;
  const bool endless_futex =
      nr == SYS_futex && (ctx.gpr[R10] == 0 || operation == kRequeue || operation == kCompareRequeue);
  if (!endless_futex && !(syscall_row(nr).traits & kRestarts)) return;
  ctx.rip -= 2;
  ctx.gpr[RAX] = nr;
}

siginfo_t fault_siginfo(const engine::FaultInfo& fault) {
  siginfo_t info;
  std::memset(&info, 0, sizeof info);
  info.si_signo = fault.signo;
  info.si_code = fault.code;
  info.si_addr = reinterpret_cast<void*>(fault.address);
  return info;
}

TrapInfo fault_trap(const engine::FaultInfo& fault) {
  TrapInfo trap;
  trap.err = fault.error;
  trap.trapno = fault.trapno;
  trap.cr2 = fault.cr2;
  return trap;
}

}  // namespace backstep::guest
