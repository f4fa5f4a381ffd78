// Copies stdin to stdout with line numbers, reading in odd sizes; status is the number of lines modulo 100.
#include <unistd.h>

#include "check.h"

int main(void) {
  char buffer[97];
  long n, lines = 0;
  int fresh = 1;
  while ((n = read(0, buffer, (size_t)(1 + lines * 7 % 96))) > 0)
    for (long i = 0; i < n; i++) {
      if (fresh) printf("%4ld  ", ++lines);
      putchar(buffer[i]);
      fresh = buffer[i] == '\n';
    }
  return (int)(lines % 100);
}
