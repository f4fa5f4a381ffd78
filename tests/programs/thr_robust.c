// Robust mutexes: a thread ends with locks in its hand, and the next one to lock them is told (EOWNERDEAD), also if it
// was waiting already. Private, process-shared, priority-inheriting; and the list of the kernel by hand.
#include <linux/futex.h>
#include <sys/mman.h>

#include "thr.h"

static pthread_mutex_t* lock;
static atomic_int taken, leave;

static void* take_and_die(void* argument) {
  OK0(pthread_mutex_lock(lock));
  taken = 1;
  while (argument && !leave) sleep_us(200);
  return 0;
}
static void* take_over(void* argument) {
  int result = pthread_mutex_lock(lock);
  if (result == EOWNERDEAD) OK0(pthread_mutex_consistent(lock));
  if (result == 0 || result == EOWNERDEAD) OK0(pthread_mutex_unlock(lock));
  return (void*)(long)result;
}

static void one(int shared, int protocol, const char* name) {
  lock = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | (shared ? MAP_SHARED : MAP_PRIVATE), -1, 0);
  CHECK(lock != MAP_FAILED);
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  OK0(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST));
  OK0(pthread_mutexattr_setprotocol(&attributes, protocol));
  if (shared) OK0(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED));
  OK0(pthread_mutex_init(lock, &attributes));
  // Dead before it is asked for.
  join(start(take_and_die, 0));
  CHECK(pthread_mutex_trylock(lock) == EOWNERDEAD);
  OK0(pthread_mutex_consistent(lock));
  OK0(pthread_mutex_unlock(lock));
  OK0(pthread_mutex_lock(lock));
  OK0(pthread_mutex_unlock(lock));
  // Dies while others wait: the first is told, the second gets it clean.
  taken = 0, leave = 0;
  pthread_t owner = start(take_and_die, lock);
  while (!taken) sched_yield();
  pthread_t a = start(take_over, 0), b = start(take_over, 0);
  sleep_us(2000);  // likely they sleep by now; either way is right
  leave = 1;
  long first = join(a), second = join(b);
  join(owner);
  CHECK((first == EOWNERDEAD && second == 0) || (first == 0 && second == EOWNERDEAD));
  // Not made consistent: nobody can have it any more.
  join(start(take_and_die, 0));
  CHECK(pthread_mutex_lock(lock) == EOWNERDEAD);
  OK0(pthread_mutex_unlock(lock));
  CHECK(pthread_mutex_lock(lock) == ENOTRECOVERABLE);
  CHECK(join(start(take_over, 0)) == ENOTRECOVERABLE);
  OK0(pthread_mutex_destroy(lock));
  said(name);
}

static struct {
  struct robust_list_head head;
  struct robust_list entry;
  int word;
} mine;
static void* by_hand(void* argument) {
  void* old;
  size_t size;
  CHECK(syscall(SYS_get_robust_list, 0, &old, &size) == 0 && size == sizeof mine.head);
  mine.head.list.next = &mine.entry;
  mine.entry.next = &mine.head.list;
  mine.head.futex_offset = (char*)&mine.word - (char*)&mine.entry;
  mine.head.list_op_pending = 0;
  mine.word = my_tid() | (int)FUTEX_WAITERS;
  CHECK(syscall(SYS_set_robust_list, &mine.head, sizeof mine.head) == 0);
  CHECK(syscall(SYS_set_robust_list, &mine.head, 5) == -1 && errno == EINVAL);
  return old ? 0 : (void*)1l;
}

int main(void) {
  one(0, PTHREAD_PRIO_NONE, "private");
  one(1, PTHREAD_PRIO_NONE, "shared");
  one(0, PTHREAD_PRIO_INHERIT, "private inheriting");
  one(1, PTHREAD_PRIO_INHERIT, "shared inheriting");
  CHECK(join(start(by_hand, 0)) == 0);
  CHECK((unsigned)mine.word == (FUTEX_WAITERS | FUTEX_OWNER_DIED));
  said("by hand");
  return 0;
}
