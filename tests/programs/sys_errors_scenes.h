// What needs more than one call, for sys_errors.c.
#include <poll.h>
#include <setjmp.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/un.h>

// Another process, which does something a little later: so that we wait for it.
struct Task {
  void (*what)(long);
  long with;
};
// Until that process sleeps in its call; or, if it does not, for a second.
static void until_it_sleeps(pid_t pid) {
  char name[40], text[512];
  snprintf(name, sizeof name, "/proc/%d/stat", pid);
  for (int seen = 0, i = 0; seen < 2 && i < 300; i++) {
    usleep(3000);
    FILE* f = fopen(name, "r");
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    const char* state = strrchr(text, ')');
    seen = state && state[1] == ' ' && state[2] == 'S' ? seen + 1 : 0;
  }
}

static int tasks[2], done[2];
static pid_t helper;
static void start_helper(void) {
  CHECK(pipe(tasks) == 0 && pipe(done) == 0);
  helper = fork();
  CHECK(helper >= 0);
  if (helper > 0) return;
  close(tasks[1]);
  for (struct Task t; read(tasks[0], &t, sizeof t) == sizeof t;) {
    until_it_sleeps(getppid());
    t.what(t.with);
    CHECK(write(done[1], "x", 1) == 1);
  }
  _exit(0);
}
static void later(void (*what)(long), long with) {
  const struct Task t = {what, with};
  CHECK(write(tasks[1], &t, sizeof t) == sizeof t);
}
static void gone(void) {
  char byte;
  CHECK(read(done[0], &byte, 1) == 1);
}

static int ends[2], pair[2];

static void prepare_world(void) {
  CHECK(pipe2(ends, O_NONBLOCK) == 0);
  pipe_read = ends[0], pipe_write = ends[1];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  unix_a = pair[0], unix_b = pair[1];
  event = eventfd(0, EFD_NONBLOCK);
  epoll = epoll_create1(0);
  struct epoll_event e = {EPOLLIN, {0}};
  CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, event, &e) == 0);
  timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
  sa_family_t family = AF_UNIX;
  CHECK(bind(listener, (void*)&family, 2) == 0 && listen(listener, 1) == 0);
  queue = msgget(IPC_PRIVATE, 0600);
  semaphores = semget(IPC_PRIVATE, 1, 0600);
  CHECK(queue >= 0 && semaphores >= 0);
  CHECK(pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
  start_helper();
}

static void clean_world(void) {
  msgctl(queue, IPC_RMID, 0);
  semctl(semaphores, 0, IPC_RMID);
  close(tasks[1]);
  int status;
  CHECK(waitpid(helper, &status, 0) == helper && status == 0);
}

// One call by name, with the buffer's changes.
static long say(const char* name, int flags, int nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                uint64_t e, uint64_t f) {
  const uint64_t args[6] = {a, b, c, d, e, f};
  memcpy(before, buffer, kSize);
  const long result = make(nr, args);
  printf("%s:", name);
  print_result(result, flags);
  print_changes(flags);
  printf("\n");
  return result;
}
#define SAY(name, flags, nr, a, b, c, d, e) \
  say(name, flags, nr, (uint64_t)(a), (uint64_t)(b), (uint64_t)(c), (uint64_t)(d), (uint64_t)(e), 0)
#define FRESH memset(buffer, kPattern, kSize)

enum { kBad = 5 };
static uint64_t bad_pointer(int i) {
  const uint64_t bad[kBad] = {(uint64_t)nowhere, (uint64_t)closed, (uint64_t)constant,
                              (uint64_t)buffer + kSize - 4, 0x5a5a000000000000ul};
  return bad[i];
}
static const char* const kBadNames[kBad] = {"nowhere", "closed", "constant", "edge", "wild"};

static volatile int handled;
static void on_signal(int signo) {
  handled++;
}

// A signal to this thread, in a while; and again, as the first may come before the call that it is to end.
static timer_t alarm_for_me;
static void alarm_soon(void) {
  struct sigevent to = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
  to._sigev_un._tid = gettid();
  const struct itimerspec soon = {{0, 5000000}, {0, 5000000}};
  CHECK(timer_create(CLOCK_MONOTONIC, &to, &alarm_for_me) == 0);
  CHECK(timer_settime(alarm_for_me, 0, &soon, 0) == 0);
}

