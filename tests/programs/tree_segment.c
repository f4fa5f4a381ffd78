// A System V segment that another program attaches when this one has had it alone for a while. Both talk by two
// fifos: `tree_segment recorded TO FROM` and `tree_segment outsider FROM TO`. What the first one reads in the segment is
// the other's, and goes into its digest.
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>

#include "check.h"

enum { kRounds = 20, kWords = 3 * 512 };
struct shared {
  atomic_ulong count;
  uint64_t words[kWords];
};

static void fill(struct shared* s, uint64_t seed) {
  for (unsigned i = 0; i < kWords; i++) s->words[i] = seed = seed * 6364136223846793005u + 1442695040888963407u;
}

static int open_fds(void) {
  int n = 0;
  for (int fd = 0; fd < 256; fd++) n += fcntl(fd, F_GETFD) >= 0;
  return n;
}

int main(int argc, char** argv) {
  CHECK(argc == 4);
  const int outsider = !strcmp(argv[1], "outsider");
  FILE *to, *from;
  if (outsider) {
    CHECK((from = fopen(argv[2], "r")) && (to = fopen(argv[3], "w")));
  } else {
    CHECK((to = fopen(argv[2], "w")) && (from = fopen(argv[3], "r")));
  }
  setvbuf(to, 0, _IOLBF, 4096);
  int id;
  if (outsider) {
    CHECK(fscanf(from, "%d", &id) == 1);
  } else {
    CHECK((id = shmget(IPC_PRIVATE, sizeof(struct shared), IPC_CREAT | 0600)) >= 0);
  }
  const int fds = open_fds();
  struct shared* s = shmat(id, 0, 0);
  CHECK(s != (void*)-1);
  uint64_t digest = 1469598103934665603u;
  for (unsigned round = 0; round < kRounds; round++) {
    if (outsider) {
      unsigned seed;
      CHECK(fscanf(from, "%u", &seed) == 1);
      fill(s, seed);
      fprintf(to, "%u\n", seed);
    } else {
      if (round == 0) {
        fill(s, 1);
        s->count = 5;
        fprintf(to, "%d\n", id);
      }
      unsigned got;
      fprintf(to, "%u\n", round * 7 + 3);
      CHECK(fscanf(from, "%u", &got) == 1 && got == round * 7 + 3);
      for (unsigned i = 0; i < kWords; i++) digest = (digest ^ s->words[i]) * 1099511628211u;
    }
  }
  CHECK(open_fds() == fds);
  // Both at the same time.
  for (unsigned i = 0; i < 20000; i++) {
    const unsigned long was = atomic_fetch_add(&s->count, 3);
    digest = (digest ^ was) * 1099511628211u;
  }
  if (outsider) {
    fprintf(to, "done\n");
  } else {
    char word[8];
    CHECK(fscanf(from, "%7s", word) == 1);
    printf("%lu %lx\n", s->count, digest);
    CHECK(shmctl(id, IPC_RMID, 0) == 0);
  }
  CHECK(shmdt(s) == 0);
  return 0;
}
