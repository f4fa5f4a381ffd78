#!/usr/bin/env bash
# Threads are all there at every moment, with their own stacks; stepping stays in its thread; going back in time,
# they end where they were created.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile team -pthread <<'C'
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
long counter, slots[4];
void *work(void *arg) {
  long id = (long)arg;
  for (int i = 0; i < 300; i++) {
    pthread_mutex_lock(&lock);
    counter += id;
    slots[id]++;
    pthread_mutex_unlock(&lock);
    if (i % 100 == 99) usleep(1000);
  }
  return 0;
}
int main(void) {
  pthread_t t[3];
  for (long i = 0; i < 3; i++) pthread_create(&t[i], 0, work, (void *)(i + 1));
  for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
  printf("counter %ld\n", counter);
  return 0;
}
C
recorded team 0
in_gdb team 'break work' 'continue' 'continue' 'continue' 'info threads' 'thread apply all -q backtrace' 'delete' \
  'watch slots[2]' 'continue' 'next' 'next' 'print id' 'reverse-next' 'reverse-continue' 'print id'
printed '\* [234] +Thread'
printed '^[* ] +4 +Thread'
times 4 'in (__GI_+)?(start_thread|main|__libc_start_main\w*|__libc_start_call_main) .*(pthread_create|team)\.c'
printed '^\$1 = 2$'
printed '^\$2 = 2$'
not_printed 'SIGTRAP'
in_gdb team 'break main' 'continue' 'info threads' 'delete' 'continue' 'info threads' 'break main' 'reverse-continue' \
  'info threads'
times 3 '^\* 1 +Thread'
times 3 '^[ *] [0-9] +Thread'
in_gdb team 'tbreak work' 'continue' 'next' 'next' 'next' 'next' 'next' 'next' 'print id == (long)arg' 'print i'
printed '^\$1 = 1$'
not_printed 'SIGTRAP'
serve team
rsp symmetry 50 1
rsp walk 100 2
stop_server

# Names, as they were at each moment: set by the thread itself, inherited, set by another thread.
compile names -pthread <<'C'
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/prctl.h>
void stop(void) {}
pthread_barrier_t b;
void *run(void *a) { if (a) prctl(PR_SET_NAME, (char *)a); pthread_barrier_wait(&b); pthread_barrier_wait(&b); return 0; }
int main(void) {
  pthread_t t[3];
  pthread_barrier_init(&b, 0, 4);
  stop();
  pthread_create(&t[0], 0, run, "first");
  prctl(PR_SET_NAME, "boss");
  pthread_create(&t[1], 0, run, 0);
  pthread_create(&t[2], 0, run, "third");
  pthread_barrier_wait(&b);
  pthread_setname_np(t[1], "by another");
  stop();
  pthread_barrier_wait(&b);
  for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
}
C
recorded names 0
in_gdb names 'break stop' 'continue' 'info threads' 'continue' 'info threads' 'reverse-continue' 'info threads'
times 2 '^\* 1 .* "names" \(has the turn\)'
times 1 '^\* 1 .* "boss" \(has the turn\)'
times 1 '^  2 .* "first" \(in futex\)'
times 1 '^  3 .* "by another" '
times 1 '^  4 .* "third" '

# With scheduler-locking gdb resumes one thread only, and hears of that one's stops alone. A function that the user calls
# runs in the thread that is selected, whichever has the turn. A signal's siginfo is that thread's; each has its handle.
compile locked -pthread <<'C'
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
pthread_barrier_t b;
int count[3];
int twice(int x) { return 2 * x; }
void touch(int id) { count[id]++; }
void on_signal(int s) { (void)s; }
void *work(void *a) {
  for (int i = 0; i < 20; i++) { touch((int)(long)a); usleep(100); }
  pthread_barrier_wait(&b);
  raise(SIGUSR1);
  pthread_barrier_wait(&b);
  return 0;
}
int main(void) {
  pthread_t t[2];
  pthread_barrier_init(&b, 0, 3);
  signal(SIGUSR1, on_signal);
  for (long i = 0; i < 2; i++) pthread_create(&t[i], 0, work, (void *)(i + 1));
  for (int i = 0; i < 20; i++) { touch(0); usleep(100); }
  pthread_barrier_wait(&b);
  pthread_barrier_wait(&b);
  for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
}
C
recorded locked 0
in_gdb locked 'handle SIGUSR1 nostop noprint' 'break touch' 'continue 6' 'info threads' 'set scheduler-locking on' 'thread 2' 'tbreak touch' 'continue' 'continue' \
  'stepi' 'stepi' 'next' 'next' 'reverse-stepi' 'reverse-continue' 'reverse-continue' 'thread 1' 'continue' 'stepi' 'reverse-stepi' 'reverse-continue' 'delete' 'continue' 'continue'
not_printed 'SIGTRAP|internal-error'
printed 'exits with status 0 here; this is the end of the recording'
[ "$(grep -c 'Thread [12] "locked" hit' "$T/gdb")" -ge 5 ] || fail "with scheduler-locking few breakpoints were hit"
if grep -A1000 'Switching to thread 2' "$T/gdb" | grep -q 'Thread 3 .*hit'; then fail "a thread that was not resumed stopped"; fi
# A step back is one of the selected thread, whichever has the turn.
in_gdb locked 'handle SIGUSR1 nostop noprint' 'tbreak on_signal' 'continue' 'info threads' 'thread 1' 'reverse-stepi' 'thread' 'thread 2' 'reverse-stepi' 'reverse-step' \
  'thread' 'thread 3' 'reverse-stepi' 'thread'
not_printed SIGTRAP
for n in 1 2 3; do printed "^\\[Current thread is $n "; done
# shellcheck disable=SC2016
in_gdb locked 'handle SIGUSR1 stop print' 'break touch' 'continue 8' 'thread 1' 'print twice(11)' 'thread 2' 'print twice(12)' 'thread 3' 'print twice(13)' \
  'print count[0] + count[1] + count[2]' 'delete' 'continue' 'print $_siginfo.si_signo' 'print $_thread' 'thread 1' 'print $_siginfo.si_signo' \
  'python print([gdb.selected_inferior().thread_from_handle(t.handle()) == t for t in gdb.selected_inferior().threads()])'
printed '^\$1 = 22$'
printed '^\$2 = 24$'
printed '^\$3 = 26$'
printed '^\$5 = 10$'
times 1 'Unable to read siginfo'
printed '^\[True, True, True\]$'
ok
