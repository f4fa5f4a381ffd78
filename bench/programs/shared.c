// Memory that is private, shared or System V's: `shared private|alone|segment MB ROUNDS` walks it, `shared
// pingpong ROUNDS` passes a word back and forth between two processes, `shared counter ROUNDS` has both count
// on one page at the same time.
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

static void walk(volatile long* memory, long words, long rounds) {
  long sum = 0;
  for (long r = 0; r < rounds; r++)
    for (long i = 0; i < words; i++) sum += memory[i] += i ^ r;
  printf("%ld\n", sum);
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "alone";
  long n = argc > 2 ? atol(argv[2]) : 64;
  const int kind = strcmp(how, "private") ? MAP_SHARED : MAP_PRIVATE;
  const int segment = !strcmp(how, "segment");
  if (!strcmp(how, "private") || !strcmp(how, "alone") || segment) {
    size_t size = (size_t)n << 20;
    const int id = segment ? shmget(IPC_PRIVATE, size, IPC_CREAT | 0600) : -1;
    long* memory =
        segment ? shmat(id, 0, 0) : mmap(0, size, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    if (segment) shmctl(id, IPC_RMID, 0);
    walk(memory, (long)(size / sizeof *memory), argc > 3 ? atol(argv[3]) : 10);
    return 0;
  }
  atomic_long* word = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (word == MAP_FAILED) return 1;
  const int me = fork() == 0;
  for (long i = 0; i < n; i++) {
    if (!strcmp(how, "pingpong")) {
      while (*word % 2 != me) sched_yield();
      ++*word;
    } else {
      ++*word;
    }
  }
  if (me) _exit(0);
  wait(0);
  printf("%ld\n", *word);
  return 0;
}
