#!/usr/bin/env bash
# Debug code is called in all threads, in signal handlers on stacks of their own, in forked and vforked children, in each inlined
# copy and instance of a template, and in shared libraries, those that are loaded later as well.
source "$(dirname "$0")/lib.bash"
need g++
mkdir "$T/recordings"
cat >shared.cc <<'CC'
template <class T> __attribute__((noinline)) T twice(T x) {
  return x + x;  // TEMPLATE
}
extern "C" int in_library(int n) {
  return twice(n) + static_cast<int>(twice(n + 0.25));
}
CC
g++ -g -O0 -shared -fPIC -o first.so shared.cc
sed 's/in_library/in_later/; s/twice/thrice/; s/twice(n/thrice(n/g; s/TEMPLATE/LATER/' shared.cc >later.cc
g++ -g -O0 -shared -fPIC -o later.so later.cc
cat >program.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int in_library(int n);
static volatile int sum;
static inline __attribute__((always_inline)) void copied(int n) {
  sum += n;  // COPIED
}
__attribute__((noinline)) void deep(int n) {
  sum -= n;  // DEEP
}
static void handler(int signo) { deep(signo); }
static void *work(void *n) {
  for (int i = 0; i < 100; i++) deep((int)(long)n);
  raise(SIGUSR2);
  return 0;
}
int main(void) {
  stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
  sigaction(SIGUSR1, &action, 0);
  sigaction(SIGUSR2, &action, 0);
  sigaltstack(&stack, 0);
  copied(1);
  raise(SIGUSR1);
  pthread_t threads[3];
  for (long i = 0; i < 3; i++) pthread_create(&threads[i], 0, work, (void *)(100 + i));
  for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
  copied(2);
  pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 300; i++) deep(1000);
    copied(3);
    _exit(0);
  }
  waitpid(child, 0, 0);
  child = vfork();
  if (child == 0) {
    deep(2000);
    _exit(0);
  }
  waitpid(child, 0, 0);
  int n = in_library(20);
  void *later = dlopen("./later.so", RTLD_NOW);
  if (later) n += ((int (*)(int))dlsym(later, "in_later"))(30);
  printf("%d %d\n", n, sum);
  return 0;
}
C
gcc -g -O2 -pthread -o program program.c ./first.so
expect 0 "$BACKSTEP" record -q --check=deep -o "$T/recordings/program" ./program
line() { grep -n "$2" "$1" | cut -d: -f1; }
probe() {  # OPTIONS...: what is printed at DEEP, COPIED, TEMPLATE and LATER
  expect 0 "$BACKSTEP" probe "$@" --at "program.c:$(line program.c DEEP)" 'static std::map<int, int> deep; static bool told;
    if (!told) told = true, backstep::at_end([] { for (auto [n, times] : deep) printf("deep %d: %d\n", n, times); });
    deep[n]++;' \
    --at "program.c:$(line program.c COPIED)" 'static int copies; printf("copied %d %d\n", n, ++copies);' \
    "${libraries[@]}" program
}
libraries=(--at "shared.cc:$(line shared.cc TEMPLATE)" 'printf("template %d\n", (int)(x * 4));'
  --at "later.cc:$(line later.cc LATER)" 'printf("later %d\n", (int)(x * 4));')
probe
cat >wanted <<'EOT'
copied 1 1
copied 2 2
template 80
template 81
later 120
later 121
deep 10: 1
deep 12: 3
deep 100: 100
deep 101: 100
deep 102: 100
deep 2000: 1
EOT
diff wanted out >&2 || fail "of the first process"
libraries=()
probe -p 2
cat >wanted <<'EOT'
copied 3 1
deep 1000: 300
EOT
diff wanted out >&2 || fail "of the forked child"
ok
