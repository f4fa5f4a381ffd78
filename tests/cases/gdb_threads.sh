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
printed '\* 4 +Thread'
times 4 'in (__GI_+)?(start_thread|main|__libc_start_main\w*|__libc_start_call_main) .*(pthread_create|team)\.c'
printed '^\$1 = 2$'
printed '^\$2 = 2$'
not_printed 'SIGTRAP'
in_gdb team 'break main' 'continue' 'info threads' 'delete' 'continue' 'info threads' 'break main' 'reverse-continue' \
  'info threads'
times 3 '^\* 1 +Thread'
times 3 '^[ *] [0-9] +Thread'
in_gdb team 'tbreak work' 'continue' 'next' 'next' 'next' 'next' 'next' 'next' 'print id' 'print i'
printed '^\$1 = 1$'
not_printed 'SIGTRAP'
serve team
rsp symmetry 50 1
rsp walk 100 2
stop_server
ok
