// sched_yield hands the turn over; the other sched_* calls, affinity and priorities answer plausibly, for this thread
// and for others.
#include <sched.h>
#include <sys/resource.h>

#include "thr.h"

static atomic_int ball, other_tid, leave;
static void* player(void* argument) {
  int me = (int)(long)argument;
  for (int i = 0; i < 2000; i++) {
    while (ball != me) sched_yield();
    ball = !me;
  }
  return 0;
}
static void* other(void* argument) {
  other_tid = my_tid();
  while (!leave) sleep_us(500);
  return 0;
}

int main(void) {
  pthread_t threads[2] = {start(player, (void*)0), start(player, (void*)1)};
  join(threads[0]), join(threads[1]);
  said("yield");

  pthread_t thread = start(other, 0);
  while (!other_tid) sched_yield();
  pid_t tids[3] = {0, my_tid(), other_tid};
  for (int i = 0; i < 3; i++) {
    cpu_set_t set, again;
    CPU_ZERO(&set);
    CHECK(sched_getaffinity(tids[i], sizeof set, &set) == 0);
    CHECK(CPU_COUNT(&set) >= 1 && CPU_COUNT(&set) <= sysconf(_SC_NPROCESSORS_CONF));
    CHECK(sched_setaffinity(tids[i], sizeof set, &set) == 0);
    CHECK(sched_getaffinity(tids[i], sizeof again, &again) == 0 && CPU_EQUAL(&set, &again));
    // Only one of them, and back.
    int first = 0;
    while (!CPU_ISSET(first, &set)) first++;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    CHECK(sched_setaffinity(tids[i], sizeof one, &one) == 0);
    CHECK(sched_getaffinity(tids[i], sizeof again, &again) == 0 && CPU_EQUAL(&one, &again));
    CHECK(sched_setaffinity(tids[i], sizeof set, &set) == 0);
    CPU_ZERO(&one);
    CHECK(sched_setaffinity(tids[i], sizeof one, &one) == -1 && errno == EINVAL);
    struct sched_param parameter = {55};
    CHECK(sched_getscheduler(tids[i]) == SCHED_OTHER);
    CHECK(sched_getparam(tids[i], &parameter) == 0 && parameter.sched_priority == 0);
    CHECK(sched_setscheduler(tids[i], SCHED_OTHER, &parameter) == 0);
    struct timespec slice;
    CHECK(sched_rr_get_interval(tids[i], &slice) == 0);
    errno = 0;
    CHECK(getpriority(PRIO_PROCESS, (id_t)tids[i]) >= -20 && errno == 0);
  }
  cpu_set_t set;
  OK0(pthread_getaffinity_np(thread, sizeof set, &set));
  OK0(pthread_setaffinity_np(thread, sizeof set, &set));
  int cpu = sched_getcpu();
  CHECK(cpu >= 0 && cpu < sysconf(_SC_NPROCESSORS_CONF));
  CHECK(sched_get_priority_max(SCHED_FIFO) == 99 && sched_get_priority_min(SCHED_FIFO) == 1);
  int policy;
  struct sched_param parameter;
  OK0(pthread_getschedparam(thread, &policy, &parameter));
  CHECK(policy == SCHED_OTHER);
  CHECK(sched_getaffinity(0x3fffffff, sizeof set, &set) == -1 && errno == ESRCH);
  leave = 1;
  join(thread);
  said("scheduler");
  return 0;
}
