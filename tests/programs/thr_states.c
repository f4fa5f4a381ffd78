// What threads do, seen in /proc: the others wait until one sleeps, computes or has ended. A thread that is
// not seen as what it is would be waited for for ever.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "thr.h"

static char state_in(const char* format, int a, int b) {
  char path[100], text[4096];
  snprintf(path, sizeof path, format, a, b);
  FILE* file = fopen(path, "r");
  if (!file) return '?';
  const size_t n = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[n] = 0;
  const char* line = strstr(text, "\nState:\t");
  if (line) return line[8];
  const char* name = strrchr(text, ')');
  return name ? name[2] : '?';
}

// All files must say so, each at some time.
static void until(char state, int pid, int tid) {
  const char* files[] = {"/proc/%d/task/%d/stat", "/proc/%d/task/%d/status"};
  for (int i = 0; i < 2; i++)
    while (state_in(files[i], pid, tid) != state) usleep(1000);
  if (pid != tid) return;
  while (state_in("/proc/%d/stat", pid, 0) != state) usleep(1000);
  while (state_in("/proc/%d/status", pid, 0) != state) usleep(1000);
  if (pid == getpid())
    while (state_in("/proc/self/stat", pid, 0) != state) usleep(1000);
}

static int ends[2], go[2], bed[2];
static atomic_int stop;
static pid_t first;
static volatile sig_atomic_t hits;
static void on_signal(int signo) {
  (void)signo;
  hits++;
}

static void* watch_main(void* main_thread) {
  until('S', first, first);
  said("main thread reads");
  CHECK(write(ends[1], "x", 1) == 1);
  char c;
  CHECK(read(go[0], &c, 1) == 1);
  until('S', first, first);
  said("main thread polls");
  CHECK(write(ends[1], "x", 1) == 1);
  CHECK(read(go[0], &c, 1) == 1);
  until('S', first, first);
  said("main thread waits for a signal");
  pthread_kill(*(pthread_t*)main_thread, SIGUSR1);
  CHECK(read(go[0], &c, 1) == 1);
  until('R', first, first);
  said("main thread computes");
  stop = 1;
  CHECK(read(go[0], &c, 1) == 1);
  until('S', first, first);
  said("main thread waits for the end of this one");
  return 0;
}

static atomic_int tids[2];
static void* sleeper(void* unused) {
  char c;
  tids[0] = (int)syscall(SYS_gettid);
  return (void*)read(bed[0], &c, 1);
}
static void* computer(void* unused) {
  tids[1] = (int)syscall(SYS_gettid);
  while (!stop) continue;
  return 0;
}

static void* leave_behind(void* unused) {
  until('Z', first, first);
  said("main thread has ended");
  exit(0);
}

int main(void) {
  setvbuf(stdout, 0, _IOLBF, 0);
  first = getpid();
  pthread_t me = pthread_self();
  CHECK(pipe(ends) == 0 && pipe(go) == 0 && pipe(bed) == 0);
  signal(SIGUSR1, on_signal);
  pthread_t watcher = start(watch_main, &me);
  char c;
  CHECK(read(ends[0], &c, 1) == 1);
  CHECK(write(go[1], "x", 1) == 1);
  struct pollfd p = {ends[0], POLLIN, 0};
  CHECK(poll(&p, 1, -1) == 1 && read(ends[0], &c, 1) == 1);
  sigset_t blocked, old;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &blocked, &old);
  CHECK(write(go[1], "x", 1) == 1);
  while (!hits) sigsuspend(&old);
  pthread_sigmask(SIG_SETMASK, &old, 0);
  CHECK(write(go[1], "x", 1) == 1);
  while (!stop) continue;
  CHECK(write(go[1], "x", 1) == 1);
  join(watcher);

  // Threads of another process.
  stop = 0;
  int* seen = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  const pid_t child = fork();
  if (child == 0) {
    pthread_t a = start(sleeper, 0), b = start(computer, 0);
    while (!tids[0] || !tids[1]) usleep(1000);
    CHECK(write(go[1], (int[2]){tids[0], tids[1]}, 8) == 8);
    CHECK(read(ends[0], &c, 1) == 1);
    stop = 1;
    join(b);
    CHECK(read(ends[0], &c, 1) == 1);
    CHECK(write(bed[1], "x", 1) == 1);
    join(a);
    _exit(0);
  }
  int theirs[2];
  for (size_t n = 0; n < sizeof theirs;) {  // chaos gives less at a time
    const ssize_t got = read(go[0], (char*)theirs + n, sizeof theirs - n);
    CHECK(got > 0 || errno == EINTR);
    n += got > 0 ? (size_t)got : 0;
  }
  until('S', child, theirs[0]);
  said("a thread of the child waits");
  until('R', child, theirs[1]);
  said("another one computes");
  until('S', child, child);
  said("the child's first one waits");
  CHECK(write(ends[1], "x", 1) == 1);
  until('S', child, child);
  CHECK(kill(child, SIGSTOP) == 0);
  until('T', child, child);
  said("the child is stopped");
  CHECK(kill(child, SIGCONT) == 0);
  until('S', child, child);
  CHECK(write(ends[1], "x", 1) == 1);
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  printf("status %d\n", status);
  start(leave_behind, 0);
  pthread_exit(0);
}