static void interrupted_sleeps(void) {
  const struct timespec second = {10, 0};
  struct sigaction act = {.sa_handler = on_signal};
  CHECK(sigaction(SIGUSR1, &act, 0) == 0);
  for (int i = -2; i < kBad; i++) {
    struct timespec* rem = (void*)(i == -2 ? 0 : i == -1 ? (uint64_t)buffer : bad_pointer(i));
    FRESH;
    for (int absolute = 0; absolute < (i < 1 ? 3 : 1); absolute++) {
      struct timespec until;
      clock_gettime(CLOCK_MONOTONIC, &until);
      until.tv_sec += 10;
      handled = 0;
      alarm_soon();
      long result;
      const uint64_t plain[6] = {(uint64_t)&second, (uint64_t)rem};
      const uint64_t clock[6] = {CLOCK_MONOTONIC, absolute == 2, (uint64_t)(absolute == 2 ? &until : &second),
                                 (uint64_t)rem};
      memcpy(before, buffer, kSize);
      result = make(absolute ? SYS_clock_nanosleep : SYS_nanosleep, absolute ? clock : plain);
      CHECK(timer_delete(alarm_for_me) == 0);
      printf("interrupted sleep %d %s:", absolute, i < -1 ? "null" : i < 0 ? "good" : kBadNames[i]);
      print_result(result, 0);
      print_changes(kVolatile);
      if (i == -1) printf(absolute == 2 ? "" : " %s", rem->tv_sec > 0 && rem->tv_sec < 10 ? "some" : "?");
      printf(" handled %d\n", handled > 0);
    }
  }
  for (int i = 0; i < 4; i++) {  // waits that a signal ends; the time left is told
    struct timespec ten = {10, 0};
    struct timeval ten_too = {10, 0};
    struct pollfd p = {pipe_read, POLLIN, 0x7777};
    long result = 0;
    alarm_soon();
    errno = 0;
    if (i == 0) result = syscall(SYS_ppoll, &p, 1, &ten, 0, 8);
    if (i == 1) result = syscall(SYS_select, 0, 0, 0, 0, &ten_too);
    if (i == 2) result = syscall(SYS_pselect6, 0, 0, 0, 0, &ten, 0);
    if (i == 3) result = syscall(SYS_epoll_pwait2, epoll, buffer, 1, &ten, 0, 8);
    const int error = errno;
    CHECK(timer_delete(alarm_for_me) == 0);
    printf("interrupted wait %d: %ld %s, %s left, %x\n", i, result, strerrorname_np(error),
           ten.tv_sec + ten_too.tv_sec < 20 ? "some" : "as before", p.revents);
  }
}

// To the process, if no other thread could take it.
static int send_it(int signo) {
  return alone ? kill(getpid(), signo) : tgkill(getpid(), gettid(), signo);
}

