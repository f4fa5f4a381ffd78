// The ordinary C program: stdio, heap, sorting, strings, floating point. Built five ways (dynamic, static,
// static-pie, non-PIE, stripped); the output is always the same.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_text(const void* a, const void* b) {
  return strcmp(*(char* const*)a, *(char* const*)b);
}

int main(int argc, char** argv) {
  enum { kWords = 200 };
  char* words[kWords];
  unsigned seed = 1;
  for (int i = 0; i < kWords; i++) {
    seed = seed * 1103515245 + 12345;
    words[i] = malloc(32);
    snprintf(words[i], 32, "w%05u-%d", seed >> 16, i);
  }
  qsort(words, kWords, sizeof *words, by_text);
  double sum = 0;
  for (int i = 0; i < kWords; i++) {
    if (i % 20 == 0) printf("%s\n", words[i]);
    sum += sqrt(strlen(words[i]) + sin(i));
    free(words[i]);
  }
  printf("sum %.9f, %d arguments", sum, argc - 1);
  for (int i = 1; i < argc; i++) printf(" [%s]", argv[i]);
  printf("\n");
  const char* home = getenv("HELLO_STATUS");
  return home ? atoi(home) : 0;
}
