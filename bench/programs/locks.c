// Threads that lock and unlock a mutex: all the same one, or each its own.
//   locks THREADS PAIRS [own]      PAIRS is the sum over all threads
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
  pthread_mutex_t mutex;
  long counter;
  char apart[64];
} locks[64];
static long each;

static void* work(void* argument) {
  long mine = (long)argument;
  for (long i = 0; i < each; i++) {
    pthread_mutex_lock(&locks[mine].mutex);
    locks[mine].counter++;
    pthread_mutex_unlock(&locks[mine].mutex);
  }
  return 0;
}

int main(int argc, char** argv) {
  int threads = argc > 1 ? atoi(argv[1]) : 4;
  each = (argc > 2 ? atol(argv[2]) : 2000000) / threads;
  pthread_t ids[64];
  for (long i = 0; i < threads; i++) pthread_mutex_init(&locks[i].mutex, 0);
  for (long i = 0; i < threads; i++) pthread_create(&ids[i], 0, work, (void*)(argc > 3 ? i : 0));
  long sum = 0;
  for (int i = 0; i < threads; i++) pthread_join(ids[i], 0);
  for (int i = 0; i < threads; i++) sum += locks[i].counter;
  printf("%ld\n", sum);
}
