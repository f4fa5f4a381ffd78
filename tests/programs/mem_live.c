// Files that are mapped privately and changed by the program itself: pages that it has not written to show the
// change, also that the file became longer or shorter; those that it has written to do not.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mem.h"

static void put(int fd, int page, const char* text) {
  CHECK(pwrite(fd, text, strlen(text) + 1, page * kPage) == (ssize_t)strlen(text) + 1);
}

int main(void) {
  struct sigaction action = {.sa_handler = on_fault};
  sigaction(SIGSEGV, &action, 0);
  sigaction(SIGBUS, &action, 0);
  int fd = open("file", O_CREAT | O_TRUNC | O_RDWR, 0600);
  CHECK(fd >= 0 && ftruncate(fd, 4 * kPage) == 0);
  for (int i = 0; i < 4; i++) put(fd, i, (const char*[]){"zero", "one", "two", "three"}[i]);
  char* at = mmap(0, 6 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  char* read_only = mmap(0, 2 * kPage, PROT_READ, MAP_PRIVATE, fd, kPage);
  CHECK(at != MAP_FAILED && read_only != MAP_FAILED);
  show_pages("mapped", at, 6);
  strcpy(at + kPage, "own");
  put(fd, 1, "ONE");
  put(fd, 2, "TWO");
  show_pages("written", at, 6);
  show_pages("another mapping", read_only, 2);
  // Longer, shorter, longer again.
  CHECK(ftruncate(fd, 5 * kPage) == 0);
  show_pages("longer", at, 6);
  put(fd, 5, "five");
  show_pages("longer by writing", at, 6);
  CHECK(ftruncate(fd, kPage + 100) == 0);
  show_pages("shorter", at, 6);
  CHECK(ftruncate(fd, 6 * kPage) == 0);
  show_pages("longer again", at, 6);
  strcpy(at + 3 * kPage, "mine");
  CHECK(lseek(fd, 2 * kPage, SEEK_SET) == 2 * kPage);
  struct iovec parts[2] = {{"by ", 3}, {"writev", 7}};
  CHECK(writev(fd, parts, 2) == 10);
  put(fd, 3, "not seen");
  show_pages("by other calls", at, 6);
  CHECK(madvise(at + 3 * kPage, kPage, MADV_DONTNEED) == 0);
  show_pages("discarded", at, 6);

  // Through another descriptor, which can only write.
  int writes = open("file", O_WRONLY | O_APPEND);
  CHECK(writes >= 0 && write(writes, "appended", 9) == 9);
  close(writes);
  char* more = mmap(0, 2 * kPage, PROT_READ, MAP_PRIVATE, fd, 5 * kPage);
  show_pages("mapped later", more, 2);
  CHECK(truncate("file", 6 * kPage) == 0);
  show_pages("cut by name", more, 2);
  int from = open("source", O_CREAT | O_RDWR | O_TRUNC, 0600);
  CHECK(from >= 0 && write(from, "sent", 5) == 5);
  off_t start = 0;
  CHECK(lseek(fd, 4 * kPage, SEEK_SET) == 4 * kPage && sendfile(fd, from, &start, 5) == 5);
  show_pages("sent", at, 6);
  CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2 * kPage, kPage) == 0);
  show_pages("punched", at, 6);
  at = mremap(at, 6 * kPage, 8 * kPage, MREMAP_MAYMOVE);
  CHECK(at != MAP_FAILED);
  put(fd, 7, "seven");
  show_pages("mapped longer", at, 8);

  // A child sees what was there, and changes it for itself.
  pid_t child = fork();
  if (child == 0) {
    show_pages("child", at, 8);
    strcpy(at, "child's");
    put(fd, 4, "by the child");
    show_pages("child", at, 8);
    _exit(0);
  }
  CHECK(waitpid(child, 0, 0) == child);
  put(fd, 6, "six");
  printf("parent: %s %s %s\n", text_at(at), text_at(at + kPage), text_at(at + 6 * kPage));

  // Opened for reading only, and for writing when it is mapped already; emptied.
  int reads = open("source", O_RDONLY);
  char* source = mmap(0, kPage, PROT_READ, MAP_PRIVATE, reads, 0);
  show_pages("source", source, 1);
  int again = open("source", O_WRONLY | O_TRUNC);
  show_pages("emptied", source, 1);
  CHECK(write(again, "new", 4) == 4);
  show_pages("filled", source, 1);
  CHECK(munmap(source, kPage) == 0);
  CHECK(pwrite(again, "NEW", 4, 0) == 4);
  source = mmap(0, kPage, PROT_READ, MAP_PRIVATE, reads, 0);
  show_pages("mapped again", source, 1);
  return 0;
}
