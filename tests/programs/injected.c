// Waits for SIGUSR1 in all the ways there are, again and again, until SIGUSR2 says that it is enough. However the signal
// comes, natively no round can hang. tests/inject puts the signal behind every instruction of the recorder's way into the
// call. getppid() marks the rounds.
//   injected WAY [threads|seats|change|worker]
//                                         beside another thread; beside one that has parted, so that the recorder's runner
//                                         goes to and fro between kernel threads; or so that it leaves the first kernel
//                                         thread in each round, and comes back; or in a thread that is not the first, to
//                                         which the signal is sent alone
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static int own[2], other[2], epoll, listener, lock, queue, semaphore, signals;
static volatile sig_atomic_t handled, enough, jumps;
static sigjmp_buf out;
static sigset_t usr1, none;
static pid_t child;

static void on_usr1(int signo) {
  handled++;
  if (write(own[1], "x", 1) != 1) _exit(9);
  if (jumps) {
    jumps = 0;
    siglongjmp(out, 1);
  }
}
static void on_usr2(int signo) { enough = 1; }

static void drain(void) {
  char bytes[64];
  while (read(own[0], bytes, sizeof bytes) > 0) {
  }
}

// The self-pipe: what the handler writes ends the wait.
static void wait_read(void) {
  char byte;
  fcntl(own[0], F_SETFL, 0);
  while (read(own[0], &byte, 1) != 1) {
  }
  fcntl(own[0], F_SETFL, O_NONBLOCK);
}
static void wait_poll(void) {
  struct pollfd p = {own[0], POLLIN, 0};
  while (poll(&p, 1, -1) != 1) {
  }
}
static void wait_select(void) {
  fd_set set;
  do {
    FD_ZERO(&set);
    FD_SET(own[0], &set);
  } while (syscall(SYS_select, own[0] + 1, &set, 0, 0, 0) != 1);
}
static void wait_epoll(void) {
  struct epoll_event got;
  while (syscall(SYS_epoll_wait, epoll, &got, 1, -1) != 1) {
  }
}
static void wait_recv(void) {
  char byte;  // the handler's pipe is a socket pair
  while (recv(own[0], &byte, 1, 0) != 1) {
  }
}

// The signal is blocked but in the call.
static void wait_sigsuspend(void) {
  while (!handled) sigsuspend(&none);
}
static void wait_ppoll(void) {
  struct pollfd p = {other[0], POLLIN, 0};
  while (!handled) ppoll(&p, 1, 0, &none);
}
static void wait_pselect(void) {
  while (!handled) pselect(0, 0, 0, 0, 0, &none);
}
static void wait_epoll_pwait(void) {
  struct epoll_event got;
  while (!handled) epoll_pwait(epoll, &got, 1, -1, &none);
}
static void wait_sigwait(void) {
  int signo;
  while ((signo = sigwaitinfo(&usr1, 0)) < 0) CHECK(errno == EINTR);  // SIGUSR2
  CHECK(signo == SIGUSR1);
  handled = 1;
}
static void wait_signalfd(void) {
  struct signalfd_siginfo info;
  ssize_t n;
  while ((n = read(signals, &info, sizeof info)) < 0) CHECK(errno == EINTR);  // SIGUSR2
  CHECK(n == sizeof info && info.ssi_signo == SIGUSR1);
  handled = 1;
}

// Nothing but a jump out of the handler ends these.
static void wait_pause(void) { pause(); }
static void wait_nanosleep(void) { syscall(SYS_nanosleep, &(struct timespec){1000, 0}, 0); }
static void wait_sleep(void) { clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){1000, 0}, 0); }
static void wait_futex(void) {
  static int word;
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
}
static void wait_futex_shared(void) {
  static int word;
  syscall(SYS_futex, &word, FUTEX_WAIT, 0, 0, 0, 0);
}
static void wait_child(void) { wait4(child, 0, 0, 0); }
static void wait_id(void) { waitid(P_PID, (id_t)child, 0, WEXITED); }
static void wait_lock(void) { flock(lock, LOCK_EX); }
static void wait_fcntl(void) { fcntl(lock, F_SETLKW, &(struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET}); }
static void wait_accept(void) { accept(listener, 0, 0); }
static void wait_message(void) {
  struct {
    long type;
    char text[8];
  } message;
  msgrcv(queue, &message, sizeof message.text, 0, 0);
}
static void wait_semaphore(void) { semop(semaphore, &(struct sembuf){0, -1, 0}, 1); }
static void wait_write(void) {
  static char block[1 << 13];  // inject steps through copies of it byte by byte
  while (write(other[1], block, sizeof block) > 0) {
  }
}
static void wait_fifo(void) { open("fifo", O_RDONLY); }
static void wait_pread(void) {
  char byte;
  read(other[0], &byte, 1);
}

