// Every kind of memory operand on memory that a process writes which is not recorded (run with `record --no-follow`):
// vectors, gathers, masked stores, FXSAVE and XSAVE, calls through it, bit strings, operands across pages, a stack in
// it while signals come, and threads. What is read depends on timing, and is printed: a replay that reads anything else
// prints something else.
#define _GNU_SOURCE
#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

extern char** environ;
enum { kPages = 3, kThreads = 3, kRounds = 500 };
struct shared {
  atomic_int stage;
  atomic_long n;
  long own[kThreads];
  _Alignas(64) char area[4096];
  void (*function)(void);
  long long values[16];
};
static struct shared* s;
static long calls, seen, sum;

static void count_call(void) { calls++; }
static void on_alarm(int signo) { seen += s->n; }
static void* work(void* name) {
  for (int i = 0; i < kRounds; i++) s->n++, s->own[(long)name]++;
  return 0;
}
static int outsider(void) {
  s->stage = 1;
  while (s->stage != 99) {
    s->n++;
    s->values[3] ^= 0x55;
    usleep(10);
  }
  return 0;
}
__attribute__((target("avx2"))) static void vectors(void) {
  for (int i = 0; i < 50; i++) {
    __m256i got = _mm256_i64gather_epi64(s->values, _mm256_set_epi64x(0, 1, 2, 3), 8);
    sum += _mm256_extract_epi64(got, 0);
    _mm256_maskstore_epi64(s->values + 8, _mm256_set_epi64x(-1, 0, -1, 0), _mm256_set1_epi64x(i));
    sum += s->values[8] + s->values[9];
    sum += _mm256_extract_epi64(_mm256_loadu_si256((__m256i*)(s->values + 2)), 1);
  }
}
__attribute__((target("xsave"))) static void save_state(void) {
  _fxsave(s->area);
  _xsave(s->area + 1024, 3);
  sum += s->area[24];
}
static void branches(void) {
  s->function = count_call;
  for (int i = 0; i < 20; i++) (*(void (*volatile*)(void))&s->function)();
  // call, push, pop and ret on a stack in shared memory, while signals come.
  for (int i = 0; i < 200; i++)
    __asm__ volatile(
        "mov %%rsp, %%rbx; mov %0, %%rsp; call 1f; jmp 2f; 1: push %%rax; pop %%rax; ret; 2: mov %%rbx, %%rsp"
        :
        : "r"((char*)s + kPages * 4096 - 16)
        : "rbx", "memory", "cc");
}
static void bits_and_borders(void) {
  long bit = 5000;
  __asm__ volatile("lock btsq %1, %0" : "+m"(s->area[0]) : "r"(bit) : "memory", "cc");
  CHECK(s->area[5000 / 8] & 1 << 5000 % 8);
  uint64_t* across = (uint64_t*)((char*)s + 4096 - 3);
  *across = 0;
  for (int i = 0; i < 10; i++) {
    *across += 0x0102030405060708u;
    __atomic_fetch_add(across, 1, __ATOMIC_SEQ_CST);
  }
  CHECK(*across == 10 * 0x0102030405060709u);
}

int main(int argc, char** argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  CHECK(fd >= 0 && ftruncate(fd, kPages * 4096) == 0);
  s = mmap(0, kPages * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(s != MAP_FAILED);
  if (argc > 2) return outsider();
  pid_t child;
  char* arguments[] = {argv[0], argv[1], "outsider", 0};
  CHECK(posix_spawn(&child, "/proc/self/exe", 0, 0, arguments, environ) == 0);
  while (s->stage != 1) usleep(100);

  signal(SIGALRM, on_alarm);
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
  struct itimerspec often = {{0, 300000}, {0, 300000}};
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &often, 0) == 0);
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; i++) pthread_create(&threads[i], 0, work, (void*)i);
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], 0);
  for (int i = 0; i < kThreads; i++) CHECK(s->own[i] == kRounds);
  if (__builtin_cpu_supports("avx2")) vectors();
  save_state();
  branches();
  bits_and_borders();
  timer_delete(timer);

  s->stage = 99;
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  printf("calls %ld, seen %ld, sum %ld, n %ld\n", calls, seen, sum, (long)s->n);
  unlink(argv[1]);
  return 0;
}
