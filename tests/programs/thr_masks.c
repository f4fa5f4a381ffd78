// Signals and threads: masks are each thread's own and inherited, kill goes to a thread that does not block, pthread_kill
// and pthread_sigqueue to the one that is meant, real-time signals queue in order, alternate stacks belong to a thread.
#include <sys/mman.h>

#include "thr.h"

enum { kThreads = 4 };
static pthread_barrier_t barrier;
static pid_t tids[kThreads];
static atomic_int hits[kThreads], wrong, strange, leave;
static __thread int me = -1;

static void handler(int signo, siginfo_t* info, void* context) {
  if (me < 0) {
    wrong++;
    return;
  }
  if (info->si_pid != getpid() || info->si_uid != getuid()) strange++;
  if (signo == SIGUSR1 && info->si_code != SI_TKILL) strange++;
  if (signo == SIGUSR2 && (info->si_code != SI_QUEUE || info->si_value.sival_int != me * 11)) strange++;
  hits[me]++;
}

static void* target(void* argument) {
  me = (int)(long)argument;
  tids[me] = my_tid();
  pthread_barrier_wait(&barrier);
  // Some sleep, some compute, some yield.
  while (!leave) {
    if (me == 0) sleep_us(300);
    if (me == 1) compute(500);
    if (me == 2) sched_yield();
    if (me == 3) getppid();
  }
  return 0;
}

static void directed(void) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
  CHECK(sigaction(SIGUSR1, &action, 0) == 0 && sigaction(SIGUSR2, &action, 0) == 0);
  pthread_barrier_init(&barrier, 0, kThreads + 1);
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; i++) threads[i] = start(target, (void*)i);
  pthread_barrier_wait(&barrier);
  for (int round = 1; round <= 5; round++)
    for (int i = 0; i < kThreads; i++) {
      OK0(pthread_kill(threads[i], SIGUSR1));
      while (hits[i] != 2 * round - 1) sched_yield();
      OK0(pthread_sigqueue(threads[i], SIGUSR2, (union sigval){.sival_int = i * 11}));
      while (hits[i] != 2 * round) sched_yield();
    }
  CHECK(syscall(SYS_tgkill, getpid(), tids[1], 0) == 0);
  CHECK(syscall(SYS_tgkill, getpid(), tids[1], 999) == -1 && errno == EINVAL);
  CHECK(syscall(SYS_tgkill, getpid(), 0x3fffffff, SIGUSR1) == -1 && errno == ESRCH);
  leave = 1;
  for (int i = 0; i < kThreads; i++) join(threads[i]);
  // Its number goes a moment after its memory is given back, which is what join waits for.
  while (syscall(SYS_tgkill, getpid(), tids[1], 0) == 0) sched_yield();
  CHECK(errno == ESRCH);
  printf("directed %d %d %d %d wrong %d strange %d\n", hits[0], hits[1], hits[2], hits[3], wrong, strange);
}

// Masks: all inherit SIGUSR1 blocked, one opens it; a signal to the process must come to that one.
static atomic_int open_hits, closed_hits, stage;
static __thread int open_one;
static void count(int signo) { open_one ? open_hits++ : closed_hits++; }
static void* masked(void* argument) {
  sigset_t set;
  OK0(pthread_sigmask(SIG_SETMASK, 0, &set));
  CHECK(sigismember(&set, SIGUSR1) && !sigismember(&set, SIGUSR2));
  open_one = argument != 0;
  if (open_one) {
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    OK0(pthread_sigmask(SIG_UNBLOCK, &set, 0));
  }
  stage++;
  while (stage < 100) open_one ? sleep_us(200) : (void)compute(1000);
  return 0;
}
static void masks(void) {
  sigset_t set, old;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  OK0(pthread_sigmask(SIG_BLOCK, &set, &old));
  struct sigaction action = {.sa_handler = count};
  CHECK(sigaction(SIGUSR1, &action, 0) == 0);
  pthread_t threads[3];
  for (long i = 0; i < 3; i++) threads[i] = start(masked, (void*)(long)(i == 1));
  while (stage < 3) sched_yield();
  for (int i = 1; i <= 10; i++) {
    CHECK(kill(getpid(), SIGUSR1) == 0);
    while (open_hits < i) sched_yield();
  }
  stage = 100;
  for (int i = 0; i < 3; i++) join(threads[i]);
  printf("masks %d %d\n", open_hits, closed_hits);
  // Nobody has it open: it stays pending for the process; what is sent to a thread is pending there only.
  CHECK(kill(getpid(), SIGUSR1) == 0 && sigpending(&set) == 0 && sigismember(&set, SIGUSR1));
  OK0(pthread_sigmask(SIG_SETMASK, &old, 0));
  printf("then %d\n", closed_hits);
  CHECK(sigpending(&set) == 0 && !sigismember(&set, SIGUSR1));
}

