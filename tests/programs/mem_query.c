// PROCMAP_QUERY, the ioctl of /proc/PID/maps, of oneself, of a child and of one's parent; and what it refuses. On
// kernels before 6.11 all of it is ENOTTY.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { kPage = 4096 };
struct query {
  uint64_t size, flags, addr;
  uint64_t start, end, rights, page_size, offset, inode;
  uint32_t major, minor, name_size, id_size;
  uint64_t name_addr, id_addr;
};
#define QUERY _IOWR('f', 17, struct query)
enum { kRead = 1, kWrite = 2, kExec = 4, kShared = 8, kNext = 16, kFile = 32 };

static unsigned char *area;  // four pages: rw, r, nothing mapped, shared
static char name[5000];
static unsigned char id[64];

static const char *base(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static int ask(int fd, const char *what, void *addr, uint64_t flags) {
  struct query q = {sizeof q, flags, (uint64_t)addr};
  q.name_size = sizeof name;
  q.name_addr = (uint64_t)name;
  q.id_size = sizeof id;
  q.id_addr = (uint64_t)id;
  memset(name, 0, sizeof name);
  memset(id, 0, sizeof id);
  int r = ioctl(fd, QUERY, &q);
  if (r != 0) {
    printf("%s: %s\n", what, strerrorname_np(errno));
    return -1;
  }
  printf("%s: rights %lu page %lu name %s (%s) id %u %s", what, q.rights, q.page_size, base(name),
         strlen(name) + !!q.name_size == q.name_size ? "whole" : "not whole", q.id_size,
         q.inode ? "file" : "no file");
  if (q.start >= (uint64_t)area && q.end <= (uint64_t)area + 4 * kPage)
    printf(" at %ld to %ld", (long)(q.start - (uint64_t)area) / kPage, (long)(q.end - (uint64_t)area) / kPage);
  printf("\n");
  return 0;
}

static void look(int fd, const char *who) {
  printf("--- %s\n", who);
  ask(fd, "code", (void *)look, 0);
  ask(fd, "code, to be executed", (void *)look, kRead | kExec);
  ask(fd, "code, to be written", (void *)look, kWrite);
  ask(fd, "private", area + 10, 0);
  ask(fd, "read-only", area + kPage, 0);
  ask(fd, "… writable", area + kPage, kWrite);
  ask(fd, "… or next writable", area + kPage, kWrite | kNext);
  ask(fd, "nothing", area + 2 * kPage, 0);
  ask(fd, "… or next", area + 2 * kPage, kNext);
  ask(fd, "shared", area + 3 * kPage, kShared);
  ask(fd, "… of a file", area, kFile | kNext);
  ask(fd, "stack", __builtin_frame_address(0), kRead | kWrite);
  ask(fd, "the end", (void *)0x7fffffff0000, kNext | kShared);
  ask(fd, "unknown flags", area, 64);
}

static void refused(int fd) {
  struct {
    struct query q;
    uint64_t more[2];
  } large = {{sizeof large, 0, (uint64_t)area}, {0, 0}};
  struct query q = {sizeof q, 0, (uint64_t)area};
#define SAY(what, call) printf("%s: %s\n", what, (call) == 0 ? "ok" : strerrorname_np(errno))
  SAY("plain", ioctl(fd, QUERY, &q));
  SAY("no structure", ioctl(fd, QUERY, (void *)16));
  q.size = 16;
  SAY("too small", ioctl(fd, QUERY, &q));
  q.size = 5000;
  SAY("too large", ioctl(fd, QUERY, &q));
  SAY("longer", ioctl(fd, QUERY, &large));
  large.more[1] = 1;
  SAY("longer, with something in it", ioctl(fd, QUERY, &large));
  q.size = 48;
  q.start = q.end = q.rights = 0;
  SAY("shorter", ioctl(fd, QUERY, &q));
  printf("%d %d %lu\n", q.start == (uint64_t)area, q.end == (uint64_t)area + kPage, q.rights);
  q.size = sizeof q;
  q.name_size = 10;
  SAY("no place for the name", ioctl(fd, QUERY, &q));
  q.addr = (uint64_t)refused;
  q.name_addr = (uint64_t)name;
  q.name_size = 3;
  SAY("little place for the name", ioctl(fd, QUERY, &q));
  q.name_size = 5000;
  q.name_addr = 16;
  SAY("the name nowhere", ioctl(fd, QUERY, &q));
  q.name_addr = q.name_size = 0;
  q.id_size = 3;
  q.id_addr = (uint64_t)id;
  SAY("little place for the id", ioctl(fd, QUERY, &q));
  q.id_addr = 0;
  SAY("no place for the id", ioctl(fd, QUERY, &q));
  SAY("another one", ioctl(fd, _IOWR('f', 18, struct query), &q));
  int status = open("/proc/self/status", O_RDONLY);
  SAY("another file", ioctl(status, QUERY, &q));
  close(status);
}

int main(void) {
  area = mmap(NULL, 5 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(area, 5 * kPage);
  mmap(area, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  mmap(area + kPage, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  mmap(area + 3 * kPage, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  int own = open("/proc/self/maps", O_RDONLY);
  CHECK(own >= 0);
  look(own, "oneself");
  refused(own);
  int to_child[2], to_parent[2];
  char c;
  CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0);
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    mprotect(area, kPage, PROT_READ);
    // What was opened before the fork is the parent's.
    int copy = dup(own);
    ask(copy, "the parent's, inherited", area, 0);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/maps", getppid());
    int parents = open(path, O_RDONLY);
    look(parents, "the parent");
    fflush(stdout);
    CHECK(write(to_parent[1], "r", 1) == 1 && read(to_child[0], &c, 1) == 1);
    _exit(0);
  }
  CHECK(read(to_parent[0], &c, 1) == 1);
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/maps", pid);
  int childs = open(path, O_RDONLY);
  look(childs, "the child");
  CHECK(write(to_child[1], "g", 1) == 1);
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  ask(childs, "the child, which has ended", area, 0);
  return 0;
}
