// A thread that parts from the others: it has descriptors (unshare(CLONE_FILES), close_range), or a working
// directory and umask (unshare(CLONE_FS)), of its own from then on; the others keep theirs. What it starts
// inherits its own.
//   thr_own_world worker|first|alone    who parts
//   thr_own_world clone                 a thread that is started so
//   thr_own_world exec-worker|exec-first
#include <dirent.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "thr.h"

extern char** environ;
static const char* self;

// Who parts, and who stays, do one thing after the other.
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int step;
static void next_step(void) {
  pthread_mutex_lock(&mutex);
  step++;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}
static void await_step(int n) {
  pthread_mutex_lock(&mutex);
  while (step < n) pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
}

static int is_open(int fd) {
  return fcntl(fd, F_GETFD) >= 0;
}
static void open_as(const char* name, int fd) {
  int got = open(name, O_RDWR | O_CREAT, 0666);
  CHECK(got >= 0 && dup2(got, fd) == fd);
  close(got);
}
// Where a descriptor leads to, by a listing in /proc; the last part of it.
static void show(const char* who, const char* folder, int fd) {
  char path[100], to[500];
  snprintf(path, sizeof path, "%s/%d", folder, fd);
  ssize_t n = readlink(path, to, sizeof to - 1);
  to[n < 0 ? 0 : n] = 0;
  const char* last = strrchr(to, '/');
  printf("%s: %s is %s\n", who, path, n < 0 ? strerror(errno) : last ? last + 1 : to);
}
static int entries(const char* folder) {
  int count = 0;
  DIR* d = opendir(folder);
  CHECK(d);
  while (readdir(d)) count++;
  closedir(d);
  return count - 3;  // ., .., and this one
}
static int status_of(pid_t pid) {
  int status;
  while (waitpid(pid, &status, 0) != pid) CHECK(errno == EINTR);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int common[2], left[2];  // pipes from before

static void* helper(void* argument) {
  (void)argument;
  printf("helper: 20 %d, 21 %d\n", is_open(20), is_open(21));
  open_as("helpers", 22);
  return 0;
}

static void parts(void) {
  CHECK(unshare(CLONE_FILES) == 0);
  close(20);
  open_as("own", 21);
  CHECK(write(21, "own file\n", 9) == 9);
  next_step();
  await_step(2);
  printf("who parts: 20 %d, 21 %d, 23 %d\n", is_open(20), is_open(21), is_open(23));
  show("who parts", "/proc/thread-self/fd", 21);
  show("who parts", "/proc/self/fd", 21);
  show("who parts", "/proc/self/fd", 23);
  // Mapped by its number here.
  char* map = mmap(0, 4096, PROT_READ, MAP_PRIVATE, 21, 0);
  CHECK(map != MAP_FAILED);
  printf("mapped: %.9s", map);
  // Waiting, and children.
  int ends[2];
  CHECK(pipe(ends) == 0 && dup2(ends[1], 31) == 31);
  close(ends[1]);
  pid_t child = fork();
  if (child == 0) {
    usleep(20000);
    char text[40];
    int n = snprintf(text, sizeof text, "child: 20 %d, 21 %d\n", is_open(20), is_open(21));
    _exit(write(31, text, (size_t)n) == n ? 7 : 8);
  }
  close(31);
  char text[40];
  ssize_t n = read(ends[0], text, sizeof text);
  printf("%.*s", (int)(n > 0 ? n : 0), text);
  struct pollfd p = {ends[0], POLLIN, 0};
  CHECK(poll(&p, 1, -1) == 1);
  CHECK(status_of(child) == 7);
  char* command[] = {"sh", "-c", "echo of the shell >/proc/self/fd/21; [ ! -e /proc/self/fd/20 ]", 0};
  CHECK(posix_spawn(&child, "/bin/sh", 0, 0, command, environ) == 0);
  printf("shell: %d\n", status_of(child));
  int queue = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN, .data.fd = ends[0]};
  CHECK(epoll_ctl(queue, EPOLL_CTL_ADD, ends[0], &event) == 0 && epoll_wait(queue, &event, 1, -1) == 1);
  // A thread that it starts has the same ones.
  pthread_t thread;
  CHECK(pthread_create(&thread, 0, helper, 0) == 0 && pthread_join(thread, 0) == 0);
  printf("who parts: 22 %d\n", is_open(22));
  // Parts again; now with a range closed on the way.
  CHECK(close_range(21, 40, CLOSE_RANGE_UNSHARE) == 0);
  printf("who parts: 21 %d, 22 %d\n", is_open(21), is_open(22));
  CHECK(close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) == 0);
  next_step();
  CHECK(read(common[0], text, 1) == 1);
  // Folders.
  CHECK(mkdir("sub", 0777) == 0 && unshare(CLONE_FS) == 0 && chdir("sub") == 0);
  umask(077);
  open_as("private", 24);
  struct stat st;
  CHECK(fstat(24, &st) == 0);
  printf("who parts: private has mode %o\n", st.st_mode & 0777);
  // A namespace, if we may.
  char name[100] = "";
  if (unshare(CLONE_NEWUTS) == 0) {
    CHECK(sethostname("elsewhere", 9) == 0 && gethostname(name, sizeof name) == 0);
    printf("who parts: is %s\n", name);
  }
  next_step();
  await_step(6);
}

