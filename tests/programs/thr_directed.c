// Signals that another process sends to one thread that is not the first (tgkill, rt_tgsigqueueinfo),
// wherever that thread is: computing, waiting in a call, with the signal blocked or not. And to the first
// one, while others would take what it blocks.
//   thr_directed send PID ORDERS DONE   the sender; two fifos: on one it is told what to send, on the other
//   it
//                                       tells that it has
//   thr_directed ORDERS DONE            who gets them; writes its pid into a file ORDERS.pid
//   thr_directed family                 likewise, the sender is a child
//   … WHERE                             a signal that kills, to a thread that computes, reads, sleeps or
//   locks
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "thr.h"

// --- who sends ---

static void sends(int pid, int orders, int done) {
  char order[61] = {0}, how[20];
  int tid, signo, value;
  for (;;) {
    ssize_t n, got = 0;  // chaos gives it in pieces
    while (got < 60 && (n = read(orders, order + got, 60 - (size_t)got)) > 0) got += n;
    if (got < 60) return;
    CHECK(sscanf(order, "%19s %d %d %d", how, &tid, &signo, &value) == 4);
    // Who is to be interrupted need not have begun to wait: so it is sent again and again.
    if (!strcmp(how, "again")) {
      struct pollfd next = {orders, POLLIN, 0};
      do CHECK(syscall(SYS_tgkill, pid, tid, signo) == 0 || errno == ESRCH);
      while (poll(&next, 1, 20) == 0);
      continue;
    }
    if (!strcmp(how, "kill")) CHECK(syscall(SYS_tgkill, pid, tid, signo) == 0);
    if (!strcmp(how, "process")) CHECK(kill(pid, signo) == 0);
    if (!strcmp(how, "queue") || !strcmp(how, "all")) {
      siginfo_t info;
      memset(&info, 0, sizeof info);
      info.si_signo = signo;
      info.si_code = SI_QUEUE;
      info.si_pid = getpid();
      info.si_value.sival_int = value;
      if (!strcmp(how, "all"))
        CHECK(syscall(SYS_rt_sigqueueinfo, pid, signo, &info) == 0);
      else
        CHECK(syscall(SYS_rt_tgsigqueueinfo, pid, tid, signo, &info) == 0);
    }
    CHECK(write(done, "x", 1) == 1);
  }
}

// --- who gets them ---

static int orders, done;
static void order(const char* how, int tid, int signo, int value) {
  char text[61];
  snprintf(text, sizeof text, "%-15s %13d %13d %13d ", how, tid, signo, value);
  CHECK(write(orders, text, 60) == 60);
}
static void wait_for_sender(void) {
  char byte;
  ssize_t n;
  while ((n = read(done, &byte, 1)) < 0) CHECK(errno == EINTR);
  CHECK(n == 1);
}
// Returns when it is sent.
static void ask(const char* how, int tid, int signo, int value) {
  order(how, tid, signo, value);
  wait_for_sender();
}
// And nothing that was sent comes later: in a recording the kernel thread that gets it for us may be late,
// but it has been asked for the signals that are pending.
static void enough(void) {
  sigset_t pending;
  ask("enough", 0, 0, 0);
  CHECK(sigpending(&pending) == 0);
}

static atomic_int stop, first_tid, target_tid;
static void* computes(void* argument) {
  while (!stop) compute(1000);
  return argument;
}
static void* sleeps(void* argument) {
  while (!stop) sleep_us(2000);
  return argument;
}

static struct { atomic_int signo, code, value, by, from, count; } handled;
static atomic_int depth, deepest, chain;
static const char* who(int tid) {
  return tid == 0 ? "nobody" : tid == first_tid ? "the first" : tid == target_tid ? "the target" : "another";
}
static int is_pending(int signo) {
  sigset_t pending;
  CHECK(sigpending(&pending) == 0);
  return sigismember(&pending, signo);
}
static void handler(int signo, siginfo_t* info, void* context) {
  (void)context;
  if (++depth > deepest) deepest = depth;
  handled.code = info->si_code;
  handled.value = info->si_code == SI_QUEUE ? info->si_value.sival_int : 0;
  handled.from = info->si_pid;
  handled.by = my_tid();
  handled.count++;
  handled.signo = signo;
  if (chain && signo == SIGUSR1) {  // which blocks SIGUSR2
    chain = 0;
    ask("kill", my_tid(), SIGUSR2, 0);
    while (!is_pending(SIGUSR2)) compute(100);
    deepest = depth;
  }
  depth--;
}
static void show(const char* what, int result) {
  printf("%s: %d, handled %d, code %d, value %d by %s, from the sender %d\n", what, result, handled.signo,
         handled.code, handled.value, who(handled.by), handled.from != 0 && handled.from != getpid());
  memset(&handled, 0, sizeof handled);
}
static void handle(int signo, int flags) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
  if (signo == SIGUSR1) sigaddset(&action.sa_mask, SIGUSR2);
  CHECK(sigaction(signo, &action, 0) == 0);
}
static void wait_until_handled(void) {
  while (!handled.signo) compute(100);
}
static void mask(int how, int signo) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signo);
  OK0(pthread_sigmask(how, &set, 0));
}
static int take(int signo, siginfo_t* info) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signo);
  struct timespec none = {0, 0};
  return sigtimedwait(&set, info, &none);
}

