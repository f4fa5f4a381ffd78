// A program that is executed is busy: nobody can write to its file, and none that is open for writing can be executed. Who watches
// files for being executed (fanotify) hears of it, for a script, its interpreter and a program alike.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void copy(const char* from, const char* to) {
  char buffer[65536];
  ssize_t n;
  unlink(to);
  const int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_EXCL, 0755);
  while ((n = read(in, buffer, sizeof buffer)) > 0)
    if (write(out, buffer, n) != n) abort();
  close(in);
  close(out);
}

static const char* tried(int fd) {
  if (fd < 0) return strerrorname_np(errno);
  close(fd);
  return "opened";
}

static void try_to_write(const char* what, const char* path) {
  printf("%s: ", what);
  printf("write %s, ", tried(open(path, O_WRONLY)));
  printf("both %s, ", tried(open(path, O_RDWR | O_CREAT, 0755)));
  printf("new %s, ", tried(open(path, O_RDWR | O_CREAT | O_EXCL, 0755)));
  printf("truncate %s, ", tried(open(path, O_RDONLY | O_TRUNC)));
  printf("creat %s, ", tried(creat(path, 0755)));
  const struct open_how how = {.flags = O_WRONLY};
  printf("openat2 %s, ", tried((int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how)));
  printf("folder %s, ", tried(open(path, O_WRONLY | O_DIRECTORY)));
  printf("read %s, ", tried(open(path, O_RDONLY)));
  struct stat st;
  stat(path, &st);
  printf("cut %s\n", truncate(path, st.st_size) == 0 ? "done" : strerrorname_np(errno));
  fflush(stdout);
}

static int run(char** argv) {
  int status = 0;
  fflush(stdout);
  if (fork() == 0) {
    execv(argv[0], argv);
    printf("execv %s: %s\n", argv[0], strerrorname_np(errno));
    fflush(stdout);
    _exit(126);
  }
  wait(&status);
  return WEXITSTATUS(status);
}

static void watch(int group, const char* path) {
  if (fanotify_mark(group, FAN_MARK_ADD, FAN_OPEN_EXEC, AT_FDCWD, path) != 0) abort();
}

static int executed(int group) {
  char buffer[8192];
  int count = 0;
  struct pollfd p = {group, POLLIN, 0};
  while (poll(&p, 1, 0) == 1) {
    ssize_t n = read(group, buffer, sizeof buffer);
    for (struct fanotify_event_metadata* e = (void*)buffer; FAN_EVENT_OK(e, n); e = FAN_EVENT_NEXT(e, n))
      count += (e->mask & FAN_OPEN_EXEC) != 0;
  }
  return count;
}

int main(int argc, char** argv) {
  if (argc > 1 && !strcmp(argv[1], "wait")) {
    char c;
    if (write(3, "x", 1) != 1 || read(4, &c, 1) != 1) return 1;
    return 5;
  }
  if (argc > 1) {
    printf("executed with %s\n", argv[1]);
    return 7;
  }
  char* plain[] = {"./other", "arguments", NULL};
  copy("/proc/self/exe", "other");
  printf("ended with %d\n", run(plain));
  try_to_write("nobody executes it", "other");

  copy("/proc/self/exe", "other");
  int here[2], there[2];
  if (pipe(here) != 0 || pipe(there) != 0) return 1;
  const pid_t child = fork();
  if (child == 0) {
    dup2(here[1], 103);
    dup2(there[0], 104);
    dup2(103, 3);
    dup2(104, 4);
    execl("./other", "./other", "wait", NULL);
    _exit(1);
  }
  char c;
  if (read(here[0], &c, 1) != 1) return 1;
  try_to_write("a child executes it", "other");
  if (unlink("other") == 0) printf("it can be removed\n");
  copy("/proc/self/exe", "other");
  try_to_write("another file of that name", "other");
  int status;
  if (write(there[1], "x", 1) != 1 || waitpid(child, &status, 0) != child) return 1;
  printf("child ended with %d\n", WEXITSTATUS(status));

  char self[4096] = {0};
  if (readlink("/proc/self/exe", self, sizeof self - 1) > 0 && strstr(self, "/busy")) try_to_write("this one", self);

  if (getenv("OLD_KERNEL")) return 0;  // before AT_EXECVE_CHECK (Linux 6.14)
  copy("/proc/self/exe", "other");
  const int writer = open("other", O_WRONLY);
  printf("while it is written: %d\n", run(plain));
  close(writer);
  printf("later: %d\n", run(plain));

  const int group = fanotify_init(FAN_CLASS_NOTIF | FAN_CLOEXEC | FAN_NONBLOCK | FAN_REPORT_FID, O_RDONLY);
  if (group < 0) {
    printf("no fanotify\n");
    return 0;
  }
  watch(group, "other");
  executed(group);
  printf("watched: %d\n", run(plain));
  printf("executed: %d\n", executed(group));
  FILE* script = fopen("script", "w");
  fprintf(script, "#!./other more\n");
  fclose(script);
  chmod("script", 0755);
  watch(group, "script");
  char* by_script[] = {"./script", NULL};
  printf("watched: %d\n", run(by_script));
  printf("executed: %d\n", executed(group));
  chmod("script", 0644);
  printf("not executable: %d\n", run(by_script));
  printf("executed: %d\n", executed(group));
  return 0;
}
