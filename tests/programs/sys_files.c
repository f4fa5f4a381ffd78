// Files: open in many ways, read, write, seek, truncate, stat family, rename, link, unlink, chmod, utimens,
// locks, access, fallocate, dup, fcntl flags; the file system is left as it was.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

int main(void) {
  char buffer[8192];
  int fd = open("f1", O_CREAT | O_EXCL | O_RDWR, 0640);
  CHECK(fd >= 0 && open("f1", O_CREAT | O_EXCL | O_RDWR, 0640) == -1 && errno == EEXIST);
  CHECK(open("missing", O_RDONLY) == -1 && errno == ENOENT);
  for (int i = 0; i < 100; i++) {
    int n = snprintf(buffer, sizeof buffer, "line %d of the file\n", i);
    CHECK(write(fd, buffer, (size_t)n) == n);
  }
  struct stat st;
  CHECK(fstat(fd, &st) == 0 && st.st_size == 1990 && (st.st_mode & 0777) == 0640);
  printf("size %ld inode %lu mtime %ld.%09ld\n", st.st_size, st.st_ino, st.st_mtim.tv_sec,
         st.st_mtim.tv_nsec);
  CHECK(lseek(fd, -20, SEEK_END) == 1970 && read(fd, buffer, 100) == 20 && memcmp(buffer, "line 99", 7) == 0);
  CHECK(read(fd, buffer, 10) == 0 && lseek(fd, 5, SEEK_SET) == 5);
  CHECK(pread(fd, buffer, 4, 0) == 4 && memcmp(buffer, "line", 4) == 0 && lseek(fd, 0, SEEK_CUR) == 5);
  CHECK(ftruncate(fd, 10000) == 0 && fstat(fd, &st) == 0 && st.st_size == 10000);
  CHECK(pread(fd, buffer, 8192, 1990) == 8010 && buffer[0] == 0);
  CHECK(posix_fallocate(fd, 0, 20000) == 0);
  CHECK(fsync(fd) == 0 && fdatasync(fd) == 0);

  CHECK(rename("f1", "f2") == 0 && access("f1", F_OK) == -1 && access("f2", R_OK | W_OK) == 0);
  CHECK(link("f2", "f3") == 0 && stat("f3", &st) == 0 && st.st_nlink == 2);
  CHECK(symlink("f3", "f4") == 0 && lstat("f4", &st) == 0 && S_ISLNK(st.st_mode));
  CHECK(readlink("f4", buffer, sizeof buffer) == 2 && memcmp(buffer, "f3", 2) == 0);
  char* real = realpath("f4", 0);
  CHECK(real && strcmp(strrchr(real, '/'), "/f3") == 0);
  free(real);
  struct statx sx;
  CHECK(statx(AT_FDCWD, "f3", 0, STATX_ALL, &sx) == 0 && sx.stx_size == 20000 && sx.stx_nlink == 2);
  CHECK(fchmod(fd, 0600) == 0 && chmod("f3", 0644) == 0);
  struct timespec times[2] = {{1000000, 5}, {2000000, 6}};
  CHECK(futimens(fd, times) == 0 && fstat(fd, &st) == 0 && st.st_mtim.tv_sec == 2000000);
  CHECK(flock(fd, LOCK_EX) == 0 && flock(fd, LOCK_UN) == 0);
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10};
  CHECK(fcntl(fd, F_SETLK, &lock) == 0 && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK);
  CHECK(fcntl(fd, F_GETFL) == (O_RDWR | 0100000) && fcntl(fd, F_SETFL, O_APPEND) == 0 &&
        fcntl(fd, F_GETFL) & O_APPEND);
  CHECK(fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
  int copy = fcntl(fd, F_DUPFD, 100);
  CHECK(copy >= 100 && write(copy, "end", 3) == 3 && lseek(fd, 0, SEEK_CUR) == 20003);
  CHECK(dup(fd) == fd + 1 && dup3(fd, 50, O_CLOEXEC) == 50 && close(50) == 0 && close(50) == -1 &&
        errno == EBADF);
  struct statvfs vfs;
  CHECK(statvfs(".", &vfs) == 0 && fstatvfs(fd, &vfs) == 0);
  printf("block size %lu files %lu\n", vfs.f_bsize, (unsigned long)vfs.f_favail);
  CHECK(posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL) == 0);
  CHECK(faccessat(AT_FDCWD, "f3", R_OK, AT_EACCESS) == 0 && umask(022) >= 0);
  CHECK(mknod("fifo", S_IFIFO | 0600, 0) == 0 && stat("fifo", &st) == 0 && S_ISFIFO(st.st_mode) &&
        unlink("fifo") == 0);
  int temporary = open(".", O_TMPFILE | O_RDWR, 0600);
  if (temporary >= 0) CHECK(write(temporary, "x", 1) == 1);
  int path = open("f3", O_PATH);
  CHECK(path >= 0 && read(path, buffer, 1) == -1 && errno == EBADF &&
        fstatat(path, "", &st, AT_EMPTY_PATH) == 0);

  FILE* stream = fopen("f3", "r+");
  CHECK(stream && fgets(buffer, sizeof buffer, stream) && strcmp(buffer, "line 0 of the file\n") == 0);
  CHECK(fseek(stream, 0, SEEK_END) == 0 && ftell(stream) == 20003 && fputs("more", stream) >= 0 &&
        fclose(stream) == 0);
  CHECK(truncate("f3", 7) == 0 && stat("f2", &st) == 0 && st.st_size == 7);
  // Bad pointers get EFAULT, not a crash.
  CHECK(read(fd, (void*)16, 10) == -1 || lseek(fd, 0, SEEK_SET) >= 0);
  CHECK(syscall(SYS_open, (void*)16, 0) == -1 && errno == EFAULT);
  CHECK(syscall(SYS_stat, "f2", (void*)16) == -1 && errno == EFAULT);
  CHECK(unlink("f2") == 0 && unlink("f3") == 0 && unlink("f4") == 0 && unlink("f4") == -1 && errno == ENOENT);
  printf("files right\n");
}
