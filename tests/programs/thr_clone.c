// clone with flags that exclude each other or need each other; names that children and threads get from who made them; the ids
// that clone writes, also into the memory that a child of vfork shares.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
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
         ids[1] == getpid() ? "is its id" : ids[1] == -1 ? "is as before" : "is not");
  fflush(stdout);
  return 5;
}

static void with_ids(const char* what, int flags) {
  int status = 0;
  ids[0] = ids[1] = -1;
  const int pid = clone(look, stack + sizeof stack, flags | CLONE_VM | CLONE_VFORK | SIGCHLD, NULL, &ids[0], NULL, &ids[1]);
  waitpid(pid, &status, 0);
  printf("%s: %s, %s, ended with %d\n", what, ids[0] == pid ? "id" : ids[0] == -1 ? "nothing" : "something else",
         ids[1] == 0 ? "cleared" : ids[1] == pid ? "id" : "nothing", WEXITSTATUS(status));
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
  attempt("vfork, two ids in one place", CLONE_VM | CLONE_VFORK | CLONE_PIDFD | CLONE_PARENT_SETTID | SIGCHLD);
  attempt("vfork without memory", CLONE_VFORK | SIGCHLD);
  wait(NULL);
  with_ids("no ids", 0);
  with_ids("parent's", CLONE_PARENT_SETTID);
  with_ids("both", CLONE_PARENT_SETTID | CLONE_CHILD_SETTID);
  with_ids("cleared", CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID);
  ids[0] = -1;
  const int pid = clone(look, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, NULL, &ids[0]);
  siginfo_t info;
  printf("pidfd: %d %d\n", ids[0] > 2, waitid(P_PIDFD, ids[0], &info, WEXITED) == 0 && info.si_pid == pid);

  prctl(PR_SET_NAME, "the first");
  children("the first one");
  pthread_t thread;
  pthread_create(&thread, NULL, named, "another");
  pthread_join(thread, NULL);
  print_name("the first one");
  return 0;
}