// Chaos may interrupt a call without a signal, in a program that has handlers.
#define UNTIL_HANDLED(x)    \
  ({                        \
    long r;                 \
    do r = (x);             \
    while (!handled.signo); \
    (int)r;                 \
  })
#define UNTIL_DONE(x)                \
  ({                                 \
    long r;                          \
    do r = (x);                      \
    while (r < 0 && errno == EINTR); \
    (int)r;                          \
  })

static void computing(int me) {
  ask("kill", me, SIGUSR1, 0);
  wait_until_handled();
  show("computing", 0);
  ask("queue", me, SIGRTMIN + 3, 100);
  wait_until_handled();
  show("queued", 0);
  // One after the other, in the order in which they came.
  mask(SIG_BLOCK, SIGRTMIN + 3);
  for (int i = 0; i < 3; i++) ask("queue", me, SIGRTMIN + 3, 200 + i);
  CHECK(!handled.signo && is_pending(SIGRTMIN + 3));
  siginfo_t info;
  int got = take(SIGRTMIN + 3, &info);
  printf("the first of three: %d, code %d, value %d\n", got == SIGRTMIN + 3, info.si_code,
         info.si_value.sival_int);
  mask(SIG_UNBLOCK, SIGRTMIN + 3);
  printf("the others: %d\n", handled.count);  // at once
  show("the last of them", 0);
  chain = 1;
  deepest = 0;
  ask("kill", me, SIGUSR1, 0);
  while (handled.signo != SIGUSR2) compute(100);
  printf("handlers in handlers: %d\n", deepest);
  show("one after the other", 0);
}

static void waiting(int me) {
  int ends[2];
  char byte;
  CHECK(pipe(ends) == 0);
  order("again", me, SIGUSR1, 0);
  int result = UNTIL_HANDLED(read(ends[0], &byte, 1)), error = errno;
  enough();
  printf("EINTR %d\n", error == EINTR);
  show("read", result);
  order("again", me, SIGUSR1, 0);
  struct timespec time = {100, 0};
  result = UNTIL_HANDLED(nanosleep(&time, 0));
  enough();
  show("nanosleep", result);
  order("again", me, SIGUSR1, 0);
  result = UNTIL_HANDLED(pause());
  enough();
  show("pause", result);
  sem_t never;
  CHECK(sem_init(&never, 0, 0) == 0);
  order("again", me, SIGUSR1, 0);
  result = UNTIL_HANDLED(sem_wait(&never));
  enough();
  show("sem_wait", result);
  struct pollfd p = {ends[0], POLLIN, 0};
  order("again", me, SIGUSR1, 0);
  result = UNTIL_HANDLED(poll(&p, 1, 100000));
  enough();
  show("poll", result);
  // It goes on where it was, if that is what the handler wants.
  handle(SIGHUP, SA_RESTART);
  order("again", me, SIGHUP, 0);
  pid_t writer = fork();
  if (writer == 0) {
    usleep(100000);
    _exit(write(ends[1], "x", 1) != 1);
  }
  result = UNTIL_DONE(read(ends[0], &byte, 1));
  while (!handled.signo) compute(100);
  enough();
  show("read again", result);
  CHECK(UNTIL_DONE(waitpid(writer, 0, 0)) == writer);
  // Blocked but for the time of the call.
  sigset_t before;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  OK0(pthread_sigmask(SIG_BLOCK, &set, &before));
  ask("kill", me, SIGUSR1, 0);
  printf("pending %d\n", is_pending(SIGUSR1));
  show("sigsuspend", UNTIL_HANDLED(sigsuspend(&before)));
  ask("kill", me, SIGUSR1, 0);
  CHECK(is_pending(SIGUSR1));
  show("ppoll", UNTIL_HANDLED(ppoll(&p, 1, 0, &before)));
  order("again", me, SIGUSR1, 0);
  result = UNTIL_HANDLED(ppoll(&p, 1, 0, &before));
  enough();
  take(SIGUSR1, 0);
  show("ppoll that waits", result);
  OK0(pthread_sigmask(SIG_SETMASK, &before, 0));
  close(ends[0]);
  close(ends[1]);
}