static void signals_taken(void) {
  const uint64_t set = 1ul << (SIGUSR1 - 1), none = 0;
  const struct timespec now = {0, 0}, soon = {5, 0};
  SAY("block", 0, SYS_rt_sigprocmask, SIG_BLOCK, &set, 0, 8, 0);
  for (int i = -2; i < kBad; i++)
    for (int how = 0; how < 3; how++) {
      void* info = (void*)(i == -2 ? 0 : i == -1 ? (uint64_t)buffer : bad_pointer(i));
      FRESH;
      if (how == 0) CHECK(tgkill(getpid(), gettid(), SIGUSR1) == 0);
      if (how == 1) CHECK(send_it(SIGUSR1) == 0);
      if (how == 2) alarm_soon();
      SAY("sigtimedwait", kVolatile, SYS_rt_sigtimedwait, &set, info, how == 2 ? &soon : &now, 8, 0);
      if (how == 2) {  // on a busy machine the timer may have gone off again
        CHECK(timer_delete(alarm_for_me) == 0);
        syscall(SYS_rt_sigtimedwait, &set, 0, &now, 8);
      }
      SAY("sigpending", 0, SYS_rt_sigpending, buffer, 4, 0, 0, 0);
    }
  // What is pending goes when it is ignored.
  FRESH;
  CHECK(tgkill(getpid(), gettid(), SIGUSR1) == 0 && send_it(SIGUSR1) == 0);
  SAY("pending", 0, SYS_rt_sigpending, buffer, 8, 0, 0, 0);
  struct {
    uint64_t handler, flags, restorer, mask;
  } act = {1, 0, 0, 0};
  SAY("ignore", 0, SYS_rt_sigaction, SIGUSR1, &act, 0, 8, 0);
  FRESH;
  SAY("pending", 0, SYS_rt_sigpending, buffer, 8, 0, 0, 0);
  act.handler = 0;
  SAY("default", 0, SYS_rt_sigaction, SIGUSR1, &act, 0, 8, 0);
  SAY("unblock", 0, SYS_rt_sigprocmask, SIG_SETMASK, &none, 0, 8, 0);
  // The new action counts even if the old one has no place.
  struct sigaction mine = {.sa_handler = on_signal};
  CHECK(sigaction(SIGUSR1, &mine, 0) == 0 && syscall(SYS_rt_sigaction, SIGUSR1, 0, &act, 8) == 0);
  const uint64_t handler = act.handler;
  act.handler = 1;
  SAY("ignore, bad old", 0, SYS_rt_sigaction, SIGUSR1, &act, closed, 8, 0);
  handled = 0;
  CHECK(send_it(SIGUSR1) == 0 && tgkill(getpid(), gettid(), SIGUSR1) == 0);
  act.handler = handler;
  SAY("handle, bad old", 0, SYS_rt_sigaction, SIGUSR1, &act, nowhere, 8, 0);
  CHECK(tgkill(getpid(), gettid(), SIGUSR1) == 0);
  printf("handled %d\n", handled);
}

static void remove_queue(long which) {
  msgctl(which, IPC_RMID, 0);
}
static void remove_set(long which) {
  semctl(which, 0, IPC_RMID);
}
static void queues(void) {
  struct {
    long type;
    char text[32];
  } message = {1, "text"};
  int id = msgget(IPC_PRIVATE, 0600);
  later(remove_queue, id);
  FRESH;
  SAY("msgrcv of a queue that goes", 0, SYS_msgrcv, id, buffer, 32, 0, 0);
  gone();
  SAY("msgrcv of a queue that is gone", 0, SYS_msgrcv, id, buffer, 32, 0, 0);
  SAY("msgsnd to it", 0, SYS_msgsnd, id, &message, 32, 0, 0);
  id = semget(IPC_PRIVATE, 1, 0600);
  later(remove_set, id);
  struct sembuf down = {0, -1, 0};
  const struct timespec ten = {10, 0};
  SAY("semop of a set that goes", 0, SYS_semop, id, &down, 1, 0, 0);
  gone();
  id = semget(IPC_PRIVATE, 1, 0600);
  later(remove_set, id);
  SAY("semtimedop of a set that goes", 0, SYS_semtimedop, id, &down, 1, &ten, 0);
  gone();
  for (int i = 0; i < kBad; i++) {
    CHECK(msgsnd(queue, &message, 16, 0) == 0);
    FRESH;
    SAY("msgrcv bad", 0, SYS_msgrcv, queue, bad_pointer(i), 32, 0, 0);
    SAY("msgrcv again", 0, SYS_msgrcv, queue, buffer, 32, 0, IPC_NOWAIT);
  }
  CHECK(msgsnd(queue, &message, 16, 0) == 0);
  FRESH;
  SAY("msgrcv too long", 0, SYS_msgrcv, queue, buffer, 8, 0, 0);
  SAY("msgrcv cut", 0, SYS_msgrcv, queue, buffer, 8, 0, MSG_NOERROR);
}

