#!/usr/bin/env bash
# Looking for the last write or the next or last hit passes over windows in which the page was not written to, and finds the same as looking
# everywhere: stores, stores that are undone, system calls, signal frames, memory that is given back or moved.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile pages -O1 <<'C'
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
typedef struct { volatile long value; char rest[4088]; } page;
static page pages[8] __attribute__((aligned(4096)));
static page *area, *moved;
static volatile unsigned long work;
__attribute__((noinline, aligned(4096))) long rare(long n) { return n + work % 3; }
__attribute__((noinline, aligned(4096))) long seldom(long n) { return n + work % 5; }
static char stack[65536] __attribute__((aligned(4096)));
static void on_signal(int n) { work += n; }
// About 100 ms between two things: long enough for it to pay to pass over them.
__attribute__((noinline, aligned(4096))) static void compute(void) {
  for (int i = 0; i < 40000000; i++) work = work * 6364136223846793005ul + 1;
}
int main(void) {
  stack_t alternate = {stack, 0, sizeof stack};
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
  sigaltstack(&alternate, 0);
  sigaction(SIGUSR1, &action, 0);
  area = mmap(0, 8 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  page *again = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < 8; i++) area[i].value = i + 1;
  printf("%p %p %p %p %p %p %p %p %p %p %p %p %p\n", (void *)rare, (void *)seldom, (void *)&pages[0], (void *)&pages[1], (void *)&pages[2], (void *)&pages[3],
         (void *)&area[0], (void *)&area[1], (void *)&area[2], (void *)&area[3], (void *)again,
         (void *)(stack + sizeof stack - 1024), (void *)&work);
  fflush(stdout);
  for (int round = 0; round < 2; round++) {
    compute();
    pages[0].value = rare(5) + round;
    compute();
    pages[1].value = 7, pages[1].value = 0;  // as if nothing had happened
    compute();
    int zero = open("/dev/zero", O_RDONLY), fds[2];
    read(zero, (void *)&area[0], 64);
    if (pipe(fds) == 0 && write(fds[1], "12345678", 8) == 8) read(fds[0], (void *)&pages[2], 8);
    compute();
    madvise(&area[1], 4096, MADV_DONTNEED);
    compute();
    area[1].value = 9;
    mprotect(&area[2], 4096, PROT_READ);
    compute();
    mprotect(&area[2], 4096, PROT_READ | PROT_WRITE);
    raise(SIGUSR1);
    compute();
    if (round == 1) { char line[3000]; memset(line, 'x', sizeof line), line[2999] = '\n'; write(1, line, sizeof line); }
    compute(), dprintf(2, "error %d\n", round), compute(), puts("line"), fflush(stdout);
    munmap(again, 4096);
    compute();
    work = seldom(work);
    mmap(again, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    again->value = round;
    compute();
    mmap(&area[3], 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    compute();
  }
  return 0;
}
C
recorded pages 0
"$BACKSTEP" checkpoints --make --every 0.02 rec-pages >/dev/null || fail "no checkpoints"
read -ra addresses <pages.out
code=("${addresses[@]:0:2}")
data=("${addresses[@]:2:10}")  # the last one is written to all the time
# search NAME OPTION...
search() {
  local name=$1
  shift
  serve pages "$@"
  rsp last_writes 6 "${data[@]}" >"$name.writes"
  rsp last_hits 10 "${code[@]}" >"$name.hits"
  stop_server
  # Another session, which has no checkpoints but those of the recording.
  serve pages "$@"
  rsp next_hits 0 >"$name.end"
  stop_server
  serve pages "$@"
  rsp next_hits 6 "${code[@]}" "${data[@]:0:6}" >"$name.next"
  stop_server
}
BACKSTEP_SLICE=0 search slow --checkpoints 0
search quick
same <(grep '^0x' slow.writes) <(grep '^0x' quick.writes) "another last write where windows were passed over"
same <(grep '^@' slow.hits) <(grep '^@' quick.hits) "other hits of breakpoints where windows were passed over"
same <(grep '^@' slow.end) <(grep '^@' quick.end) "another end, or other output, where windows were passed over"
same <(grep '^@' slow.next) <(grep '^@' quick.next) "other stops forwards where windows were passed over"
grep -q "xxx.*error 1.*line" quick.end || fail "not all of the output: $(cat quick.end)"
[ "$(grep -c '^@.*swbreak' slow.next)" = 4 ] || fail "there are four hits forwards: $(cat slow.next)"
[ "$(grep -c '^@.*watch' slow.next)" -ge 10 ] || fail "too few changes forwards: $(cat slow.next)"
grep -q 'passed over [1-9]' quick.end || fail "nothing was passed over on the way to the end: $(cat quick.end)"
[ "$(grep -c '^0x.* @.*last change' slow.writes)" -ge 20 ] || fail "too few changes: $(cat slow.writes)"
[ "$(grep -c '^@.*swbreak' slow.hits)" = 4 ] || fail "there are four hits: $(cat slow.hits)"
grep -q 'passed over 0$' slow.writes || fail "windows were passed over without checkpoints"
# Where the kernel can tell (soft-dirty bits, or userfaultfd of Linux 6.7), windows are passed over.
can_tell() { "$PYTHON" -c '
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.syscall(323, os.O_CLOEXEC | 1)
api = ctypes.create_string_buffer(struct.pack("QQQ", 0xAA, 1 << 15, 0))
raise SystemExit(0 if fd >= 0 and libc.ioctl(fd, ctypes.c_ulong(0xC018AA3F), api) == 0 else 1)'; }
if can_tell; then
  grep -q 'passed over [1-9]' quick.writes || fail "no window was passed over: $(tail -n 2 quick.writes)"
  grep -q 'passed over [1-9]' quick.next || fail "no window was passed over forwards: $(tail -n 2 quick.next)"
  grep -q 'passed over [1-9]' quick.hits || fail "no window was passed over: $(tail -n 2 quick.hits)"
fi
ok
