// Pointers inside of arguments, through which the kernel writes: counters of netfilter's rules that are replaced, lists of
// interfaces, what drivers tell. What cannot be done here (rights, devices) is said, natively likewise.
#define _GNU_SOURCE
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

static unsigned sum(const void* bytes, int n) {
  unsigned result = 0;
  for (int i = 0; i < n; i++) result = result * 31 + ((const unsigned char*)bytes)[i];
  return result;
}

// The rules as they are, given back: the kernel tells the counters of those that it had.
static void replace_rules(int level, const char* table) {
  static char entries[65536], replace[65536], counters[16 * 64];
  struct {
    char name[32];
    uint32_t hooks, entry[5], underflow[5], count, size;
  } info = {0};
  strcpy(info.name, table);
  socklen_t length = sizeof info;
  const int fd = socket(level == SOL_IP ? AF_INET : AF_INET6, SOCK_RAW, IPPROTO_RAW);
  if (fd < 0 || getsockopt(fd, level, 64, &info, &length) != 0 || info.count > 64) {
    printf("%s: %s\n", table, strerror(errno));
    return;
  }
  memcpy(entries, info.name, 32);
  memcpy(entries + 32, &info.size, 4);
  length = 40 + info.size;
  CHECK(getsockopt(fd, level, 65, entries, &length) == 0);
  memcpy(replace, info.name, 32);
  memcpy(replace + 32, &info.hooks, 4);
  memcpy(replace + 36, &info.count, 4);
  memcpy(replace + 40, &info.size, 4);
  memcpy(replace + 44, info.entry, 40);
  memcpy(replace + 84, &info.count, 4);
  char* to = counters;
  memcpy(replace + 88, &to, 8);
  memcpy(replace + 96, entries + 40, info.size);
  memset(counters, 0x5a, sizeof counters);
  const int result = setsockopt(fd, level, 64, replace, 96 + info.size);
  printf("%s: %d of %u rules, counters %x\n", table, result, info.count, sum(counters, sizeof counters));
  close(fd);
}

static void interfaces(void) {
  struct ifreq list[8];
  struct ifconf conf = {.ifc_len = sizeof list, .ifc_req = list};
  memset(list, 0x5a, sizeof list);
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  CHECK(ioctl(fd, SIOCGIFCONF, &conf) == 0);
  printf("interfaces: %d, %x\n", conf.ifc_len, sum(list, sizeof list));
  close(fd);
}

// The number of this request says that it is only read.
static void driver(void) {
  struct {
    uint32_t flags, group;
    uint64_t attribute, to;
  } attribute = {0, 0, 0, 0};
  uint64_t mask[4] = {77, 77, 77, 77};
  attribute.to = (uint64_t)(mask + 1);
  const int fd = open("/dev/kvm", O_RDWR);
  const int result = fd < 0 ? -1 : ioctl(fd, _IOW(0xae, 0xe2, attribute), &attribute);
  printf("driver: %s, %lx %lx %lx\n", result == 0 ? "yes" : strerror(errno), mask[0], mask[1], mask[2]);
}

int main(void) {
  driver();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) printf("no namespace: %s\n", strerror(errno));
  else {
    replace_rules(SOL_IP, "filter");
    replace_rules(SOL_IPV6, "filter");
  }
  interfaces();
  return 0;
}
