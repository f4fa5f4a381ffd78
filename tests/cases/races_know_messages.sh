#!/usr/bin/env bash
# 'races' knows what a thread tells another one through the kernel: pipes, pairs of sockets, connections, eventfds, futex calls of the program's own,
# signals, System V queues and semaphores. What is done too late for the message is a race all the same.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
cat >told.c <<'C'
#define _GNU_SOURCE
#include <linux/futex.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
static const char *what;
static int value, other, p[2], s[2], e, q, sems, l, c, handled;
static volatile int word;
static pthread_t reader;
static int is(const char *w) { return strcmp(what, w) == 0; }
static void handler(int signo) { handled = value; (void)signo; }  // handled
static void *get(void *unused) {
  char b[100000];
  uint64_t n;
  struct { long type; char text[1]; } m;
  struct sembuf down = {0, -1, 0};
  if (is("pipe") || is("late")) read(p[0], b, 1);
  if (is("other_pipe")) read(s[0], b, 1);
  if (is("full")) usleep(2000), read(p[0], b, sizeof b);
  if (is("closed")) read(p[0], b, 1);
  if (is("sockets")) recv(s[0], b, 1, 0);
  if (is("connection")) { int a = accept(l, 0, 0); read(a, b, 1); }
  if (is("eventfd")) read(e, &n, 8);
  if (is("futex")) syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
  if (is("queue")) msgrcv(q, &m, 1, 0, 0);
  if (is("semaphores")) semop(sems, &down, 1);
  if (is("signal")) { usleep(20000); return unused; }
  other = value;  // reads
  return unused;
}
int main(int argc, char **argv) {
  static char many[100000];
  what = argv[1];
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof a;
  struct { long type; char text[1]; } m = {1, "x"};
  struct sembuf up = {0, 1, 0};
  uint64_t one = 1;
  pipe(p), socketpair(AF_UNIX, SOCK_STREAM, 0, s);
  e = eventfd(0, 0);
  q = msgget(IPC_PRIVATE, 0600), sems = semget(IPC_PRIVATE, 1, 0600);
  l = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0);
  bind(l, (void *)&a, size), listen(l, 1), getsockname(l, (void *)&a, &size);
  signal(SIGUSR1, handler);
  pthread_create(&reader, 0, get, 0);
  usleep(3000);
  if (!is("late")) value = 42;  // writes
  if (is("pipe") || is("late") || is("other_pipe")) write(p[1], "x", 1);
  if (is("late")) value = 43;  // late
  if (is("other_pipe")) { usleep(3000); write(s[1], "x", 1) ; }
  if (is("full")) write(p[1], many, sizeof many);
  if (is("closed")) close(p[1]);
  if (is("sockets")) send(s[1], "x", 1, 0);
  if (is("connection")) connect(c, (void *)&a, size), write(c, "x", 1);
  if (is("eventfd")) write(e, &one, 8);
  if (is("futex")) for (word = 1; syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0) != 1;) usleep(1000);
  if (is("queue")) msgsnd(q, &m, 1, 0);
  if (is("semaphores")) semop(sems, &up, 1);
  if (is("signal")) pthread_kill(reader, SIGUSR1);
  pthread_join(reader, 0);
  msgctl(q, IPC_RMID, 0), semctl(sems, 0, IPC_RMID);
  return argc - 2;
}
C
gcc -g -O0 -w -pthread -o told told.c
lines() {
  "$BACKSTEP" record -q -o "$T/run.$1" ./told "$1"
  "$BACKSTEP" races --json "$T/run.$1" >"$T/json" || [ $? = 1 ] || fail "$1: races"
  "$PYTHON" - "$T/json" <<'PY'
import json, sys
line = lambda side: next((f["line"] for f in side["stack"] if f.get("file", "").endswith("told.c")), 0)
print("\n".join(sorted({" ".join(str(n) for n in sorted((line(r["first"]), line(r["second"])))) for r in json.load(open(sys.argv[1]))})))
PY
}
at() { grep -n "// $1\$" told.c | cut -d : -f 1; }
for good in pipe full closed sockets connection eventfd queue semaphores futex signal other_pipe; do
  have=$(lines $good)
  [ -z "$have" ] || { cat "$T/json" >&2; fail "$good: there is no race, but on lines '$have'"; }
done
have=$(lines late)
[ "$have" = "$(at reads) $(at late)" ] || { cat "$T/json" >&2; fail "late: races on lines '$have'"; }
ok
