// Writes what other programs' formats have trouble with.
#include <string.h>
#include <unistd.h>

long total;
__attribute__((noinline)) long step(long n) {
  total += n;
  return total;
}

int main(void) {
  const char* lines[] = {"plain",      "a,b",         "say \"yes\"", "",           "\\.",   "back\\slash \\n",
                         "tab\there",  "return\rhere", "\\N",         "caf\xc3\xa9", "$$;--", "' OR 1=1 --"};
  for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++) {
    write(1, lines[i], strlen(lines[i]));
    write(1, "\n", 1);
    step(i);
  }
  write(1, "zero\0here\n", 10);
  write(1, "bad\xff" "byte\n", 9);
  return 0;
}