enum { Pipe, Masked, Jump, Late };
static const struct way {
  const char* name;
  void (*wait)(void);
  int kind;
} ways[] = {
    {"read", wait_read, Pipe},
    {"poll", wait_poll, Pipe},
    {"select", wait_select, Pipe},
    {"epoll", wait_epoll, Pipe},
    {"recv", wait_recv, Pipe},
    {"sigsuspend", wait_sigsuspend, Masked},
    {"ppoll", wait_ppoll, Masked},
    {"pselect", wait_pselect, Masked},
    {"epoll_pwait", wait_epoll_pwait, Masked},
    {"sigwait", wait_sigwait, Masked},
    {"signalfd", wait_signalfd, Masked},
    {"pause", wait_pause, Jump},
    {"nanosleep", wait_nanosleep, Jump},
    {"sleep", wait_sleep, Jump},
    {"futex", wait_futex, Jump},
    {"futex_shared", wait_futex_shared, Jump},
    {"wait4", wait_child, Jump},
    {"waitid", wait_id, Jump},
    {"flock", wait_lock, Jump},
    {"fcntl", wait_fcntl, Jump},
    {"accept", wait_accept, Jump},
    {"msgrcv", wait_message, Jump},
    {"semop", wait_semaphore, Jump},
    {"write", wait_write, Jump},
    {"open", wait_fifo, Jump},
    {"pread", wait_pread, Jump},
    // Blocked a moment too late: the signal may be on its way already.
    {"late_sigsuspend", wait_sigsuspend, Late},
    {"late_ppoll", wait_ppoll, Late},
    {"late_sigwait", wait_sigwait, Late},
    {"late_signalfd", wait_signalfd, Late},
};

static void* sleeper(void* unused) {
  for (;;) pause();
}

// Always wants the turn, and has descriptors of its own.
static void* parted(void* ready) {
  CHECK(unshare(CLONE_FILES) == 0);
  *(volatile int*)ready = 1;
  for (;;) sched_yield();
}

static volatile int over;
static void* comes_and_goes(void* unused) {
  while (!over) sched_yield();
  return unused;
}

static void prepare(void) {
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, own) == 0 && pipe(other) == 0);
  CHECK((epoll = epoll_create1(0)) >= 0);
  struct epoll_event event = {EPOLLIN, {.u64 = 1}};
  CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, own[0], &event) == 0);
  CHECK((listener = socket(AF_UNIX, SOCK_STREAM, 0)) >= 0);
  struct sockaddr_un address = {AF_UNIX};
  CHECK(bind(listener, (struct sockaddr*)&address, sizeof(sa_family_t)) == 0 && listen(listener, 1) == 0);
  CHECK((queue = msgget(IPC_PRIVATE, 0600)) >= 0 && (semaphore = semget(IPC_PRIVATE, 1, 0600)) >= 0);
  CHECK((signals = signalfd(-1, &usr1, 0)) >= 0 && mkfifo("fifo", 0600) == 0);
  int ready[2];
  CHECK(pipe(ready) == 0);
  child = fork();
  if (child == 0) {
    // Holds the locks, and stays; until the parent, which has the other end, is gone.
    int fd = open("locked", O_CREAT | O_RDWR, 0600);
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    CHECK(flock(fd, LOCK_EX) == 0 && fcntl(fd, F_SETLK, &all) == 0);
    close(other[1]);
    CHECK(write(ready[1], "x", 1) == 1);
    char byte;
    while (read(other[0], &byte, 1) < 0) {
    }
    _exit(0);
  }
  char byte;
  CHECK(read(ready[0], &byte, 1) == 1);
  CHECK((lock = open("locked", O_RDWR)) >= 0);
}