static void write_pipe(long n) {
  (void)!write(ends[1], "some words", n);
}
static void write_socket(long n) {
  (void)!send(pair[1], "some words", n, 0);
}
static void transfers(void) {
  char* end = buffer + kSize;
  // Longer than there is memory, but not longer than what comes.
  later(write_pipe, 10);
  FRESH;
  SAY("read beyond", 0, SYS_read, ends[0], end - 64, 4096, 0, 0);
  gone();
  later(write_pipe, 10);
  SAY("read much", 0, SYS_read, ends[0], end - 64, 1ul << 32, 0, 0);
  gone();
  for (int i = 0; i < kBad; i++) {
    FRESH;
    later(write_pipe, 10);
    SAY("read bad", 0, SYS_read, ends[0], bad_pointer(i), 10, 0, 0);
    gone();
    SAY("read again", 0, SYS_read, ends[0], buffer, 64, 0, 0);
    FRESH;
    later(write_socket, 10);
    SAY("recvfrom bad", 0, SYS_recvfrom, pair[0], bad_pointer(i), 10, 0, 0);
    gone();
    SAY("recvfrom none", 0, SYS_recvfrom, pair[0], buffer, 64, MSG_DONTWAIT, 0);
    // The header where it cannot be written to.
    struct iovec part = {buffer, 32};
    struct msghdr head = {.msg_iov = &part, .msg_iovlen = 1};
    CHECK(mprotect(constant, kPage, PROT_READ | PROT_WRITE) == 0);
    memcpy(constant, &head, sizeof head);
    CHECK(mprotect(constant, kPage, PROT_READ) == 0);
    FRESH;
    later(write_socket, 10);
    SAY("recvmsg", 0, SYS_recvmsg, pair[0], i == 0 ? (void*)&head : (void*)constant, 0, 0, 0);
    gone();
    SAY("recvmsg none", 0, SYS_recvfrom, pair[0], buffer, 64, MSG_DONTWAIT, 0);
    part.iov_base = (void*)bad_pointer(i);
    FRESH;
    later(write_socket, 10);
    SAY("recvmsg bad part", 0, SYS_recvmsg, pair[0], &head, 0, 0, 0);
    gone();
    SAY("recvmsg none", 0, SYS_recvfrom, pair[0], buffer, 64, MSG_DONTWAIT, 0);
    FRESH;
    later(write_pipe, 10);
    struct iovec two[2] = {{buffer, 4}, {(void*)bad_pointer(i), 16}};
    SAY("readv half bad", 0, SYS_readv, ends[0], two, 2, 0, 0);
    gone();
    struct iovec rest = {buffer + 100, 100};
    SAY("readv rest", 0, SYS_readv, ends[0], &rest, 1, 0, 0);
    // Ready, but nowhere to say so.
    later(write_pipe, 10);
    struct pollfd p = {ends[0], POLLIN, 0};
    CHECK(mprotect(constant, kPage, PROT_READ | PROT_WRITE) == 0);
    memcpy(constant, &p, sizeof p);
    CHECK(mprotect(constant, kPage, PROT_READ) == 0);
    memcpy(end - 4, &p, 4);
    SAY("poll", 0, SYS_poll, i == 0 ? (uint64_t)&p : bad_pointer(i), 1, 10000, 0, 0);
    int watch = epoll_create1(0);
    struct epoll_event e = {EPOLLIN, {.u64 = 77}};
    CHECK(epoll_ctl(watch, EPOLL_CTL_ADD, ends[0], &e) == 0);
    SAY("epoll_wait", 0, SYS_epoll_wait, watch, bad_pointer(i), 1, 10000, 0);
    FRESH;
    SAY("epoll_wait again", 0, SYS_epoll_wait, watch, buffer, 1, 10000, 0);
    SAY("epoll_wait beyond", 0, SYS_epoll_wait, watch, end - 12, 100, 10000, 0);
    close(watch);
    gone();
    SAY("read all", 0, SYS_read, ends[0], buffer, 64, 0, 0);
    CHECK(write(ends[1], "some words", 10) == 10);
    SAY("write bad", 0, SYS_write, ends[1], i == 2 ? bad_pointer(0) : bad_pointer(i), 10, 0, 0);
    SAY("read all", 0, SYS_read, ends[0], buffer, 64, 0, 0);
  }
}

