// Parents and children: waiting in every way, zombies, orphans, daemons, process groups, what a child inherits.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static volatile int children, last;
static void on_child(int signo, siginfo_t* info, void* context) {
  children++;
  last = info->si_pid;
}

static pid_t start(int (*what)(void)) {
  fflush(stdout);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) _exit(what());
  return pid;
}
static int work(void) {
  for (volatile int i = 0; i < 3000000; i++) {}
  return 5;
}
static int at_once(void) { return 6; }
static int forever(void) {
  for (;;) pause();
}
static int stopped(void) {
  raise(SIGSTOP);
  return 8;
}
static int leader(void) {
  CHECK(setsid() == getpid() && getpgrp() == getpid() && getsid(0) == getpid());
  return 9;
}

int main(void) {
  int status;
  setvbuf(stdout, NULL, _IOLBF, 0);

  // The wait family.
  struct rusage usage;
  pid_t pid = start(work);
  CHECK(wait4(pid, &status, 0, &usage) == pid && WEXITSTATUS(status) == 5);
  CHECK(usage.ru_utime.tv_usec + usage.ru_utime.tv_sec * 1000000l + usage.ru_stime.tv_usec > 0);
  CHECK(getrusage(RUSAGE_CHILDREN, &usage) == 0);
  siginfo_t info = {0};
  pid = start(at_once);
  CHECK(waitid(P_PID, pid, &info, WEXITED | WNOWAIT) == 0 && info.si_pid == pid && info.si_status == 6);
  CHECK(waitid(P_ALL, 0, &info, WEXITED) == 0 && info.si_code == CLD_EXITED);
  CHECK(waitpid(-1, &status, 0) == -1 && errno == ECHILD);
  pid = start(forever);
  CHECK(waitpid(pid, &status, WNOHANG) == 0);
  CHECK(kill(pid, SIGTERM) == 0 && waitpid(pid, &status, 0) == pid && WTERMSIG(status) == SIGTERM);
  pid = start(forever);
  CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid && WTERMSIG(status) == SIGKILL);
  pid = start(stopped);
  CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  CHECK(kill(pid, SIGCONT) == 0 && waitpid(pid, &status, WCONTINUED) == pid);
  if (WIFCONTINUED(status)) CHECK(waitpid(pid, &status, 0) == pid);
  CHECK(WEXITSTATUS(status) == 8);
  int pidfd = syscall(SYS_pidfd_open, pid = start(at_once), 0);
  if (pidfd >= 0) {
    CHECK(waitid(P_PIDFD, pidfd, &info, WEXITED) == 0 && info.si_pid == pid);
    close(pidfd);
  } else {
    CHECK(waitpid(pid, &status, 0) == pid);
  }

  // SIGCHLD, zombies, and children that nobody waits for.
  struct sigaction action = {.sa_sigaction = on_child, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigaction(SIGCHLD, &action, NULL);
  pid = start(at_once);
  while (!children) usleep(1000);
  CHECK(last == pid);
  char path[64], state = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE* f = fopen(path, "r");
  CHECK(f && fscanf(f, "%*d %*s %c", &state) == 1);
  fclose(f);
  printf("a zombie is %c\n", state);
  CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 6);
  action = (struct sigaction){.sa_handler = SIG_IGN};
  sigaction(SIGCHLD, &action, NULL);
  pid = start(at_once);
  CHECK(waitpid(pid, &status, 0) == -1 && errno == ECHILD);
  signal(SIGCHLD, SIG_DFL);

  // Groups and sessions.
  pid = start(forever);
  CHECK(setpgid(pid, pid) == 0 && getpgid(pid) == pid);
  pid_t second = start(forever);
  CHECK(setpgid(second, pid) == 0);
  CHECK(kill(-pid, SIGINT) == 0);
  CHECK(waitpid(-pid, &status, 0) > 0 && waitpid(-pid, &status, 0) > 0 && WTERMSIG(status) == SIGINT);
  pid = start(leader);
  CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 9);

  // The whole group, oneself included.
  int group[2];
  CHECK(pipe(group) == 0);
  fflush(stdout);
  pid = fork();
  if (pid == 0) {
    CHECK(setpgid(0, 0) == 0);
    if (fork() == 0) {
      CHECK(write(group[1], "", 1) == 1);
      forever();
    }
    char c;
    CHECK(read(group[0], &c, 1) == 1);
    kill(0, SIGKILL);
    _exit(0);
  }
  CHECK(waitpid(pid, &status, 0) == pid && WTERMSIG(status) == SIGKILL);
  close(group[1]);
  CHECK(read(group[0], &status, 1) == 0);

  // A child of its own kind: no SIGCHLD, tid set in its memory only.
  int set = 0, in_parent = 0;
  pid = syscall(SYS_clone, CLONE_CHILD_SETTID | CLONE_PARENT_SETTID, 0, &in_parent, &set, 0);
  if (pid == 0) _exit(set == getpid() ? 10 : 11);
  CHECK(pid > 0 && set == 0 && in_parent == pid);
  CHECK(waitpid(pid, &status, __WALL) == pid && WEXITSTATUS(status) == 10);

  // One that shares the table of descriptors: each closes and opens for both.
  for (int i = 0; i < 3; i++) {
    pid = syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
      for (int k = 0; k < 100; k++) getppid();
      dup2(open("/dev/null", O_WRONLY), 60 + i);
      _exit(3);
    }
    for (int k = 0; k < 2000; k++) getppid();
    CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 3);
    CHECK(dprintf(60 + i, "opened by a child\n") == 18);
  }

  // Memory is copied, files are shared.
  static int number = 1;
  int fd = open("shared", O_RDWR | O_CREAT | O_TRUNC, 0600);
  pid = fork();
  if (pid == 0) {
    number = 2;
    CHECK(write(fd, "child", 5) == 5);
    _exit(0);
  }
  CHECK(waitpid(pid, &status, 0) == pid && number == 1 && lseek(fd, 0, SEEK_CUR) == 5);

  // An orphan comes to the nearest subreaper.
  CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  int ends[2];
  CHECK(pipe(ends) == 0);
  pid = fork();
  if (pid == 0) {
    if (fork() == 0) {
      pid_t parent = getppid();
      while (getppid() == parent) usleep(1000);
      pid_t mine[2] = {getpid(), getppid()};
      CHECK(write(ends[1], mine, sizeof mine) == sizeof mine);
      _exit(12);
    }
    usleep(20000);
    _exit(0);
  }
  pid_t orphan[2];
  CHECK(waitpid(pid, &status, 0) == pid);
  CHECK(read(ends[0], orphan, sizeof orphan) == sizeof orphan && orphan[1] == getpid());
  CHECK(waitpid(orphan[0], &status, 0) == orphan[0] && WEXITSTATUS(status) == 12);
  prctl(PR_SET_CHILD_SUBREAPER, 0);

  // One that dies with its parent.
  pid = fork();
  if (pid == 0) {
    pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      CHECK(write(ends[1], "r", 1) == 1);
      forever();
    }
    char c;
    CHECK(read(ends[0], &c, 1) == 1);
    _exit(0);
  }
  close(ends[1]);
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  char c;
  CHECK(read(ends[0], &c, 1) == 0);  // the last one that had the other end is gone

  // A daemon outlives all this.
  pid = fork();
  if (pid == 0) {
    setsid();
    if (fork()) _exit(0);
    CHECK(chdir("/") == 0);
    usleep(200000);
    dprintf(1, "the daemon's last words\n");
    _exit(13);
  }
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  puts("done");
  return 0;
}
