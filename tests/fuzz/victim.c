/* What the snippets of debug_code.py are to harm: lines to put them at (AT n), passed some hundred times by
 * two threads, a forked child and a signal handler on a stack of its own; things to write to; functions that fail when they
 * are called. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int counter;
char text[64];
const long table[64] = {1, 2, 3};
static double sum = 1;
__attribute__((noinline)) int work(int n) {
  counter += n % 7;
  text[n & 63]++;
  sum = sum * 1.0001 + n;
  return counter;
}
__attribute__((noinline)) int crash(int n) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  counter++;
  switch (n) {
    case 0: return *(volatile int *)16;
    case 1: abort();
    case 2: exit(7);
    case 3: return kill(getpid(), SIGTERM);
    case 4: for (;;) counter++;
    case 5: pthread_mutex_lock(&lock); return pthread_mutex_lock(&lock);
    case 6: free(malloc(7)); return printf("the program says %d\n", counter);
    case 7: return fork();
    case 8: return (int)write(2, "x", 1) + close(1) + unlink("witness");
    default: return (int)(long)memset((void *)table, 1, 9);
  }
}
__attribute__((noinline)) void at(int local, char *heap) {
  work(local);   /* AT 0 */
  work(local);   /* AT 1 */
  heap[local & 15]++;
  work(local);   /* AT 2 */
  work(local);   /* AT 3 */
  sum /= 3;
  work(local);   /* AT 4 */
  work(local);   /* AT 5 */
  work(local);   /* AT 6 */
  work(local);   /* AT 7 */
}
static char *shared;
static void handler(int signo) { at(signo, shared); }
static void *thread(void *heap) {
  for (int i = 0; i < 30; i++) at(i, heap);
  return 0;
}
int main(void) {
  static char room[1 << 16];
  stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
  sigaltstack(&stack, 0);
  sigaction(SIGUSR1, &action, 0);
  shared = calloc(1, 100);
  pthread_t other;
  pthread_create(&other, 0, thread, shared);
  for (int i = 0; i < 230; i++) {
    at(i, shared);
    if (i % 50 == 0) raise(SIGUSR1);
  }
  pthread_join(other, 0);
  if (fork() == 0) {
    for (int i = 0; i < 40; i++) at(i, shared);
    raise(SIGUSR1);
    _exit(0);
  }
  wait(0);
  printf("%d %.6f %d\n", counter, sum, text[5] + shared[3]);
  return 0;
}