static pid_t child_that_reads(int from) {
  fflush(stdout);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child > 0) return child;
  char byte;
  _exit(read(from, &byte, 1) != 1);
}
static void children(void) {
  int gate[2];
  CHECK(pipe(gate) == 0);
  const uint64_t places[] = {(uint64_t)buffer, (uint64_t)closed, (uint64_t)buffer + kSize - 4};
  for (int i = 0; i < 3; i++) {
    const uint64_t to = places[i];
    FRESH;
    pid_t child = child_that_reads(gate[0]);
    SAY("wait4 not yet", kId, SYS_wait4, child, to, WNOHANG, buffer + 64, 0);
    CHECK(write(gate[1], "x", 1) == 1);
    SAY("wait4", kId | kNoContents, SYS_wait4, child, to, 0, i == 1 ? 0 : buffer + 64, 0);
    SAY("wait4 again", kId, SYS_wait4, child, to, 0, 0, 0);
    FRESH;
    child = child_that_reads(gate[0]);
    SAY("waitid not yet", kId, SYS_waitid, P_PID, child, to, WEXITED | WNOHANG, buffer + 512);
    CHECK(write(gate[1], "x", 1) == 1);
    SAY("waitid", kId | kNoContents, SYS_waitid, P_PID, child, to, WEXITED, 0);
    SAY("waitid again", kId, SYS_waitid, P_PID, child, to, WEXITED, 0);
  }
  FRESH;
  const pid_t child = child_that_reads(gate[0]);
  CHECK(write(gate[1], "x", 1) == 1);
  SAY("wait4 bad rusage", kId, SYS_wait4, child, buffer, 0, closed, 0);
  SAY("wait4 again", kId, SYS_wait4, child, buffer, 0, 0, 0);
  close(gate[0]), close(gate[1]);
}

static __thread sigjmp_buf back;
static __thread siginfo_t fault;
static void on_fault(int signo, siginfo_t* info, void* frame) {
  fault = *info;
  siglongjmp(back, 1);
}
static void instructions(void) {
  struct sigaction old, act = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGSEGV, &act, &old) == 0);
  for (int i = 0; i < 6; i++) {
    const int on = i % 3 != 1;  // on, off, on
    SAY("PR_SET_TSC", 0, SYS_prctl, PR_SET_TSC, on ? PR_TSC_ENABLE : PR_TSC_SIGSEGV, 0, 0, 0);
    int mode = 0;
    CHECK(prctl(PR_GET_TSC, &mode) == 0);
    if (sigsetjmp(back, 1) == 0) {
      unsigned low, high, which;
      if (i < 3)
        __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
      else
        __asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(which));
      printf("tsc %d: read\n", mode);
    } else {
      printf("tsc %d: signal %d, code %d, at %p\n", mode, fault.si_signo, fault.si_code, fault.si_addr);
    }
  }
  CHECK(prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0 && signal(SIGSEGV, SIG_DFL) != SIG_ERR);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    __asm__ volatile("rdtsc" : : : "eax", "edx");
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  printf("a child: %d\n", WTERMSIG(status));
  CHECK(prctl(PR_SET_TSC, PR_TSC_ENABLE) == 0 && sigaction(SIGSEGV, &act, 0) == 0);
  // Where the CPU can, cpuid likewise.
  const long could = SAY("ARCH_SET_CPUID", 0, SYS_arch_prctl, ARCH_SET_CPUID, 0, 0, 0, 0);
  SAY("ARCH_GET_CPUID", 0, SYS_arch_prctl, ARCH_GET_CPUID, 0, 0, 0, 0);
  if (could == 0) {
    if (sigsetjmp(back, 1) == 0) {
      unsigned a = 0, b, c = 0, d;
      __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
      printf("cpuid: read\n");
    } else {
      printf("cpuid: signal %d, code %d, at %p\n", fault.si_signo, fault.si_code, fault.si_addr);
    }
    SAY("ARCH_SET_CPUID", 0, SYS_arch_prctl, ARCH_SET_CPUID, 1, 0, 0, 0);
  }
  CHECK(sigaction(SIGSEGV, &old, 0) == 0);
}

