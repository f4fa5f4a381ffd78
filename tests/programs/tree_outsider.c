// Memory shared with a process that is not recorded: run with `record --no-follow`, the child below is one.
// Both hammer a file mapped shared: atomics of all sizes, a spin lock, a ring of messages, a sequence lock,
// string instructions over pages, system calls into the memory, a futex; then the outsider changes the file
// by write(). What the recorded one reads depends on timing, and goes into its digest: a replay that reads
// anything else ends differently.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { kRounds = 400, kMessages = 200, kRing = 8, kText = 3 * 4096 };
struct shared {
  atomic_int stage;  // 0: the child is not there yet
  atomic_uchar byte_sum;
  atomic_ushort short_sum;
  atomic_uint int_sum;
  atomic_ulong long_sum;
  _Alignas(16) __int128 pair;
  atomic_int lock;
  long locked;
  atomic_uint head, tail;
  uint64_t ring[kRing];
  atomic_uint sequence;
  uint64_t left, right;
  atomic_int futex;
  char spoken[64];
  char text[kText];
};

static uint64_t digest = 1469598103934665603u;
static void add(const void* p, size_t n) {
  for (size_t i = 0; i < n; i++) digest = (digest ^ ((const unsigned char*)p)[i]) * 1099511628211u;
}
static void add_pair(struct shared* s, uint64_t by) {
  uint64_t* at = (uint64_t*)&s->pair;
  uint64_t low = at[0], high = at[1];
  unsigned char done = 0;
  while (!done)
    __asm__ volatile("lock cmpxchg16b %1; sete %0"
                     : "=q"(done), "+m"(s->pair), "+a"(low), "+d"(high)
                     : "b"(low + by), "c"(high + 2 * by)
                     : "memory", "cc");
}
static void hammer(struct shared* s) {
  for (int i = 0; i < kRounds; i++) {
    s->byte_sum++;
    s->short_sum += 3;
    uint32_t was = atomic_fetch_add(&s->int_sum, 5);
    add(&was, sizeof was);
    s->long_sum += 7;
    add_pair(s, 1);
    while (atomic_exchange(&s->lock, 1)) {
    }
    s->locked++;
    s->lock = 0;
  }
}
static void send_messages(struct shared* s) {
  for (unsigned i = 0; i < kMessages; i++) {
    while (s->head - s->tail == kRing) {
    }
    s->ring[i % kRing] = i * 0x9e3779b97f4a7c15u;
    s->head++;
  }
}
static void receive_messages(struct shared* s) {
  unsigned spins = 0;
  for (unsigned i = 0; i < kMessages; i++) {
    while (s->head == s->tail) spins++;
    CHECK(s->ring[i % kRing] == i * 0x9e3779b97f4a7c15u);
    s->tail++;
  }
  add(&spins, sizeof spins);
}
static void write_sequence(struct shared* s) {
  for (uint64_t i = 1; i <= 20000; i++) {
    s->sequence++;
    s->left = i;
    atomic_thread_fence(memory_order_seq_cst);
    s->right = ~i;
    s->sequence++;
  }
}
static void read_sequence(struct shared* s) {
  for (int i = 0; i < 100; i++) {
    unsigned before = s->sequence;
    uint64_t left = *(volatile uint64_t*)&s->left, right = *(volatile uint64_t*)&s->right;
    atomic_thread_fence(memory_order_seq_cst);
    if (before % 2 == 0 && before == s->sequence && before) CHECK(left == ~right);
    add(&left, 8);
    add(&right, 8);
  }
}
static void meet(struct shared* s, int stage, int me) {
  // Each in its turn: even stages are the recorded one's.
  if (stage % 2 == me) {
    s->stage = stage;
  } else {
    while (s->stage < stage) {
      if (me == 0) usleep(100);
    }
  }
}

