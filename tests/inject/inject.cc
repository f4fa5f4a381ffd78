// Signals at the worst moment, on purpose. The recorder's code between the guest's `syscall` instruction and
// the kernel's is a window in which a signal that arrives could be lost: the call would go to sleep with the
// signal's handler not run. Luck finds such windows once in a thousand runs; this tool puts a signal behind
// *every* instruction of them.
//
//   inject OFFSET NR STRIDE FIRST LAST [SEAT HIT] -- COMMAND...
//
// It runs COMMAND (backstep record … PROGRAM) under ptrace, with a breakpoint at OFFSET in the program's
// file: that is bs_exit_syscall, where all system calls of the guest come by. The guest says `getppid()` at
// the start of each round; the next call NR after it is stepped through instruction by instruction, and
// behind number FIRST + round * STRIDE the process gets SIGUSR1, or one thread, if the guest says which as an
// argument of getppid. When the stepping comes to where the
// recorder is about to sleep, or back to the code cache, the whole window has been covered: the guest gets
// SIGUSR2, which tells it that this was the last round. (At LAST, too.)
//
// The recorder's runner may go from one kernel thread to another (record_seats.cc). A window ends where the
// one that it leaves falls asleep; with SEAT, the offset of bs_take_seat, it begins where the runner has
// arrived at another one for the HIT-th time in the round, and NR is not looked at.
//
// Whoever does not come to its next system call within some seconds has lost the signal: status 1, with the
// place. Only tests use ptrace; the recorder does not know that it is traced.
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>

namespace {

constexpr long kMarker = SYS_getppid;
constexpr unsigned kPatience = 300;  // seconds; a machine may be busy
constexpr unsigned long kCacheEnd = 0x8000'0000;
constexpr unsigned long kTrapFlag = 0x100;

pid_t child;          // the thread that runs guest code: another one, once it has moved (record_seats.cc)
pid_t process;        // whose thread it is
unsigned long place;  // of the breakpoint
unsigned long seat;   // of the other one; 0: none
const char* doing = "starting";
std::set<pid_t> threads;  // that have been met beside it

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "inject: %s (while %s: %s)\n", what.c_str(), doing, std::strerror(errno));
  if (child > 0) kill(child, SIGKILL);
  _exit(2);
}

long check(long result, const char* what) {
  if (result < 0) fail(what);
  return result;
}

user_regs_struct registers() {
  user_regs_struct r{};
  check(ptrace(PTRACE_GETREGS, child, nullptr, &r), "cannot read registers");
  return r;
}

long word_at(unsigned long address) {
  errno = 0;
  const long word = ptrace(PTRACE_PEEKTEXT, child, address, nullptr);
  if (errno) {
    std::ostringstream what;
    what << "cannot read memory at 0x" << std::hex << address;
    fail(what.str());
  }
  return word;
}

void set_byte(unsigned long address, unsigned char byte) {
  const long word = (word_at(address) & ~0xffL) | byte;
  check(ptrace(PTRACE_POKETEXT, child, address, word), "cannot write memory");
}

unsigned long base_of(const std::string& program) {
  std::ifstream maps("/proc/" + std::to_string(child) + "/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.size() >= program.size() &&
        line.compare(line.size() - program.size(), program.size(), program) == 0)
      return std::stoul(line, nullptr, 16);
  fail("the program is not mapped");
}

std::string place_of(unsigned long pc, unsigned long base) {
  std::ostringstream text;
  text << std::hex << "0x" << pc << " (file offset 0x" << pc - base << ")";
  return text.str();
}

volatile sig_atomic_t late;
void on_alarm(int) {
  late = 1;
}

// The next stop of the child. False: it has ended; `status` says how.
bool wait_for_stop(int& status) {
  alarm(kPatience);
  for (;;) {
    const pid_t who = waitpid(-1, &status, __WALL);
    if (who < 0) {
      if (errno != EINTR) fail("cannot wait");
      if (late) return true;
      continue;
    }
    if (who == child && who != process && !WIFSTOPPED(status)) {
      child = process;  // the runner has left it for good
      continue;
    }
    if (who == child || (who == process && !WIFSTOPPED(status))) break;
    if (!WIFSTOPPED(status)) continue;
    // Another kernel thread: it has begun, or it gets a signal, or it is the one that runs guest code now.
    const int signo = WSTOPSIG(status);
    user_regs_struct r{};
    ptrace(PTRACE_GETREGS, who, nullptr, &r);
    if (signo == SIGTRAP && ((place && r.rip == place + 1) || (seat && r.rip == seat + 1))) {
      child = who;
      break;
    }
    // At its first stop it may have the flag of who made it, step by step. (A signal of the recorder's may
    // come to it before the SIGSTOP that all begin with does.)
    if (threads.insert(who).second && r.eflags & kTrapFlag) {
      r.eflags &= ~kTrapFlag;
      ptrace(PTRACE_SETREGS, who, nullptr, &r);
    }
    ptrace(PTRACE_CONT, who, nullptr, signo == SIGSTOP || status >> 16 ? 0 : signo);
  }
  alarm(0);
  return WIFSTOPPED(status);
}

