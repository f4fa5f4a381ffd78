// Threads that spin without a system call: on a flag that another thread sets, on locks built from loads and stores
// alone, and more of them than there are processors. Every spinning thread must be interrupted for the others to go on.
#include "thr.h"

static volatile int flag, stage;
static volatile long spins;

static void* sets_flag(void* argument) {
  compute(200000);
  flag = 1;
  return 0;
}

// Waits for its number with nothing but a load and a jump.
static void* relay(void* argument) {
  int me = (int)(long)argument;
  __asm__ volatile("1: cmp %1, %0\n jne 1b" ::"m"(stage), "r"(me) : "cc", "memory");
  compute(1000);
  stage = me + 1;
  return 0;
}
static void* relay_pause(void* argument) {
  int me = (int)(long)argument;
  while (stage != me) __builtin_ia32_pause();
  stage = me + 1;
  return 0;
}

// Peterson's lock.
static volatile int wants[2], turn;
static volatile long counter;
static void* peterson(void* argument) {
  int me = (int)(long)argument;
  for (int i = 0; i < 300; i++) {
    wants[me] = 1;
    turn = !me;
    __sync_synchronize();
    while (wants[!me] && turn == !me) {
    }
    counter = counter + 1;
    wants[me] = 0;
  }
  return 0;
}

static _Atomic unsigned next_ticket, now_serving;
static void* tickets(void* argument) {
  for (int i = 0; i < 10; i++) {
    unsigned mine = next_ticket++;
    while (now_serving != mine) {
    }
    counter++;
    now_serving = mine + 1;
  }
  return 0;
}

static volatile int stop;
static void* forever(void* argument) {
  while (!stop) spins++;
  return 0;
}

int main(void) {
  pthread_t threads[8];
  threads[0] = start(sets_flag, 0);
  while (!flag) spins++;
  join(threads[0]);
  said("flag");
  // The last one starts the chain: the first to run waits longest.
  for (long i = 5; i >= 1; i--) threads[i] = start(i % 2 ? relay : relay_pause, (void*)i);
  stage = 1;
  while (stage != 6) {
  }
  for (int i = 1; i <= 5; i++) join(threads[i]);
  said("relay");
  threads[0] = start(peterson, (void*)0), threads[1] = start(peterson, (void*)1);
  join(threads[0]), join(threads[1]);
  printf("peterson %ld\n", counter);
  counter = 0;
  for (int i = 0; i < 4; i++) threads[i] = start(tickets, 0);
  for (int i = 0; i < 4; i++) join(threads[i]);
  printf("tickets %ld\n", counter);
  // Main gets its turn next to six that never give theirs away, and so do sleepers.
  for (int i = 0; i < 6; i++) threads[i] = start(forever, 0);
  for (int i = 0; i < 5; i++) sleep_us(500);
  stop = 1;
  for (int i = 0; i < 6; i++) join(threads[i]);
  said("starved nobody");
  return 0;
}