static int outsider(const char* path) {
  int fd = open(path, O_RDWR);
  CHECK(fd >= 0);
  struct shared* s = mmap(0, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(s != MAP_FAILED);
  meet(s, 1, 1);
  hammer(s);
  send_messages(s);
  write_sequence(s);
  meet(s, 2, 1);
  memset(s->text, 'o', kText);
  strcpy(s->spoken, "hello from outside");
  meet(s, 3, 1);
  meet(s, 4, 1);
  for (int i = 0; i < kText; i++) CHECK(s->text[i] == (i < 5000 ? 'r' : 'o'));
  CHECK(strcmp(s->spoken, "from a pipe") == 0);
  while (!syscall(SYS_futex, &s->futex, FUTEX_WAKE, 1, 0, 0, 0)) usleep(100);
  munmap(s, sizeof *s);
  // From here on by system calls.
  CHECK(pwrite(fd, "written", 8, offsetof(struct shared, spoken)) == 8);
  int stage = 5;
  CHECK(pwrite(fd, &stage, sizeof stage, offsetof(struct shared, stage)) == sizeof stage);
  return 0;
}

static struct shared* map(const char* path, int flags) {
  int fd = open(path, flags, 0600);
  CHECK(fd >= 0);
  if (flags & O_CREAT) CHECK(ftruncate(fd, sizeof(struct shared)) == 0);
  struct shared* s = mmap(0, sizeof *s, (flags & O_ACCMODE) == O_RDONLY ? PROT_READ : PROT_READ | PROT_WRITE,
                          MAP_SHARED, fd, 0);
  CHECK(s != MAP_FAILED);
  close(fd);
  return s;
}
// Not recorded: writes until it is told to end.
static int writer(const char* path) {
  struct shared* s = map(path, O_RDWR | O_CREAT);
  s->stage = 1;
  while (s->stage != 99) {
    s->long_sum++;
    s->sequence += 2;
  }
  return 0;
}
// Recorded: reads and writes until it has seen a number of changes.
static int reader(const char* path) {
  struct shared* s = map(path, O_RDWR | O_CREAT);
  uint64_t last = s->long_sum;
  for (int changes = 0; changes < 200;) {
    uint64_t now = s->long_sum;
    s->int_sum++;
    if (now == last) continue;
    add(&now, sizeof now);
    last = now;
    changes++;
  }
  s->stage = 99;
  printf("digest %016lx, %u rounds\n", digest, s->int_sum);
  return 0;
}
// Recorded, with a mapping that is only readable, of a file that others change by write().
static int watcher(const char* path) {
  struct shared* s = map(path, O_RDONLY);
  uint64_t last = 0;
  for (;;) {
    uint64_t now = *(volatile uint64_t*)s;
    if (now == last) continue;
    add(&now, sizeof now);
    last = now;
    if (!memcmp(&now, "theend..", 8)) break;
  }
  printf("digest %016lx\n", digest);
  return 0;
}

// A file that is mapped again and again, while another one opens, writes and closes it again and again.
static int remapper(const char* path) {
  for (int i = 0; i < 400; i++) {
    const int fd = open(path, O_RDONLY);
    volatile uint64_t* p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(fd >= 0 && p != MAP_FAILED);
    for (int k = 0; k < 40; k++) {
      uint64_t now = *p;
      add(&now, sizeof now);
    }
    munmap((void*)p, 4096);
    close(fd);
  }
  printf("digest %016lx\n", digest);
  return 0;
}
// Has the file mapped whenever it becomes another program.
static int becomer(char** argv) {
  const int fd = open(argv[2], O_RDONLY), left = atoi(argv[3]);
  volatile uint64_t* p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
  CHECK(fd >= 0 && p != MAP_FAILED);
  close(fd);
  uint64_t now = *p;
  add(&now, sizeof now);
  if (left == 0) {
    puts("became all of them");
    return 0;
  }
  char less[16];
  snprintf(less, sizeof less, "%d", left - 1);
  execl("/proc/self/exe", argv[0], argv[1], argv[2], less, (char*)0);
  return 9;
}
static int rewriter(const char* path) {
  for (uint64_t i = 1; access(path, F_OK) == 0; i++) {
    const int fd = open(path, O_WRONLY);
    usleep((useconds_t)(i * 37 % 100));
    if (pwrite(fd, &i, sizeof i, 0) != sizeof i) break;
    close(fd);
    usleep((useconds_t)(i * 53 % 300));
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc > 2) {
    if (!strcmp(argv[1], "remapper")) return remapper(argv[2]);
    if (!strcmp(argv[1], "becomer")) return becomer(argv);
    if (!strcmp(argv[1], "rewriter")) return rewriter(argv[2]);
    if (!strcmp(argv[1], "writer")) return writer(argv[2]);
    if (!strcmp(argv[1], "reader")) return reader(argv[2]);
    if (!strcmp(argv[1], "watcher")) return watcher(argv[2]);
    return outsider(argv[2]);
  }
  // Without a path: memory that has no name, but a descriptor that the child inherits.
  char name[64];
  int fd = argc > 1 ? open(argv[1], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : memfd_create("shared", 0);
  if (argc == 1) {
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    argv[1] = name;
  }
  CHECK(fd >= 0 && ftruncate(fd, sizeof(struct shared)) == 0);
  struct shared* s = mmap(0, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  // A second view of the same, which must show the same.
  volatile struct shared* again = mmap(0, sizeof *s, PROT_READ, MAP_SHARED, fd, 0);
  CHECK(s != MAP_FAILED && again != MAP_FAILED);
  s->long_sum = 1000;  // alone
  pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", argv[0], "outsider", argv[1], (char*)0);
    _exit(9);
  }
  meet(s, 1, 0);
  hammer(s);
  receive_messages(s);
  read_sequence(s);
  while (s->locked != 2 * kRounds) usleep(100);
  CHECK(s->byte_sum == (unsigned char)(2 * kRounds) && s->short_sum == (unsigned short)(6 * kRounds));
  CHECK(s->int_sum == 10 * kRounds && s->long_sum == 1000 + 14 * kRounds && again->int_sum == 10 * kRounds);
  CHECK(((uint64_t*)&s->pair)[0] == 2 * kRounds && ((uint64_t*)&s->pair)[1] == 4 * kRounds);
  meet(s, 2, 0);
  meet(s, 3, 0);
  char copy[kText];
  char *to = copy, *from = s->text;
  size_t n = kText;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
  for (int i = 0; i < kText; i++) CHECK(copy[i] == 'o');
  add(copy, kText);
  to = s->text;
  n = 5000;
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"('r') : "memory");
  printf("%s\n", s->spoken);
  fflush(stdout);
  CHECK(write(1, s->spoken, strlen(s->spoken)) > 0 && write(1, "\n", 1) == 1);
  int pipes[2];
  CHECK(pipe(pipes) == 0 && write(pipes[1], "from a pipe", 12) == 12);
  CHECK(read(pipes[0], s->spoken, 64) == 12);
  CHECK(strcmp((const char*)again->spoken, "from a pipe") == 0);
  meet(s, 4, 0);
  CHECK(syscall(SYS_futex, &s->futex, FUTEX_WAIT, 0, 0, 0, 0) == 0);
  while (s->stage != 5) usleep(100);
  printf("%s\n", s->spoken);
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  fprintf(stderr, "digest %016lx\n", digest);
  printf("ok\n");
  if (argc > 1) unlink(argv[1]);
  return 0;
}
