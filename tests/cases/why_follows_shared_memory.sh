#!/usr/bin/env bash
# 'why' through memory that recorded processes share: into the one that wrote it last, through several of them, at whatever addresses they have it.
source "$(dirname "$0")/lib.bash"
mkdir "$T/recordings"
cat >shared.c <<'C'
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int result, relayed, twice;
static volatile int *map(void) {
  int fd = open("object", O_RDWR | O_CREAT, 0600);
  if (ftruncate(fd, 8192)) _exit(9);
  volatile int *p = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return p;
}
int main(int argc, char **argv) {
  volatile int *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), *q = map();
  if (fork() == 0) {
    p[3] = atoi(argv[1]) * 3;
    p[5] = 7;
    p[0] = 1;
    _exit(0);
  }
  while (!p[0]) usleep(100);
  result = p[3] + 1;
  if (fork() == 0) {  // hands on what the first one has written, at another address and in another object
    mmap(0, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    volatile int *mine = map();
    mine[1030] = p[3];
    p[5] = 8;
    mine[0] = 1;
    _exit(0);
  }
  while (!q[0]) usleep(100);
  relayed = q[1030];
  twice = p[5];
  wait(0), wait(0);
  return 0;
}
C
gcc -g -O1 -o shared shared.c
expect 0 "$BACKSTEP" record -q -o "$T/recordings/shared" ./shared 14
for value in result relayed; do
  expect 0 "$BACKSTEP" why $value shared
  seen 'written by process #2, in memory that they share' <out || { cat out >&2; fail "$value: the writer"; }
  seen 'argv\[1\]\|computed' <out || { cat out >&2; fail "$value: what it wrote"; }
done
seen 'written by process #3, in memory that they share' <out || { cat out >&2; fail "the process in between"; }
expect 0 "$BACKSTEP" why twice shared
seen 'written by process #3' <out && seen 'a constant in the code: 8' <out || { cat out >&2; fail "the last of two"; }
ok