static const struct way* way = ways;
static pthread_t thread;
static int seats, change, worker;
static long rounds, wrong;

static void* waits(void* unused) {
  sigset_t usr2;
  sigemptyset(&usr2);
  sigaddset(&usr2, SIGUSR2);
  sigprocmask(SIG_UNBLOCK, &usr2, 0);
  if (way->kind == Pipe || way->kind == Late) sigprocmask(SIG_UNBLOCK, &usr1, 0);
  if (way->wait == wait_recv) fcntl(own[0], F_SETFL, 0);
  while (!enough) {
    handled = 0;
    if (change) {  // it is alone: so the recorder is where it was at the start
      CHECK(unshare(CLONE_FS) == 0);
      over = 0;
      CHECK(pthread_create(&thread, 0, comes_and_goes, 0) == 0);
    }
    syscall(SYS_getppid, worker ? syscall(SYS_gettid) : 0);
    if (seats) sched_yield();  // there, and back
    switch (way->kind) {
      case Pipe:
      case Masked:
        way->wait();
        break;
      case Late:
        sigprocmask(SIG_BLOCK, &usr1, 0);
        if (!handled) way->wait();
        sigprocmask(SIG_UNBLOCK, &usr1, 0);
        break;
      default:
        if (sigsetjmp(out, 1) == 0) {
          jumps = 1;
          sigprocmask(SIG_UNBLOCK, &usr1, 0);
          for (;;) way->wait();
        }
    }
    if (change) {
      over = 1;
      CHECK(pthread_join(thread, 0) == 0);
    }
    if (handled != 1) wrong++;
    if (way->wait == wait_recv) fcntl(own[0], F_SETFL, O_NONBLOCK);
    drain();
    if (way->wait == wait_recv) fcntl(own[0], F_SETFL, 0);
    rounds++;
  }
  return unused;
}

int main(int argc, char** argv) {
  while (argc > 1 && way < ways + sizeof ways / sizeof *ways && strcmp(way->name, argv[1]) != 0) way++;
  CHECK(argc > 1 && way < ways + sizeof ways / sizeof *ways);
  sigemptyset(&none);
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  sigset_t both = usr1;
  sigaddset(&both, SIGUSR2);
  sigprocmask(SIG_BLOCK, &both, 0);
  prepare();
  const char* beside = argc > 2 ? argv[2] : "";
  seats = strcmp(beside, "seats") == 0;
  change = strcmp(beside, "change") == 0;
  worker = strcmp(beside, "worker") == 0;
  if (strcmp(beside, "threads") == 0) CHECK(pthread_create(&thread, 0, sleeper, 0) == 0);
  if (seats) {
    volatile int ready = 0;
    CHECK(pthread_create(&thread, 0, parted, (void*)&ready) == 0);
    while (!ready) sched_yield();
  }
  // For these the recorder changes over to another kernel thread, once: not in the window that is looked at.
  const struct timespec now = {0, 0};
  if (argc > 2 && !change && !worker && (way->wait == wait_sigwait || way->wait == wait_signalfd))
    sigtimedwait(&usr1, 0, &now);
  struct sigaction action = {.sa_handler = on_usr1};
  sigaction(SIGUSR1, &action, 0);
  action.sa_handler = on_usr2;
  sigaction(SIGUSR2, &action, 0);
  fcntl(own[0], F_SETFL, O_NONBLOCK);
  if (worker) {
    CHECK(pthread_create(&thread, 0, waits, 0) == 0 && pthread_join(thread, 0) == 0);
  } else {
    waits(0);
  }
  // So that nobody writes the recording any more when this ends.
  kill(child, SIGTERM);
  while (waitpid(child, 0, 0) < 0) CHECK(errno == EINTR);
  msgctl(queue, IPC_RMID, 0);
  semctl(semaphore, 0, IPC_RMID);
  printf("%s: %s\n", way->name, wrong ? "handlers did not run once in each round" : rounds > 0 ? "ok" : "no rounds");
  return wrong != 0;
}
