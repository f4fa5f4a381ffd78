// Event descriptors: eventfd, timerfd, signalfd, inotify, epoll over all of them, interval timers read back,
// pidfd of itself where the kernel has it.
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "check.h"

int main(void) {
  uint64_t value = 5;
  int event = eventfd(3, EFD_NONBLOCK | EFD_SEMAPHORE);
  CHECK(event >= 0 && write(event, &value, 8) == 8 && read(event, &value, 8) == 8 && value == 1);
  for (int i = 0; i < 7; i++) CHECK(read(event, &value, 8) == 8);
  CHECK(read(event, &value, 8) == -1 && errno == EAGAIN && read(event, &value, 4) == -1 && errno == EINVAL);

  int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  struct itimerspec spec = {.it_interval = {0, 2000000}, .it_value = {0, 1000000}}, now;
  CHECK(timer >= 0 && timerfd_settime(timer, 0, &spec, 0) == 0);
  uint64_t expirations = 0;
  for (int i = 0; i < 5; i++) CHECK(read(timer, &value, 8) == 8 && value >= 1 && (expirations += value));
  CHECK(timerfd_gettime(timer, &now) == 0 && now.it_interval.tv_nsec == 2000000);
  printf("%lu expirations, next in %ld ns\n", expirations, now.it_value.tv_nsec);

  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGRTMIN + 2);
  CHECK(sigprocmask(SIG_BLOCK, &set, 0) == 0);
  int signals = signalfd(-1, &set, SFD_NONBLOCK);
  CHECK(signals >= 0);
  kill(getpid(), SIGUSR1);
  sigqueue(getpid(), SIGRTMIN + 2, (union sigval){.sival_int = 4711});
  struct signalfd_siginfo infos[4];
  CHECK(read(signals, infos, sizeof infos) == 2 * sizeof *infos && infos[0].ssi_signo == SIGUSR1);
  CHECK(infos[1].ssi_int == 4711 && infos[1].ssi_pid == (uint32_t)getpid());

  int watch = inotify_init1(IN_NONBLOCK);
  CHECK(watch >= 0 && inotify_add_watch(watch, ".", IN_CREATE | IN_DELETE | IN_MODIFY | IN_MOVE) >= 0);
  int fd = open("watched", O_CREAT | O_WRONLY, 0600);
  CHECK(fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0 && rename("watched", "moved") == 0 &&
        unlink("moved") == 0);
  char buffer[4096] __attribute__((aligned(8)));
  long n = read(watch, buffer, sizeof buffer);
  CHECK(n > 0);
  for (char* at = buffer; at < buffer + n;) {
    struct inotify_event* change = (void*)at;
    printf("mask %x name %s cookie %u\n", change->mask, change->len ? change->name : "",
           change->cookie ? change->cookie : 0);
    at += sizeof *change + change->len;
  }

  int poller = epoll_create(1), all[] = {event, timer, signals, watch};
  for (int i = 0; i < 4; i++) {
    struct epoll_event interest = {.events = EPOLLIN, .data = {.u32 = (uint32_t)i}};
    CHECK(epoll_ctl(poller, EPOLL_CTL_ADD, all[i], &interest) == 0);
  }
  value = 2;
  CHECK(write(event, &value, 8) == 8);
  raise(SIGUSR1);
  usleep(5000);
  struct epoll_event ready[8];
  int count = epoll_wait(poller, ready, 8, 100);
  CHECK(count == 3);
  for (int i = 0; i < count; i++) printf("ready %u: %x\n", ready[i].data.u32, ready[i].events);

  struct itimerval interval = {.it_value = {100, 0}};
  CHECK(setitimer(ITIMER_REAL, &interval, 0) == 0 && getitimer(ITIMER_REAL, &interval) == 0 &&
        interval.it_value.tv_sec >= 99);
  printf("left %ld.%06ld\n", interval.it_value.tv_sec, interval.it_value.tv_usec);
  CHECK(alarm(0) > 0);
  printf("events right\n");
}
