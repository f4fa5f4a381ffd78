// Time and randomness: every clock, gettimeofday, time, times, getrusage, nanosleep, clock_nanosleep,
// getrandom, /dev/urandom, sched_yield, getcpu. Prints it all: the replay must show the recorded time.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

int main(void) {
  for (clockid_t clock = 0; clock < 12; clock++) {
    struct timespec now = {0}, resolution = {0};
    int result = clock_gettime(clock, &now);
    clock_getres(clock, &resolution);
    printf("clock %d: %d %ld.%09ld resolution %ld\n", clock, result, now.tv_sec, now.tv_nsec,
           resolution.tv_nsec);
  }
  struct timespec last = {0}, now;
  for (int i = 0; i < 1000; i++) {
    clock_gettime(CLOCK_MONOTONIC, &now);
    CHECK(now.tv_sec > last.tv_sec || (now.tv_sec == last.tv_sec && now.tv_nsec >= last.tv_nsec));
    last = now;
  }
  struct timeval tv;
  CHECK(gettimeofday(&tv, 0) == 0);
  time_t seconds = time(0);
  printf("time %ld %ld.%06ld %s", seconds, tv.tv_sec, tv.tv_usec, ctime(&seconds));
  struct timespec before, after;
  clock_gettime(CLOCK_MONOTONIC, &before);
  CHECK(nanosleep(&(struct timespec){0, 3000000}, 0) == 0);
  CHECK(clock_nanosleep(CLOCK_REALTIME, 0, &(struct timespec){0, 1000000}, 0) == 0);
  clock_gettime(CLOCK_MONOTONIC, &after);
  long slept = (after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec;
  CHECK(slept >= 4000000);
  printf("slept %ld ns\n", slept);
  struct tms tms;
  clock_t ticks = times(&tms);
  struct rusage usage;
  CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  printf("times %ld, %ld us, %ld faults\n", ticks, usage.ru_utime.tv_usec, usage.ru_minflt);
  struct timex timex = {0};
  printf("adjtimex %d\n", adjtimex(&timex));
  unsigned cpu = 0, node = 0;
  CHECK(getcpu(&cpu, &node) == 0 && sched_yield() == 0);
  cpu_set_t cpus;
  CHECK(sched_getaffinity(0, sizeof cpus, &cpus) == 0);
  printf("cpu %u of %d, scheduler %d\n", cpu, CPU_COUNT(&cpus), sched_getscheduler(0));
  unsigned char random[300];
  for (int i = 0; i < 20; i++) {
    CHECK(getrandom(random, sizeof random, i % 2 ? GRND_NONBLOCK : 0) == sizeof random);
    printf("%02x%02x", random[0], random[299]);
  }
  int fd = open("/dev/urandom", O_RDONLY);
  CHECK(fd >= 0 && read(fd, random, sizeof random) == sizeof random);
  printf("\n%02x%02x\n", random[0], random[299]);
}
