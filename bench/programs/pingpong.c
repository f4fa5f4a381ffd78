// Two threads that hand a number to and fro with a mutex and a condition variable.
//   pingpong ROUNDS
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static long turn, rounds = 100000;

static void* play(void* me) {
  pthread_mutex_lock(&mutex);
  for (long i = 0; i < rounds; i++) {
    while (turn % 2 != (long)me) pthread_cond_wait(&condition, &mutex);
    turn++;
    pthread_cond_signal(&condition);
  }
  pthread_mutex_unlock(&mutex);
  return 0;
}

int main(int argc, char** argv) {
  if (argc > 1) rounds = atol(argv[1]);
  pthread_t other;
  pthread_create(&other, 0, play, (void*)1);
  play((void*)0);
  pthread_join(other, 0);
  printf("%ld\n", turn);
}