static void on_stack(int signo) {
  stack_t now, other = {buffer, 0, 8192};
  const int result = sigaltstack(&other, &now) == 0 ? 0 : errno;
  CHECK(sigaltstack(0, &now) == 0);
  printf("on the stack: %s, flags %x\n", result ? strerrorname_np(result) : "0", now.ss_flags);
}
static void stacks(void) {
  static char room[65536];
  struct sigaction act = {.sa_handler = on_stack, .sa_flags = SA_ONSTACK};
  CHECK(sigaction(SIGUSR2, &act, 0) == 0);
  for (int i = 0; i < 2; i++) {
    stack_t s = {room, i ? 1 << 31 : 0, sizeof room}, now;
    CHECK(sigaltstack(&s, 0) == 0 && tgkill(getpid(), gettid(), SIGUSR2) == 0);
    CHECK(sigaltstack(0, &now) == 0);
    printf("behind: %x\n", now.ss_flags);
    s.ss_flags = SS_DISABLE;
    CHECK(sigaltstack(&s, 0) == 0);
  }
  const uint64_t none[4] = {0, 0, 0, 0};
  SAY("default", 0, SYS_rt_sigaction, SIGUSR2, none, 0, 8, 0);
}

static void own_locks(void) {
  for (int i = 0; i < 4; i++) {
    const int shared = i & 1 ? 0 : FUTEX_PRIVATE_FLAG;
    const struct timespec at = {1, 0};
    uint32_t word = i < 2 ? 0 : (uint32_t)gettid();
    long first = syscall(SYS_futex, &word, FUTEX_LOCK_PI | shared, 0, &at, 0, 0);
    printf("lock: %ld %s", first, first ? strerrorname_np(errno) : "");
    first = syscall(SYS_futex, &word, FUTEX_LOCK_PI | shared, 0, 0, 0, 0);
    printf(" twice: %ld %s", first, first ? strerrorname_np(errno) : "");
    first = syscall(SYS_futex, &word, FUTEX_TRYLOCK_PI | shared, 0, 0, 0, 0);
    printf(" try: %ld %s, mine %d", first, first ? strerrorname_np(errno) : "", word == (uint32_t)gettid());
    first = syscall(SYS_futex, &word, FUTEX_UNLOCK_PI | shared, 0, 0, 0, 0);
    printf(" unlock: %ld, now %x\n", first, word);
  }
}

static void about_itself(void) {
  uint64_t words[128] = {0};
  const long size = prctl(0x41555856 /*PR_GET_AUXV*/, words, sizeof words, 0, 0);
  int known = 0;
  for (int i = 0; i < 126 && words[i]; i += 2)
    known |= words[i] == AT_PHDR && words[i + 1] == getauxval(AT_PHDR);
  printf("auxv: %ld bytes, %s\n", size, known ? "the program's" : "?");
  char name[17] = "fifteen letters";
  CHECK(prctl(PR_SET_NAME, name) == 0);
  memset(name, 0, sizeof name);
  CHECK(prctl(PR_GET_NAME, name) == 0);
  printf("name: %s\n", name);
  uint64_t head = 0, length = 0;
  CHECK(syscall(SYS_get_robust_list, gettid(), &head, &length) == 0);
  printf("robust list: %d %lu\n", head != 0, length);
}

// In a child: there is no way back.
static void no_new_code(void) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const int kSet = 65, kGet = 66;  // PR_SET_MDWE
    printf("MDWE: %d", prctl(kSet, 1, 0, 0, 0));
    printf(" %d, again %d", prctl(kGet, 0, 0, 0, 0), prctl(kSet, 1, 0, 0, 0));
    printf(", other %d", prctl(kSet, 3, 0, 0, 0));
    const void* all = mmap(0, kPage, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf(", new: %s", all == MAP_FAILED ? strerrorname_np(errno) : "yes");
    void* code = mmap(0, kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf(", executable %d, still %d", code != MAP_FAILED, mprotect(code, kPage, PROT_EXEC));
    int failed = mprotect(code, kPage, PROT_READ | PROT_WRITE | PROT_EXEC);
    printf(", writable: %s", failed ? strerrorname_np(errno) : "yes");
    printf(", data %d", mprotect(code, kPage, PROT_READ | PROT_WRITE));
    failed = mprotect(code, kPage, PROT_READ | PROT_EXEC);
    printf(", code again: %s\n", failed ? strerrorname_np(errno) : "yes");
    fflush(stdout);
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void run_scenes(void) {
  interrupted_sleeps();
  signals_taken();
  queues();
  transfers();
  children();
  instructions();
  stacks();
  own_locks();
  about_itself();
  if (alone) no_new_code();
}