static void stays(void) {
  await_step(1);
  printf("who stays: 20 %d, 21 %d\n", is_open(20), is_open(21));
  show("who stays", "/proc/thread-self/fd", 21);
  show("who stays", "/proc/thread-self/fd", 20);
  printf("who stays: %d more\n", entries("/proc/thread-self/fd") - entries("/proc/self/fd"));
  open_as("other", 23);
  next_step();
  await_step(3);
  printf("who stays: 20 %d, 21 %d, 22 %d, 23 %d\n", is_open(20), is_open(21), is_open(22), is_open(23));
  usleep(20000);
  CHECK(write(common[1], "x", 1) == 1);
  await_step(4);
  char cwd[500];
  CHECK(getcwd(cwd, sizeof cwd));
  const char* last = strrchr(cwd, '/');
  printf("who stays: in sub %d, private %d %d\n", !strcmp(last, "/sub"), access("private", F_OK),
         access("sub/private", F_OK));
  char name[100];
  CHECK(gethostname(name, sizeof name) == 0);
  printf("who stays: is elsewhere %d\n", !strcmp(name, "elsewhere"));
  open_as("public", 25);
  struct stat st;
  CHECK(fstat(25, &st) == 0);
  printf("who stays: public has mode %o\n", st.st_mode & 0777);
  // The other one has this end, too, until it ends.
  close(left[1]);
  next_step();
  next_step();
}

static void* worker(void* argument) {
  if (argument) {
    stays();
  } else {
    parts();
  }
  return 0;
}

// A thread without CLONE_FILES and CLONE_FS, and without a C library.
static int cloned_alive = 1, cloned_saw;
static int cloned(void* argument) {
  (void)argument;
  syscall(SYS_close, 20);
  syscall(SYS_dup2, 1, 26);
  syscall(SYS_chdir, "/");
  cloned_saw = syscall(SYS_fcntl, 26, F_GETFD) >= 0 ? 1 : -1;
  syscall(SYS_exit, 0);
  return 0;
}
static void starts_one(void) {
  static char stack[65536] __attribute__((aligned(16)));
  CHECK(clone(cloned, stack + sizeof stack,
              CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID, 0, 0, 0,
              &cloned_alive) > 0);
  while (__atomic_load_n(&cloned_alive, __ATOMIC_SEQ_CST)) usleep(1000);
  char cwd[500];
  CHECK(getcwd(cwd, sizeof cwd));
  printf("cloned: saw %d; here 20 %d, 26 %d, in / %d\n", cloned_saw, is_open(20), is_open(26),
         !strcmp(cwd, "/"));
}

static void* executes(void* argument) {
  CHECK(unshare(CLONE_FILES) == 0);
  open_as("own", 21);
  close(20);
  printf("before: 20 %d, 21 %d\n", is_open(20), is_open(21));
  fflush(stdout);
  execl(self, self, "after", (char*)0);
  return argument;
}
static void* sleeps(void* argument) {
  for (;;) pause();
  return argument;
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  self = argv[0];
  setvbuf(stdout, 0, _IOLBF, 1000);
  umask(022);
  if (!strcmp(mode, "after")) {
    printf("after: 20 %d, 21 %d\n", is_open(20), is_open(21));
    show("after", "/proc/self/fd", 21);
    printf("after: %d threads\n", entries("/proc/self/task") + 1);
    return 5;
  }
  open_as("first", 20);
  CHECK(pipe(common) == 0 && pipe(left) == 0);
  pthread_t thread;
  if (!strcmp(mode, "worker")) {
    CHECK(pthread_create(&thread, 0, worker, 0) == 0);
    stays();
    char byte;
    printf("the end of it: %zd\n", read(left[0], &byte, 1));
    CHECK(pthread_join(thread, 0) == 0);
  } else if (!strcmp(mode, "first")) {
    CHECK(pthread_create(&thread, 0, worker, "") == 0);
    parts();
    CHECK(pthread_join(thread, 0) == 0);
  } else if (!strcmp(mode, "clone")) {
    starts_one();
  } else if (!strcmp(mode, "alone")) {
    CHECK(pthread_create(&thread, 0, helper, 0) == 0 && pthread_join(thread, 0) == 0);
    CHECK(unshare(CLONE_FILES | CLONE_FS) == 0);
    open_as("own", 21);
    int ends[2];
    CHECK(pipe(ends) == 0);
    if (fork() == 0) {
      usleep(20000);
      _exit(write(ends[1], "y", 1) != 1);
    }
    char byte = 0;
    CHECK(read(ends[0], &byte, 1) == 1);
    printf("alone: 21 %d, 22 %d, %c\n", is_open(21), is_open(22), byte);
  } else {
    CHECK(pthread_create(&thread, 0, !strcmp(mode, "exec-worker") ? executes : sleeps, 0) == 0);
    if (!strcmp(mode, "exec-worker")) sleeps(0);
    usleep(20000);
    executes(0);
  }
  puts("ok");
  return 0;
}
