// Pages of files that are larger than any disk: sparse ones on disk and in memory, mapped private and shared,
// here and there, made longer by mremap, shared with a child. What matters is that nobody reads the rest of
// the file: the case would take hours.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { kPage = 4096 };
#define TERA (1l << 40)

static void put(int fd, off_t at, const char* text) {
  CHECK(pwrite(fd, text, strlen(text) + 1, at) == (ssize_t)strlen(text) + 1);
}

static void parts(int fd, off_t size, const char* name) {
  CHECK(ftruncate(fd, size) == 0);
  put(fd, 0, "first");
  put(fd, size / 2, "middle");
  put(fd, size / 2 + 3 * kPage, "behind it");
  put(fd, size - kPage, "last");
  CHECK(lseek(fd, 12345, SEEK_SET) == 12345);

  char* middle = mmap(0, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, size / 2);
  char* last = mmap(0, 4 * kPage, PROT_READ, MAP_PRIVATE, fd, size - kPage);
  char* shared = mmap(0, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, size / 2 + 2 * kPage);
  CHECK(middle != MAP_FAILED && last != MAP_FAILED && shared != MAP_FAILED);
  printf("%s: %s, %s, %s\n", name, middle, last, shared + kPage);
  strcpy(middle, "own");
  strcpy(shared, "written");
  char text[16] = "";
  CHECK(pread(fd, text, sizeof text, size / 2 + 2 * kPage) == sizeof text);
  printf("read: %s\n", text);

  // Another part of the same file, and one that overlaps.
  char* first = mmap(0, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  char* over = mmap(0, 4 * kPage, PROT_READ, MAP_SHARED, fd, size / 2);
  CHECK(first != MAP_FAILED && over != MAP_FAILED);
  strcpy(first + 100, "more");
  printf("%s %s %s %s %s\n", first, first + 100, over, over + 2 * kPage, over + 3 * kPage);
  printf("still %s %s\n", middle, shared);
  CHECK(lseek(fd, 0, SEEK_CUR) == 12345);

  // Longer: what comes was not mapped before.
  put(fd, size / 2 + 5 * kPage, "grown");
  middle = mremap(middle, kPage, 8 * kPage, MREMAP_MAYMOVE);
  shared = mremap(shared, 2 * kPage, 8 * kPage, MREMAP_MAYMOVE);
  CHECK(middle != MAP_FAILED && shared != MAP_FAILED);
  printf("longer: %s, %s, %s; %s, %s\n", middle, middle + 3 * kPage, middle + 5 * kPage, shared,
         shared + 3 * kPage);
  strcpy(shared + 3 * kPage, "GROWN");
  CHECK(pread(fd, text, sizeof text, size / 2 + 5 * kPage) == sizeof text);
  printf("read: %s\n", text);

  // A child that has it, too.
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    while (!__atomic_load_n(first + 200, __ATOMIC_SEQ_CST)) usleep(100);
    strcpy(first + 300, "from the child");
    put(fd, size / 2 + 4 * kPage, "by write");
    __atomic_store_n(first + 200, 2, __ATOMIC_SEQ_CST);
    _exit(0);
  }
  __atomic_store_n(first + 200, 1, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(first + 200, __ATOMIC_SEQ_CST) != 2) usleep(100);
  printf("%s, %s\n", first + 300, shared + 2 * kPage);
  CHECK(waitpid(child, 0, 0) == child);
  CHECK(munmap(middle, 8 * kPage) == 0 && munmap(last, 4 * kPage) == 0 && munmap(shared, 8 * kPage) == 0);
  CHECK(munmap(first, kPage) == 0 && munmap(over, 4 * kPage) == 0);
}

int main(void) {
  int fd = open("sparse", O_CREAT | O_TRUNC | O_RDWR, 0600);
  CHECK(fd >= 0);
  parts(fd, TERA, "file");
  close(fd);
  fd = memfd_create("huge", 0);
  CHECK(fd >= 0);
  parts(fd, 2 * TERA, "memory");
  // All of it at once.
  char* whole = mmap(0, 2 * TERA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  char* own = mmap(0, TERA / 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, TERA);
  CHECK(whole != MAP_FAILED && own != MAP_FAILED);
  printf("%s %s %s\n", whole, whole + TERA, own);
  strcpy(whole + TERA + TERA / 2, "here");
  char text[8] = "";
  CHECK(pread(fd, text, sizeof text, TERA + TERA / 2) == sizeof text);
  printf("%s\n", text);
  close(fd);

  // Much data, of which a page is mapped.
  fd = open("dense", O_CREAT | O_TRUNC | O_RDWR, 0600);
  CHECK(fd >= 0);
  static char block[1 << 20];
  for (int i = 0; i < 40; i++) {
    memset(block, 'a' + i % 26, sizeof block);
    CHECK(write(fd, block, sizeof block) == sizeof block);
  }
  char* page = mmap(0, kPage, PROT_READ, MAP_PRIVATE, fd, 33 << 20);
  char* same = mmap(0, kPage, PROT_READ, MAP_SHARED, fd, 33 << 20);
  CHECK(page != MAP_FAILED && same != MAP_FAILED && page[kPage - 1] == 'h' && memcmp(page, same, kPage) == 0);
  printf("dense: %c%c\n", page[0], same[0]);
  return 0;
}