static void* pending(void* argument) {
  sigset_t set;
  while (stage != 200) sched_yield();
  CHECK(sigpending(&set) == 0 && sigismember(&set, SIGUSR2) && !sigismember(&set, SIGTERM));
  stage = 201;
  while (stage != 202) sched_yield();
  return 0;  // ends with a signal pending: it is lost
}
static void pending_of_one(void) {
  sigset_t set, old;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  OK0(pthread_sigmask(SIG_BLOCK, &set, &old));
  pthread_t thread = start(pending, 0);
  OK0(pthread_kill(thread, SIGUSR2));
  stage = 200;
  while (stage != 201) sched_yield();
  CHECK(sigpending(&set) == 0 && !sigismember(&set, SIGUSR2));
  stage = 202;
  join(thread);
  CHECK(sigpending(&set) == 0 && !sigismember(&set, SIGUSR2));
  OK0(pthread_sigmask(SIG_SETMASK, &old, 0));
  said("pending");
}

// Real-time signals: lower numbers first, in order within one; ordinary ones only once.
static int order[20], ordered;
static void note(int signo, siginfo_t* info, void* context) {
  order[ordered++] = (signo == SIGUSR1 ? 900 : (signo - SIGRTMIN) * 100) + info->si_value.sival_int;
}
static void* queues(void* argument) {
  sigset_t set;
  sigfillset(&set);
  OK0(pthread_sigmask(SIG_SETMASK, &set, 0));
  for (int i = 1; i <= 3; i++) {
    OK0(pthread_sigqueue(pthread_self(), SIGRTMIN + 2, (union sigval){.sival_int = i}));
    OK0(pthread_sigqueue(pthread_self(), SIGRTMIN + 1, (union sigval){.sival_int = i}));
    OK0(pthread_sigqueue(pthread_self(), SIGUSR1, (union sigval){.sival_int = i}));
  }
  sigset_t wanted;
  siginfo_t info;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGRTMIN + 1);
  sigaddset(&wanted, SIGRTMIN + 2);
  struct timespec none = {0, 0};
  int signo;
  while ((signo = sigtimedwait(&wanted, &info, &none)) > 0)
    printf("queued %d value %d\n", signo - SIGRTMIN, info.si_value.sival_int);
  CHECK(errno == EAGAIN);
  for (int i = 1; i <= 3; i++) {
    OK0(pthread_sigqueue(pthread_self(), SIGRTMIN + 2, (union sigval){.sival_int = i}));
    OK0(pthread_sigqueue(pthread_self(), SIGRTMIN + 1, (union sigval){.sival_int = i}));
  }
  sigemptyset(&set);
  OK0(pthread_sigmask(SIG_SETMASK, &set, 0));  // all of them now
  return 0;
}
static void real_time(void) {
  struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
  sigfillset(&action.sa_mask);
  CHECK(sigaction(SIGRTMIN + 1, &action, 0) == 0 && sigaction(SIGRTMIN + 2, &action, 0) == 0 &&
        sigaction(SIGUSR1, &action, 0) == 0);
  join(start(queues, 0));
  for (int i = 0; i < ordered; i++) printf("%d ", order[i]);
  puts("in order");
}

static atomic_int on_stack;
static __thread char* my_stack;
static void look_at_stack(int signo) {
  char here;
  stack_t now;
  sigaltstack(0, &now);
  if (my_stack && &here >= my_stack && &here < my_stack + 32768 && now.ss_flags == SS_ONSTACK) on_stack++;
}
static void* with_stack(void* argument) {
  stack_t stack, old;
  CHECK(sigaltstack(0, &old) == 0 && old.ss_flags == SS_DISABLE);  // not inherited
  raise(SIGUSR1);
  my_stack = mmap(0, 32768, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack = (stack_t){.ss_sp = my_stack, .ss_size = 32768};
  CHECK(sigaltstack(&stack, 0) == 0);
  for (int i = 0; i < 50; i++) {
    raise(SIGUSR1);
    sched_yield();
  }
  CHECK(sigaltstack(0, &old) == 0 && old.ss_sp == my_stack && old.ss_flags == 0);
  return 0;
}
static void stacks(void) {
  struct sigaction action = {.sa_handler = look_at_stack, .sa_flags = SA_ONSTACK};
  CHECK(sigaction(SIGUSR1, &action, 0) == 0);
  static char main_stack[32768];
  my_stack = main_stack;
  stack_t stack = {.ss_sp = main_stack, .ss_size = sizeof main_stack};
  CHECK(sigaltstack(&stack, 0) == 0);
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; i++) threads[i] = start(with_stack, 0);
  for (int i = 0; i < 10; i++) raise(SIGUSR1);
  for (int i = 0; i < kThreads; i++) join(threads[i]);
  printf("on their stacks %d\n", on_stack);
}

int main(void) {
  directed();
  masks();
  pending_of_one();
  real_time();
  stacks();
  return 0;
}
