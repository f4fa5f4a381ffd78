// The oracle: counts ticks of a natively running program by single-stepping it with ptrace. It shares no code
// and no idea with the engine, so that the two can be compared. Test code only.
//
// The rule (spec, section 1): +1 for every executed call, ret and indirect jump, and for every direct branch
// (jmp, jcc, loop*, jrcxz) that is taken to an address lower than or equal to its own. Each instruction is
// decoded with Zydis before the step; where RIP went afterwards says whether it was taken. A rep-prefixed
// string instruction is stepped once per iteration, stays where it is and is no branch. Far calls and returns
// (lcall, lret, iret) are calls and returns.
//
// A whole run is slow (some 50,000 instructions per second), and start-up code takes other paths natively
// (vdso, other addresses, other auxiliary vector). So with --markers nothing is stepped before the program's
// first system call 9999: counting starts at zero there and every later 9999 prints the count.
//
// With --watch, a marker with arguments (an address and a length) asks to watch these bytes from then on:
// they are compared after every step.
//
//   oracle [--markers] [--watch] [--syscalls] [--signals] [--sample N] [--] PROGRAM [ARG...]
//
// prints on stdout (the program's own output goes to /dev/null unless --output is given):
//   marker K TICK          at the K-th system call 9999 (before it is executed)
//   syscall NR TICK PC     with --syscalls: every system call, PC being the address of the instruction
//   signal SIGNO TICK PC   with --signals: every signal that stops the program, PC where it stopped
//   sample TICK PC         with --sample N: every N-th tick, PC being where the transfer went
//   change K TICK PC TICK PC   with --watch: the K-th watched bytes changed, between these two places
//   total TICK STEPS       at the end
// and exits with 0, or 2 when something went wrong. The program's exit: `exit STATUS` or `killed SIGNO`.
#include <Zydis/Zydis.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

constexpr uint64_t kMarker = 9999;

struct Options {
  bool markers = false, watch = false, syscalls = false, signals = false, output = false;
  uint64_t sample = 0;
  char** command = nullptr;
};

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "oracle: %s: %s\n", what, std::strerror(errno));
  std::exit(2);
}

// What the tick rule needs to know about one instruction.
struct Transfer {
  enum Kind { Other, Always, Direct, Syscall, Trap } kind = Other;
  uint64_t target = 0;  // Direct only
};

