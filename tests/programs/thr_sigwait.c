// Threads that wait for signals, and waiting calls that signals end: sigwait in a thread of its own, sigsuspend,
// ppoll/pselect/epoll_pwait with a mask, EINTR and SA_RESTART, SIGPIPE, SIGCHLD, SIGWINCH, SIGTSTP.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "thr.h"

static sigset_t all_of_ours;

// The thread that gets all signals of the process, as servers have it.
static void* signal_thread(void* argument) {
  long sum = 0;
  for (;;) {
    siginfo_t info;
    int signo = sigwaitinfo(&all_of_ours, &info);
    if (signo < 0) {
      CHECK(errno == EINTR);
      continue;
    }
    if (signo == SIGTERM) return (void*)sum;
    if (signo == SIGRTMIN) sum += info.si_value.sival_int;
    if (signo == SIGHUP) sum += 10000;
    if (signo == SIGCHLD) sum += 1000000 * info.si_status;
  }
}
static void* sender(void* argument) {
  for (int i = 1; i <= 20; i++) {
    CHECK(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i}) == 0);
    if (i % 5 == 0) compute(5000);
  }
  return 0;
}
static void dedicated_thread(void) {
  pthread_t waiter = start(signal_thread, 0);
  pthread_t threads[3] = {start(sender, 0), start(sender, 0), start(sender, 0)};
  for (int i = 0; i < 3; i++) join(threads[i]);
  CHECK(kill(getpid(), SIGHUP) == 0);
  pid_t child = fork();
  if (child == 0) _exit(3);
  CHECK(waitpid(child, 0, 0) == child);
  // SIGTERM has a lower number than most: sent only when all others have been taken.
  sigset_t set;
  do {
    sched_yield();
    sigpending(&set);
  } while (sigismember(&set, SIGHUP) || sigismember(&set, SIGCHLD) || sigismember(&set, SIGRTMIN));
  CHECK(kill(getpid(), SIGTERM) == 0);
  printf("signal thread %ld\n", join(waiter));
  struct timespec soon = {0, 2000000};
  CHECK(sigtimedwait(&all_of_ours, 0, &soon) == -1 && errno == EAGAIN);
  int signo;
  CHECK(raise(SIGHUP) == 0 && sigwait(&all_of_ours, &signo) == 0 && signo == SIGHUP);
}

static int pipes[2];
static atomic_int entered, handled;
static void handler(int signo) { handled++; }
static void action_is(int flags) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
  CHECK(sigaction(SIGUSR1, &action, 0) == 0);
}
static void* reads(void* argument) {
  char byte;
  entered = 1;
  long n = read(pipes[0], &byte, 1);
  return (void*)(n == 1 ? (long)byte : -(long)errno);
}
static void* polls(void* argument) {
  struct pollfd p = {pipes[0], POLLIN, 0};
  entered = 1;
  return (void*)(poll(&p, 1, -1) == -1 ? -(long)errno : 1l);
}
static void* sleeps(void* argument) {
  struct timespec time = {100, 0}, rest = {0, 0};
  entered = 1;
  int result = nanosleep(&time, &rest);
  return (void*)(result == -1 && rest.tv_sec > 0 ? -(long)errno : 0l);
}
static long interrupt(void* (*function)(void*), int flags) {
  action_is(flags);
  entered = 0, handled = 0;
  pthread_t thread = start(function, 0);
  while (!entered) sched_yield();
  if (flags & SA_RESTART) {
    for (int i = 1; i <= 5; i++) {
      sleep_us(1000);
      pthread_kill(thread, SIGUSR1);
      while (handled < i) sched_yield();
    }
    CHECK(write(pipes[1], "r", 1) == 1);
    return join(thread);
  }
  // A signal may come before the call; another one comes until it ends.
  void* result;
  while (pthread_tryjoin_np(thread, &result) == EBUSY) {
    pthread_kill(thread, SIGUSR1);
    sleep_us(1000);
  }
  CHECK(handled > 0);
  return (long)result;
}
static void interrupted(void) {
  CHECK(pipe(pipes) == 0);
  printf("read %ld\n", interrupt(reads, 0));
  printf("read again %ld\n", interrupt(reads, SA_RESTART));
  printf("poll %ld\n", interrupt(polls, 0));
  printf("sleep %ld\n", interrupt(sleeps, 0));
}

