// OpenMP: loops with every schedule, reductions, tasks, critical sections, ordered output, nested teams, locks.
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static long fib(int n) {
  if (n < 2) return n;
  long a, b;
#pragma omp task shared(a) if (n > 8)
  a = fib(n - 1);
#pragma omp task shared(b) if (n > 8)
  b = fib(n - 2);
#pragma omp taskwait
  return a + b;
}

int main(void) {
  static int numbers[20000];
  long sum = 0, largest = 0, critical = 0, atomic = 0, locked = 0;
  omp_set_num_threads(4);
  omp_set_dynamic(0);
  int threads = 0;
#pragma omp parallel
#pragma omp single
  threads = omp_get_num_threads();
  printf("%d threads\n", threads);
#pragma omp parallel for schedule(static)
  for (int i = 0; i < 20000; i++) numbers[i] = (int)((unsigned)i * 2654435761u >> 12);
#pragma omp parallel for schedule(dynamic, 7) reduction(+ : sum)
  for (int i = 0; i < 20000; i++) sum += numbers[i];
#pragma omp parallel for schedule(guided) reduction(max : largest)
  for (int i = 0; i < 20000; i++)
    if (numbers[i] > largest) largest = numbers[i];
  printf("sum %ld largest %ld\n", sum, largest);
  omp_lock_t lock;
  omp_init_lock(&lock);
#pragma omp parallel
  for (int i = 0; i < 500; i++) {
#pragma omp critical
    critical++;
#pragma omp atomic
    atomic++;
    omp_set_lock(&lock);
    locked++;
    omp_unset_lock(&lock);
#pragma omp barrier
  }
  printf("critical %ld atomic %ld locked %ld\n", critical, atomic, locked);
#pragma omp parallel for ordered schedule(dynamic)
  for (int i = 0; i < 8; i++) {
    int square = i * i;
#pragma omp ordered
    printf("ordered %d\n", square);
  }
  long result = 0;
#pragma omp parallel
#pragma omp single
  result = fib(18);
  printf("fib %ld\n", result);
  omp_set_max_active_levels(2);
  long nested = 0;
#pragma omp parallel num_threads(2) reduction(+ : nested)
  {
#pragma omp parallel num_threads(3) reduction(+ : nested)
    nested += omp_get_thread_num() + 1;
  }
  printf("nested %ld\n", nested);
  return sum > 0 ? 0 : 1;
}