int code_of_signal() {
  siginfo_t info{};
  return ptrace(PTRACE_GETSIGINFO, child, nullptr, &info) == 0 ? info.si_code : 0;
}

// About to sleep? `nr`: the call that the guest asked for; else the recorder's own way to wait. (With a limit
// it waits for another kernel thread of its own, which answers at once.)
bool about_to_sleep(const user_regs_struct& r, long nr) {
  constexpr long kSyscallBytes = 0x050f, kFutexCommand = 0x7f, kWait = 0, kWaitBitset = 9;
  if ((word_at(r.rip) & 0xffff) != kSyscallBytes) return false;
  const auto number = static_cast<long>(r.rax);
  const auto command = static_cast<long>(r.rsi) & kFutexCommand;
  return number == nr || (number == SYS_futex && ((command == kWait && !r.r10) || command == kWaitBitset));
}

}  // namespace

int main(int argc, char** argv) {
  const bool seats = argc >= 10 && std::strcmp(argv[8], "--") == 0;
  char** const command = argv + (seats ? 9 : 7);
  if (argc < 8 || std::strcmp(command[-1], "--") != 0) {
    std::fprintf(stderr, "usage: inject OFFSET NR STRIDE FIRST LAST [SEAT HIT] -- COMMAND...\n");
    return 2;
  }
  const unsigned long offset = std::stoul(argv[1], nullptr, 16);
  const long nr = std::stol(argv[2]), stride = std::stol(argv[3]), first = std::stol(argv[4]),
             last = std::stol(argv[5]);
  struct sigaction action {};
  action.sa_handler = on_alarm;
  sigaction(SIGALRM, &action, nullptr);
  child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    execvp(command[0], command);
    _exit(127);
  }
  int status = 0;
  if (!wait_for_stop(status)) fail("the command did not start");
  process = child;
  const unsigned long base = base_of(command[0]);
  place = base + offset;
  const auto byte = static_cast<unsigned char>(word_at(place));
  set_byte(place, 0xcc);
  const long wanted_hit = seats ? std::stol(argv[7]) : 0;
  if (seats) seat = base + std::stoul(argv[6], nullptr, 16);
  const auto seat_byte = seat ? static_cast<unsigned char>(word_at(seat)) : byte;
  if (seat) set_byte(seat, 0xcc);
  check(
      ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_EXITKILL | PTRACE_O_TRACEFORK | PTRACE_O_TRACECLONE),
      "cannot set options");
  // A process that the guest makes has our breakpoint, and goes without.
  auto let_go = [&] {
    unsigned long made = 0;
    check(ptrace(PTRACE_GETEVENTMSG, child, nullptr, &made), "cannot learn of a new process");
    const pid_t parent = std::exchange(child, static_cast<pid_t>(made));
    int ignored = 0;
    if (waitpid(child, &ignored, __WALL) != child) fail("cannot wait for a new process");
    set_byte(place, byte);
    if (seat) set_byte(seat, seat_byte);
    check(ptrace(PTRACE_DETACH, child, nullptr, nullptr), "cannot let a new process go");
    child = parent;
  };

  // One instruction. A signal of the recorder's own that comes meanwhile has to wait until the stepping is
  // over: its handler runs with SIGTRAP blocked, and a step there would make the kernel reset what SIGTRAP
  // does.
  std::optional<siginfo_t> held;
  auto step_once = [&] {
    constexpr unsigned char kPushf = 0x9c, kPopf = 0x9d;
    for (;;) {
      const user_regs_struct before = registers();
      const auto opcode = static_cast<unsigned char>(word_at(before.rip));
      // (Only there: a stack pointer may stand behind the last word of a stack, where nothing can be read.)
      const auto top = opcode == kPopf ? static_cast<unsigned long>(word_at(before.rsp)) : 0;
      check(ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr), "cannot step");
      if (!wait_for_stop(status)) fail("the program ended in the window");
      if (late) fail("it sleeps in the middle of a step");
      if (status >> 16) continue;  // in the middle of a call that makes a kernel thread
      siginfo_t info{};
      check(ptrace(PTRACE_GETSIGINFO, child, nullptr, &info), "cannot learn why it stopped");
      if (info.si_signo != SIGTRAP || info.si_code < 0) {
        held = info;
      }
      user_regs_struct now = registers();
      if (now.rip == before.rip) continue;  // only the signal has come (no instruction here jumps to itself)
      // The flag that makes the step is not the program's; the kernel does not tell them apart around these.
      if (opcode == kPushf)
        check(ptrace(PTRACE_POKETEXT, child, now.rsp, word_at(now.rsp) & ~static_cast<long>(kTrapFlag)),
              "cannot write memory");
      if (const unsigned long flag = top & kTrapFlag; (now.eflags & kTrapFlag) != flag) {
        now.eflags = (now.eflags & ~kTrapFlag) | flag;
        check(ptrace(PTRACE_SETREGS, child, nullptr, &now), "cannot set registers");
      }
      return;
    }
  };
  // False: the window ends before.
  auto step = [&](long count) {
    doing = "stepping";
    for (long i = 0; i < count; i++) {
      const user_regs_struct r = registers();
      if (i > 0 && (r.rip < kCacheEnd || about_to_sleep(r, nr))) return false;
      step_once();
    }
    return true;
  };

  bool armed = false;
  long hits = 0;
  int to = 0;  // a thread; 0: the process
  auto send = [&](int signo) {
    if (to)
      syscall(SYS_tgkill, process, to, signo);
    else
      kill(process, signo);
  };
  long rounds = 0, behind = first;
  unsigned long injected_at = 0;
  int forward = 0;
  for (;;) {
    doing = "running";
    check(ptrace(PTRACE_CONT, child, nullptr, forward), "cannot continue");
    forward = 0;
    if (!wait_for_stop(status)) break;
    if (late) {
      std::fprintf(stderr,
                   "inject: a signal behind instruction %ld of the way into call %ld was lost, at %s\n",
                   behind - stride, nr, place_of(injected_at, base).c_str());
      kill(process, SIGKILL);
      return 1;
    }
    if (status >> 8 == (SIGTRAP | PTRACE_EVENT_FORK << 8)) {
      let_go();
      continue;
    }
    if (status >> 8 == (SIGTRAP | PTRACE_EVENT_CLONE << 8)) continue;
    const int signo = WSTOPSIG(status);
    user_regs_struct r = registers();
    const bool sits = signo == SIGTRAP && seat && r.rip == seat + 1;
    const bool met = sits || (signo == SIGTRAP && r.rip == place + 1);
    if (met) {
      r.rip = sits ? seat : place;
      check(ptrace(PTRACE_SETREGS, child, nullptr, &r), "cannot set registers");
    }
    // Of two that come at once the kernel keeps one: the recorder's own goes first, and we come by again.
    if (!met || code_of_signal() < 0) {
      forward = signo;
      continue;
    }
    set_byte(sits ? seat : place, sits ? seat_byte : byte);
    const auto number = sits ? -1 : static_cast<long>(r.rax);
    if (number == kMarker) armed = true, hits = 0, to = static_cast<int>(r.rdi);
    if (sits) hits++;
    if (armed && (seat ? sits && hits == wanted_hit : number == nr)) {
      armed = false;
      const bool more = step(behind);
      injected_at = registers().rip;
      if (!more || behind >= last) send(SIGUSR2);
      send(SIGUSR1);
      if (held) {
        check(ptrace(PTRACE_SETSIGINFO, child, nullptr, &*held), "cannot give a signal back");
        forward = held->si_signo;
        held.reset();
      }
      rounds++;
      behind += stride;
    } else {
      check(ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr), "cannot step");
      if (!wait_for_stop(status)) break;
      if (WSTOPSIG(status) != SIGTRAP || code_of_signal() < 0) forward = WSTOPSIG(status);
    }
    set_byte(sits ? seat : place, 0xcc);
  }
  std::fprintf(stderr, "inject: call %ld, %ld signals, up to %ld instructions\n", nr, rounds,
               behind - stride);
  if (WIFSIGNALED(status)) std::fprintf(stderr, "inject: the program died of signal %d\n", WTERMSIG(status));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