// With the signal blocked but in the call: pending before, and sent during.
static int kind;
static void* with_mask(void* argument) {
  sigset_t set, inside;
  OK0(pthread_sigmask(SIG_SETMASK, 0, &inside));
  sigdelset(&inside, SIGUSR1);
  if (argument) raise(SIGUSR1);
  CHECK(!argument || handled == 0);
  entered = 1;
  int result = 0;
  switch (kind) {
    case 0: result = ppoll(0, 0, 0, &inside); break;
    case 1: result = pselect(0, 0, 0, 0, 0, &inside); break;
    case 2: {
      struct epoll_event event;
      int epoll = epoll_create1(0);
      result = epoll_pwait(epoll, &event, 1, -1, &inside);
      break;
    }
    case 3: result = sigsuspend(&inside); break;
  }
  CHECK(result == -1 && errno == EINTR && handled == 1);
  OK0(pthread_sigmask(SIG_SETMASK, 0, &set));
  CHECK(sigismember(&set, SIGUSR1));
  return 0;
}
static void masked_waits(void) {
  sigset_t set, old;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  OK0(pthread_sigmask(SIG_BLOCK, &set, &old));
  action_is(0);
  for (kind = 0; kind < 4; kind++)
    for (long before = 0; before < 2; before++) {
      entered = 0, handled = 0;
      pthread_t thread = start(with_mask, (void*)before);
      while (!entered) sched_yield();
      if (!before) {
        sleep_us(1000);
        OK0(pthread_kill(thread, SIGUSR1));
      }
      join(thread);
    }
  OK0(pthread_sigmask(SIG_SETMASK, &old, 0));
  said("masked waits");
}

// SIGPIPE belongs to the thread that writes.
static __thread int writer;
static atomic_int pipe_in_writer, pipe_elsewhere;
static void broken(int signo) { writer ? pipe_in_writer++ : pipe_elsewhere++; }
static void* writes(void* argument) {
  int pair[2];
  writer = 1;
  CHECK(pipe(pair) == 0 && close(pair[0]) == 0);
  CHECK(write(pair[1], "x", 1) == -1 && errno == EPIPE);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && close(pair[0]) == 0);
  CHECK(send(pair[1], "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
  CHECK(send(pair[1], "x", 1, 0) == -1 && errno == EPIPE);
  return 0;
}
static void others(void) {
  struct sigaction action = {.sa_handler = broken};
  CHECK(sigaction(SIGPIPE, &action, 0) == 0);
  join(start(writes, 0));
  printf("pipe %d %d\n", pipe_in_writer, pipe_elsewhere);
  // Ignored by default, and so is one that is set to be.
  CHECK(raise(SIGWINCH) == 0 && raise(SIGURG) == 0 && raise(SIGCONT) == 0);
  action = (struct sigaction){.sa_handler = handler};
  handled = 0;
  static const int signals[] = {SIGWINCH, SIGTSTP, SIGCONT, SIGTTIN, SIGQUIT};
  for (int i = 0; i < 5; i++) CHECK(sigaction(signals[i], &action, 0) == 0 && kill(getpid(), signals[i]) == 0);
  while (handled < 5) sched_yield();
  action.sa_handler = SIG_IGN;
  for (int i = 0; i < 5; i++) CHECK(sigaction(signals[i], &action, 0) == 0 && kill(getpid(), signals[i]) == 0);
  CHECK(handled == 5);
  said("others");
}

int main(void) {
  sigemptyset(&all_of_ours);
  static const int signals[] = {SIGHUP, SIGTERM, SIGCHLD};
  for (int i = 0; i < 3; i++) sigaddset(&all_of_ours, signals[i]);
  sigaddset(&all_of_ours, SIGRTMIN);
  OK0(pthread_sigmask(SIG_BLOCK, &all_of_ours, 0));
  dedicated_thread();
  interrupted();
  masked_waits();
  others();
  return 0;
}
