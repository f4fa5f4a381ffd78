// Started by root, this becomes somebody else in several ways, and makes new processes after that: by fork,
// vfork, execve, with threads, sharing memory with those that are still root's. What each of them can see of its own
// rights is printed: it must be the same as natively.
//
// tree_rights UID: as above. tree_rights chroot FOLDER: forks in a new, empty root.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

static void die(const char* what) {
  perror(what);
  exit(1);
}

static void collect(pid_t pid, const char* who) {
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) die("waitpid");
  printf("%s ended with %d\n", who, WEXITSTATUS(status));
  fflush(stdout);
}

// The lines of a status file that tell of rights.
static void show_status(const char* who, const char* path) {
  FILE* f = fopen(path, "r");
  char line[256];
  while (f && fgets(line, sizeof line, f))
    if (!strncmp(line, "Uid:", 4) || !strncmp(line, "Gid:", 4) || !strncmp(line, "Groups:", 7) ||
        !strncmp(line, "Cap", 3))
      printf("%s %s", who, line);
  if (f) fclose(f);
}

static void show_rights(const char* who) {
  uid_t r, e, s;
  getresuid(&r, &e, &s);
  printf("%s: %d %d %d fs %d, dumpable %d, groups %d\n", who, r, e, s, setfsuid(-1), prctl(PR_GET_DUMPABLE),
         getgroups(0, NULL));
  show_status(who, "/proc/self/status");
  static const char* files[] = {"environ", "auxv", "mem", "maps", "cmdline", "exe", "stat", "fd", "comm", "pagemap", "io"};
  for (unsigned i = 0; i < sizeof files / sizeof files[0]; i++) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/%s", files[i]);
    struct stat st = {0};
    int fd = open(path, O_RDONLY), err = fd < 0 ? errno : 0;
    lstat(path, &st);
    printf("%s: %s %d, of %d %o\n", who, files[i], err, st.st_uid, st.st_mode);
    if (fd >= 0) close(fd);
  }
  DIR* list = opendir("/proc/self/fd");
  int count = 0;
  while (list && readdir(list)) count++;
  if (list) closedir(list);
  printf("%s: %d descriptors\n", who, count);
  fflush(stdout);
}

static void become(uid_t user) {
  if (setgroups(0, NULL) || setresgid(user, user, user) || setresuid(user, user, user)) die("become");
}

static void* thread(void* unused) {
  (void)unused;
  int fd[2];
  char byte;
  if (pipe(fd)) die("pipe");
  // A call that waits is made by another kernel thread.
  pid_t pid = fork();
  if (pid == 0) {
    usleep(20000);
    (void)!write(fd[1], "x", 1);
    _exit(4);
  }
  (void)!read(fd[0], &byte, 1);
  collect(pid, "thread's child");
  return NULL;
}

static pthread_barrier_t barrier;

static void* waits(void* unused) {
  (void)unused;
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  return NULL;
}

// setuid in a program with threads changes all of them.
static void with_threads(uid_t user) {
  pthread_t threads[3];
  pthread_barrier_init(&barrier, NULL, 4);
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, waits, NULL);
  pthread_barrier_wait(&barrier);
  become(user);
  DIR* list = opendir("/proc/self/task");
  for (struct dirent* e; list && (e = readdir(list));) {
    char path[300];
    snprintf(path, sizeof path, "/proc/self/task/%s/status", e->d_name);
    if (e->d_name[0] != '.') show_status("one of four", path);
  }
  if (list) closedir(list);
  fflush(stdout);
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  pid_t pid = fork();
  if (pid == 0) _exit(5);
  collect(pid, "child after threads");
  exit(6);
}

struct shared {
  _Atomic int go, done, sum, last;
};

static void count(struct shared* common, struct shared* file) {
  for (int i = 0; i < 200; i++) {
    common->sum++;
    file->sum++;
  }
}

static void worker(struct shared* common, struct shared* file, uid_t user, int number) {
  become(user - number);  // each another one
  if (number == 0) show_rights("worker");
  pid_t pid = fork();
  if (pid == 0) {
    count(common, file);
    if (number == 0) show_rights("child of the worker");
    _exit(3);
  }
  count(common, file);
  int status;
  waitpid(pid, &status, 0);
  // The parent looks at this all the time, without any system call: it must be asked for it.
  common->done++;
  while (!common->go) {
  }
  file->done++;
  if (number > 0) _exit(7);
  while (!common->last) {
  }
  pthread_t t;
  pthread_create(&t, NULL, thread, NULL);
  pthread_join(t, NULL);
  char* argv[] = {"sh", "-c", "id -u; (echo sub) | cat; echo $((1 + 1))", NULL};
  if (posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ)) die("posix_spawn");
  collect(pid, "spawned");
  char* last[] = {"/bin/echo", "executed", NULL};
  execv(last[0], last);
  die("execv");
}

static int in_new_root(const char* folder) {
  if (chroot(folder) || chdir("/")) die("chroot");
  for (int i = 0; i < 3; i++) {
    pid_t pid = fork();
    if (pid == 0) {
      int* memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
      pid = fork();
      if (pid == 0) {
        *memory = 40 + i;
        _exit(0);
      }
      waitpid(pid, NULL, 0);
      printf("%d, executable: %s\n", *memory, execl("/bin/true", "true", NULL) ? strerror(errno) : "");
      fflush(stdout);
      _exit(i);
    }
    collect(pid, "child in the new root");
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc == 3) return in_new_root(argv[2]);
  const uid_t user = (uid_t)atoi(argv[1]);
  struct shared* common = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int fd = open("shared", O_RDWR | O_CREAT | O_TRUNC, 0666);
  if (fd < 0 || ftruncate(fd, 4096)) die("shared");
  struct shared* file = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  show_rights("root");
  enum { kWorkers = 3 };
  pid_t workers[kWorkers];
  for (int i = 0; i < kWorkers; i++)
    if ((workers[i] = fork()) == 0) worker(common, file, user, i);
  while (common->done < kWorkers) {
  }
  common->go = 1;
  while (file->done < kWorkers) {
  }
  for (int i = 1; i < kWorkers; i++) collect(workers[i], "worker");
  common->last = 1;
  collect(workers[0], "first worker");
  printf("sums %d %d\n", common->sum, file->sum);
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) with_threads(user);
  collect(pid, "threads");
  // For a while only, and by a single call of a single kind.
  if (seteuid(user)) die("seteuid");
  show_rights("for a while");
  if ((pid = fork()) == 0) _exit(8);
  collect(pid, "child of the other user");
  if (seteuid(0)) die("seteuid");
  if ((pid = vfork()) == 0) {
    syscall(SYS_setresuid, user, user, user);
    execl("/bin/sh", "sh", "-c", "id -u; exit 9", NULL);
    _exit(127);
  }
  collect(pid, "child of vfork");
  show_rights("root again");
  return 0;
}
