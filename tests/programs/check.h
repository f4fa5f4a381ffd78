// What every test program uses: CHECK stops with a sentence and status 1, so that a wrong result of one
// instruction or system call names its line.
#pragma once
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(x)                                                                                       \
  do {                                                                                                 \
    if (!(x)) {                                                                                        \
      fprintf(stderr, "%s:%d: failed: %s (errno %s)\n", __FILE_NAME__, __LINE__, #x, strerror(errno)); \
      exit(1);                                                                                         \
    }                                                                                                  \
  } while (0)

// A small deterministic generator: tests need numbers, not randomness.
static unsigned long check_state = 88172645463325252ul;
static inline unsigned long next_number(void) {
  check_state ^= check_state << 13;
  check_state ^= check_state >> 7;
  check_state ^= check_state << 17;
  return check_state;
}
