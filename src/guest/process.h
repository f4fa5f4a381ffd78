// The guest process as Linux would keep it: memory map, brk, signal dispositions, masks and stacks, thread
// pointers. All of this is a function of the guest's own actions, so recorder and replayer share one
// implementation: both call the same methods, with real memory underneath, and get the same results.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "guest/limits.h"
#include "guest/memory_map.h"
#include "guest/signal_frame.h"
#include "guest/thread.h"

namespace backstep::guest {

inline constexpr int kSignals = 64;

// A page of a private mapping that the program has written to.
struct OwnPage {
  uint64_t at = 0;
  std::vector<unsigned char> bytes;
};

class Process {
 public:
  explicit Process(const EngineOptions& options);

  engine::Engine& engine() { return engine_; }
  const engine::Engine& engine() const { return engine_; }
  // Translations outlive the process in this folder (empty: they do not). When the program is loaded.
  void keep_translations(const std::string& folder);
  // Asked before code in memory that is shared is read: can the page be read, and all from `first` on that
  // were asked for before it?
  std::function<bool(uint64_t first, uint64_t page)> code_is_there;
  MemoryMap map;
  SignalState signals;  // of the thread that has the turn
  KernelSigaction actions[kSignals + 1] = {};
  uint64_t xcr0 = 7;  // vector state shown to the guest
  Limits limits;
  uint64_t initialized_data = 0;     // of the program's image: counts with brk's memory
  uint64_t first_stack = 132 << 10;  // what the stack has at the start, used or not

  // Threads. Never empty; the one that has the turn is current().
  Thread& current() { return *current_; }
  const Thread& current() const { return *current_; }
  Thread* thread(int name);  // null: ended or never was
  const std::map<int, std::unique_ptr<Thread>>& threads() const { return threads_; }
  // clone(CLONE_THREAD) by the current thread: the new one starts behind the call, with 0 as its result.
  Thread& start_thread(uint64_t flags, uint64_t stack, uint64_t tls, int tid);
  // Hands the turn over. The tick grows by one, so that a control point names one moment of one thread.
  void turn_to(Thread& next);
  // Forgets a thread that does not have the turn.
  void end_thread(Thread& thread);
  // The other threads are gone (fork).
  void keep_only_current();
  // A checkpoint: all threads as they were, their registers included (those of the current one are in the
  // context already).
  void adopt_threads(std::map<int, std::unique_ptr<Thread>> threads, int current, int next_name);
  int next_name() const { return next_name_; }
  bool has_lodgers() const;
  // What the process does about a signal, whoever has the turn.
  const KernelSigaction& action(int signo) const {
    return current_->own_actions.empty() ? actions[signo] : process_actions_[static_cast<size_t>(signo)];
  }

  // May host code touch guest memory? `writable` also takes write watches off.
  bool readable(uint64_t addr, uint64_t size) const;
  bool writable(uint64_t addr, uint64_t size);
  // As the kernel copies to user memory: up to the first byte that cannot be written. False: not all of it.
  bool copy_out(uint64_t addr, const void* from, uint64_t size);

  // The real protection of a page of the guest's as it must be now, write watches included; -1: not mapped.
  int page_protection(uint64_t page) const;

  // The kernel, or host code, is about to write there for the guest.
  void prepare_write(uint64_t start, uint64_t end);
  // A store to a page whose contents are also mapped as code elsewhere (a file mapped twice)? Then that code
  // is forgotten and the store can be made again: true.
  // The real rights to these pages are about to be set by somebody else: code that was translated from other
  // views of them is gone.
  void forget_aliases(uint64_t start, uint64_t end);
  bool alias_write(const engine::FaultInfo& fault);

  // Gives up all that the guest has mapped.
  void unmap_all();
  // The protection that the kernel is told where the guest asked for `prot`.
  static int real_protection(int prot);

  // Do the limits allow a new mapping there, in place of what is there now? As the kernel counts.
  bool room_for_mapping(uint64_t start, uint64_t end, bool data) const;
  // Natively the initial stack grows as it is touched: how large it would be now; where it may grow to.
  uint64_t stack_size() const;
  uint64_t stack_start() const;

  // Maps `r` really, replacing guest mappings there; never anything of the host's. `fd` < 0: anonymous.
  // 0 or -errno.
  long map_region(const Region& r, int fd, int extra_flags = 0);

