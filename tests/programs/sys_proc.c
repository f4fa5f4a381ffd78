// A program looks at itself in /proc in ways that are less common: through a folder that it opened, as a thread, at its
// own memory as a file; and at its children.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static char text[1 << 20];
static const char *read_at(int folder, const char *path) {
  int fd = openat(folder, path, O_RDONLY);
  CHECK(fd >= 0);
  size_t n = 0;
  for (ssize_t got; n < sizeof text - 1 && (got = read(fd, text + n, sizeof text - 1 - n)) > 0;) n += (size_t)got;
  close(fd);
  text[n] = 0;
  return text;
}
static const char *line(const char *name) {
  static char copies[4][256];
  static int next;
  char *copy = copies[next++ % 4];
  char *at = strstr(text, name);
  CHECK(at);
  snprintf(copy, sizeof copies[0], "%.*s", (int)strcspn(at, "\n"), at);
  return copy;
}

static int tid, to_thread[2], to_main[2];
static void *thread(void *unused) {
  sigset_t set;
  char c, path[64];
  tid = (int)syscall(SYS_gettid);
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  pthread_setname_np(pthread_self(), "second");
  read_at(AT_FDCWD, "/proc/thread-self/status");
  CHECK(atoi(line("Pid:") + 4) == tid && strstr(line("SigBlk:"), "0000000000000800"));
  CHECK(strcmp(read_at(AT_FDCWD, "/proc/thread-self/comm"), "second\n") == 0);
  snprintf(path, sizeof path, "/proc/%d/task/%d/maps", getpid(), tid);
  CHECK(!strstr(read_at(AT_FDCWD, path), "backstep"));
  CHECK(write(to_main[1], "m", 1) == 1 && read(to_thread[0], &c, 1) == 1);
  return unused;
}

static int count(const char *folder) {
  int n = 0;
  DIR *d = opendir(folder);
  for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
  closedir(d);
  return n;
}

static void threads(void) {
  char c, path[64];
  pthread_t t;
  CHECK(pipe(to_thread) == 0 && pipe(to_main) == 0);
  CHECK(pthread_create(&t, NULL, thread, NULL) == 0 && read(to_main[0], &c, 1) == 1);
  printf("%d threads\n", count("/proc/self/task"));
  snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
  read_at(AT_FDCWD, path);
  printf("second: %s, %s\n", line("Name:"), line("SigBlk:"));
  read_at(AT_FDCWD, "/proc/self/status");
  printf("first: %s, %s\n", line("SigBlk:"), line("Threads:"));
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_NONE};
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  printf("timer %ld\n", (long)timer);
  CHECK(write(to_thread[1], "t", 1) == 1 && pthread_join(t, NULL) == 0);
}

static void folders(const char *argv0) {
  int self = open("/proc/self", O_RDONLY | O_DIRECTORY), fds = openat(self, "fd", O_RDONLY | O_DIRECTORY);
  CHECK(self >= 0 && fds >= 0);
  CHECK(!strstr(read_at(self, "maps"), "backstep") && strstr(text, argv0 + 1));
  CHECK(!strstr(read_at(self, "smaps"), "backstep"));
  read_at(self, "status");
  printf("%s, %s\n", line("SigCgt:"), line("Threads:"));
  char exe[4096], mine[4096];
  ssize_t n = readlinkat(self, "exe", exe, sizeof exe - 1);
  CHECK(n > 0 && realpath(argv0, mine));
  exe[n] = 0;
  CHECK(strcmp(exe, mine) == 0);
  struct stat a, b;
  CHECK(stat("/proc/self/exe", &a) == 0 && stat(argv0, &b) == 0 && a.st_ino == b.st_ino && a.st_size == b.st_size);
  int image = openat(self, "exe", O_RDONLY);
  CHECK(image >= 0 && fstat(image, &a) == 0 && a.st_ino == b.st_ino);
  close(image);
  close(fds);
  close(self);
}

static const long constant[512] __attribute__((aligned(4096))) = {1, 2, 3};
__attribute__((noinline, aligned(64))) static int answer(void) { return 41; }

static void memory(void) {
  volatile const long *seen = constant;
  int mem = open("/proc/self/mem", O_RDWR);
  CHECK(mem >= 0);
  long value = 77, back = 0;
  CHECK(seen[1] == 2 && pwrite(mem, &value, 8, (off_t)&constant[1]) == 8 && seen[1] == 77);
  CHECK(pread(mem, &back, 8, (off_t)&constant[1]) == 8 && back == 77);
  // Code that has run already.
  int before = answer();
  unsigned char *code = memchr((void *)answer, 41, 16);
  CHECK(code && pwrite(mem, "\x2a", 1, (off_t)code) == 1);
  int (*volatile again)(void) = answer;
  printf("answer %d, then %d\n", before, again());
  CHECK(lseek(mem, (off_t)&constant[2], SEEK_SET) == (off_t)&constant[2] && write(mem, &value, 8) == 8 && seen[2] == 77);
  // In pieces.
  struct iovec pieces[3] = {{&value, 8}, {NULL, 0}, {&before, 4}};
  CHECK(pwritev(mem, pieces, 3, (off_t)&constant[3]) == 12 && seen[3] == 77 && (int)seen[4] == 41);
  CHECK(lseek(mem, (off_t)&constant[5], SEEK_SET) == (off_t)&constant[5] && writev(mem, pieces, 1) == 8 && seen[5] == 77);
  CHECK(pwritev2(mem, pieces + 2, 1, -1, 0) == 4 && (int)seen[6] == 41 && lseek(mem, 0, SEEK_CUR) == (off_t)&constant[6] + 4);
  pieces[1].iov_len = ~0ul;
  CHECK(pwritev(mem, pieces, 3, (off_t)&constant[7]) == -1 && errno == EINVAL && seen[7] == 0);
  CHECK(pwritev(mem, pieces, 1, -8) == -1 && errno == EINVAL);
  pieces[1].iov_len = 0;
  char *two = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(munmap(two + 4096, 4096) == 0);
  printf("up to the end: %zd\n", pwrite(mem, constant, 100, (off_t)two + 4096 - 10));
  pieces[0].iov_base = pieces[2].iov_base = (void *)constant;
  printf("in pieces: %zd\n", pwritev(mem, pieces, 3, (off_t)two + 4096 - 10));
  CHECK(pwrite(mem, constant, 1, (off_t)two + 4096) == -1 && errno == EIO);
  close(mem);
}

static void children(const char *argv0) {
  int ends[2];
  char path[64], exe[4096] = "", mine[4096], c;
  CHECK(pipe(ends) == 0 && realpath(argv0, mine));
  pid_t pid = fork();
  if (pid == 0) {
    close(ends[1]);
    _exit(read(ends[0], &c, 1) != 0);
  }
  snprintf(path, sizeof path, "/proc/%d/exe", pid);
  CHECK(readlink(path, exe, sizeof exe - 1) > 0 && strcmp(exe, mine) == 0);
  snprintf(path, sizeof path, "/proc/%d/environ", pid);
  CHECK(!strstr(read_at(AT_FDCWD, path), "BACKSTEP_EXEC"));
  close(ends[0]);
  close(ends[1]);
  CHECK(waitpid(pid, NULL, 0) == pid);
}

int main(int argc, char **argv) {
  (void)argc;
  folders(argv[0]);
  memory();
  threads();
  children(argv[0]);
  return 0;
}
