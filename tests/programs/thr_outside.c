// Signals that a process which is not recorded sends to the first thread alone (tgkill, rt_tgsigqueueinfo),
// while that waits for them in one way or another and other threads do something else.
//   thr_outside send PID ORDERS DONE    the sender; two fifos: on one it is told what to send, on the other
//   it tells thr_outside ORDERS DONE             who waits; writes its pid into a file ORDERS.pid
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "thr.h"

// --- who sends ---

static void sends(int pid, const char* from, const char* to) {
  int orders = open(from, O_RDONLY), done = open(to, O_WRONLY);
  CHECK(orders >= 0 && done >= 0);
  char order[41] = {0}, how[20];
  int signo, value;
  while (read(orders, order, 40) == 40) {
    CHECK(sscanf(order, "%19s %d %d", how, &signo, &value) == 3);
    if (!strcmp(how, "enough")) {
      CHECK(write(done, "x", 1) == 1);
      continue;
    }
    // Who is to be interrupted need not have begun to wait: so it is sent again and again.
    if (!strcmp(how, "again")) {
      struct pollfd next = {orders, POLLIN, 0};
      do CHECK(syscall(SYS_tgkill, pid, pid, signo) == 0);
      while (poll(&next, 1, 50) == 0);
      continue;
    }
    usleep(30000);  // until it waits, most likely; it does not matter
    if (!strcmp(how, "kill")) {
      CHECK(syscall(SYS_tgkill, pid, pid, signo) == 0);
    } else if (!strcmp(how, "process")) {
      CHECK(kill(pid, signo) == 0);
    } else {
      siginfo_t info;
      memset(&info, 0, sizeof info);
      info.si_signo = signo;
      info.si_code = SI_QUEUE;
      info.si_value.sival_int = value;
      CHECK(syscall(SYS_rt_tgsigqueueinfo, pid, pid, signo, &info) == 0);
    }
  }
}

// --- who waits ---

static int orders, done;
static void ask(const char* how, int signo, int value) {
  char order[41];
  snprintf(order, sizeof order, "%-15s %11d %11d ", how, signo, value);
  CHECK(write(orders, order, 40) == 40);
}
static void enough(void) {
  char byte;
  ask("enough", 0, 0);
  ssize_t n;
  while ((n = read(done, &byte, 1)) < 0) CHECK(errno == EINTR);
}

static atomic_int stop, computed;
static void* computes(void* argument) {
  while (!stop) computed += compute(1000) != 0;
  return argument;
}
static void* sleeps(void* argument) {
  while (!stop) sleep_us(2000);
  return argument;
}

static atomic_int handled, handled_by;
static void handler(int signo, siginfo_t* info, void* context) {
  (void)context;
  handled = signo + (info->si_code == SI_QUEUE ? info->si_value.sival_int : 0);
  handled_by = my_tid();
}
static void show_handled(const char* what, int result) {
  printf("%s: %d, handled %d by the first %d\n", what, result, handled, handled_by == getpid());
  handled = handled_by = 0;
}

static void show(const char* what, int result, const siginfo_t* info) {
  printf("%s: %d, code %d, value %d, from the sender %d\n", what, result, info->si_code,
         info->si_code == SI_QUEUE ? info->si_value.sival_int : 0, info->si_pid != getpid());
}

// Chaos may interrupt a call without a signal, in a program that has handlers.
#define UNTIL_DONE(x)                \
  ({                                 \
    long r;                          \
    do r = (x);                      \
    while (r < 0 && errno == EINTR); \
    (int)r;                          \
  })

static void waits_for_signals(const sigset_t* set) {
  siginfo_t info;
  struct timespec none = {0, 0};
  CHECK(sigtimedwait(set, &info, &none) < 0 && errno == EAGAIN);
  ask("kill", SIGUSR1, 0);
  int got = UNTIL_DONE(sigwaitinfo(set, &info));
  show("sigwaitinfo", got, &info);
  ask("queue", SIGRTMIN + 1, 71);
  ask("queue", SIGRTMIN + 1, 72);
  got = UNTIL_DONE(sigwaitinfo(set, &info));
  show("queued", got, &info);
  got = UNTIL_DONE(sigwaitinfo(set, &info));
  show("queued", got, &info);
  struct timespec long_time = {100, 0};
  ask("process", SIGUSR2, 0);
  got = UNTIL_DONE(sigtimedwait(set, &info, &long_time));
  show("to the process", got, &info);
  // Pending before it looks, and then without waiting.
  ask("kill", SIGUSR1, 0);
  sigset_t pending;
  do CHECK(sigpending(&pending) == 0);
  while (!sigismember(&pending, SIGUSR1));
  got = sigtimedwait(set, &info, &none);
  show("pending", got, &info);
  CHECK(sigpending(&pending) == 0 && !sigismember(&pending, SIGUSR1));
}