// For a thread that blocks them: only itself finds them, whoever else would take them.
static void blocked(int me) {
  siginfo_t info;
  struct signalfd_siginfo read_info;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  sigaddset(&set, SIGRTMIN + 1);
  OK0(pthread_sigmask(SIG_BLOCK, &set, 0));
  ask("kill", me, SIGUSR2, 0);
  CHECK(!handled.signo && is_pending(SIGUSR2));
  int got = take(SIGUSR2, &info);
  printf("sigtimedwait: %d, code %d, from the sender %d\n", got == SIGUSR2, info.si_code,
         info.si_pid != getpid());
  order("queue", me, SIGRTMIN + 1, 71);
  order("queue", me, SIGRTMIN + 1, 72);
  for (int i = 0; i < 2; i++) {
    CHECK(UNTIL_DONE(sigwaitinfo(&set, &info)) == SIGRTMIN + 1);
    printf("sigwaitinfo: code %d, value %d\n", info.si_code, info.si_value.sival_int);
  }
  wait_for_sender();
  wait_for_sender();
  int fd = signalfd(-1, &set, 0), queue = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  CHECK(fd >= 0 && queue >= 0 && epoll_ctl(queue, EPOLL_CTL_ADD, fd, &event) == 0);
  order("queue", me, SIGRTMIN + 1, 73);
  CHECK(UNTIL_DONE(read(fd, &read_info, sizeof read_info)) == sizeof read_info);
  printf("signalfd: code %d, value %d\n", read_info.ssi_code, read_info.ssi_int);
  wait_for_sender();
  order("kill", me, SIGUSR2, 0);
  CHECK(UNTIL_DONE(epoll_wait(queue, &event, 1, 100000)) == 1);
  CHECK(UNTIL_DONE(read(fd, &read_info, sizeof read_info)) == sizeof read_info);
  printf("epoll_wait: signal %d, code %d\n", read_info.ssi_signo == SIGUSR2, read_info.ssi_code);
  wait_for_sender();
  close(fd);
  close(queue);
  // The handler has run when the call returns.
  ask("kill", me, SIGUSR2, 0);
  OK0(pthread_sigmask(SIG_UNBLOCK, &set, 0));
  show("unblocked", 0);
}

// A descriptor that tells this thread.
static void told_by_descriptor(int me) {
  int ends[2];
  struct f_owner_ex owner = {F_OWNER_TID, me};
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  CHECK(fcntl(ends[0], F_SETSIG, SIGRTMIN + 3) == 0 && fcntl(ends[0], F_SETOWN_EX, &owner) == 0);
  CHECK(fcntl(ends[0], F_SETFL, O_ASYNC) == 0);
  CHECK(write(ends[1], "x", 1) == 1);
  wait_until_handled();
  printf("told: code %d by %s\n", handled.code, who(handled.by));
  memset(&handled, 0, sizeof handled);
  close(ends[0]);
  close(ends[1]);
}

static sem_t to_target, to_first;
static void hand_over(sem_t* to, sem_t* from) {
  CHECK(sem_post(to) == 0);
  CHECK(UNTIL_DONE(sem_wait(from)) == 0);
}

static void* target(void* argument) {
  const int me = target_tid = my_tid();
  sigset_t none;
  sigemptyset(&none);
  OK0(pthread_sigmask(SIG_SETMASK, &none, 0));
  for (int round = 0; round < 2; round++) {  // the second time after signalfds
    computing(me);
    waiting(me);
    told_by_descriptor(me);
    blocked(me);
  }
  // The first thread blocks these, and has them all the same.
  ask("kill", first_tid, SIGUSR1, 0);
  ask("queue", first_tid, SIGRTMIN + 3, 81);
  compute(100000);
  printf("here: pending %d\n", is_pending(SIGUSR1) + is_pending(SIGRTMIN + 3));
  show("the first one's", 0);
  hand_over(&to_first, &to_target);
  // Those to the process are for who does not block them.
  ask("process", 0, SIGUSR1, 0);
  wait_until_handled();
  show("to the process", 0);
  ask("all", 0, SIGRTMIN + 3, 82);
  wait_until_handled();
  show("queued to the process", 0);
  CHECK(kill(getpid(), SIGUSR1) == 0);
  show("from here", 0);
  hand_over(&to_first, &to_target);
  return argument;
}

