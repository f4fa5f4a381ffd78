// As many mappings as the kernel allows (vm.max_map_count): what would make one more is refused with ENOMEM
// and changes nothing, what makes none works, and when some are gone all works again.
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

enum { kPage = 4096 };

static const char *said(int r) { return r == 0 ? "ok" : strerrorname_np(errno); }

int main(void) {
  long most = 65530;
  FILE *f = fopen("/proc/sys/vm/max_map_count", "r");
  if (f) {
    CHECK(fscanf(f, "%ld", &most) == 1);
    fclose(f);
  }
  if (most > 200000) {
    puts("too many");
    return 0;
  }
  const size_t size = (size_t)(most + 100) * 2 * kPage;
  char *area = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(area != MAP_FAILED);
  // Every second page another right: each adds two mappings.
  long cut = 0;
  while (cut < most && mprotect(area + cut * 2 * kPage, kPage, PROT_READ) == 0) cut++;
  printf("cutting ends with %s, after %s\n", strerrorname_np(errno),
         cut > most / 2 - 1000 && cut <= most / 2 ? "about half as many cuts" : "another number of cuts");
  printf("once more: %s\n", said(mprotect(area + cut * 2 * kPage, kPage, PROT_READ)));
  printf("a hole: %s\n", said(munmap(area + size - 3 * kPage, kPage)));
  char *tail = area + size - 4 * kPage;
  printf("a cut at the end: %s\n", said(mprotect(tail, kPage, PROT_READ)));
  printf("a right of all of one: %s\n", said(mprotect(area, kPage, PROT_READ | PROT_WRITE)));
  area[5] = 42;
  printf("it holds %d\n", area[5]);
  printf("one goes: %s\n", said(munmap(area + 2 * kPage, kPage)));
  printf("joining some: %s\n", said(mprotect(area + 8 * kPage, 40 * kPage, PROT_NONE)));
  printf("a cut again: %s\n", said(mprotect(tail, kPage, PROT_READ)));
  void *again = mmap(NULL, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  printf("a new one: %s\n", said(again == MAP_FAILED ? -1 : 0));
  *(char *)again = 1;
  printf("all of it: %s\n", said(munmap(area, size)));
  void *last = mmap(NULL, 10 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  printf("a hole in another: %s\n", said(munmap((char *)last + kPage, kPage)));
  return 0;
}
