// Lost updates: threads add to a counter without a lock, and each digests every value that it saw. The output depends on
// all interleavings.
//   thr_race [THREADS [ROUNDS [plain]]]      plain: no system calls between the rounds
#include "thr.h"

static volatile long counter;
static volatile unsigned char bytes[64];
static int rounds, plain;

static void* racer(void* argument) {
  uint64_t digest = 1;
  for (int i = 0; i < rounds; i++) {
    long seen = counter;
    digest = digest_of(digest, (uint64_t)seen);
    compute(((uint64_t)i ^ (uint64_t)argument) % 7);
    counter = seen + 1;
    // Neighbours in one word.
    unsigned char* byte = (unsigned char*)&bytes[(unsigned)seen % sizeof bytes];
    digest = digest_of(digest, *(volatile unsigned char*)byte);
    *(volatile unsigned char*)byte = (unsigned char)(long)argument;
    if (!plain && i % 97 == 0) sched_yield();
    if (!plain && i % 401 == 0) free(malloc((size_t)(seen & 1023) + 1));
  }
  return (void*)digest;
}

int main(int argc, char** argv) {
  int threads = argc > 1 ? atoi(argv[1]) : 4;
  rounds = argc > 2 ? atoi(argv[2]) : 5000;
  plain = argc > 3;
  pthread_t all[64];
  CHECK(threads <= 64);
  for (long i = 0; i < threads; i++) all[i] = start(racer, (void*)(i + 1));
  uint64_t digest = 0;
  for (int i = 0; i < threads; i++) digest = digest_of(digest, (uint64_t)join(all[i]));
  for (unsigned i = 0; i < sizeof bytes; i++) digest = digest_of(digest, bytes[i]);
  printf("counter %ld of %d, digest %lx\n", counter, threads * rounds, digest);
  return 0;
}
