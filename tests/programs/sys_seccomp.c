// Filters of system calls (seccomp): every action, stacked filters, strict mode, threads, fork and exec.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, value)
#define IF_CALL(nr, value) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), RETURN(value)

static int install(struct sock_filter *code, size_t n, unsigned flags) {
  struct sock_fprog program = {(unsigned short)n, code};
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}
#define INSTALL(flags, ...)                                  \
  ({                                                         \
    struct sock_filter code[] = {__VA_ARGS__};               \
    install(code, sizeof code / sizeof code[0], flags);      \
  })

static void show_status(const char *where) {
  char line[256];
  FILE *f = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof line, f))
    if (!strncmp(line, "NoNewPrivs", 10) || !strncmp(line, "Seccomp:", 8)) printf("%s %s", where, line);
  fclose(f);
}

static volatile int trapped;
static void on_sigsys(int signo, siginfo_t *info, void *context) {
  long *registers = (long *)((ucontext_t *)context)->uc_mcontext.gregs;
  CHECK(signo == SIGSYS && info->si_code == 1 && info->si_arch == AUDIT_ARCH_X86_64);
  CHECK((long)info->si_call_addr == registers[16] && registers[13] == info->si_syscall);
  trapped = info->si_syscall * 1000 + info->si_errno;
  registers[13] = 4711;  // rax: the handler stands in for the call
}

// A child whose end is told.
static void in_child(const char *name, void (*work)(void)) {
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    work();
    fflush(stdout);
    _exit(7);
  }
  int status;
  CHECK(waitpid(pid, &status, 0) == pid);
  printf("%s: status %#x\n", name, status & ~0x80);
}

static void kill_process(void) {
  INSTALL(0, LOAD(nr), IF_CALL(SYS_sync, SECCOMP_RET_KILL_PROCESS), RETURN(SECCOMP_RET_ALLOW));
  syscall(SYS_sync);
}
static void kill_thread(void) {
  INSTALL(0, LOAD(nr), IF_CALL(SYS_sync, SECCOMP_RET_KILL_THREAD), RETURN(SECCOMP_RET_ALLOW));
  syscall(SYS_sync);
}
static void trap_without_handler(void) {
  INSTALL(0, LOAD(nr), IF_CALL(SYS_sync, SECCOMP_RET_TRAP), RETURN(SECCOMP_RET_ALLOW));
  syscall(SYS_sync);
}
static void strict(void) {
  CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
  CHECK(write(1, "strict\n", 7) == 7);
  syscall(SYS_exit, 5);
}
static void strict_dies(void) {
  CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
  syscall(SYS_getuid);
}
static void *dies_alone(void *unused) {
  syscall(SYS_sync);
  printf("not reached\n");
  return unused;
}
static void one_thread_dies(void) {
  pthread_t t;
  INSTALL(0, LOAD(nr), IF_CALL(SYS_sync, SECCOMP_RET_KILL_THREAD), RETURN(SECCOMP_RET_ALLOW));
  CHECK(pthread_create(&t, NULL, dies_alone, NULL) == 0);
  CHECK(pthread_join(t, NULL) == 0);
  printf("the others live\n");
}
static int ready[2], go[2];
static void *asks(void *unused) {
  char c;
  CHECK(write(ready[1], "r", 1) == 1 && read(go[0], &c, 1) == 1);
  long r = getsid(0);
  printf("thread: getsid %ld, errno %d\n", r, errno);
  return unused;
}
static void all_threads(void) {
  char c;
  pthread_t t;
  CHECK(pipe(ready) == 0 && pipe(go) == 0);
  pthread_create(&t, NULL, asks, NULL);
  CHECK(read(ready[0], &c, 1) == 1);
  CHECK(INSTALL(SECCOMP_FILTER_FLAG_TSYNC, LOAD(nr), IF_CALL(SYS_getsid, SECCOMP_RET_ERRNO | 77),
                RETURN(SECCOMP_RET_ALLOW)) == 0);
  CHECK(write(go[1], "g", 1) == 1);
  pthread_join(t, NULL);
}

int main(int argc, char **argv) {
  if (argc > 1) {  // after execve
    long r = syscall(SYS_getpgid, 0);
    printf("after exec: getpgrp %ld, errno %d\n", r, errno);
    show_status("after exec");
    return 0;
  }
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
  CHECK(install(NULL, 1, 0) == -1 && errno == EINVAL);
  CHECK(install((void *)8, 1, 0) == -1 && errno == EFAULT);
  CHECK(INSTALL(0, BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0), RETURN(0)) == -1 && errno == EINVAL);
  CHECK(INSTALL(0, LOAD(nr)) == -1 && errno == EINVAL);
  CHECK(INSTALL(1 << 20, RETURN(SECCOMP_RET_ALLOW)) == -1 && errno == EINVAL);
  uint32_t action = SECCOMP_RET_TRAP;
  CHECK(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0);

  in_child("kill process", kill_process);
  in_child("kill thread", kill_thread);
  in_child("one thread", one_thread_dies);
  in_child("trap", trap_without_handler);
  in_child("strict", strict);
  in_child("strict dies", strict_dies);
  in_child("all threads", all_threads);

  // Errors by argument: mmap of exactly this size is refused, and changes nothing.
  CHECK(INSTALL(0, LOAD(nr), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3), LOAD(args[1]),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x123000, 0, 1), RETURN(SECCOMP_RET_ERRNO | EDOM),
                RETURN(SECCOMP_RET_ALLOW)) == 0);
  CHECK(mmap(NULL, 0x123000, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EDOM);
  void *page = mmap(NULL, 0x124000, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED && munmap(page, 0x124000) == 0);
  CHECK(prctl(PR_GET_SECCOMP) == 2);
  CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == -1 && errno == EINVAL);

  // Stacked: the stricter one wins, whatever the order; of equals the newer.
  struct sigaction action_sys = {.sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGSYS, &action_sys, NULL) == 0);
  CHECK(INSTALL(0, LOAD(nr), IF_CALL(SYS_getuid, SECCOMP_RET_TRAP | 12), IF_CALL(SYS_getgid, SECCOMP_RET_ERRNO | 1),
                IF_CALL(SYS_getpgid, SECCOMP_RET_ERRNO | 33), IF_CALL(SYS_geteuid, SECCOMP_RET_TRACE),
                IF_CALL(SYS_getegid, SECCOMP_RET_LOG), RETURN(SECCOMP_RET_ALLOW)) == 0);
  CHECK(INSTALL(0, LOAD(nr), IF_CALL(SYS_getuid, SECCOMP_RET_ERRNO | 5), IF_CALL(SYS_getgid, SECCOMP_RET_ERRNO | 2),
                RETURN(SECCOMP_RET_ALLOW)) == 0);
  CHECK(syscall(SYS_getuid) == 4711 && trapped == SYS_getuid * 1000 + 12);
  CHECK(syscall(SYS_getgid) == -1 && errno == 2);
  CHECK(syscall(SYS_geteuid) == -1 && errno == ENOSYS);
  CHECK(syscall(SYS_getegid) == getegid());
  // The time comes from the vdso natively, so no filter can forbid it.
  CHECK(INSTALL(0, LOAD(nr), IF_CALL(SYS_clock_gettime, SECCOMP_RET_KILL_PROCESS), RETURN(SECCOMP_RET_ALLOW)) == 0);
  struct timespec now;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
  show_status("before exec");
  fflush(stdout);
  char *again[] = {argv[0], "again", NULL};
  execv("/proc/self/exe", again);
  CHECK(!"exec");
}