static void reads_signals(const sigset_t* set) {
  struct signalfd_siginfo info;
  int fd = signalfd(-1, set, 0), other = signalfd(-1, set, SFD_NONBLOCK), queue = epoll_create1(0);
  CHECK(fd >= 0 && other >= 0 && queue >= 0);
  // What does not wait is never interrupted.
  for (int i = 0; i < 100; i++) CHECK(read(other, &info, sizeof info) < 0 && errno == EAGAIN);
  ask("kill", SIGUSR1, 0);
  CHECK(UNTIL_DONE(read(fd, &info, sizeof info)) == sizeof info);
  printf("read: %d, code %d\n", info.ssi_signo, info.ssi_code);
  struct pollfd p = {other, POLLIN, 0};
  ask("queue", SIGRTMIN + 2, 73);
  int got = UNTIL_DONE(ppoll(&p, 1, 0, 0));
  CHECK(got == 1 && UNTIL_DONE(read(other, &info, sizeof info)) == sizeof info);
  printf("ppoll: %d, code %d, value %d\n", info.ssi_signo, info.ssi_code, info.ssi_int);
  struct epoll_event event = {.events = EPOLLIN};
  CHECK(epoll_ctl(queue, EPOLL_CTL_ADD, other, &event) == 0);
  ask("kill", SIGUSR2, 0);
  got = UNTIL_DONE(epoll_wait(queue, &event, 1, 100000));
  CHECK(got == 1 && UNTIL_DONE(read(other, &info, sizeof info)) == sizeof info);
  printf("epoll_wait: %d, code %d\n", info.ssi_signo, info.ssi_code);
  CHECK(UNTIL_DONE(epoll_wait(queue, &event, 1, 20)) == 0);  // and no more
  close(fd);
  close(other);
  close(queue);
}

// Signals with a handler end the wait, wherever the first thread is.
static void is_interrupted(void) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGHUP, &action, 0) == 0 && sigaction(SIGRTMIN + 3, &action, 0) == 0);
  int ends[2];
  char byte;
  CHECK(pipe(ends) == 0);
  ask("again", SIGHUP, 0);
  int result = (int)read(ends[0], &byte, 1);
  enough();
  show_handled("read", result);
  ask("again", SIGHUP, 0);
  struct timespec time = {100, 0};
  result = nanosleep(&time, 0);
  enough();
  show_handled("nanosleep", result);
  ask("again", SIGRTMIN + 3, 0);
  result = pause();
  enough();
  show_handled("pause", result);
  ask("queue", SIGRTMIN + 3, 100);
  while (!handled) compute(100);
  show_handled("computing", 0);
  ask("process", SIGHUP, 0);
  while (!handled) compute(100);
  show_handled("to the process", 0);
  // Blocked but for the time of the call.
  sigset_t hup, before;
  sigemptyset(&hup);
  sigaddset(&hup, SIGHUP);
  CHECK(pthread_sigmask(SIG_BLOCK, &hup, &before) == 0);
  ask("kill", SIGHUP, 0);
  sigset_t pending;
  do CHECK(sigpending(&pending) == 0);
  while (!sigismember(&pending, SIGHUP));
  show_handled("blocked", 0);
  show_handled("sigsuspend", sigsuspend(&before));
  CHECK(pthread_sigmask(SIG_SETMASK, &before, 0) == 0);
}

int main(int argc, char** argv) {
  if (argc == 5 && !strcmp(argv[1], "send")) {
    sends(atoi(argv[2]), argv[3], argv[4]);
    return 0;
  }
  CHECK(argc == 3);
  setvbuf(stdout, 0, _IOLBF, 1000);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGUSR2);
  sigaddset(&set, SIGRTMIN + 1);
  sigaddset(&set, SIGRTMIN + 2);
  // The others take none.
  sigset_t all;
  sigfillset(&all);
  OK0(pthread_sigmask(SIG_SETMASK, &all, 0));
  pthread_t threads[2] = {start(computes, 0), start(sleeps, 0)};
  OK0(pthread_sigmask(SIG_SETMASK, &set, 0));
  // The sender is told our pid by the name of a file.
  char name[500];
  snprintf(name, sizeof name, "%s.pid", argv[1]);
  FILE* pid = fopen(name, "w");
  CHECK(pid && fprintf(pid, "%d\n", getpid()) > 0 && fclose(pid) == 0);
  orders = open(argv[1], O_WRONLY);
  done = open(argv[2], O_RDONLY);
  CHECK(orders >= 0 && done >= 0);
  is_interrupted();
  waits_for_signals(&set);
  is_interrupted();
  reads_signals(&set);
  is_interrupted();
  stop = 1;
  join(threads[0]);
  join(threads[1]);
  close(orders);
  puts("ok");
  return 0;
}
