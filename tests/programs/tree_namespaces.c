// Processes of different PID namespaces that share memory: a file, mapped by each, and memory without a name.
//
//   tree_namespaces FILE [clone]    clone: the namespace is made by clone, not by unshare
//   tree_namespaces FILE map        maps the file and counts in it
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kSize = 4 * 4096, kRounds = 300 };
struct Counters {
  _Atomic uint64_t locked;
  uint64_t lock, plain;
};

static struct Counters* map_file(const char* path) {
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  if (ftruncate(fd, kSize)) exit(9);
  void* p = mmap(NULL, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return p;
}

static void count(struct Counters* c) {
  for (int i = 0; i < kRounds; i++) {
    c->locked++;
    while (__atomic_exchange_n(&c->lock, 1, __ATOMIC_SEQ_CST)) sched_yield();
    c->plain++;
    __atomic_store_n(&c->lock, 0, __ATOMIC_SEQ_CST);
  }
}

static int finish(pid_t pid) {
  int status = -1;
  if (waitpid(pid, &status, 0) != pid) return 1;
  return status != 0;
}

int main(int argc, char** argv) {
  if (argc > 2 && !strcmp(argv[2], "map")) {
    count(map_file(argv[1]));
    return 0;
  }
  const int by_clone = argc > 2 && !strcmp(argv[2], "clone");
  if (geteuid() != 0 && unshare(CLONE_NEWUSER)) {
    printf("no user namespaces: %s\n", strerror(errno));
    return 77;
  }
  struct Counters* anonymous = mmap(NULL, kSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  struct Counters* file = map_file(argv[1]);
  count(file);
  // One more in our own namespace.
  pid_t brother = fork();
  if (brother == 0) {
    count(anonymous);
    count(file);
    _exit(0);
  }
  if (!by_clone && unshare(CLONE_NEWPID)) {
    printf("no PID namespaces: %s\n", strerror(errno));
    kill(brother, SIGKILL);
    return 77;
  }
  pid_t inner = by_clone ? (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, 0) : fork();
  if (inner < 0) {
    kill(brother, SIGKILL);
    return 77;
  }
  if (inner == 0) {
    if (getpid() != 1) _exit(2);
    // Alone first, then with its own child; and a program that maps the file itself.
    struct Counters* own = mmap(NULL, kSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    count(own);
    pid_t child = fork();
    if (child == 0) {
      count(own);
      count(anonymous);
      _exit(0);
    }
    pid_t program = fork();
    if (program == 0) {
      execl("/proc/self/exe", argv[0], argv[1], "map", (char*)NULL);
      _exit(3);
    }
    count(own);
    count(file);
    count(anonymous);
    if (finish(child) || finish(program)) _exit(4);
    _exit(own->plain != 3 * kRounds || own->locked != 3 * kRounds ? 5 : 0);
  }
  count(anonymous);
  count(file);
  const int bad = finish(brother) + finish(inner);
  printf("%d, anonymous %llu %llu, file %llu %llu\n", bad, (unsigned long long)anonymous->locked,
         (unsigned long long)anonymous->plain, (unsigned long long)file->locked,
         (unsigned long long)file->plain);
  return bad;
}
