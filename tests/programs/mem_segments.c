// Corners of System V shared memory: detached when parts are gone, attached with rounding and in place of others;
// and files with O_DIRECT, mapped.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include "mem.h"

static void* said(const char* what, void* result) {
  printf("%s: %s\n", what, result == (void*)-1 ? strerrorname_np(errno) : "done");
  return result;
}

int main(void) {
  struct sigaction action = {.sa_handler = on_fault};
  sigaction(SIGSEGV, &action, 0);
  sigaction(SIGBUS, &action, 0);
  int id = shmget(IPC_PRIVATE, 4 * kPage, IPC_CREAT | 0600);
  CHECK(id >= 0);
  char* at = shmat(id, 0, 0);
  CHECK(at != (void*)-1);
  for (int i = 0; i < 4; i++) sprintf(at + i * kPage, "page %d", i);
  // The first page goes, then a hole in the middle; the rest is still detached by its first address.
  CHECK(munmap(at, kPage) == 0);
  show_pages("without the first", at, 4);
  CHECK(munmap(at + 2 * kPage, kPage) == 0);
  show_pages("with a hole", at, 4);
  said("detach a piece", (void*)(long)shmdt(at + kPage));
  said("detach a crooked place", (void*)(long)shmdt(at + 1));
  said("detach", (void*)(long)shmdt(at));
  show_pages("detached", at, 4);
  said("detach again", (void*)(long)shmdt(at));

  char* place = mmap(0, 16 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  strcpy(place + 5 * kPage, "mine");
  said("where something is", shmat(id, place, 0));
  said("crooked", shmat(id, place + 100, SHM_REMAP));
  said("in place of nothing", shmat(id, 0, SHM_REMAP));
  said("rounded, where something is", shmat(id, place + 100, SHM_RND));
  CHECK(said("rounded, in place", shmat(id, place + 4 * kPage + 100, SHM_RND | SHM_REMAP)) == place + 4 * kPage);
  show_pages("in place", place + 4 * kPage, 5);
  char* reads = said("to read", shmat(id, 0, SHM_RDONLY));
  show_pages("to read", reads, 4);
  said("to write after all", (void*)(long)mprotect(reads, kPage, PROT_READ | PROT_WRITE));
  strcpy(place + 4 * kPage, "both");
  show_pages("both", reads, 1);
  said("detach both", (void*)(long)(shmdt(reads) | shmdt(place + 4 * kPage)));
  show_pages("a hole", place + 4 * kPage, 1);
  said("no segment", shmat(-1, 0, 0));
  said("no such segment", shmat(0x7ffffff0, 0, 0));
  CHECK(shmctl(id, IPC_RMID, 0) == 0);

  int fd = open("direct", O_CREAT | O_TRUNC | O_RDWR | O_DIRECT, 0600);
  if (fd < 0) return 0;
  char* buffer = aligned_alloc(kPage, 2 * kPage);
  memset(buffer, 'd', 2 * kPage);
  CHECK(write(fd, buffer, 2 * kPage) == 2 * kPage && ftruncate(fd, kPage + 100) == 0);
  char* direct = mmap(0, 2 * kPage, PROT_READ, MAP_PRIVATE, fd, 0);
  char* shared = mmap(0, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(direct != MAP_FAILED && shared != MAP_FAILED);
  printf("direct %c %c %d\n", direct[0], shared[kPage + 99], direct[kPage + 100]);
  return 0;
}
