// libc between two markers: printf, qsort, strings, strtod, malloc; for the tick comparison with the oracle.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "marker.h"

static int by_value(const void* a, const void* b) {
  return *(const int*)a - *(const int*)b;
}

static void work(void) {
  static char line[4096];
  static int values[150];
  srand(3);
  for (int i = 0; i < 150; i++) values[i] = rand() % 10000;
  qsort(values, 150, sizeof *values, by_value);
  line[0] = 0;
  for (int i = 0; i < 40; i++) {
    char word[32];
    snprintf(word, sizeof word, "%d:%x:%5.2f ", values[i], i, i / 7.0);
    if (strlen(line) + strlen(word) < sizeof line) strcat(line, word);
  }
  int count = 0;
  static char copy[4096];
  strcpy(copy, line);
  for (char* token = strtok(copy, " "); token; token = strtok(0, " ")) count += strchr(token, ':') != 0;
  double sum = 0;
  for (char* at = line; (at = strchr(at, '.')); at++) sum += strtod(at, 0);
  char* blocks[64];
  for (int i = 0; i < 64; i++) blocks[i] = memset(malloc((size_t)(10 + i * 37)), i, (size_t)(10 + i * 37));
  for (int i = 0; i < 64; i++) free(blocks[i * 29 % 64]);
  for (char* at = line; *at; at++) *at = (char)toupper(*at);
  printf("%d tokens, %.3f, %s, %d\n", count, sum, strstr(line, "F:") ? "found" : "none",
         memcmp(line, copy, 20) < 0);
  fflush(stdout);
}

int main(void) {
  run_between_markers(work);
}
