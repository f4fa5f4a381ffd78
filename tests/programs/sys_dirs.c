// Directories: made, listed (getdents64 with small buffers), walked with openat, nested, changed into,
// removed.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

static int visited;
static int visit(const char* path, const struct stat* st, int type, struct FTW* where) {
  (void)st, (void)type, (void)where;
  visited++;
  return remove(path);
}

int main(void) {
  char name[64], old[4096], now[4096];
  CHECK(getcwd(old, sizeof old) && mkdir("d", 0755) == 0 && mkdir("d", 0755) == -1 && errno == EEXIST);
  int dir = open("d", O_RDONLY | O_DIRECTORY);
  CHECK(dir >= 0);
  for (int i = 0; i < 300; i++) {
    snprintf(name, sizeof name, "entry-%d-%0*d", i, i % 30 + 1, i);
    if (i % 10 == 0) {
      CHECK(mkdirat(dir, name, 0700) == 0);
    } else {
      int fd = openat(dir, name, O_CREAT | O_WRONLY, 0600);
      CHECK(fd >= 0 && close(fd) == 0);
    }
  }
  DIR* stream = opendir("d");
  CHECK(stream);
  int entries = 0;
  uint64_t digest = 0;
  for (struct dirent* entry; (entry = readdir(stream));) {
    entries++;
    digest = digest * 31 + entry->d_ino + (unsigned char)entry->d_name[strlen(entry->d_name) - 1];
  }
  CHECK(entries == 302);
  rewinddir(stream);
  long position = telldir(stream);
  seekdir(stream, position);
  closedir(stream);
  printf("order and inodes: %lu\n", digest);
  char buffer[256];
  int calls = 0, total = 0;
  for (long n; (n = syscall(SYS_getdents64, dir, buffer, sizeof buffer)) != 0; calls++, total += (int)n)
    CHECK(n > 0);
  CHECK(calls > 20);
  struct dirent** list;
  int count = scandir("d", &list, 0, alphasort);
  CHECK(count == 302);
  printf("first %s last %s\n", list[2]->d_name, list[count - 1]->d_name);
  for (int i = 0; i < count; i++) free(list[i]);
  free(list);
  CHECK(chdir("d") == 0 && getcwd(now, sizeof now) && strncmp(now, old, strlen(old)) == 0 &&
        strcmp(now + strlen(now) - 2, "/d") == 0);
  CHECK(getcwd(now, 2) == 0 && errno == ERANGE);
  CHECK(fchdir(dir) == 0 && chdir("..") == 0 && rmdir("d") == -1 && errno == ENOTEMPTY);
  CHECK(nftw("d", visit, 10, FTW_DEPTH | FTW_PHYS) == 0 && visited == 301);
  CHECK(access("d", F_OK) == -1);
  printf("dirs right, %d bytes of entries\n", total);
}
