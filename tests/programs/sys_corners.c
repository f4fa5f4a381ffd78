// Corners of Linux that once made a replay differ: what a shared mapping shows behind the end of its file when that moves,
// pwrite to a descriptor that appends, calls whose arguments the table does not know (semctl, SIOCETHTOOL), code in a
// shared mapping that crosses a page, mlockall, writing to oneself past the system-call table.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "check.h"

static char* shared(const char* name, int flags, int* fd) {
  *fd = open(name, O_RDWR | O_CREAT | O_TRUNC | flags, 0644);
  CHECK(*fd >= 0 && write(*fd, "abc", 3) == 3);
  char* p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
  CHECK(p != MAP_FAILED);
  return p;
}

int main(void) {
  int fd;
  char* p = shared("grown.dat", 0, &fd);
  p[100] = 'x';
  CHECK(ftruncate(fd, 200) == 0);
  printf("behind the end: %d\n", p[100]);

  p = shared("written.dat", 0, &fd);
  p[100] = 'x';
  CHECK(pwrite(fd, "Z", 1, 300) == 1);
  printf("behind the end: %d %c\n", p[100], p[300]);

  p = shared("appended.dat", O_APPEND, &fd);
  CHECK(pwrite(fd, "XYZ", 3, 0) == 3);
  printf("appended: %s\n", p);

  int sems = semget(IPC_PRIVATE, 4, 0600);
  if (sems >= 0) {
    unsigned short values[4] = {7, 8, 9, 10}, seen[4] = {0};
    CHECK(semctl(sems, 0, SETALL, values) == 0 && semctl(sems, 0, GETALL, seen) == 0);
    printf("semaphores: %d %d %d %d\n", seen[0], seen[1], seen[2], seen[3]);
    semctl(sems, 0, IPC_RMID);
  }

  int s = socket(AF_INET, SOCK_DGRAM, 0);
  struct ifreq request;
  struct ethtool_value value = {ETHTOOL_GLINK, 77};
  memset(&request, 0, sizeof request);
  strcpy(request.ifr_name, "lo");
  request.ifr_data = (void*)&value;
  int answer = ioctl(s, SIOCETHTOOL, &request);
  printf("link: %d %u\n", answer, value.data);

  int code = memfd_create("jit", 0);
  CHECK(code >= 0 && ftruncate(code, 8192) == 0);
  unsigned char* w = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, code, 0);
  unsigned char* x = mmap(0, 8192, PROT_READ | PROT_EXEC, MAP_SHARED, code, 0);
  CHECK(w != MAP_FAILED && x != MAP_FAILED);
  for (unsigned char i = 1; i < 5; i++) {
    memcpy(w + 4095, "\xb8\x2a\0\0\0\xc3", 6);
    w[4096] = i;
    CHECK(((int (*)(void))(void*)(x + 4095))() == i);
  }

  if (mlockall(MCL_CURRENT) == 0) munlockall();

  char target[8] = "before", source[8] = "after";
  struct iovec from = {source, 8}, to = {target, 8};
  long done = process_vm_writev(getpid(), &from, 1, &to, 1, 0);
  printf("to myself: %s\n", done == 8 || (done < 0 && !strcmp(target, "before")) ? "consistent" : target);
  int mem = open("/proc/self/mem", O_RDWR);
  if (mem >= 0) CHECK(pwrite(mem, "again", 6, (off_t)(long)target) == 6);
  printf("%s\n", mem >= 0 ? target : "refused");
  return 0;
}