  // Puts another file under a private mapping of one. Pages that the program has written to stay what they
  // are; these are returned. Throws Error.
  std::vector<OwnPage> change_backing(const Region& r, int fd);

  // System calls with effects on the above only. Results as the kernel's: value or -errno.
  long sys_munmap(uint64_t addr, uint64_t length);
  // `changed`: how much of it, from `addr` on, if it fails.
  long sys_mprotect(uint64_t addr, uint64_t length, uint64_t prot, uint64_t* changed = nullptr);
  long sys_shmdt(uint64_t addr);
  long sys_brk(uint64_t addr);
  long sys_madvise(uint64_t addr, uint64_t length, uint64_t advice);
  // `forced`: put a moved mapping there (replay).
  long sys_mremap(const uint64_t args[6], std::optional<uint64_t> forced);
  // The bases of fs and gs; other codes (is_base_prctl) are the recorder's to answer.
  static bool is_base_prctl(uint64_t code);
  long sys_arch_prctl(uint64_t code, uint64_t value);
  long sys_rt_sigaction(const uint64_t args[6]);
  long sys_rt_sigprocmask(const uint64_t args[6]);
  long sys_sigaltstack(uint64_t new_stack, uint64_t old_stack);
  bool sys_rt_sigreturn();  // false: bad frame

  // Does an instruction of the host's that is deterministic (engine/host_ops.h); the fault that it raises, if
  // any.
  std::optional<engine::FaultInfo> emulate(const isa::Insn& insn);
  // The fault of fetching code at an address that has none.
  engine::FaultInfo bad_fetch(uint64_t address) const;
  // rt_sigsuspend: the temporary mask, until a handler returns.
  void suspend_mask(uint64_t mask);
  void set_mask(uint64_t mask);
  void restore_mask();  // … or until the call returns without one

  // Enters the guest's handler. False: cannot (no stack): the signal is lost, and SIGSEGV takes its place.
  bool push_handler(int signo, const siginfo_t& info, const TrapInfo& trap);
  // … that one, if it has a handler, which may have another stack. nullopt: the process must die of SIGSEGV.
  std::optional<siginfo_t> forced_by(int signo) const;

  // Only the frame, for an action that is not in `actions`.
  bool push_frame(const KernelSigaction& action, int signo, const siginfo_t& info);

  // CRC-32C over all writable private guest memory that is present, for deep checks.
  uint32_t memory_checksum() const;

 private:
  bool room_for(uint64_t bytes, bool data) const;
  long advise(const Region& region, uint64_t start, uint64_t end, uint64_t advice);
  long unmap_guest_parts(uint64_t start, uint64_t end);
  void watch_aliases(const Region& code, uint64_t page);
  void drop_alias(uint64_t page);

  std::multimap<uint64_t, uint64_t> aliases_;  // page that shows the contents -> page that code was made from
  uint64_t visible_state() const;

  engine::Engine engine_;
  std::map<int, std::unique_ptr<Thread>> threads_;  // by name
  Thread* current_;
  int next_name_ = 2;
  std::vector<KernelSigaction> process_actions_;  // … while a thread with own ones has the turn
};

// What a disposition means for a signal that arrives now.
enum class Fate { Ignore, Handle, Die, StopProcess };
Fate fate_of(const KernelSigaction& action, int signo);
bool is_synchronous(int signo);  // SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP

// A call that a handler with SA_RESTART interrupted is made again after the handler: rip goes back to it.
// Before pushing the handler's frame, in both worlds.
void restart_interrupted(Context& ctx, uint64_t nr, int64_t result, const KernelSigaction& action);

// The signal mask that a call waits with instead of the thread's own; nullopt: it has none.
std::optional<uint64_t> waiting_mask(uint64_t nr, const uint64_t args[6]);

// siginfo and trap details for a fault of the guest's code.
siginfo_t fault_siginfo(const engine::FaultInfo& fault);
TrapInfo fault_trap(const engine::FaultInfo& fault);

// The guest's first six system-call arguments.
inline void syscall_args(const Context& ctx, uint64_t args[6]) {
  args[0] = ctx.gpr[RDI], args[1] = ctx.gpr[RSI], args[2] = ctx.gpr[RDX];
  args[3] = ctx.gpr[R10], args[4] = ctx.gpr[R8], args[5] = ctx.gpr[R9];
}

}  // namespace backstep::guest
