// Becoming another program, in all the ways there are. Without arguments: runs itself as `show` in children, which
// print what came through execve: arguments, environment, descriptors, signals, name.
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

extern char** environ;
static char self[PATH_MAX];

static int show(int argc, char** argv) {
  printf("argc %d:", argc);
  for (int i = 0; i < argc && i < 5; i++) printf(" '%s'", argv[i]);
  int count = 0;
  for (char** e = environ; *e; e++) count++;
  printf(", %d variables, X=%s, descriptors", count, getenv("X"));
  for (int fd = 3; fd < 300; fd++)
    if (fcntl(fd, F_GETFD) >= 0) printf(" %d", fd);
  char name[17] = "", exe[PATH_MAX] = "";
  prctl(PR_GET_NAME, name);
  CHECK(readlink("/proc/self/exe", exe, sizeof exe - 1) > 0);
  sigset_t blocked, pending;
  sigprocmask(SIG_BLOCK, NULL, &blocked);
  sigpending(&pending);
  printf(", exe %.10s", strrchr(exe, '/') + 1);
  // The name of a program that has only a descriptor is not the same in all kernels.
  if (!getenv("NAMELESS")) printf(", name %s", name);
  printf(", signals");
  for (int s = 1; s < 32; s++) {
    struct sigaction a;
    if (s == SIGKILL || s == SIGSTOP) continue;
    sigaction(s, NULL, &a);
    if (a.sa_handler == SIG_IGN) printf(" %d=ignored", s);
    if (a.sa_handler != SIG_IGN && a.sa_handler != SIG_DFL) printf(" %d=?", s);
    if (sigismember(&blocked, s)) printf(" %d=blocked", s);
    if (sigismember(&pending, s)) printf(" %d=pending", s);
  }
  puts("");
  return 0;
}

static void* exec_in_thread(void* unused) {
  execl(self, "from-a-thread", "show", NULL);
  return unused;
}
static void* spin(void* unused) {
  for (;;) pause();
  return unused;
}

static void handler(int signo) {}

static void become(int way) {
  char* argv[] = {"program", "show", "", "two words", NULL};
  char* env[] = {"X=1", "Y=", way == 2 || way == 4 || way == 5 ? "NAMELESS=" : "Z", NULL};
  switch (way) {
    case 0:
      execve(self, argv, env);
      break;
    case 1:  // a name that is no path, and a link
      execve("/proc/self/exe", argv, env);
      break;
    case 2: {  // from memory
      int fd = memfd_create("image", MFD_CLOEXEC), in = open(self, O_RDONLY);
      struct stat st;
      CHECK(fstat(in, &st) == 0 && sendfile(fd, in, NULL, st.st_size) == st.st_size);
      close(in);
      fexecve(fd, argv, env);
      break;
    }
    case 3: {  // a folder's descriptor and a relative name
      char folder[PATH_MAX];
      strcpy(folder, self);
      char* slash = strrchr(folder, '/');
      *slash = 0;
      int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
      syscall(SYS_execveat, fd, slash + 1, argv, env, 0);
      break;
    }
    case 4: {  // a file's descriptor
      int fd = open(self, O_PATH | O_CLOEXEC);
      syscall(SYS_execveat, fd, "", argv, env, AT_EMPTY_PATH);
      break;
    }
    case 5: {  // a file that is gone by then
      int in = open(self, O_RDONLY | O_CLOEXEC), out = open("gone", O_CREAT | O_RDWR | O_CLOEXEC, 0755);
      struct stat st;
      CHECK(fstat(in, &st) == 0 && sendfile(out, in, NULL, st.st_size) == st.st_size);
      close(out);
      out = open("gone", O_RDONLY | O_CLOEXEC);
      CHECK(unlink("gone") == 0);
      fexecve(out, argv, env);
      break;
    }
    case 6:  // an empty name, no environment
      execve(self, (char*[]){"", "show", NULL}, (char*[]){NULL});
      break;
    case 7: {  // many arguments
      static char* many[1001];
      for (int i = 0; i < 1000; i++) many[i] = "argument";
      many[1] = "show";
      execve(self, many, env);
      break;
    }
    case 8: {  // signals: handlers become the default, ignored ones stay, blocked and pending ones, too
      sigset_t set;
      sigemptyset(&set);
      sigaddset(&set, SIGUSR2);
      sigaddset(&set, SIGHUP);
      sigprocmask(SIG_BLOCK, &set, NULL);
      signal(SIGUSR1, SIG_IGN);
      signal(SIGINT, SIG_IGN);
      signal(SIGTERM, handler);
      raise(SIGUSR2);
      execve(self, argv, env);
      break;
    }
    case 9: {  // descriptors
      int kept = dup2(1, 200), closed = fcntl(1, F_DUPFD_CLOEXEC, 100);
      CHECK(kept == 200 && closed >= 100);
      dup2(1, 7);
      fcntl(7, F_SETFD, FD_CLOEXEC);
      execve(self, argv, env);
      break;
    }
    case 10: {  // a thread; the others end
      pthread_t t;
      pthread_create(&t, NULL, spin, NULL);
      pthread_create(&t, NULL, exec_in_thread, NULL);
      spin(NULL);
      break;
    }
    case 11:  // again and again
      execl(self, "program", "again", "5", NULL);
      break;
    case 12: {  // a script, and its arguments
      int fd = open("script", O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0755);
      dprintf(fd, "#!%s show\n", self);
      close(fd);
      execl("./script", "ignored", "argument", NULL);
      break;
    }
    case 13: {  // which a script runs
      int fd = open("script2", O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0755);
      dprintf(fd, "#! /bin/sh\necho script $0 $*; exec %s show\n", self);
      close(fd);
      execl("./script2", "x", "a", "b", NULL);
      break;
    }
  }
  perror("exec");
  _exit(99);
}

