// clone with flags that exclude each other or need each other; names that children and threads get from who
// made them; the ids that clone writes, also into the memory that a child of vfork shares.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char stack[1 << 16] __attribute__((aligned(16)));
static int ids[2];

static void attempt(const char* what, unsigned long flags) {
  // With a stack: if it is made after all, it must not use ours.
  fflush(stdout);
  const long pid = syscall(SYS_clone, flags, stack + sizeof stack, &ids[0], &ids[1], 0);
  if (pid == 0) _exit(0);
  printf("%s: %s\n", what, pid < 0 ? strerrorname_np(errno) : "made");
}

static void print_name(const char* who) {
  char name[16];
  prctl(PR_GET_NAME, name);
  char comm[32] = "";
  FILE* file = fopen("/proc/thread-self/comm", "r");
  if (file) {
    if (!fgets(comm, sizeof comm, file)) comm[0] = 0;
    fclose(file);
  }
  comm[strcspn(comm, "\n")] = 0;
  printf("%s is called %s, %s\n", who, name, comm);
  fflush(stdout);
}

static void* thread_of_thread(void* unused) {
  (void)unused;
  print_name("a thread's thread");
  return NULL;
}

static void children(const char* who) {
  char text[64];
  fflush(stdout);
  if (fork() == 0) {
    snprintf(text, sizeof text, "a child of %s", who);
    print_name(text);
    _exit(0);
  }
  wait(NULL);
  snprintf(text, sizeof text, "a vfork of %s", who);
  char name[16] = "", comm[64] = "", path[64];
  pid_t pid = vfork();
  if (pid == 0) {
    prctl(PR_GET_NAME, name);
    prctl(PR_SET_NAME, "brief");
    _exit(0);
  }
  waitpid(pid, NULL, 0);
  printf("%s is called %s\n", text, name);
  print_name(who);
}

static void* named(void* name) {
  pthread_t thread;
  prctl(PR_SET_NAME, name);
  children("a thread");
  pthread_create(&thread, NULL, thread_of_thread, NULL);
  pthread_join(thread, NULL);
  return NULL;
}

static int look(void* unused) {
  // In the memory of its parent: what the kernel wrote is there already.
  printf("in the child: parent's word %s, child's %s\n", ids[0] == getpid() ? "is its id" : "is not",
         ids[1] == getpid() ? "is its id"
         : ids[1] == -1     ? "is as before"
                            : "is not");
  fflush(stdout);
  return 5;
}

static void with_ids(const char* what, int flags) {
  int status = 0;
  ids[0] = ids[1] = -1;
  const int pid = clone(look, stack + sizeof stack, flags | CLONE_VM | CLONE_VFORK | SIGCHLD, NULL, &ids[0],
                        NULL, &ids[1]);
  waitpid(pid, &status, 0);
  printf("%s: %s, %s, ended with %d\n", what,
         ids[0] == pid  ? "id"
         : ids[0] == -1 ? "nothing"
                        : "something else",
         ids[1] == 0     ? "cleared"
         : ids[1] == pid ? "id"
                         : "nothing",
         WEXITSTATUS(status));
}

// A pidfd of a thread (Linux 6.9) tells when that ends.
static int bell[2];
static int thread_with_pidfd(void* unused) {
  char byte;
  (void)unused;
  while (syscall(SYS_read, bell[0], &byte, 1) < 0) {
  }
  return 0;
}
static void pidfd_of_thread(void) {
  const unsigned long flags =
      CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_PIDFD;
  char* own = malloc(1 << 16);
  ids[0] = -1;
  if (pipe(bell) != 0) return;
  const int tid = clone(thread_with_pidfd, own + (1 << 16), flags, NULL, &ids[0]);
  if (tid < 0 && errno == EINVAL) {
    printf("pidfd of a thread: not by this kernel\n");
    return;
  }
  struct pollfd end = {ids[0], POLLIN, 0};
  printf("pidfd of a thread: descriptor %d, closed by execve %d, lives %d", ids[0] == bell[1] + 1,
         fcntl(ids[0], F_GETFD) == FD_CLOEXEC, poll(&end, 1, 0) == 0);
  printf(", is let go %d", write(bell[1], "x", 1) == 1);
  printf(", ends %d\n", poll(&end, 1, -1) == 1 && (end.revents & POLLIN));
  close(ids[0]);
  // Nowhere to write it to, and no room for it.
  printf("nowhere: %s", clone(thread_with_pidfd, own + (1 << 16), flags, NULL, (int*)8) < 0
                            ? strerrorname_np(errno)
                            : "made");
  struct rlimit limit, none = {0, 0};
  getrlimit(RLIMIT_NOFILE, &limit);
  none.rlim_cur = (rlim_t)bell[1] + 1, none.rlim_max = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &none);
  printf(", no room: %s\n", clone(thread_with_pidfd, own + (1 << 16), flags, NULL, &ids[0]) < 0
                                ? strerrorname_np(errno)
                                : "made");
  setrlimit(RLIMIT_NOFILE, &limit);
}

int main(void) {
  attempt("new mounts and shared folders", CLONE_NEWNS | CLONE_FS | SIGCHLD);
  attempt("new users and shared folders", CLONE_NEWUSER | CLONE_FS | SIGCHLD);
  attempt("a thread without handlers", CLONE_THREAD | CLONE_VM);
  attempt("handlers without memory", CLONE_SIGHAND | SIGCHLD);
  attempt("a thread without memory", CLONE_THREAD | CLONE_SIGHAND);
  attempt("a thread with new users", CLONE_THREAD | CLONE_SIGHAND | CLONE_VM | CLONE_NEWUSER);
  attempt("a thread with new pids", CLONE_THREAD | CLONE_SIGHAND | CLONE_VM | CLONE_NEWPID);
  attempt("two ids in one place", CLONE_PIDFD | CLONE_PARENT_SETTID | SIGCHLD);
  attempt("a detached pidfd", CLONE_PIDFD | CLONE_DETACHED | SIGCHLD);
  attempt("vfork, new mounts and shared folders", CLONE_VM | CLONE_VFORK | CLONE_NEWNS | CLONE_FS | SIGCHLD);
  attempt("vfork, handlers without memory", CLONE_VFORK | CLONE_SIGHAND | SIGCHLD);
  attempt("vfork, a thread without handlers", CLONE_VM | CLONE_VFORK | CLONE_THREAD);
  attempt("vfork, two ids in one place",
          CLONE_VM | CLONE_VFORK | CLONE_PIDFD | CLONE_PARENT_SETTID | SIGCHLD);
  attempt("vfork without memory", CLONE_VFORK | SIGCHLD);
  wait(NULL);
  with_ids("no ids", 0);
  with_ids("parent's", CLONE_PARENT_SETTID);
  with_ids("both", CLONE_PARENT_SETTID | CLONE_CHILD_SETTID);
  with_ids("cleared", CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID);
  ids[0] = -1;
  const int pid =
      clone(look, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, NULL, &ids[0]);
  siginfo_t info;
  printf("pidfd: %d %d\n", ids[0] > 2, waitid(P_PIDFD, ids[0], &info, WEXITED) == 0 && info.si_pid == pid);

  pidfd_of_thread();

  prctl(PR_SET_NAME, "the first");
  children("the first one");
  pthread_t thread;
  pthread_create(&thread, NULL, named, "another");
  pthread_join(thread, NULL);
  print_name("the first one");
  return 0;
}
