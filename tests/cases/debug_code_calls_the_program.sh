#!/usr/bin/env bash
# Functions of the recorded program, called by debug code: what they print appears, what they store, allocate and map is
# undone when the call is over, they may call back, and what they would do outside does not happen.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/debug_module.bash"
cat >program.c <<'C'
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int shared = 1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
char *last;
__attribute__((noinline)) const char *say(const char *what, int n) {
  shared += n;
  char *text = malloc(100000 + n);
  snprintf(text, 100, "%s %d of %d", what, n, shared);
  free(last);
  last = text;
  printf("the program says: %s\n", text);
  fflush(stdout);
  return text;
}
__attribute__((noinline)) int many(int n) {
  char **all = malloc(n * sizeof *all);
  for (int i = 0; i < n; i++) all[i] = strdup("some text");
  int sum = 0;
  for (int i = 0; i < n; i++) sum += (int)strlen(all[i]);
  for (int i = 0; i < n; i += 2) free(all[i]);
  shared = sum;
  return sum;
}
__attribute__((noinline)) int callback(int (*f)(int), int n) {
  int sum = 0;
  for (int i = 0; i < n; i++) sum += f(i), shared++;
  return sum;
}
__attribute__((noinline)) int crash(void) { shared = 99; return *(volatile int *)16; }
__attribute__((noinline)) int wait_for(void) { pthread_mutex_lock(&lock); return ++shared; }
__attribute__((noinline)) int leave(void) {
  int end[2];
  if (pipe(end) == 0 || unlink("witness") == 0) return -1;
  int error = errno;
  shared = 98;
  if (shared) exit(error);
  return 0;
}
__attribute__((noinline)) void inner(int i) { __asm__ volatile("" : : "r"(i) : "memory"); }
int main(void) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 250; i++) inner(i);
  say("itself", 1);
  pthread_mutex_unlock(&lock);
  printf("%d\n", shared);
  return 0;
}
C
gcc -O1 -g -no-pie -pthread program.c -o program
cat >module.cc <<'C'
#include "debug_module.h"
#include <string>
extern "C" {
extern int program_shared;
const char *program_say(const char *, int);
int program_many(int), program_callback(int (*)(int), int), program_crash(), program_wait_for(), program_leave();
}
static std::string seen;
static int add(int i) { seen += std::to_string(i); return i; }
PLACE(at_inner) {
  int i = static_cast<int>(r->gpr[7]);
  if (program_shared != 1) printf("not undone: %d\n", program_shared);
  switch (i % 10) {
    case 1: {
      std::string text = program_say("hello", i);
      printf("%s, %d\n", text.c_str(), program_shared);
      break;
    }
    case 2: printf("many: %d\n", program_many(30000)); break;
    case 3: seen.clear(); printf("back: %d", program_callback(add, 5)); printf(" %s %d\n", seen.c_str(), program_shared); break;
    case 4: printf("%d\n", program_crash()); break;
    case 5: if (i < 10) printf("%d\n", program_wait_for()); break;
    case 6: if (i > 240) printf("%d\n", program_leave()); break;
  }
  fflush(stdout);
}
C
make_module module.cc program
touch witness
expect 0 "$BACKSTEP" record -q --check=deep -o recording "$T/program"
probed recording module "$(address program inner)=$(address module at_inner)"
says '^calls 250$'
! grep -q 'not undone' out || fail "stores of the program's functions stayed: $(cat out)"
times() { [ "$(grep -c "$2" "$3")" = "$1" ] || fail "'$2' is not there $1 times: $(cat out err)"; }
times 25 '^the program says: hello' out
grep -q '^hello 231 of 232, 232$' out || fail "the text that the program made is missing: $(cat out)"
times 25 '^many: 270000$' out
times 25 '^back: 10 01234 6$' out
times 25 'failure module.cc:.* calls a function of the program that reads from 0x10' err
times 1 'waits for a lock' err
times 1 'calls a function of the program that ends the program' err
[ -e witness ] || fail "a function of the program has removed a file"
! grep -q 'itself' out || fail "the output of the recorded run is among that of the debug code"
expect 0 "$BACKSTEP" replay --autopilot recording
ok