class Stepper {
 public:
  Stepper(pid_t pid, const Options& options) : pid_(pid), options_(options) {
    ZydisDecoderInit(&decoder_, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  }

  // Runs at full speed to the first marker, leaving the program behind it. False: it ended before.
  bool run_to_marker() {
    for (bool entering = true;;) {
      int signal = 0;
      if (!resume(PTRACE_SYSCALL, signal)) return false;
      if (stop_signal() == (SIGTRAP | 0x80)) {
        user_regs_struct regs = registers();
        if (!entering && regs.orig_rax == kMarker) {
          report_marker(regs);
          return true;
        }
        entering = !entering;
      } else {
        pending_ = stop_signal() == SIGTRAP ? 0 : stop_signal();
      }
    }
  }

  void step_to_end() {
    for (user_regs_struct regs = registers(), next;; regs = next) {
      const Transfer transfer = decode(regs.rip);
      if (transfer.kind == Transfer::Syscall) {
        if (options_.syscalls) std::printf("syscall %llu %lu 0x%llx\n", regs.rax, tick_, regs.rip);
        if (regs.rax == kMarker) report_marker(regs);
      }
      int signal = pending_;
      pending_ = 0;
      const uint64_t tick_before = tick_;
      if (!resume(PTRACE_SINGLESTEP, signal)) return;
      steps_++;
      next = registers();
      uint64_t now = next.rip;
      // Only int3 and system calls (raise, kill) can make a SIGTRAP that is not ours: asking each time is
      // slow.
      bool may_trap = transfer.kind == Transfer::Syscall || transfer.kind == Transfer::Trap;
      if (stop_signal() == SIGTRAP && !(may_trap && own_trap())) {
        // With a signal to deliver, the stop is at the handler's first instruction: nothing was executed.
        if (signal == 0) count(transfer, regs.rip, now);
        look(tick_before, regs.rip, now);
        continue;
      }
      // A fault leaves RIP at the instruction (it was not executed); int3 leaves it behind; anything else
      // arrived after the instruction had been executed.
      if (signal == 0 && now != regs.rip) count(transfer, regs.rip, now);
      look(tick_before, regs.rip, now);
      pending_ = stop_signal();
      if (options_.signals) std::printf("signal %d %lu 0x%lx\n", pending_, tick_, now);
    }
  }

  void report_end() {
    std::printf("total %lu %lu\n", tick_, steps_);
    if (WIFEXITED(status_)) std::printf("exit %d\n", WEXITSTATUS(status_));
    if (WIFSIGNALED(status_)) std::printf("killed %d\n", WTERMSIG(status_));
  }

 private:
  bool resume(__ptrace_request how, int signal) {
    if (ptrace(how, pid_, nullptr, signal) != 0) fail("ptrace");
    if (waitpid(pid_, &status_, 0) != pid_) fail("waitpid");
    return WIFSTOPPED(status_);
  }
  int stop_signal() const { return WSTOPSIG(status_); }

  user_regs_struct registers() {
    user_regs_struct regs;
    if (ptrace(PTRACE_GETREGS, pid_, nullptr, &regs) != 0) fail("PTRACE_GETREGS");
    return regs;
  }

  // SIGTRAP of the program's own (int3, raise), as opposed to the end of a step.
  bool own_trap() {
    siginfo_t info;
    if (ptrace(PTRACE_GETSIGINFO, pid_, nullptr, &info) != 0) fail("PTRACE_GETSIGINFO");
    return info.si_code <= 0 || info.si_code == SI_KERNEL;
  }

  void report_marker(const user_regs_struct& regs) {
    std::printf("marker %lu %lu\n", markers_++, tick_);
    if (options_.watch && regs.rdi && regs.rsi) watched_.push_back({regs.rdi, read(regs.rdi, regs.rsi)});
  }

  std::vector<unsigned char> read(uint64_t address, uint64_t length) {
    std::vector<unsigned char> bytes(length);
    iovec local{bytes.data(), length}, remote{reinterpret_cast<void*>(address), length};
    if (process_vm_readv(pid_, &local, 1, &remote, 1, 0) != static_cast<ssize_t>(length)) bytes.clear();
    return bytes;
  }

  void look(uint64_t tick_before, uint64_t from, uint64_t to) {
    for (size_t k = 0; k < watched_.size(); k++) {
      auto& [address, contents] = watched_[k];
      auto now = read(address, contents.size());
      if (now == contents) continue;
      contents = now;
      std::printf("change %zu %lu 0x%lx %lu 0x%lx\n", k, tick_before, from, tick_, to);
    }
  }

  void count(const Transfer& transfer, uint64_t from, uint64_t to) {
    bool ticks = transfer.kind == Transfer::Always ||
                 (transfer.kind == Transfer::Direct && to == transfer.target && to <= from);
    if (!ticks) return;
    tick_++;
    if (options_.sample && tick_ % options_.sample == 0) std::printf("sample %lu 0x%lx\n", tick_, to);
  }

  // Remembers what it decoded: the programs compared here do not modify their code.
  const Transfer& decode(uint64_t pc) {
    auto [at, fresh] = decoded_.try_emplace(pc);
    if (fresh) at->second = decode_bytes(pc);
    return at->second;
  }

  Transfer decode_bytes(uint64_t pc) {
    unsigned char bytes[15];
    iovec local{bytes, sizeof bytes}, remote{reinterpret_cast<void*>(pc), sizeof bytes};
    ssize_t n = process_vm_readv(pid_, &local, 1, &remote, 1, 0);
    if (n <= 0) {  // up to the end of the page, or not readable at all
      remote.iov_len = 4096 - pc % 4096 < 15 ? 4096 - pc % 4096 : 15;
      n = process_vm_readv(pid_, &local, 1, &remote, 1, 0);
      if (n <= 0) return {};
    }
    ZydisDecodedInstruction insn;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    if (ZYAN_FAILED(ZydisDecoderDecodeFull(&decoder_, bytes, static_cast<size_t>(n), &insn, operands)))
      return {};
    if (insn.mnemonic == ZYDIS_MNEMONIC_SYSCALL) return {Transfer::Syscall, 0};
    if (insn.mnemonic == ZYDIS_MNEMONIC_INT3 || insn.mnemonic == ZYDIS_MNEMONIC_INT1)
      return {Transfer::Trap, 0};
    switch (insn.meta.category) {
      case ZYDIS_CATEGORY_CALL:
      case ZYDIS_CATEGORY_RET:
        return {Transfer::Always, 0};
      case ZYDIS_CATEGORY_UNCOND_BR:
      case ZYDIS_CATEGORY_COND_BR:
        if (insn.operand_count == 0 || operands[0].type != ZYDIS_OPERAND_TYPE_IMMEDIATE)
          return {Transfer::Always, 0};
        return {Transfer::Direct, pc + insn.length + static_cast<uint64_t>(operands[0].imm.value.s)};
      default:
        return {};
    }
  }

  pid_t pid_;
  const Options& options_;
  ZydisDecoder decoder_;
  std::unordered_map<uint64_t, Transfer> decoded_;
  int status_ = 0, pending_ = 0;
  uint64_t tick_ = 0, steps_ = 0, markers_ = 0;
  std::vector<std::pair<uint64_t, std::vector<unsigned char>>> watched_;  // address, contents
};

Options parse(int argc, char** argv) {
  Options options;
  int i = 1;
  for (; i < argc && argv[i][0] == '-'; i++) {
    if (!std::strcmp(argv[i], "--")) {
      i++;
      break;
    }
    if (!std::strcmp(argv[i], "--markers"))
      options.markers = true;
    else if (!std::strcmp(argv[i], "--watch"))
      options.watch = true;
    else if (!std::strcmp(argv[i], "--syscalls"))
      options.syscalls = true;
    else if (!std::strcmp(argv[i], "--signals"))
      options.signals = true;
    else if (!std::strcmp(argv[i], "--output"))
      options.output = true;
    else if (!std::strcmp(argv[i], "--sample") && i + 1 < argc)
      options.sample = std::strtoull(argv[++i], nullptr, 0);
    else {
      std::fprintf(stderr, "oracle: unknown option %s\n", argv[i]);
      std::exit(2);
    }
  }
  if (i >= argc) {
    std::fprintf(stderr,
                 "usage: oracle [--markers] [--watch] [--syscalls] [--signals] [--sample N] [--output] [--] "
                 "PROGRAM [ARG...]\n");
    std::exit(2);
  }
  options.command = argv + i;
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  Options options = parse(argc, argv);
  // Stepper and program take turns; on one processor the switch costs half.
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(sched_getcpu(), &here);
  sched_setaffinity(0, sizeof here, &here);
  pid_t pid = fork();
  if (pid < 0) fail("fork");
  if (pid == 0) {
    personality(ADDR_NO_RANDOMIZE);
    if (!options.output) {
      int null = open("/dev/null", O_RDWR);
      dup2(null, 1);
      dup2(null, 2);
      close(null);
    }
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    execv(options.command[0], options.command);
    _exit(127);
  }
  int status;
  if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) {
    std::fprintf(stderr, "oracle: cannot start %s\n", options.command[0]);
    return 2;
  }
  if (ptrace(PTRACE_SETOPTIONS, pid, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) != 0)
    fail("PTRACE_SETOPTIONS");
  Stepper stepper(pid, options);
  if (options.markers && !stepper.run_to_marker()) {
    std::fprintf(stderr, "oracle: the program never executed system call 9999\n");
    return 2;
  }
  stepper.step_to_end();
  stepper.report_end();
}
