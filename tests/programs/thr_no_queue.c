// Nothing may be queued (RLIMIT_SIGPENDING is 0, and cannot be raised again): the kernel still delivers plain
// signals, only without saying from whom. Threads take turns, wait, are interrupted, share memory with a
// child; timers and real-time signals are refused.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t hits, code = -1000, sender = -1000;
static void on_signal(int signo, siginfo_t* info, void* context) {
  (void)signo, (void)context;
  code = info->si_code;
  sender = info->si_pid;
  hits++;
}

static void give_up_rights(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2];
  if (syscall(SYS_capget, &header, data) != 0) return;
  data[0].effective &= ~(1u << CAP_SYS_RESOURCE);
  data[0].permitted &= ~(1u << CAP_SYS_RESOURCE);
  syscall(SYS_capset, &header, data);
}

// Each waits for the other without sleeping: without a timer that takes the turn away they wait for ever.
static volatile int ball;
static void* spin(void* argument) {
  const int me = argument != NULL;
  for (int i = 0; i < 20; i++) {
    while (ball != me) continue;
    ball = !me;
  }
  return NULL;
}

static int ends[2];
static volatile pid_t sleeper;
static void* read_one(void* result) {
  char c;
  sleeper = (pid_t)syscall(SYS_gettid);
  const ssize_t n = read(ends[0], &c, 1);
  *(int*)result = n < 0 ? -errno : (int)n;
  return NULL;
}

static void* sleep_long(void* result) {
  struct timespec ts = {100, 0};
  sleeper = (pid_t)syscall(SYS_gettid);
  *(int*)result = nanosleep(&ts, NULL) != 0 ? -errno : 0;
  return NULL;
}

static int* turn;  // shared with a child
static void play(int me) {
  for (int i = 0; i < 30; i++) {
    while (__atomic_load_n(turn, __ATOMIC_SEQ_CST) != me)
      syscall(SYS_futex, turn, FUTEX_WAIT, !me, NULL, NULL, 0);
    __atomic_store_n(turn, !me, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, turn, FUTEX_WAKE, 1, NULL, NULL, 0);
  }
  // … and without sleeping.
  for (int i = 0; i < 10; i++) {
    while (__atomic_load_n(turn, __ATOMIC_SEQ_CST) != me) continue;
    __atomic_store_n(turn, !me, __ATOMIC_SEQ_CST);
  }
}

// Waits until the other thread sleeps in its call, however long that takes.
static void interrupt(pthread_t thread, int* result) {
  char state = 0;
  while (state != 'S') {
    struct timespec ts = {0, 1000000};
    nanosleep(&ts, NULL);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)sleeper);
    FILE* file = sleeper ? fopen(path, "r") : NULL;
    if (!file) continue;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 0;
    fclose(file);
  }
  sleeper = 0;
  printf("pthread_kill %d\n", pthread_kill(thread, SIGUSR1));
  pthread_join(thread, NULL);
  printf("  ended with %d, %d signals, si_code %d from %d\n", *result, (int)hits, (int)code, (int)sender);
}

int main(int argc, char** argv) {
  pthread_t a, b;
  int result = 1;
  if (argc == 1) {
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_SIGPENDING, &none);
    give_up_rights();
  }
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGUSR1, &action, NULL);
  sigaction(SIGTRAP, &action, NULL);
  sigaction(SIGRTMIN, &action, NULL);

  raise(SIGUSR1);
  printf("raise: si_code %d from %d\n", (int)code, (int)sender);
  raise(SIGTRAP);
  printf("SIGTRAP: %d signals, si_code %d from %d\n", (int)hits, (int)code, (int)sender);
  kill(getpid(), SIGUSR1);
  printf("kill: si_code %d from me: %d\n", (int)code, sender == getpid());
  const union sigval value = {.sival_int = 7};
  printf("sigqueue %d\n", sigqueue(getpid(), SIGRTMIN, value) == 0 ? 0 : errno);
  timer_t timer;
  printf("timer_create %d\n", timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0 ? 0 : errno);

  pthread_create(&a, NULL, spin, NULL);
  pthread_create(&b, NULL, spin, (void*)1);
  pthread_join(a, NULL);
  pthread_join(b, NULL);
  printf("took turns\n");
  if (pipe(ends) != 0) return 1;
  pthread_create(&a, NULL, read_one, &result);
  interrupt(a, &result);
  pthread_create(&a, NULL, sleep_long, &result);
  interrupt(a, &result);
  raise(SIGTRAP);
  printf("SIGTRAP with threads: %d signals, si_code %d from %d\n", (int)hits, (int)code, (int)sender);
  printf("real-time signal to a thread: %d\n", pthread_kill(pthread_self(), SIGRTMIN));

  turn = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  fflush(stdout);
  const pid_t child = fork();
  play(child == 0);
  if (child == 0) {
    pthread_create(&a, NULL, spin, NULL);
    pthread_create(&b, NULL, spin, (void*)1);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  printf("played with a child: %d\n", status);
  fflush(stdout);
  if (argc == 1) execl("/proc/self/exe", argv[0], "again", (char*)NULL);
  return 0;
}
