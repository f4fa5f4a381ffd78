// Process-shared mutex, condition, barrier, semaphore and reader-writer lock in memory that is mapped twice: half of the
// threads use one address, half the other.
#include <semaphore.h>
#include <sys/mman.h>

#include "thr.h"

struct Shared {
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  pthread_barrier_t barrier;
  pthread_rwlock_t rwlock;
  sem_t semaphore;
  long counter, turn;
};
static struct Shared* view[2];

static void* work(void* argument) {
  long me = (long)argument;
  struct Shared* s = view[me % 2];
  OK0(pthread_mutex_lock(&s->mutex));
  for (int i = 0; i < 100; i++) {
    while (s->turn % 4 != me) OK0(pthread_cond_wait(&s->condition, &s->mutex));
    s->turn++;
    OK0(pthread_cond_broadcast(&s->condition));
  }
  OK0(pthread_mutex_unlock(&s->mutex));
  for (int i = 0; i < 500; i++) {
    CHECK(sem_wait(&s->semaphore) == 0);
    s->counter++;
    CHECK(sem_post(&s->semaphore) == 0);
    if (i % 100 == 0) {
      int result = pthread_barrier_wait(&s->barrier);
      CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
    }
    OK0(pthread_rwlock_wrlock(&s->rwlock));
    s->turn++;
    OK0(pthread_rwlock_unlock(&s->rwlock));
  }
  return 0;
}

int main(void) {
  int fd = (int)syscall(SYS_memfd_create, "shared", 0);
  CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
  for (int i = 0; i < 2; i++) {
    view[i] = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(view[i] != MAP_FAILED);
  }
  struct Shared* s = view[0];
  pthread_mutexattr_t mutex;
  pthread_mutexattr_init(&mutex);
  OK0(pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED));
  OK0(pthread_mutex_init(&s->mutex, &mutex));
  pthread_condattr_t condition;
  pthread_condattr_init(&condition);
  OK0(pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED));
  OK0(pthread_cond_init(&s->condition, &condition));
  pthread_barrierattr_t barrier;
  pthread_barrierattr_init(&barrier);
  OK0(pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED));
  OK0(pthread_barrier_init(&s->barrier, &barrier, 4));
  pthread_rwlockattr_t rwlock;
  pthread_rwlockattr_init(&rwlock);
  OK0(pthread_rwlockattr_setpshared(&rwlock, PTHREAD_PROCESS_SHARED));
  OK0(pthread_rwlock_init(&s->rwlock, &rwlock));
  CHECK(sem_init(&s->semaphore, 1, 1) == 0);
  pthread_t threads[4];
  for (long i = 0; i < 4; i++) threads[i] = start(work, (void*)i);
  for (int i = 0; i < 4; i++) join(threads[i]);
  printf("counter %ld turn %ld\n", view[1]->counter, view[1]->turn);
  return 0;
}