// What fails leaves all as it was.
static void refused(void) {
  char* argv[] = {"x", NULL};
  struct {
    const char* path;
    int error;
  } list[] = {{"/no/such/file", ENOENT}, {"", ENOENT},     {"/", EACCES},
              {"/dev/null", EACCES},     {"not-executable", EACCES}, {"text", ENOEXEC},
              {"no-interpreter", ENOENT}, {"truncated", ENOEXEC}, {"loop", ELOOP},
              {"/dev/null/x", ENOTDIR}};
  close(open("not-executable", O_CREAT | O_WRONLY, 0644));
  int fd = open("text", O_CREAT | O_WRONLY, 0755);
  CHECK(write(fd, "hello\n", 6) == 6);
  close(fd);
  fd = open("no-interpreter", O_CREAT | O_WRONLY, 0755);
  dprintf(fd, "#!/no/such/interpreter\n");
  close(fd);
  fd = open("truncated", O_CREAT | O_WRONLY, 0755);
  CHECK(write(fd, "\177ELF\2\1\1\0", 8) == 8);
  close(fd);
  CHECK(symlink("loop", "loop") == 0);
  for (unsigned i = 0; i < sizeof list / sizeof *list; i++) {
    CHECK(execve(list[i].path, argv, environ) == -1);
    printf("%s: %s\n", list[i].path, strerror(errno));
    CHECK(errno == list[i].error);
  }
  CHECK(execve((char*)1, argv, environ) == -1 && errno == EFAULT);
  CHECK(execve(self, (char**)1, environ) == -1 && errno == EFAULT);
  CHECK(execve(self, (char*[]){(char*)1, NULL}, environ) == -1 && errno == EFAULT);
  // Too long: one string of more than 128 kB, and all of them together.
  static char big[200000], *many[200];
  memset(big, 'x', sizeof big - 1);
  CHECK(execve(self, (char*[]){"x", big, NULL}, environ) == -1 && errno == E2BIG);
  big[100000] = 0;
  for (int i = 0; i < 199; i++) many[i] = big;
  CHECK(execve(self, many, environ) == -1 && errno == E2BIG);
  CHECK(syscall(SYS_execveat, AT_FDCWD, "", argv, environ, 0) == -1 && errno == ENOENT);
  CHECK(syscall(SYS_execveat, 77, "x", argv, environ, 0) == -1 && errno == EBADF);
  CHECK(syscall(SYS_execveat, 77, "", argv, environ, AT_EMPTY_PATH) == -1 && errno == EBADF);
  CHECK(syscall(SYS_execveat, AT_FDCWD, "loop", argv, environ, AT_SYMLINK_NOFOLLOW) == -1 && errno == ELOOP);
  CHECK(syscall(SYS_execveat, AT_FDCWD, self, argv, environ, 0x4000000) == -1 && errno == EINVAL);
}

int main(int argc, char** argv) {
  CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
  if (argc > 1 && !strcmp(argv[1], "again")) {
    int left = atoi(argv[2]);
    char text[12];
    sprintf(text, "%d", left - 1);
    printf("%d left\n", left);
    fflush(stdout);
    if (left) execl("/proc/self/exe", argv[0], "again", text, NULL);
    return 0;
  }
  if (argc > 1) return show(argc, argv);
  setvbuf(stdout, NULL, _IOLBF, 0);
  refused();
  for (int way = 0; way < 14; way++) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) become(way);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  }
  puts("done");
  return 0;
}
