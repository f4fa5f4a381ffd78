// A little of everything that makes events in a log: files, pipes, signals, threads, children, memory that is
// shared with them, clocks. For those who change recordings (tests/fuzz/mutate.cc): short, and ends by
// itself.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

static volatile sig_atomic_t ticks, faults;
static unsigned long counted, table[512];
static char* volatile hole;

static void on_alarm(int s) {
  (void)s;
  ticks++;
}
static void on_fault(int s, siginfo_t* info, void* context) {
  (void)s, (void)info, (void)context;
  faults++;
  mprotect(hole, 4096, PROT_READ | PROT_WRITE);
}

static void* work(void* arg) {
  for (unsigned long i = 0; i < 20000; i++) table[(i * 7 + (unsigned long)(uintptr_t)arg) % 512] += i;
  write(1, "thread\n", 7);
  return arg;
}

static void compute(unsigned long n) {
  for (unsigned long i = 0; i < n; i++) counted = counted * 31 + table[i % 512]++;
}

int main(void) {
  struct sigaction alarm = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
  struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  sigaction(SIGALRM, &alarm, NULL);
  sigaction(SIGSEGV, &fault, NULL);
  struct itimerval often = {{0, 5000}, {0, 5000}};
  setitimer(ITIMER_REAL, &often, NULL);

  hole = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  hole[7] = 'x';
  hole = mremap(hole, 4096, 1 << 20, MREMAP_MAYMOVE);
  char* kept = strdup("kept");

  char name[] = "mixed.XXXXXX";
  int file = mkstemp(name);
  unlink(name);
  struct iovec parts[2] = {{"one ", 4}, {"two\n", 4}};
  writev(file, parts, 2);
  ftruncate(file, 3 * 4096);
  atomic_int* shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

  pthread_t threads[2];
  for (long i = 0; i < 2; i++) pthread_create(&threads[i], NULL, work, (void*)(i + 1));
  compute(300000);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);

  int ends[2];
  pipe(ends);
  pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 20; i++) atomic_fetch_add(&shared[i], i);
    write(ends[1], "from the child", 14);
    compute(50000);
    _exit(7);
  }
  char text[64] = "";
  read(ends[0], text, sizeof text);
  for (int i = 0; i < 20; i++) atomic_fetch_add(&shared[i], 100);
  int status = 0;
  waitpid(child, &status, 0);
  if (fork() == 0) execl("/bin/true", "true", (char*)NULL);
  wait(NULL);

  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  volatile uint64_t stamp = __rdtsc() + (uint64_t)now.tv_nsec;
  (void)stamp;
  pread(file, text + 32, 8, 0);
  compute(500000);
  printf("%s %s %d %d %s\n", text, text + 32, WEXITSTATUS(status), (int)faults, kept);
  free(kept);
  return 0;
}
