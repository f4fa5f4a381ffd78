// A pool of threads that compute: sorting, floating point, calls. The sum over all threads is the work; on more cores it
// takes less time, but no less of the processors.
//   pool THREADS JOBS
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long jobs, next_job;
static double total;

static int compare(const void* a, const void* b) { return *(const int*)a - *(const int*)b; }
static double job(long number) {
  int numbers[4000];
  double sum = 0;
  for (int i = 0; i < 4000; i++) numbers[i] = (int)((unsigned)(i + number) * 2654435761u >> 8);
  qsort(numbers, 4000, sizeof numbers[0], compare);
  for (int i = 0; i < 4000; i++) sum += numbers[i] / (i + 1.0);
  for (int i = 1; i < 20000; i++) sum += 1.0 / ((double)i * i);
  return (double)(long)sum;
}
static void* work(void* argument) {
  for (;;) {
    pthread_mutex_lock(&mutex);
    long mine = next_job++;
    pthread_mutex_unlock(&mutex);
    if (mine >= jobs) return 0;
    double result = job(mine);
    pthread_mutex_lock(&mutex);
    total += result;
    pthread_mutex_unlock(&mutex);
  }
}

int main(int argc, char** argv) {
  int threads = argc > 1 ? atoi(argv[1]) : 2;
  jobs = argc > 2 ? atol(argv[2]) : 1000;
  pthread_t ids[64];
  for (int i = 0; i < threads; i++) pthread_create(&ids[i], 0, work, 0);
  for (int i = 0; i < threads; i++) pthread_join(ids[i], 0);
  printf("%.0f\n", total);
}
