// The limit on descriptors is reached where the program has set it, in it, its children and the programs that it becomes.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void fill(const char* who) {
  struct rlimit limit, more;
  int fds[100], n = 0, fd;
  getrlimit(RLIMIT_NOFILE, &limit);
  while (n < 100 && (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) fds[n++] = fd;
  const int err = errno;
  printf("%s: limits %ld %ld, last %d, %s\n", who, (long)limit.rlim_cur, (long)limit.rlim_max, n ? fds[n - 1] : -1, strerrorname_np(err));
  while (n > 0) close(fds[--n]);
  for (fd = 10; fd <= 40; fd += 5) printf(" %d", dup2(0, fd));
  more = (struct rlimit){limit.rlim_cur + 1, limit.rlim_max + 1};
  printf("\n  raised %s, too much %s\n", setrlimit(RLIMIT_NOFILE, &more) == 0 ? "done" : strerrorname_np(errno),
         dup2(0, (int)limit.rlim_cur) < 0 ? strerrorname_np(errno) : "done");
  FILE* file = fopen("/proc/self/limits", "r");
  for (char line[200]; file && fgets(line, sizeof line, file);)
    if (!strncmp(line, "Max open files", 14)) printf("  %s", line);
  if (file) fclose(file);
  for (fd = 10; fd <= 40; fd += 5) close(fd);
  fflush(stdout);
}

static void* in_thread(void* unused) {
  fill("a thread");
  return unused;
}

int main(int argc, char** argv) {
  if (argc > 1) {
    fill("another program");
    return 0;
  }
  const struct rlimit few = {30, 30};
  if (setrlimit(RLIMIT_NOFILE, &few) != 0) return 1;
  fill("the program");
  int* shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (fork() == 0) {
    (*shared)++;
    fill("a child");
    _exit(0);
  }
  wait(NULL);
  pthread_t thread;
  pthread_create(&thread, NULL, in_thread, NULL);
  pthread_join(thread, NULL);
  if (vfork() == 0) {
    execl("/proc/self/exe", argv[0], "again", NULL);
    _exit(1);
  }
  wait(NULL);
  const struct rlimit fewer = {20, 25};
  setrlimit(RLIMIT_NOFILE, &fewer);
  const struct rlimit most = {25, 25};
  printf("to the hard limit: %d\n", setrlimit(RLIMIT_NOFILE, &most));
  fflush(stdout);
  execl("/proc/self/exe", argv[0], "again", NULL);
  return 1;
}
