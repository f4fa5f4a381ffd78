#!/usr/bin/env bash
# Processes that share their parent's memory and run at the same time (clone with CLONE_VM alone): for the kernel they are
# what they would be natively, and all of it replays exactly.
source "$(dirname "$0")/lib.bash"
OUTPUT=same program tree_lodgers
export REPLAYS=1
for options in --engine-check-ticks --engine-cache=64K --engine-max-block=1; do
  replay_again tree_lodgers 1 "$options"
done
for seed in 1 2 3 4 5; do
  RECORD_OPTIONS=--chaos=$seed OUTPUT=same program tree_lodgers
done
RECORD_OPTIONS=--check=deep REPLAY_OPTIONS=--check=deep OUTPUT=same program tree_lodgers

# LeakSanitizer: such a process stops all threads and looks for pointers in their registers and stacks.
cat >leak.c <<'C'
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int ready[2];
static void* waits(void* unused) {
  char* held = malloc(100);
  memset(held, 1, 100);
  (void)!write(ready[1], "", 1);
  pause();
  free(held);
  return unused;
}
int main(int argc, char** argv) {
  (void)argv;
  pthread_t thread;
  char byte;
  if (pipe(ready) != 0) return 1;
  pthread_create(&thread, NULL, waits, NULL);
  (void)!read(ready[0], &byte, 1);
  char* volatile lost = argc > 1 ? malloc(77) : NULL;
  lost = NULL;
  return lost != NULL;
}
C
for kind in address leak; do
  gcc -g -O1 -fsanitize=$kind -pthread -o "leak_$kind" leak.c
  record_replay "clean_$kind" "$T/leak_$kind"
  [ ! -s "clean_$kind.err" ] || fail "$kind: $(cat "clean_$kind.err")"
  record_replay "leaks_$kind" "$T/leak_$kind" 1
  [ "$(grep -c 'leak of 77 byte(s) in 1 object' "leaks_$kind.err")" = 1 ] || fail "$kind: $(cat "leaks_$kind.err")"
  grep -q 'SUMMARY: .*: 77 byte(s) leaked in 1 allocation' "leaks_$kind.err" || fail "$kind: other leaks were found, too"
done
ok