static void first(void) {
  siginfo_t info;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGRTMIN + 3);
  CHECK(UNTIL_DONE(sem_wait(&to_first)) == 0);
  printf("there: pending %d\n", is_pending(SIGUSR1) + is_pending(SIGRTMIN + 3));
  int got = take(SIGUSR1, &info);
  printf("the first one's: %d, code %d\n", got == SIGUSR1, info.si_code);
  int fd = signalfd(-1, &set, SFD_NONBLOCK);
  struct signalfd_siginfo read_info = {0};
  got = (int)read(fd, &read_info, sizeof read_info);
  printf("the first one's: %d, value %d\n", got == sizeof read_info, read_info.ssi_int);
  hand_over(&to_target, &to_first);
  printf("there: pending %d\n", is_pending(SIGUSR1) + is_pending(SIGRTMIN + 3));
  CHECK(sem_post(&to_target) == 0);
}

// --- signals that kill ---

static void* dies(void* argument) {
  const char* where = argument;
  char byte;
  int ends[2];
  sem_t never;
  CHECK(pipe(ends) == 0 && sem_init(&never, 0, 0) == 0);
  order("again", my_tid(), SIGTERM, 0);
  for (;;) {
    if (!strcmp(where, "computes")) compute(1000);
    if (!strcmp(where, "reads")) CHECK(read(ends[0], &byte, 1) < 0);
    if (!strcmp(where, "sleeps")) sleep(100);
    if (!strcmp(where, "locks")) sem_wait(&never);
  }
}

int main(int argc, char** argv) {
  if (argc == 5 && !strcmp(argv[1], "send")) {
    orders = open(argv[3], O_RDONLY), done = open(argv[4], O_WRONLY);
    CHECK(orders >= 0 && done >= 0);
    sends(atoi(argv[2]), orders, done);
    return 0;
  }
  CHECK(argc >= 2);
  setvbuf(stdout, 0, _IOLBF, 1000);
  const int family = !strcmp(argv[1], "family");
  pid_t sender = 0;
  if (family) {
    int there[2], back[2];
    CHECK(pipe2(there, O_CLOEXEC) == 0 && pipe2(back, O_CLOEXEC) == 0);
    const int parent = getpid();
    sender = fork();
    if (sender == 0) {
      close(there[1]);
      close(back[0]);
      sends(parent, there[0], back[1]);
      _exit(0);
    }
    orders = there[1], done = back[0];
    close(there[0]);
    close(back[1]);
  } else {
    char name[500];  // the sender is told our pid by the contents of a file
    snprintf(name, sizeof name, "%s.pid", argv[1]);
    FILE* pid = fopen(name, "w");
    CHECK(argc >= 3 && pid && fprintf(pid, "%d\n", getpid()) > 0 && fclose(pid) == 0);
    orders = open(argv[1], O_WRONLY), done = open(argv[2], O_RDONLY);
    CHECK(orders >= 0 && done >= 0);
  }
  const char* death = argc == (family ? 3 : 4) ? argv[argc - 1] : 0;
  first_tid = my_tid();
  CHECK(sem_init(&to_target, 0, 0) == 0 && sem_init(&to_first, 0, 0) == 0);
  handle(SIGUSR1, 0);
  handle(SIGUSR2, 0);
  handle(SIGRTMIN + 3, 0);
  sigset_t all;
  sigfillset(&all);
  OK0(pthread_sigmask(SIG_SETMASK, &all, 0));
  pthread_t others[2] = {start(computes, 0), start(sleeps, 0)};
  if (death) {
    sigemptyset(&all);
    OK0(pthread_sigmask(SIG_SETMASK, &all, 0));
    join(start(dies, (void*)death));
  }
  pthread_t aim = start(target, 0);
  first();
  join(aim);
  stop = 1;
  join(others[0]);
  join(others[1]);
  close(orders);
  // With handlers that do not restart calls, chaos ends some that wait.
  while (family && waitpid(sender, 0, 0) != sender) CHECK(errno == EINTR);
  puts("ok");
  return 0;
}
