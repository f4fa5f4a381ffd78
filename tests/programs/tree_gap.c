// An unrecorded process attaches a System V segment and writes to it while the recorded one computes on it,
// without a system call that could tell of it.
//   tree_gap recorded HOW FILE   the segment's id goes to FILE; HOW: spin, clock, threads, timer, children;
//   or file: children
//                                that share the file FILE.memory
//   tree_gap sender FIFO FILE    … waits in a write from the segment to FIFO
//   tree_gap outsider FILE [FIFO]
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

enum { kWords = 4096, kCells = 1 << 16 };
struct segment {
  volatile uint32_t done;  // the outsider has changed all that it wants to
  volatile uint32_t seen;  // the recorded one knows
  volatile uint32_t words[kWords];
};

static struct segment* map_file(const char* file, int flags) {
  char name[4096];
  snprintf(name, sizeof name, "%s.memory", file);
  int fd = open(name, O_RDWR | flags, 0600);
  if (fd < 0 || ftruncate(fd, 1 << 20)) perror(name), exit(1);
  void* s = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return s == MAP_FAILED ? perror("mmap"), exit(1), NULL : s;
}

static struct segment* make(const char* file, int in_file) {
  int id = in_file ? -1 : shmget(IPC_PRIVATE, 1 << 20, IPC_CREAT | 0600);
  struct segment* s = in_file ? map_file(file, O_CREAT) : shmat(id, NULL, 0);
  if (s == (void*)-1) perror("shmat"), exit(1);
  for (int i = 0; i < kWords; i++) s->words[i] = (uint32_t)i;
  char name[4096];
  snprintf(name, sizeof name, "%s.new", file);
  FILE* f = fopen(name, "w");
  fprintf(f, "%d\n", id);
  fclose(f);
  rename(name, file);
  if (!in_file) shmctl(id, IPC_RMID, NULL);  // it can be attached all the same
  return s;
}

static uint32_t cells[kCells];
static volatile sig_atomic_t alarms;
static void on_alarm(int signo) {
  (void)signo;
  alarms++;
}

// Reads all of the memory, again and again, until it is told to stop: whatever it read is in the result.
static uint64_t compute(struct segment* s, const char* how) {
  uint64_t sum = 1;
  double mean = 0;
  for (uint64_t round = 0; !s->done; round++) {
    for (int i = 0; i < kWords; i++) {
      uint32_t word = s->words[i];
      sum = sum * 31 + word;
      mean += (word - mean) / 64;
      cells[(sum >> 20) % kCells] += word;
    }
    s->words[round % 16] += 3;
    if (!strcmp(how, "clock")) {
      struct timespec now;
      clock_gettime(CLOCK_MONOTONIC, &now);
      sum += (uint64_t)now.tv_nsec + __rdtsc();
    }
  }
  for (int i = 0; i < kCells; i++) sum = sum * 31 + cells[i];
  uint64_t bits;
  memcpy(&bits, &mean, sizeof bits);
  return sum ^ bits;
}

struct job {
  struct segment* s;
  const char* how;
  uint64_t sum;
};
static void* work(void* p) {
  struct job* j = p;
  j->sum = compute(j->s, j->how);
  return NULL;
}

static int recorded(const char* how, const char* file) {
  const int in_file = !strcmp(how, "file");
  struct segment* s = make(file, in_file);
  if (!strcmp(how, "timer")) {
    signal(SIGALRM, on_alarm);
    struct itimerval often = {{0, 700}, {0, 700}};
    setitimer(ITIMER_REAL, &often, NULL);
  }
  pid_t child = in_file || !strcmp(how, "children") ? fork() : -1;
  struct job other = {s, how, 0}, mine = {s, how, 0};
  pthread_t thread;
  const int threads = !strcmp(how, "threads");
  if (threads) pthread_create(&thread, NULL, work, &other);
  work(&mine);
  if (threads) pthread_join(thread, NULL);
  printf("%s %llx %llx %d\n", child == 0 ? "child" : how, (unsigned long long)mine.sum,
         (unsigned long long)other.sum, (int)alarms);
  fflush(stdout);
  if (child == 0) return 0;
  if (child > 0) waitpid(child, NULL, 0);
  s->seen = 1;
  return 0;
}

// What is in the memory when the kernel takes it, and not before, is what is sent.
static int sender(const char* fifo, const char* file) {
  struct segment* s = make(file, 0);
  int fd = open(fifo, O_WRONLY);
  char* from = (char*)s->words;
  for (size_t at = 0; at < 900000;) {
    ssize_t n = write(fd, from + at, 900000 - at);
    if (n <= 0) return perror("write"), 1;
    at += (size_t)n;
  }
  uint64_t sum = 1;
  for (int i = 0; i < kWords; i++) sum = sum * 31 + s->words[i];
  printf("sent %llx\n", (unsigned long long)sum);
  s->seen = 1;
  return 0;
}

static int outsider(const char* file, const char* fifo) {
  FILE* f = NULL;
  for (int i = 0; i < 2000 && !(f = fopen(file, "r")); i++) usleep(5000);
  int id = -1;
  if (!f || fscanf(f, "%d", &id) != 1) return fputs("no segment\n", stderr), 1;
  int fd = fifo ? open(fifo, O_RDONLY) : -1;
  usleep(20000 + (unsigned)getpid() % 10000);
  struct segment* s = id < 0 ? map_file(file, 0) : shmat(id, NULL, 0);
  if (s == (void*)-1) return perror("outsider: shmat"), 1;
  for (int i = 0; i < kWords; i++) s->words[i] = s->words[i] * 2654435761u + 7;
  char* bytes = (char*)s;
  if (fifo) memset(bytes + 300000, 'o', 500000);
  s->done = 1;
  char buffer[65536];
  while (fifo && read(fd, buffer, sizeof buffer) > 0) continue;
  for (int i = 0; i < 4000 && !s->seen; i++) usleep(5000);
  if (!s->seen) return fputs("the recorded one did not answer\n", stderr), 1;
  return 0;
}

int main(int argc, char** argv) {
  if (argc >= 3 && !strcmp(argv[1], "outsider")) return outsider(argv[2], argc > 3 ? argv[3] : NULL);
  if (argc >= 4 && !strcmp(argv[1], "sender")) return sender(argv[2], argv[3]);
  if (argc >= 4 && !strcmp(argv[1], "recorded")) return recorded(argv[2], argv[3]);
  return 2;
}
